//! The C library's functions on wide characters that store, as instrumented code calls them. See `bytes.rs`.

use core::ffi::c_int;

use crate::memory::access::{about_to_store, load, stored};
use crate::memory::bytes::check;
use crate::state::local::{caller, hooks};
use abi::access::STORE;

type Wide = i32;

unsafe extern "C" {
    fn wcslen(text: *const Wide) -> usize;
    fn wcsnlen(text: *const Wide, most: usize) -> usize;
}

/// Characters of a text with its zero, but at most `most`.
fn within(text: *const Wide, most: usize) -> usize {
    // SAFETY: the program says that a text is there, or `most` characters.
    (unsafe { wcsnlen(text, most) } + 1).min(most)
}

/// As [`within`], without a limit.
fn whole(text: *const Wide) -> usize {
    // SAFETY: the program says that a text is there.
    unsafe { wcslen(text) + 1 }
}

/// Copies `count` characters, which may overlap, and fills up with zeros to `len`.
fn copy(pc: u64, to: *mut Wide, from: *const Wide, count: usize, len: usize) {
    about_to_store();
    load(pc, from as u64, 4 * count as u64);
    // SAFETY: the C functions' contract: `count` characters are there, and room for `len`.
    unsafe {
        core::ptr::copy(from, to, count);
        core::ptr::write_bytes(to.add(count), 0, len - count);
    }
    stored(STORE, pc, to as u64, 4 * len as u64);
}

/// Appends `count` characters and a zero.
fn append(pc: u64, to: *mut Wide, from: *const Wide, count: usize) {
    about_to_store();
    let before = whole(to) - 1;
    load(pc, to as u64, 4 * (before as u64 + 1));
    load(pc, from as u64, 4 * count as u64);
    // SAFETY: the C functions' contract.
    unsafe {
        core::ptr::copy_nonoverlapping(from, to.add(before), count);
        to.add(before + count).write(0);
    }
    stored(STORE, pc, to as u64 + 4 * before as u64, 4 * (count as u64 + 1));
}

fn fill(pc: u64, to: *mut Wide, character: Wide, count: usize) {
    about_to_store();
    // SAFETY: the program says that there is room for `count`.
    (0..count).for_each(|at| unsafe { to.add(at).write(character) });
    stored(STORE, pc, to as u64, 4 * count as u64);
}

/// Defines functions and their twins that know how much room there is, in characters.
macro_rules! checked {
    ($($name:ident $twin:ident($to:ident $(, $arg:ident: $type:ty)*; $len:expr) $body:expr;)*) => { hooks! { $(
        fn $name($to: *mut Wide $(, $arg: $type)*) -> *mut Wide {
            let pc = caller();
            $body(pc)
        }
        fn $twin($to: *mut Wide $(, $arg: $type)*, room: usize) -> *mut Wide {
            let pc = caller();
            check($len, room);
            $body(pc)
        }
    )* } };
}

checked! {
    strandline_wmemcpy strandline___wmemcpy_chk(to, from: *const Wide, len: usize; len) |pc| {
        copy(pc, to, from, len, len);
        to
    };
    strandline_wmemmove strandline___wmemmove_chk(to, from: *const Wide, len: usize; len) |pc| {
        copy(pc, to, from, len, len);
        to
    };
    strandline_wmempcpy strandline___wmempcpy_chk(to, from: *const Wide, len: usize; len) |pc| {
        copy(pc, to, from, len, len);
        to.wrapping_add(len)
    };
    strandline_wmemset strandline___wmemset_chk(to, character: c_int, len: usize; len) |pc| {
        fill(pc, to, character, len);
        to
    };
    strandline_wcscpy strandline___wcscpy_chk(to, from: *const Wide; whole(from)) |pc| {
        copy(pc, to, from, whole(from), whole(from));
        to
    };
    strandline_wcpcpy strandline___wcpcpy_chk(to, from: *const Wide; whole(from)) |pc| {
        let len = whole(from);
        copy(pc, to, from, len, len);
        to.wrapping_add(len - 1)
    };
    strandline_wcsncpy strandline___wcsncpy_chk(to, from: *const Wide, len: usize; len) |pc| {
        copy(pc, to, from, within(from, len), len);
        to
    };
    strandline_wcscat strandline___wcscat_chk(to, from: *const Wide; whole(to) + whole(from) - 1) |pc| {
        append(pc, to, from, whole(from) - 1);
        to
    };
    strandline_wcsncat strandline___wcsncat_chk(
        to, from: *const Wide, most: usize;
        // SAFETY: the caller's arguments.
        whole(to) + unsafe { wcsnlen(from, most) }
    ) |pc| {
        // SAFETY: the caller's arguments.
        append(pc, to, from, unsafe { wcsnlen(from, most) });
        to
    };
}
