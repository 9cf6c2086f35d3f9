//! Buffers of system calls: a page without rights makes such a call fail, where an instruction would only be noted. The buffer's
//! pages get their rights before the call and keep them until it is over.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::protect;

/// Calls under way at once; further ones have all protection lifted while they last.
const SLOTS: usize = 64;

static PINNED: [[AtomicUsize; 2]; SLOTS] = [const { [const { AtomicUsize::new(0) }; 2] }; SLOTS];
/// Calls without a slot.
static BEYOND: AtomicUsize = AtomicUsize::new(0);

/// Whether a page may lose its rights.
pub fn free(start: usize, end: usize) -> bool {
    BEYOND.load(Ordering::SeqCst) == 0
        && PINNED.iter().all(|slot| {
            let (from, to) = (slot[0].load(Ordering::SeqCst), slot[1].load(Ordering::SeqCst));
            from >= end || to <= start
        })
}

/// Runs a call with a buffer.
fn pinned<R>(buffer: *const c_void, len: usize, call: impl FnOnce() -> R) -> R {
    if !protect::active() {
        return call();
    }
    let (start, end) = (buffer.addr(), buffer.addr().saturating_add(len));
    let take = |slot: &&[AtomicUsize; 2]| {
        slot[1].compare_exchange(0, end.max(1), Ordering::SeqCst, Ordering::SeqCst).is_ok()
    };
    let slot = PINNED.iter().find(take);
    match slot {
        Some(slot) => slot[0].store(start, Ordering::SeqCst),
        None => _ = BEYOND.fetch_add(1, Ordering::SeqCst),
    }
    protect::lift(start, end);
    let result = call();
    match slot {
        Some(slot) => {
            slot[0].store(0, Ordering::SeqCst);
            slot[1].store(0, Ordering::SeqCst);
        }
        None => _ = BEYOND.fetch_sub(1, Ordering::SeqCst),
    }
    result
}

/// Functions of the C library with a buffer and its length among their arguments.
macro_rules! with_buffer {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty, $buffer:ident, $len:expr;)*) => {$(
        /// The C library's, with its buffer's rights given back.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            type Real = unsafe extern "C" fn($($kind),*) -> $result;
            static REAL: AtomicUsize = AtomicUsize::new(0);
            let real = protect::real(&REAL, concat!(stringify!($name), "\0"));
            // SAFETY: the C library's function of that name has that type.
            let real = unsafe { std::mem::transmute::<*const c_void, Real>(real) };
            // SAFETY: the caller's arguments.
            pinned($buffer.cast(), $len, || unsafe { real($($argument),*) })
        }
    )*};
}

with_buffer! {
    read(file: c_int, buffer: *mut c_void, len: usize) -> isize, buffer, len;
    write(file: c_int, buffer: *const c_void, len: usize) -> isize, buffer, len;
    pread(file: c_int, buffer: *mut c_void, len: usize, at: i64) -> isize, buffer, len;
    pread64(file: c_int, buffer: *mut c_void, len: usize, at: i64) -> isize, buffer, len;
    pwrite(file: c_int, buffer: *const c_void, len: usize, at: i64) -> isize, buffer, len;
    pwrite64(file: c_int, buffer: *const c_void, len: usize, at: i64) -> isize, buffer, len;
    recv(file: c_int, buffer: *mut c_void, len: usize, flags: c_int) -> isize, buffer, len;
    send(file: c_int, buffer: *const c_void, len: usize, flags: c_int) -> isize, buffer, len;
    fread(buffer: *mut c_void, size: usize, count: usize, file: *mut c_void) -> usize, buffer, size.saturating_mul(count);
    fwrite(buffer: *const c_void, size: usize, count: usize, file: *mut c_void) -> usize, buffer, size.saturating_mul(count);
}

/// Calls with a list of buffers have all protection lifted while they last.
macro_rules! with_list {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {$(
        /// The C library's, while no page is protected.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> isize {
            type Real = unsafe extern "C" fn($($kind),*) -> isize;
            static REAL: AtomicUsize = AtomicUsize::new(0);
            let real = protect::real(&REAL, concat!(stringify!($name), "\0"));
            // SAFETY: the C library's function of that name has that type.
            let real = unsafe { std::mem::transmute::<*const c_void, Real>(real) };
            BEYOND.fetch_add(1, Ordering::SeqCst);
            protect::lift(0, usize::MAX);
            // SAFETY: the caller's arguments.
            let result = unsafe { real($($argument),*) };
            BEYOND.fetch_sub(1, Ordering::SeqCst);
            result
        }
    )*};
}

with_list! {
    readv(file: c_int, list: *const c_void, count: c_int);
    writev(file: c_int, list: *const c_void, count: c_int);
    preadv(file: c_int, list: *const c_void, count: c_int, at: i64);
    pwritev(file: c_int, list: *const c_void, count: c_int, at: i64);
    recvfrom(file: c_int, buffer: *mut c_void, len: usize, flags: c_int, from: *mut c_void, size: *mut u32);
    sendto(file: c_int, buffer: *const c_void, len: usize, flags: c_int, to: *const c_void, size: u32);
    recvmsg(file: c_int, message: *mut c_void, flags: c_int);
    sendmsg(file: c_int, message: *const c_void, flags: c_int);
}
