//! Atomic operations on more than 16 bytes, which a library of the compiler's carries out under locks of its own.
//!
//! They are interposed. What they find goes where the program says, in a region that is not the operation's.

use std::ffi::{c_int, c_void};
use std::ptr;

use sfr::Kind;

use crate::atomics::{acquires, carry_out};
use crate::local::writing;
use crate::scan::Scratch;
use crate::sync::call;

type Memory = *mut c_void;

/// Bytes of objects for which a place on the stack is enough.
const SMALL: usize = 256;

/// Works with a place for so many bytes.
fn elsewhere<R>(bytes: usize, work: impl FnOnce(Memory) -> R) -> R {
    let mut small = [0_u64; SMALL / 8];
    if bytes <= SMALL {
        return work(small.as_mut_ptr().cast());
    }
    let scratch = Scratch::new(bytes);
    work(scratch.at as Memory)
}

/// Copies to where the program wants it.
fn give(from: Memory, to: Memory, bytes: usize) {
    writing(&[(to as usize, bytes)], || {
        // SAFETY: the caller's place for so many bytes, and ours.
        unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast(), bytes) };
    });
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __atomic_load(bytes: usize, at: Memory, to: Memory, order: c_int) {
    elsewhere(bytes, |seen| {
        carry_out(at as usize, bytes, Kind::Load, order, || {
            call!(__atomic_load(bytes: usize, at: Memory, seen: Memory, order: c_int) -> ());
        });
        give(seen, to, bytes);
    });
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __atomic_store(bytes: usize, at: Memory, from: Memory, order: c_int) {
    carry_out(at as usize, bytes, Kind::Store, order, || {
        call!(__atomic_store(bytes: usize, at: Memory, from: Memory, order: c_int) -> ());
    });
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __atomic_exchange(
    bytes: usize,
    at: Memory,
    from: Memory,
    to: Memory,
    order: c_int,
) {
    elsewhere(bytes, |seen| {
        carry_out(at as usize, bytes, Kind::ReadModifyWrite, order, || {
            call!(__atomic_exchange(
                bytes: usize, at: Memory, from: Memory, seen: Memory, order: c_int
            ) -> ());
        });
        give(seen, to, bytes);
    });
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __atomic_compare_exchange(
    bytes: usize,
    at: Memory,
    expected: Memory,
    new: Memory,
    order: c_int,
    failing: c_int,
) -> bool {
    elsewhere(bytes, |seen| {
        // SAFETY: the caller's bytes, and ours.
        unsafe { ptr::copy_nonoverlapping(expected.cast::<u8>(), seen.cast(), bytes) };
        let stronger = if acquires(failing) && !acquires(order) { 4 } else { order };
        let same = carry_out(at as usize, bytes, Kind::ReadModifyWrite, stronger, || {
            call!(__atomic_compare_exchange(
                bytes: usize, at: Memory, seen: Memory, new: Memory, order: c_int, failing: c_int
            ) -> bool)
        });
        if !same {
            give(seen, expected, bytes);
        }
        same
    })
}
