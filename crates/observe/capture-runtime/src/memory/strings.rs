//! The C library's string functions, as instrumented code calls them. See `bytes.rs`.

use core::ffi::{c_char, c_int};

use libc::{
    strcasecmp, strchr, strcmp, strcspn, strncasecmp, strncmp, strnlen, strpbrk, strrchr, strspn, strstr,
};

use crate::memory::access::{about_to_store, load, stored};
use crate::memory::bytes::check;
use crate::real::chosen::strlen;
use crate::real::next::real;
use crate::state::local::{caller, hooks, local};
use abi::access::STORE;

type Str = *const c_char;

/// Bytes of a string with its zero.
fn bytes(text: Str) -> usize {
    // SAFETY: the program says that a string is there.
    unsafe { strlen(text) + 1 }
}

/// As `bytes`, but at most `most`.
fn bytes_within(text: Str, most: usize) -> usize {
    // SAFETY: the program says that a string is there, or `most` bytes.
    (unsafe { strnlen(text, most) } + 1).min(most)
}

/// Copies `count` bytes, then fills up with zeros to `len`.
fn copy(pc: u64, to: *mut c_char, from: Str, count: usize, len: usize) {
    about_to_store();
    load(pc, from as u64, count as u64);
    // SAFETY: the string functions' contract: `count` bytes are there, and room for `len`.
    unsafe {
        core::ptr::copy_nonoverlapping(from, to, count);
        core::ptr::write_bytes(to.add(count), 0, len - count);
    }
    stored(STORE, pc, to as u64, len as u64);
}

/// Appends `count` bytes of `from` and a zero.
fn append(pc: u64, to: *mut c_char, from: Str, count: usize, read: usize) -> usize {
    about_to_store();
    let before = bytes(to) - 1;
    load(pc, to as u64, before as u64 + 1);
    load(pc, from as u64, read as u64);
    // SAFETY: the string functions' contract.
    unsafe {
        core::ptr::copy_nonoverlapping(from, to.add(before), count);
        to.add(before + count).write(0);
    }
    stored(STORE, pc, to as u64 + before as u64, count as u64 + 1);
    before + count + 1
}

/// Copies as much of a string as there is room for with a zero; the string's length.
fn copy_within(pc: u64, to: *mut c_char, from: Str, room: usize) -> usize {
    let len = bytes(from) - 1;
    load(pc, from as u64, len as u64 + 1);
    if room > 0 {
        about_to_store();
        let count = len.min(room - 1);
        // SAFETY: the string functions' contract.
        unsafe {
            core::ptr::copy_nonoverlapping(from, to, count);
            to.add(count).write(0);
        }
        stored(STORE, pc, to as u64, count as u64 + 1);
    }
    len
}

/// Records the reads of a comparison that looked at `most` characters at most.
fn compared(pc: u64, a: Str, b: Str, most: usize, equal: impl Fn(u8, u8) -> bool) {
    let mut count = 0;
    while count < most {
        // SAFETY: neither string has ended before `count`.
        let (left, right) = unsafe { (*a.cast::<u8>().add(count), *b.cast::<u8>().add(count)) };
        count += 1;
        if left == 0 || !equal(left, right) {
            break;
        }
    }
    load(pc, a as u64, count as u64);
    load(pc, b as u64, count as u64);
}

fn same(a: u8, b: u8) -> bool {
    a == b
}

fn same_letter(a: u8, b: u8) -> bool {
    a.eq_ignore_ascii_case(&b)
}

/// Records a search from the start of `text` to `found`, or its end.
fn searched(pc: u64, text: Str, found: Str) {
    let len = if found.is_null() { bytes(text) as u64 } else { found as u64 - text as u64 + 1 };
    load(pc, text as u64, len);
}

/// Records the reads of a search for characters of `set`.
fn searched_set(pc: u64, text: Str, set: Str, len: usize) {
    load(pc, set as u64, bytes(set) as u64);
    load(pc, text as u64, len as u64);
}

