//! The functions that ours stand in front of.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The next definition of a function after this library's, looked up once per `cache`. Without it the program
/// can't go on.
#[inline]
pub fn required(cache: &AtomicUsize, name: &CStr) -> usize {
    let found = cache.load(Ordering::Relaxed);
    if found != 0 { found } else { look_up(cache, name) }
}

#[cold]
fn look_up(cache: &AtomicUsize, name: &CStr) -> usize {
    // SAFETY: the name is a C string.
    let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
    if found == 0 && name.to_bytes().starts_with(b"__atomic_") {
        // A linker leaves that library out if this one has all that is asked of it.
        // SAFETY: both names are C strings.
        found = unsafe {
            let library = libc::dlopen(c"libatomic.so.1".as_ptr(), libc::RTLD_NOW);
            if library.is_null() { 0 } else { libc::dlsym(library, name.as_ptr()) as usize }
        };
    }
    if found == 0 {
        crate::failure::end(&format!("the C library has no function {}", name.to_string_lossy()));
    }
    cache.store(found, Ordering::Relaxed);
    found
}

/// The next definition of a function, as a function of the given type.
macro_rules! real {
    ($name:expr, fn($($arg:ty),* $(,)?) $(-> $result:ty)?) => {{
        static CACHE: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let found = $crate::real::required(&CACHE, $name);
        // SAFETY: the C library's function of that name has that type.
        unsafe { std::mem::transmute::<usize, unsafe extern "C-unwind" fn($($arg),*) $(-> $result)?>(found) }
    }};
}
pub(crate) use real;
