//! Memory of each thread for records that nobody reads, or that are only counted.
//!
//! One area per thread that runs, in a list that only grows; a thread that ends leaves its area to the next
//! one. Through the list a process that exits finds what its other threads have not counted yet.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::base::sys;
use crate::state::local::Local;

/// Bytes for a thread, and for its signal handlers. Small enough to stay in a first-level cache.
pub const SCRATCH_BYTES: usize = 16 << 10;

#[repr(C, align(64))]
struct Area {
    next: AtomicPtr<Area>,
    used: AtomicU32,
    owner: AtomicUsize,
}

static FIRST: AtomicPtr<Area> = AtomicPtr::new(core::ptr::null_mut());

fn areas() -> impl Iterator<Item = &'static Area> {
    let mut next = FIRST.load(Ordering::Acquire);
    core::iter::from_fn(move || {
        // SAFETY: areas are never unmapped, and complete before they are in the list.
        let area = unsafe { next.as_ref() }?;
        next = area.next.load(Ordering::Acquire);
        Some(area)
    })
}

/// An area for `owner`; 0 if there is no memory.
pub fn get(owner: &Local) -> usize {
    let unused = areas().find(|area| {
        area.used.load(Ordering::Relaxed) == 0
            && area.used.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    });
    let Some(area) = unused.or_else(another) else { return 0 };
    area.owner.store(owner as *const Local as usize, Ordering::Release);
    area as *const Area as usize
}

fn another() -> Option<&'static Area> {
    let bytes = size_of::<Area>() + 2 * SCRATCH_BYTES;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let start = sys::map(bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1)?;
    // SAFETY: fresh, page-aligned, zero, which is a valid `Area`; never unmapped.
    let area = unsafe { &*start.cast::<Area>() };
    area.used.store(1, Ordering::Relaxed);
    let mut first = FIRST.load(Ordering::Relaxed);
    loop {
        area.next.store(first, Ordering::Relaxed);
        let new = area as *const Area as *mut Area;
        match FIRST.compare_exchange(first, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return Some(area),
            Err(other) => first = other,
        }
    }
}

/// The memory of the area for the thread itself, or for its signal handlers.
pub fn part(area: usize, of_handlers: bool) -> *mut u8 {
    (area + size_of::<Area>() + usize::from(of_handlers) * SCRATCH_BYTES) as *mut u8
}

/// Leaves the area to another thread.
pub fn put_back(area: usize) {
    if area != 0 {
        // SAFETY: `get` gave it, and areas are never unmapped.
        let area = unsafe { &*(area as *const Area) };
        area.owner.store(0, Ordering::Relaxed);
        area.used.store(0, Ordering::Release);
    }
}

/// After a fork: the other threads are gone.
pub fn keep_only(own: usize) {
    areas().filter(|area| *area as *const Area as usize != own).for_each(|area| {
        area.owner.store(0, Ordering::Relaxed);
        area.used.store(0, Ordering::Release);
    });
}

/// Calls `f` with the state of each thread that has an area, the caller's too.
pub fn for_each_owner(mut f: impl FnMut(&Local)) {
    for area in areas().filter(|area| area.used.load(Ordering::Acquire) != 0) {
        let owner = area.owner.load(Ordering::Acquire);
        if owner != 0 {
            // SAFETY: a thread gives its area back before it ends.
            f(unsafe { &*(owner as *const Local) });
        }
    }
}
