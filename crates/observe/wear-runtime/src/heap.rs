//! The library's own memory, and that of allocations that are none of ours: the C library's.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

unsafe extern "C" {
    fn __libc_malloc(len: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, len: usize) -> *mut c_void;
    fn __libc_realloc(memory: *mut c_void, len: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, len: usize) -> *mut c_void;
    fn __libc_free(memory: *mut c_void);
}

/// As `malloc`.
pub fn malloc(len: usize) -> *mut c_void {
    // SAFETY: any length may be asked for; as in the next ones.
    unsafe { __libc_malloc(len) }
}

/// As `calloc`.
pub fn calloc(count: usize, len: usize) -> *mut c_void {
    // SAFETY: see above.
    unsafe { __libc_calloc(count, len) }
}

/// As `memalign`.
pub fn memalign(alignment: usize, len: usize) -> *mut c_void {
    // SAFETY: see above.
    unsafe { __libc_memalign(alignment, len) }
}

/// As `realloc`.
///
/// # Safety
/// `memory` is the C library's.
pub unsafe fn realloc(memory: *mut c_void, len: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { __libc_realloc(memory, len) }
}

/// As `free`.
///
/// # Safety
/// `memory` is the C library's.
pub unsafe fn free(memory: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { __libc_free(memory) }
}

struct Own;

#[global_allocator]
static OWN: Own = Own;

// SAFETY: the C library's allocator, by its names that nobody stands in front of.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let plain = layout.align() <= 16;
        if plain { malloc(layout.size()).cast() } else { memalign(layout.align(), layout.size()).cast() }
    }

    unsafe fn dealloc(&self, memory: *mut u8, _: Layout) {
        // SAFETY: `alloc` gave it.
        unsafe { free(memory.cast()) }
    }
}
