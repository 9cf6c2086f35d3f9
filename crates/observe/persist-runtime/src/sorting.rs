//! Sorting, whose comparisons are the program's and may synchronise in the middle of it.

use std::ffi::{c_int, c_void};

use crate::local::{announce, local};
use crate::real::real;
use crate::{mapping, window};

type Memory = *mut c_void;
type Compare = unsafe extern "C-unwind" fn(Memory, Memory, Memory) -> c_int;

/// A sorting in progress.
struct Sorting {
    at: usize,
    bytes: usize,
    compare: Compare,
    argument: Memory,
}

/// A comparison in progress, until it is done or left by an exception.
struct Comparing(bool);

impl Drop for Comparing {
    fn drop(&mut self) {
        local(|local| local.touched.set(local.touched.get() || self.0));
    }
}

/// Compares by the program's function, which may end the region: what is sorted is then announced once more.
unsafe extern "C-unwind" fn compared(one: Memory, other: Memory, sorting: Memory) -> c_int {
    // SAFETY: of `sort`, which is in progress.
    let sorting = unsafe { &*sorting.cast::<Sorting>() };
    let comparing = Comparing(local(|local| local.touched.replace(false)));
    // SAFETY: the program's function; one that takes two arguments ignores the third.
    let result = unsafe { (sorting.compare)(one, other, sorting.argument) };
    if local(|local| local.touched.get()) || mapping::is_on() {
        announce(sorting.at, sorting.bytes);
    }
    drop(comparing);
    result
}

fn sort(at: Memory, count: usize, bytes: usize, compare: Compare, argument: Memory) {
    let real = real!(c"qsort_r", fn(Memory, usize, usize, Compare, Memory));
    let all = count.saturating_mul(bytes);
    if !window::contains(at as usize) || all == 0 {
        // SAFETY: the caller's arguments.
        return unsafe { real(at, count, bytes, compare, argument) };
    }
    announce(at as usize, all);
    let sorting = Sorting { at: at as usize, bytes: all, compare, argument };
    // SAFETY: the caller's array, and what `compared` takes.
    unsafe { real(at, count, bytes, compared, (&raw const sorting).cast_mut().cast()) };
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn qsort(at: Memory, count: usize, bytes: usize, compare: Compare) {
    sort(at, count, bytes, compare, std::ptr::null_mut());
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn qsort_r(
    at: Memory,
    count: usize,
    bytes: usize,
    compare: Compare,
    argument: Memory,
) {
    sort(at, count, bytes, compare, argument);
}
