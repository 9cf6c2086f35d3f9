//! All images, and where they are in the window.

use std::ffi::c_int;
use std::io::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::file::Identity;
use super::image::Image;
use crate::local::local;
use crate::{signals, window};

/// An image that one thread at a time works on.
pub type Shared = Arc<Mutex<Image>>;

/// An image, and what finds it without waiting for who works on it.
struct Entry {
    identity: Identity,
    area: usize,
    room: usize,
    image: Shared,
}

/// The images, and areas that were given back.
pub struct Table {
    images: Vec<Entry>,
    free: Vec<(usize, usize)>,
    next: usize,
}

static TABLE: Mutex<Table> = Mutex::new(Table { images: Vec::new(), free: Vec::new(), next: window::BEGIN });
/// Whether there are images at all.
static ANY: AtomicBool = AtomicBool::new(false);

/// An area is as long as so many times what was mapped first, so that mappings grow where they are,
const SPARE: usize = 16;
/// and at least as long as this.
const LEAST: usize = 1 << 30;

/// Whether the program maps files.
#[inline(always)]
pub fn any() -> bool {
    ANY.load(Ordering::Acquire)
}

/// The table, alone.
pub fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An image, alone.
pub fn alone(image: &Shared) -> MutexGuard<'_, Image> {
    image.lock().unwrap_or_else(PoisonError::into_inner)
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Works with images: no signal's handler comes between, which might want the same. `None` if the thread does already.
pub fn within<R>(work: impl FnOnce() -> R) -> Option<R> {
    if local(|local| local.inside.replace(true)) {
        return None;
    }
    // SAFETY: `errno` is the calling thread's own.
    let before = unsafe { *libc::__errno_location() };
    let mut cancellation = 0;
    // SAFETY: a place for the state before. A thread that holds an image is not cancelled.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut cancellation) };
    let result = work();
    // SAFETY: the state before.
    unsafe { pthread_setcancelstate(cancellation, std::ptr::null_mut()) };
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = before };
    local(|local| {
        local.inside.set(false);
        if local.deferred.any() {
            signals::deliver(&local.deferred);
        }
    });
    Some(result)
}

impl Table {
    /// The image of a file.
    pub fn of(&self, identity: Identity) -> Option<Shared> {
        self.images.iter().find(|entry| entry.identity == identity).map(|entry| entry.image.clone())
    }

    /// The image that an address is of.
    pub fn at(&self, address: usize) -> Option<Shared> {
        let holds = |entry: &&Entry| (entry.area..entry.area + entry.room).contains(&address);
        self.images.iter().find(holds).map(|entry| entry.image.clone())
    }

    /// All of them.
    pub fn all(&self) -> Vec<Shared> {
        self.images.iter().map(|entry| entry.image.clone()).collect()
    }

    /// Gives an image an area for a mapping up to `end`.
    pub fn add(&mut self, mut image: Image, end: usize) -> Result<Shared> {
        let room = end.saturating_mul(SPARE).max(LEAST).next_multiple_of(LEAST);
        let rest = window::BEGIN + window::BYTES - self.next;
        let fits = |room: usize| self.free.iter().position(|&(_, bytes)| bytes >= room);
        let (area, room) = if let Some(index) = fits(room) {
            self.free.swap_remove(index)
        } else if rest >= room {
            self.next += room;
            (self.next - room, room)
        } else if let Some(index) = fits(end) {
            self.free.swap_remove(index)
        } else {
            return Err(Error::from_raw_os_error(libc::ENOMEM));
        };
        (image.area, image.room) = (area, room);
        let identity = image.identity;
        let image = Arc::new(Mutex::new(image));
        self.images.push(Entry { identity, area, room, image: image.clone() });
        ANY.store(true, Ordering::Release);
        Ok(image)
    }

    /// Gives up an image that nothing shows any more.
    pub fn remove(&mut self, image: &Shared) {
        if let Some(index) = self.images.iter().position(|entry| Arc::ptr_eq(&entry.image, image)) {
            let entry = self.images.swap_remove(index);
            self.free.push((entry.area, entry.room));
        }
        ANY.store(!self.images.is_empty(), Ordering::Release);
    }

    /// Takes all images out, in a child of `fork`.
    pub fn take(&mut self) -> Vec<Shared> {
        ANY.store(false, Ordering::Release);
        std::mem::take(&mut self.images).into_iter().map(|entry| entry.image).collect()
    }
}

/// The table, unless a thread that is no more had it.
pub fn table_of_parent() -> Option<MutexGuard<'static, Table>> {
    TABLE.try_lock().ok()
}
