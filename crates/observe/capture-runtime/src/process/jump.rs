//! Jumps out of signal handlers.
//!
//! A handler that is left by a jump never comes back to the code that put the thread's stream aside. Whether
//! one is left is known where the jump arrives: the next record looks for itself, if it has to ask for room
//! (`signal::left_by_jump`).

use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicUsize;

use crate::real::next::required;
use crate::state::local::local;

/// Looks the C library's functions up, which a signal handler may not. Called once, from the library's
/// constructor.
pub fn prepare() {
    for (cache, name) in [
        (&LONGJMP, c"longjmp"),
        (&UNDERSCORE_LONGJMP, c"_longjmp"),
        (&SIGLONGJMP, c"siglongjmp"),
        (&LONGJMP_CHECKED, c"__longjmp_chk"),
    ] {
        required(cache, name);
    }
}

static LONGJMP: AtomicUsize = AtomicUsize::new(0);
static UNDERSCORE_LONGJMP: AtomicUsize = AtomicUsize::new(0);
static SIGLONGJMP: AtomicUsize = AtomicUsize::new(0);
static LONGJMP_CHECKED: AtomicUsize = AtomicUsize::new(0);

macro_rules! jumps {
    ($($name:ident $cache:ident $real:literal;)*) => { $(
        /// Interposed.
        ///
        /// # Safety
        /// As C's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(place: *mut c_void, value: c_int) -> ! {
            let local = local();
            if local.handlers.get() != 0 {
                local.stream.ask_again();
            }
            let real = required(&$cache, $real);
            // SAFETY: the C library's function of that name, which has that type, with the caller's
            // arguments.
            unsafe {
                core::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void, c_int) -> !>(real)(place, value)
            }
        }
    )* };
}

jumps! {
    longjmp LONGJMP c"longjmp";
    _longjmp UNDERSCORE_LONGJMP c"_longjmp";
    siglongjmp SIGLONGJMP c"siglongjmp";
    __longjmp_chk LONGJMP_CHECKED c"__longjmp_chk";
}
