//! The C library's functions that touch memory by length, as instrumented code calls them.
//!
//! The assembler wrapper renames them in instrumented code, so what libraries do among themselves is not
//! recorded. Loads are recorded before, stores after the real function has run: then the bytes are there.

use core::ffi::{c_int, c_void};

use crate::memory::access::{about_to_store, load, stored};
use crate::real::chosen::{memcmp, memcpy, memmove, memset};
use crate::real::next::real;
use crate::state::local::{caller, hooks};
use abi::access::STORE;

unsafe extern "C" {
    fn memchr(at: *const c_void, byte: c_int, len: usize) -> *mut c_void;
    fn memrchr(at: *const c_void, byte: c_int, len: usize) -> *mut c_void;
    fn swab(from: *const c_void, to: *mut c_void, len: isize);
}

/// Copies and records it.
fn copy(pc: u64, to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
    about_to_store();
    load(pc, from as u64, len as u64);
    // SAFETY: the caller's arguments.
    unsafe { memcpy(to, from, len) };
    stored(STORE, pc, to as u64, len as u64);
    to
}

fn copy_overlapping(pc: u64, to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
    about_to_store();
    load(pc, from as u64, len as u64);
    // SAFETY: the caller's arguments.
    unsafe { memmove(to, from, len) };
    stored(STORE, pc, to as u64, len as u64);
    to
}

fn set(pc: u64, to: *mut c_void, byte: c_int, len: usize) -> *mut c_void {
    about_to_store();
    // SAFETY: the caller's arguments.
    unsafe { memset(to, byte, len) };
    stored(STORE, pc, to as u64, len as u64);
    to
}

/// Bytes up to and with the first that differs; all if none does.
fn compared(a: *const c_void, b: *const c_void, len: usize) -> u64 {
    // SAFETY: a comparison may read all `len` bytes of both.
    let (a, b) = unsafe {
        (core::slice::from_raw_parts(a.cast::<u8>(), len), core::slice::from_raw_parts(b.cast::<u8>(), len))
    };
    a.iter().zip(b).position(|(a, b)| a != b).map_or(len, |at| at + 1) as u64
}

fn compare(pc: u64, a: *const c_void, b: *const c_void, len: usize) -> c_int {
    if len == 0 {
        return 0;
    }
    // SAFETY: the caller's arguments.
    let result = unsafe { memcmp(a, b, len) };
    let read = if result == 0 { len as u64 } else { compared(a, b, len) };
    load(pc, a as u64, read);
    load(pc, b as u64, read);
    result
}

/// Bytes from `start` to `found` and with it, or `len` if nothing was found.
fn searched(start: *const c_void, found: *const c_void, len: usize) -> u64 {
    if found.is_null() { len as u64 } else { found as u64 - start as u64 + 1 }
}

hooks! {
    fn strandline_memcpy(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
        copy(caller(), to, from, len)
    }
    fn __tsan_memcpy(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
        copy(caller(), to, from, len)
    }
    fn strandline_mempcpy(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
        copy(caller(), to, from, len).wrapping_byte_add(len)
    }
    fn strandline_memmove(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
        copy_overlapping(caller(), to, from, len)
    }
    fn __tsan_memmove(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
        copy_overlapping(caller(), to, from, len)
    }
    fn strandline_bcopy(from: *const c_void, to: *mut c_void, len: usize) {
        copy_overlapping(caller(), to, from, len);
    }
    fn strandline_memset(to: *mut c_void, byte: c_int, len: usize) -> *mut c_void {
        set(caller(), to, byte, len)
    }
    fn __tsan_memset(to: *mut c_void, byte: c_int, len: usize) -> *mut c_void {
        set(caller(), to, byte, len)
    }
    fn strandline_bzero(to: *mut c_void, len: usize) {
        set(caller(), to, 0, len);
    }
    fn strandline_explicit_bzero(to: *mut c_void, len: usize) {
        set(caller(), to, 0, len);
    }
    fn strandline___explicit_bzero_chk(to: *mut c_void, len: usize, room: usize) {
        check(len, room);
        set(caller(), to, 0, len);
    }
    fn strandline_memccpy(to: *mut c_void, from: *const c_void, byte: c_int, len: usize) -> *mut c_void {
        let pc = caller();
        // SAFETY: the caller's arguments.
        let end = unsafe { memchr(from, byte, len) };
        let count = searched(from, end, len) as usize;
        copy(pc, to, from, count);
        if end.is_null() { end } else { to.wrapping_byte_add(count) }
    }
    fn strandline_swab(from: *const c_void, to: *mut c_void, len: isize) {
        let pc = caller();
        about_to_store();
        let pairs = usize::try_from(len).unwrap_or(0) / 2;
        load(pc, from as u64, 2 * pairs as u64);
        // SAFETY: the caller's arguments.
        unsafe { swab(from, to, len) };
        stored(STORE, pc, to as u64, 2 * pairs as u64);
    }
    fn strandline_memcmp(a: *const c_void, b: *const c_void, len: usize) -> c_int {
        compare(caller(), a, b, len)
    }
    fn strandline_bcmp(a: *const c_void, b: *const c_void, len: usize) -> c_int {
        compare(caller(), a, b, len)
    }
    fn strandline_memchr(at: *const c_void, byte: c_int, len: usize) -> *mut c_void {
        let pc = caller();
        // SAFETY: the caller's arguments.
        let found = unsafe { memchr(at, byte, len) };
        load(pc, at as u64, searched(at, found, len));
        found
    }
    fn strandline_memrchr(at: *const c_void, byte: c_int, len: usize) -> *mut c_void {
        let pc = caller();
        // SAFETY: the caller's arguments.
        let found = unsafe { memrchr(at, byte, len) };
        let first = if found.is_null() { at.cast_mut() } else { found };
        load(pc, first as u64, at as u64 + len as u64 - first as u64);
        found
    }
    fn strandline_rawmemchr(at: *const c_void, byte: c_int) -> *mut c_void {
        let pc = caller();
        let real = real!(c"rawmemchr" as fn(*const c_void, c_int) -> *mut c_void);
        // SAFETY: the caller's arguments.
        let found = unsafe { real(at, byte) };
        load(pc, at as u64, searched(at, found, 0));
        found
    }

    fn strandline___memcpy_chk(to: *mut c_void, from: *const c_void, len: usize, room: usize) -> *mut c_void {
        check(len, room);
        copy(caller(), to, from, len)
    }
    fn strandline___mempcpy_chk(to: *mut c_void, from: *const c_void, len: usize, room: usize) -> *mut c_void {
        check(len, room);
        copy(caller(), to, from, len).wrapping_byte_add(len)
    }
    fn strandline___memmove_chk(to: *mut c_void, from: *const c_void, len: usize, room: usize) -> *mut c_void {
        check(len, room);
        copy_overlapping(caller(), to, from, len)
    }
    fn strandline___memset_chk(to: *mut c_void, byte: c_int, len: usize, room: usize) -> *mut c_void {
        check(len, room);
        set(caller(), to, byte, len)
    }
}

/// Ends the program as the C library does if `len` bytes do not fit into `room`.
pub fn check(len: usize, room: usize) {
    if len > room {
        let fail = real!(c"__chk_fail" as fn());
        // SAFETY: takes nothing and does not return.
        unsafe { fail() };
    }
}
