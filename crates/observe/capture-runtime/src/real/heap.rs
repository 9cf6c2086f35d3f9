//! The heap that the program would have without us: the next definition of each function after this
//! library's.
//!
//! Mostly that is the C library's. But a program may be linked against another allocator, and only that one
//! can take back, resize or measure what it gave.
//!
//! All are looked up together, at the first allocation: the dynamic linker makes that one when everything is
//! loaded and there is one thread. Later, looking up might wait for a lock of the dynamic linker's.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::real::next::next;

unsafe extern "C" {
    fn __libc_malloc(len: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, len: usize) -> *mut c_void;
    fn __libc_realloc(old: *mut c_void, len: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, len: usize) -> *mut c_void;
    fn __libc_valloc(len: usize) -> *mut c_void;
    fn __libc_pvalloc(len: usize) -> *mut c_void;
    fn __libc_free(memory: *mut c_void);
}

/// Until the next one is known.
unsafe extern "C" fn no_posix_memalign(_: *mut *mut c_void, _: usize, _: usize) -> c_int {
    libc::ENOMEM
}

/// Until the next one is known.
unsafe extern "C" fn no_usable_size(_: *mut c_void) -> usize {
    0
}

static LOOKED_UP: AtomicBool = AtomicBool::new(false);

/// A function: the C library's, and the next one as soon as that is known.
struct Function(AtomicPtr<()>);

impl Function {
    fn look_up(&self, name: &CStr) {
        let found = next(name);
        if found != 0 {
            self.0.store(found as *mut (), Ordering::Relaxed);
        }
    }

    #[inline]
    fn address(&self) -> *mut () {
        if !LOOKED_UP.load(Ordering::Relaxed) {
            look_up();
        }
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! functions {
    ($($name:ident = $text:literal or $early:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        mod known {
            use super::*;
            $(
                #[allow(non_upper_case_globals, reason = "named as the function that it stands for")]
                pub static $name: Function = Function(AtomicPtr::new($early as *const () as *mut ()));
            )*
        }

        #[cold]
        fn look_up() {
            // First, because looking up may itself allocate.
            LOOKED_UP.store(true, Ordering::Relaxed);
            $(known::$name.look_up($text);)*
        }

        $(
            /// The function of that name.
            ///
            /// # Safety
            /// As C's.
            #[inline]
            pub unsafe fn $name($($arg: $type),*) $(-> $result)? {
                let address = known::$name.address();
                // SAFETY: every function of that name has that type; the arguments are the caller's.
                unsafe {
                    core::mem::transmute::<*mut (), unsafe extern "C" fn($($type),*) $(-> $result)?>(address)($($arg),*)
                }
            }
        )*
    };
}

functions! {
    malloc = c"malloc" or __libc_malloc(len: usize) -> *mut c_void;
    calloc = c"calloc" or __libc_calloc(count: usize, len: usize) -> *mut c_void;
    realloc = c"realloc" or __libc_realloc(old: *mut c_void, len: usize) -> *mut c_void;
    free = c"free" or __libc_free(memory: *mut c_void);
    aligned_alloc = c"aligned_alloc" or __libc_memalign(alignment: usize, len: usize) -> *mut c_void;
    memalign = c"memalign" or __libc_memalign(alignment: usize, len: usize) -> *mut c_void;
    valloc = c"valloc" or __libc_valloc(len: usize) -> *mut c_void;
    pvalloc = c"pvalloc" or __libc_pvalloc(len: usize) -> *mut c_void;
    malloc_usable_size = c"malloc_usable_size" or no_usable_size(memory: *mut c_void) -> usize;
    posix_memalign = c"posix_memalign" or no_posix_memalign(place: *mut *mut c_void, alignment: usize, len: usize) -> c_int;
}