hooks! {
    fn strandline_strlen(text: Str) -> usize {
        let len = bytes(text);
        load(caller(), text as u64, len as u64);
        len - 1
    }
    fn strandline_strnlen(text: Str, most: usize) -> usize {
        let pc = caller();
        load(pc, text as u64, bytes_within(text, most) as u64);
        // SAFETY: the caller's arguments.
        unsafe { strnlen(text, most) }
    }
    fn strandline_strcpy(to: *mut c_char, from: Str) -> *mut c_char {
        let len = bytes(from);
        copy(caller(), to, from, len, len);
        to
    }
    fn strandline_stpcpy(to: *mut c_char, from: Str) -> *mut c_char {
        let len = bytes(from);
        copy(caller(), to, from, len, len);
        to.wrapping_add(len - 1)
    }
    fn strandline_strncpy(to: *mut c_char, from: Str, len: usize) -> *mut c_char {
        copy(caller(), to, from, bytes_within(from, len), len);
        to
    }
    fn strandline_stpncpy(to: *mut c_char, from: Str, len: usize) -> *mut c_char {
        copy(caller(), to, from, bytes_within(from, len), len);
        // SAFETY: the caller's arguments.
        to.wrapping_add(unsafe { strnlen(from, len) })
    }
    fn strandline_strcat(to: *mut c_char, from: Str) -> *mut c_char {
        let len = bytes(from);
        append(caller(), to, from, len - 1, len);
        to
    }
    fn strandline_strncat(to: *mut c_char, from: Str, most: usize) -> *mut c_char {
        // SAFETY: the caller's arguments.
        let count = unsafe { strnlen(from, most) };
        append(caller(), to, from, count, bytes_within(from, most));
        to
    }
    fn strandline_strlcpy(to: *mut c_char, from: Str, room: usize) -> usize {
        copy_within(caller(), to, from, room)
    }
    fn strandline_strlcat(to: *mut c_char, from: Str, room: usize) -> usize {
        let pc = caller();
        // SAFETY: the caller's arguments.
        let before = unsafe { strnlen(to, room) };
        load(pc, to as u64, bytes_within(to, room) as u64);
        before + copy_within(pc, to.wrapping_add(before), from, room - before)
    }
    fn strandline_strcmp(a: Str, b: Str) -> c_int {
        compared(caller(), a, b, usize::MAX, same);
        // SAFETY: the caller's arguments.
        unsafe { strcmp(a, b) }
    }
    fn strandline_strncmp(a: Str, b: Str, most: usize) -> c_int {
        compared(caller(), a, b, most, same);
        // SAFETY: the caller's arguments.
        unsafe { strncmp(a, b, most) }
    }
    fn strandline_strcasecmp(a: Str, b: Str) -> c_int {
        compared(caller(), a, b, usize::MAX, same_letter);
        // SAFETY: the caller's arguments.
        unsafe { strcasecmp(a, b) }
    }
    fn strandline_strncasecmp(a: Str, b: Str, most: usize) -> c_int {
        compared(caller(), a, b, most, same_letter);
        // SAFETY: the caller's arguments.
        unsafe { strncasecmp(a, b, most) }
    }
    fn strandline_strchr(text: Str, byte: c_int) -> *mut c_char {
        let pc = caller();
        // SAFETY: the caller's arguments.
        let found = unsafe { strchr(text, byte) };
        searched(pc, text, found);
        found
    }
    fn strandline_strchrnul(text: Str, byte: c_int) -> *mut c_char {
        let pc = caller();
        // SAFETY: the caller's arguments.
        let found = unsafe { strchr(text, byte) };
        searched(pc, text, found);
        if found.is_null() { text.cast_mut().wrapping_add(bytes(text) - 1) } else { found }
    }
    fn strandline_strrchr(text: Str, byte: c_int) -> *mut c_char {
        load(caller(), text as u64, bytes(text) as u64);
        // SAFETY: the caller's arguments.
        unsafe { strrchr(text, byte) }
    }
    fn strandline_strstr(text: Str, part: Str) -> *mut c_char {
        let pc = caller();
        // SAFETY: the caller's arguments.
        let found = unsafe { strstr(text, part) };
        let part_bytes = bytes(part);
        load(pc, part as u64, part_bytes as u64);
        let read = if found.is_null() { bytes(text) } else { found as usize - text as usize + part_bytes - 1 };
        load(pc, text as u64, read as u64);
        found
    }
    fn strandline_strpbrk(text: Str, set: Str) -> *mut c_char {
        let pc = caller();
        // SAFETY: the caller's arguments.
        let found = unsafe { strpbrk(text, set) };
        load(pc, set as u64, bytes(set) as u64);
        searched(pc, text, found);
        found
    }
    fn strandline_strspn(text: Str, set: Str) -> usize {
        let pc = caller();
        // SAFETY: the caller's arguments.
        let len = unsafe { strspn(text, set) };
        searched_set(pc, text, set, len + 1);
        len
    }
    fn strandline_strcspn(text: Str, set: Str) -> usize {
        let pc = caller();
        // SAFETY: the caller's arguments.
        let len = unsafe { strcspn(text, set) };
        searched_set(pc, text, set, len + 1);
        len
    }
    fn strandline_strdup(text: Str) -> *mut c_char {
        let pc = caller();
        duplicate(pc, text, bytes(text) - 1, bytes(text))
    }
    fn strandline_strndup(text: Str, most: usize) -> *mut c_char {
        let pc = caller();
        // SAFETY: the caller's arguments.
        duplicate(pc, text, unsafe { strnlen(text, most) }, bytes_within(text, most))
    }

    fn strandline___strcpy_chk(to: *mut c_char, from: Str, room: usize) -> *mut c_char {
        let len = bytes(from);
        check(len, room);
        copy(caller(), to, from, len, len);
        to
    }
    fn strandline___stpcpy_chk(to: *mut c_char, from: Str, room: usize) -> *mut c_char {
        let len = bytes(from);
        check(len, room);
        copy(caller(), to, from, len, len);
        to.wrapping_add(len - 1)
    }
    fn strandline___strncpy_chk(to: *mut c_char, from: Str, len: usize, room: usize) -> *mut c_char {
        check(len, room);
        copy(caller(), to, from, bytes_within(from, len), len);
        to
    }
    fn strandline___stpncpy_chk(to: *mut c_char, from: Str, len: usize, room: usize) -> *mut c_char {
        check(len, room);
        copy(caller(), to, from, bytes_within(from, len), len);
        // SAFETY: the caller's arguments.
        to.wrapping_add(unsafe { strnlen(from, len) })
    }
    fn strandline___strcat_chk(to: *mut c_char, from: Str, room: usize) -> *mut c_char {
        let pc = caller();
        let len = bytes(from);
        check(bytes(to) + len - 1, room);
        append(pc, to, from, len - 1, len);
        to
    }
    fn strandline___strncat_chk(to: *mut c_char, from: Str, most: usize, room: usize) -> *mut c_char {
        let pc = caller();
        // SAFETY: the caller's arguments.
        let count = unsafe { strnlen(from, most) };
        check(bytes(to) + count, room);
        append(pc, to, from, count, bytes_within(from, most));
        to
    }
}

/// A copy of `count` characters and a zero in new memory, which is the caller's allocation.
fn duplicate(pc: u64, text: Str, count: usize, read: usize) -> *mut c_char {
    let allocate = real!(c"strndup" as fn(Str, usize) -> *mut c_char);
    local().site.set(pc);
    // SAFETY: `count` characters are there.
    let copy = unsafe { allocate(text, count) };
    local().site.set(0);
    load(pc, text as u64, read as u64);
    if !copy.is_null() {
        stored(STORE, pc, copy as u64, count as u64 + 1);
    }
    copy
}
