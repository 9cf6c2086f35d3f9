//! Streams of watched files that were opened by `freopen`: they stay the C library's, which writes to them by
//! itself.
//!
//! Whatever it wrote since the last look lies before the descriptor's position. It is read back before the next
//! operation on files is recorded, and when the stream is moved or closed: nothing that a sync or a change of
//! names comes behind is missed.

use core::ffi::{c_char, c_int, c_long};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use libc::{FILE, O_ACCMODE, O_APPEND, O_RDONLY, fpos_t, off_t};

use super::contents::{opening_by, ordinary};
use super::copies::read_back;
use super::named::{self, HERE, complain, watching};
use super::order_lock::{call_first, hold};
use super::streams::{self, flags_of};
use crate::base::sys;
use crate::real::calls::real_call;
use crate::state::local::{caller, hooks, local};

/// A stream that was opened again.
struct Reopened {
    /// Null: nobody's.
    file: AtomicPtr<FILE>,
    fd: AtomicI32,
    /// Up to where its file is recorded.
    end: AtomicU64,
}

static STREAMS: [Reopened; 16] =
    [const { Reopened { file: AtomicPtr::new(null_mut()), fd: AtomicI32::new(-1), end: AtomicU64::new(0) } };
        16];
/// How many there are.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Where the C library's next write to a descriptor goes.
fn end(fd: c_int) -> u64 {
    let end = match named::flags(fd) & O_APPEND {
        0 => named::position(fd),
        _ => sys::status(fd).map(|status| status.st_size as u64),
    };
    end.unwrap_or(0)
}

impl Reopened {
    fn find(file: *mut FILE) -> Option<&'static Reopened> {
        let any = !file.is_null() && COUNT.load(Ordering::Acquire) != 0;
        STREAMS.iter().find(|stream| any && stream.file.load(Ordering::Acquire) == file)
    }

    /// Enters a stream of a watched file; false if there are too many.
    fn enter(file: *mut FILE, fd: c_int) -> bool {
        let free = |stream: &&Reopened| {
            stream.file.compare_exchange(null_mut(), file, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let Some(stream) = STREAMS.iter().find(free) else { return false };
        stream.end.store(end(fd), Ordering::Relaxed);
        stream.fd.store(fd, Ordering::Release);
        COUNT.fetch_add(1, Ordering::Release);
        call_first(look);
        true
    }

    /// Records what was written since the last look.
    fn look(&self) {
        let fd = self.fd.load(Ordering::Acquire);
        if self.file.load(Ordering::Acquire).is_null() || fd < 0 {
            return;
        }
        let now = end(fd);
        let from = self.end.swap(now, Ordering::Relaxed);
        if let Some(path) = ordinary(fd).filter(|_| now > from) {
            read_back(local().streaming.get(), &path, fd, [from, now - from]);
        }
    }

    /// Writes out what the stream has in its buffer, as the call that follows would, and records it.
    fn flush(&self) {
        real_call!(fflush(self.file.load(Ordering::Acquire)));
        let _held = hold();
        self.look();
    }

    /// The stream is about to be closed.
    fn leave(&self) {
        self.flush();
        self.fd.store(-1, Ordering::Relaxed);
        self.file.store(null_mut(), Ordering::Release);
        COUNT.fetch_sub(1, Ordering::Release);
    }
}

/// Records what was written to such streams since the last look. The caller holds the lock.
fn look() {
    if COUNT.load(Ordering::Acquire) != 0 {
        STREAMS.iter().for_each(Reopened::look);
    }
}

/// Writes out and records what is left in them.
pub fn flush() {
    if COUNT.load(Ordering::Acquire) != 0 {
        STREAMS
            .iter()
            .filter(|stream| !stream.file.load(Ordering::Acquire).is_null())
            .for_each(Reopened::flush);
    }
}

/// Moves a stream: what is written from here on goes elsewhere.
fn moving(pc: u64, file: *mut FILE, change: impl FnOnce() -> c_int) -> c_int {
    local().streaming.set(pc);
    let Some(stream) = Reopened::find(file) else { return change() };
    stream.flush();
    let result = change();
    stream.end.store(end(stream.fd.load(Ordering::Acquire)), Ordering::Relaxed);
    result
}

fn reopen(pc: u64, name: *const c_char, mode: *const c_char, old: *mut FILE) -> *mut FILE {
    local().streaming.set(pc);
    if !watching() {
        return real_call!(freopen(name, mode, old));
    }
    // SAFETY: the program's name and mode.
    if let Some(file) = unsafe { streams::reopen(pc, name, mode, old) } {
        return file;
    }
    if let Some(stream) = Reopened::find(old) {
        stream.leave();
    }
    let mut opened = None;
    let mut open = || {
        let file = real_call!(freopen(name, mode, old));
        opened = Some(file);
        // SAFETY: `errno` is the thread's own.
        if file.is_null() { -unsafe { *libc::__errno_location() } } else { real_call!(fileno(file)) }
    };
    // SAFETY: the program's mode.
    let flags = flags_of(unsafe { core::ffi::CStr::from_ptr(mode) }.to_bytes());
    if let Some(flags) = flags.filter(|_| !name.is_null()) {
        opening_by(pc, HERE, name, flags, || open() as isize);
    }
    let file = opened.unwrap_or_else(|| real_call!(freopen(name, mode, old)));
    if !file.is_null() {
        let fd = real_call!(fileno(file));
        let writes = named::flags(fd) & O_ACCMODE != O_RDONLY;
        if let Some(path) = ordinary(fd).filter(|_| writes)
            && !Reopened::enter(file, fd)
        {
            complain(b"freopen of more than 16 streams", path.bytes());
        }
    }
    file
}

hooks! {
    fn freopen(name: *const c_char, mode: *const c_char, old: *mut FILE) -> *mut FILE {
        reopen(caller(), name, mode, old)
    }
    fn freopen64(name: *const c_char, mode: *const c_char, old: *mut FILE) -> *mut FILE {
        reopen(caller(), name, mode, old)
    }
    fn fclose(file: *mut FILE) -> c_int {
        local().streaming.set(caller());
        if let Some(stream) = Reopened::find(file) {
            stream.leave();
        }
        real_call!(fclose(file))
    }
    fn fseek(file: *mut FILE, offset: c_long, whence: c_int) -> c_int {
        moving(caller(), file, || real_call!(fseek(file, offset, whence)))
    }
    fn fseeko(file: *mut FILE, offset: off_t, whence: c_int) -> c_int {
        moving(caller(), file, || real_call!(fseeko(file, offset, whence)))
    }
    fn fseeko64(file: *mut FILE, offset: off_t, whence: c_int) -> c_int {
        moving(caller(), file, || real_call!(fseeko(file, offset, whence)))
    }
    fn fsetpos(file: *mut FILE, at: *const fpos_t) -> c_int {
        moving(caller(), file, || real_call!(fsetpos(file, at)))
    }
    fn fsetpos64(file: *mut FILE, at: *const fpos_t) -> c_int {
        moving(caller(), file, || real_call!(fsetpos(file, at)))
    }
    fn rewind(file: *mut FILE) -> () {
        moving(caller(), file, || {
            real_call!(rewind(file));
            0
        });
    }
}
