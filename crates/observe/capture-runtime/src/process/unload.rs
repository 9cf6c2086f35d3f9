//! Code that is unloaded.

use core::ffi::{c_int, c_void};

use libc::{RTLD_DI_LINKMAP, RTLD_LAZY, RTLD_NODELETE, RTLD_NOLOAD};

use crate::base::session::session;
use crate::real::next::real;

/// Interposed: the library is closed but stays mapped, because block descriptors in it are still referred to,
/// and so that no code address ever means two things.
#[unsafe(no_mangle)]
pub extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    if session().is_some() {
        keep_mapped(handle);
    }
    let real = real!(c"dlclose" as fn(*mut c_void) -> c_int);
    // SAFETY: the caller's argument.
    unsafe { real(handle) }
}

fn keep_mapped(handle: *mut c_void) {
    let close = real!(c"dlclose" as fn(*mut c_void) -> c_int);
    let mut library: *const LinkMap = core::ptr::null();
    // SAFETY: asks for the library's record; a wrong handle is an error. The name is a C string.
    unsafe {
        if libc::dlinfo(handle, RTLD_DI_LINKMAP, (&raw mut library).cast()) == 0 && !library.is_null() {
            let again = libc::dlopen((*library).name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
            if !again.is_null() {
                close(again);
            }
        }
    }
}

/// The part of the dynamic linker's record of a library that is public.
#[repr(C)]
struct LinkMap {
    bias: usize,
    name: *const core::ffi::c_char,
}
