//! The functions that ours stand in front of.

use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::base::sys;
use crate::state::local::local;

/// Address of the next definition of `name` after this library's; 0 if there is none.
pub fn next(name: &CStr) -> usize {
    // What is not found makes the linker allocate, by our own hooks.
    let caller = local().caller.get();
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) as usize };
    local().caller.set(caller);
    found
}

/// As [`next`], looked up once per `cache`. Without the function the program can't go on.
#[inline]
pub fn required(cache: &AtomicUsize, name: &CStr) -> usize {
    let found = cache.load(Ordering::Relaxed);
    if found != 0 { found } else { look_up(cache, name) }
}

#[cold]
fn look_up(cache: &AtomicUsize, name: &CStr) -> usize {
    let found = next(name);
    if found == 0 {
        sys::complain(&[b"strandline: the C library has no function ", name.to_bytes(), b"\n"]);
        sys::abort();
    }
    cache.store(found, Ordering::Relaxed);
    found
}

/// The next definition of a function, as a function of the given type.
macro_rules! real {
    ($name:literal as fn($($arg:ty),* $(,)?) $(-> $result:ty)?) => {{
        static CACHE: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
        let found = $crate::real::next::required(&CACHE, $name);
        // SAFETY: the C library's function of that name has that type.
        unsafe { core::mem::transmute::<usize, unsafe extern "C" fn($($arg),*) $(-> $result)?>(found) }
    }};
}
pub(crate) use real;
