//! Functions on bytes as the program would call them without us: its own definition if it has one, or the C
//! library's. Under their plain names this library has its own (`base/own_bytes.rs`).

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::base::sys;

/// Address of the program's first definition of `name`.
#[cold]
fn look_up(cache: &AtomicUsize, name: &CStr) -> usize {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize };
    if found == 0 {
        sys::complain(&[b"strandline: the C library has no function ", name.to_bytes(), b"\n"]);
        sys::abort();
    }
    cache.store(found, Ordering::Relaxed);
    found
}

macro_rules! functions {
    ($($name:ident = $text:literal ($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        mod known {
            $(
                #[allow(non_upper_case_globals, reason = "named as the function that it stands for")]
                pub static $name: super::AtomicUsize = super::AtomicUsize::new(0);
            )*
        }

        /// Looks all of them up. Called once, from the library's constructor.
        pub fn prepare() {
            $(look_up(&known::$name, $text);)*
        }

        $(
            /// The function of that name.
            ///
            /// # Safety
            /// As C's.
            #[inline]
            pub unsafe fn $name($($arg: $type),*) -> $result {
                let known = known::$name.load(Ordering::Relaxed);
                let found = if known != 0 { known } else { look_up(&known::$name, $text) };
                // SAFETY: every function of that name has that type; the arguments are the caller's.
                unsafe {
                    let function: unsafe extern "C" fn($($type),*) -> $result = core::mem::transmute(found);
                    function($($arg),*)
                }
            }
        )*
    };
}

functions! {
    memcpy = c"memcpy" (to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void;
    memmove = c"memmove" (to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void;
    memset = c"memset" (to: *mut c_void, byte: c_int, len: usize) -> *mut c_void;
    memcmp = c"memcmp" (a: *const c_void, b: *const c_void, len: usize) -> c_int;
    strlen = c"strlen" (text: *const c_char) -> usize;
}
