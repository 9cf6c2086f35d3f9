//! What the compiler's pass calls before each store. Loads are nobody's business.

use std::ffi::{c_int, c_void};

use crate::local::announce;
use crate::window;

/// A store of a fixed number of bytes.
macro_rules! stores {
    ($($name:ident: $bytes:literal;)*) => { $(
        /// Before a store.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(address: *mut c_void) {
            if window::contains(address as usize) {
                announce(address as usize, $bytes);
            }
        }
    )* };
}

stores! {
    __tsan_write1: 1; __tsan_write2: 2; __tsan_write4: 4; __tsan_write8: 8; __tsan_write16: 16;
    __tsan_unaligned_write1: 1; __tsan_unaligned_write2: 2; __tsan_unaligned_write4: 4;
    __tsan_unaligned_write8: 8; __tsan_unaligned_write16: 16;
    __tsan_volatile_write1: 1; __tsan_volatile_write2: 2; __tsan_volatile_write4: 4;
    __tsan_volatile_write8: 8; __tsan_volatile_write16: 16;
    __tsan_unaligned_volatile_write1: 1; __tsan_unaligned_volatile_write2: 2;
    __tsan_unaligned_volatile_write4: 4; __tsan_unaligned_volatile_write8: 8;
    __tsan_unaligned_volatile_write16: 16;
    __tsan_read_write1: 1; __tsan_read_write2: 2; __tsan_read_write4: 4; __tsan_read_write8: 8;
    __tsan_read_write16: 16;
    __tsan_unaligned_read_write1: 1; __tsan_unaligned_read_write2: 2; __tsan_unaligned_read_write4: 4;
    __tsan_unaligned_read_write8: 8; __tsan_unaligned_read_write16: 16;
}

/// What needs nothing done.
macro_rules! nothing {
    ($($name:ident;)*) => { $(
        /// Nothing.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() {}
    )* };
}

nothing! {
    __tsan_init; __tsan_func_entry; __tsan_func_exit; __tsan_vptr_read; __tsan_ignore_thread_begin;
    __tsan_ignore_thread_end; __tsan_read_range;
    __tsan_read1; __tsan_read2; __tsan_read4; __tsan_read8; __tsan_read16;
    __tsan_unaligned_read1; __tsan_unaligned_read2; __tsan_unaligned_read4; __tsan_unaligned_read8;
    __tsan_unaligned_read16;
    __tsan_volatile_read1; __tsan_volatile_read2; __tsan_volatile_read4; __tsan_volatile_read8;
    __tsan_volatile_read16;
    __tsan_unaligned_volatile_read1; __tsan_unaligned_volatile_read2; __tsan_unaligned_volatile_read4;
    __tsan_unaligned_volatile_read8; __tsan_unaligned_volatile_read16;
}

/// Before a store of any number of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_write_range(address: *mut c_void, bytes: usize) {
    if window::contains(address as usize) {
        announce(address as usize, bytes);
    }
}

/// Before a constructor or destructor sets the pointer to a class's functions.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_vptr_update(address: *mut c_void, _value: *mut c_void) {
    __tsan_write8(address);
}

/// clang's names for memory functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_memcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    // SAFETY: the caller's arguments.
    unsafe { crate::strings::strandline_memcpy(to, from, bytes) }
}

/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_memmove(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    // SAFETY: the caller's arguments.
    unsafe { crate::strings::strandline_memmove(to, from, bytes) }
}

/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_memset(to: *mut c_void, byte: c_int, bytes: usize) -> *mut c_void {
    // SAFETY: the caller's arguments.
    unsafe { crate::strings::strandline_memset(to, byte, bytes) }
}
