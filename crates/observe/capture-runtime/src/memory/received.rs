//! What the kernel puts into the program's memory: `read` and its relatives, also through streams, and
//! `getrandom`.
//!
//! It counts as stored by whoever called, where stored bytes are recorded, that is for checks. No processor's
//! store has made it, so other consumers do not hear of it.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

use libc::{FILE, iovec, off_t, size_t, ssize_t};

use crate::memory::access::{about_to_store, stored};
use crate::memory::bytes::check;
use crate::real::calls::real_call;
use crate::real::next::real;
use crate::state::local::{caller, hooks, local};
use abi::access::STORE;

/// To be called before the kernel is: its work is not a store recorded before.
pub fn about_to_receive() {
    if local().stream.value_bytes().is_some() {
        about_to_store();
    }
}

/// Records that so many bytes have come to `to`, none if it is negative.
pub fn placed(pc: u64, to: *const c_void, bytes: isize) {
    if bytes > 0 && local().stream.value_bytes().is_some() {
        stored(STORE, pc, to as u64, bytes as u64);
    }
}

/// As [`placed`], in several places, of which the first are filled first.
///
/// # Safety
/// There are `count` parts.
pub unsafe fn placed_parts(pc: u64, parts: *const iovec, count: usize, bytes: isize) {
    let mut left = usize::try_from(bytes).unwrap_or(0);
    for at in 0..count {
        if left == 0 {
            break;
        }
        // SAFETY: the caller's.
        let part = unsafe { &*parts.add(at) };
        let here = part.iov_len.min(left);
        placed(pc, part.iov_base, here as isize);
        left -= here;
    }
}

/// Receives by `receive` at `to`.
fn receiving(pc: u64, to: *const c_void, receive: impl FnOnce() -> ssize_t) -> ssize_t {
    about_to_receive();
    let bytes = receive();
    placed(pc, to, bytes);
    bytes
}

/// Reads at an offset into several places.
///
/// # Safety
/// There are `count` parts.
unsafe fn receiving_parts(
    pc: u64,
    parts: *const iovec,
    count: c_int,
    receive: impl FnOnce() -> ssize_t,
) -> ssize_t {
    about_to_receive();
    let bytes = receive();
    // SAFETY: the caller's.
    unsafe { placed_parts(pc, parts, count as usize, bytes) };
    bytes
}

/// Reads from a stream by `read`, which gives the number of elements.
fn reading(pc: u64, to: *mut c_void, size: usize, read: impl FnOnce() -> usize) -> usize {
    about_to_receive();
    let count = read();
    placed(pc, to, (count * size) as isize);
    count
}

hooks! {
    fn pread(fd: c_int, to: *mut c_void, len: size_t, offset: off_t) -> ssize_t {
        receiving(caller(), to, || real_call!(pread(fd, to, len, offset)))
    }
    fn pread64(fd: c_int, to: *mut c_void, len: size_t, offset: off_t) -> ssize_t {
        receiving(caller(), to, || real_call!(pread(fd, to, len, offset)))
    }
    fn preadv(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t {
        let read = || real_call!(preadv(fd, parts, count, offset));
        // SAFETY: the caller's arguments.
        unsafe { receiving_parts(caller(), parts, count, read) }
    }
    fn preadv64(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t {
        let read = || real_call!(preadv(fd, parts, count, offset));
        // SAFETY: the caller's arguments.
        unsafe { receiving_parts(caller(), parts, count, read) }
    }
    fn __pread_chk(fd: c_int, to: *mut c_void, len: size_t, offset: off_t, room: size_t) -> ssize_t {
        check(len, room);
        receiving(caller(), to, || real_call!(pread(fd, to, len, offset)))
    }
    fn __pread64_chk(fd: c_int, to: *mut c_void, len: size_t, offset: off_t, room: size_t) -> ssize_t {
        check(len, room);
        receiving(caller(), to, || real_call!(pread(fd, to, len, offset)))
    }
    fn getrandom(to: *mut c_void, len: size_t, flags: c_uint) -> ssize_t {
        receiving(caller(), to, || real_call!(getrandom(to, len, flags)))
    }
    fn getentropy(to: *mut c_void, len: size_t) -> c_int {
        let (pc, real) = (caller(), real!(c"getentropy" as fn(*mut c_void, usize) -> c_int));
        about_to_receive();
        // SAFETY: the caller's arguments.
        let result = unsafe { real(to, len) };
        placed(pc, to, if result == 0 { len as isize } else { 0 });
        result
    }
    fn fread(to: *mut c_void, size: usize, count: usize, file: *mut FILE) -> usize {
        let (pc, real) = (caller(), real!(c"fread" as fn(*mut c_void, usize, usize, *mut FILE) -> usize));
        // SAFETY: the caller's arguments.
        reading(pc, to, size, || unsafe { real(to, size, count, file) })
    }
    fn fread_unlocked(to: *mut c_void, size: usize, count: usize, file: *mut FILE) -> usize {
        let (pc, real) = (caller(), real!(c"fread_unlocked" as fn(*mut c_void, usize, usize, *mut FILE) -> usize));
        // SAFETY: the caller's arguments.
        reading(pc, to, size, || unsafe { real(to, size, count, file) })
    }
    fn __fread_chk(to: *mut c_void, room: usize, size: usize, count: usize, file: *mut FILE) -> usize {
        let pc = caller();
        let real = real!(c"__fread_chk" as fn(*mut c_void, usize, usize, usize, *mut FILE) -> usize);
        // SAFETY: the caller's arguments.
        reading(pc, to, size, || unsafe { real(to, room, size, count, file) })
    }
    fn fgets(to: *mut c_char, room: c_int, file: *mut FILE) -> *mut c_char {
        let (pc, real) = (caller(), real!(c"fgets" as fn(*mut c_char, c_int, *mut FILE) -> *mut c_char));
        // SAFETY: the caller's arguments.
        line(pc, || unsafe { real(to, room, file) })
    }
    fn __fgets_chk(to: *mut c_char, size: usize, room: c_int, file: *mut FILE) -> *mut c_char {
        let pc = caller();
        let real = real!(c"__fgets_chk" as fn(*mut c_char, usize, c_int, *mut FILE) -> *mut c_char);
        // SAFETY: the caller's arguments.
        line(pc, || unsafe { real(to, size, room, file) })
    }
}

/// Reads a line by `read`, which gives where it is, or null.
fn line(pc: u64, read: impl FnOnce() -> *mut c_char) -> *mut c_char {
    about_to_receive();
    let text = read();
    if !text.is_null() && local().stream.value_bytes().is_some() {
        // SAFETY: what was read ends with a zero.
        let len = unsafe { CStr::from_ptr(text) }.count_bytes();
        placed(pc, text.cast(), len as isize + 1);
    }
    text
}
