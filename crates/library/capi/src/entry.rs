//! The way in: what C calls, and how it learns of errors.

use std::any::Any;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{self, Code, Failure};
use observed::SyncFailed;

/// Runs a call of the program that returns to `site`. On an error, or a panic, that is noted, and `failed` is
/// the result.
#[inline]
pub(crate) fn call<R>(site: u64, failed: R, work: impl FnOnce() -> Result<R, Failure>) -> R {
    run(site, work).unwrap_or(failed)
}

/// As [`call`], for results that are 0 or the error's number.
#[inline]
pub(crate) fn call_status(site: u64, work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match run(site, work) {
        Ok(()) => 0,
        Err(code) => code as c_int,
    }
}

/// As [`call`], for numbers none of which is an error's: the caller makes one of both.
#[inline]
pub(crate) fn run<R>(site: u64, work: impl FnOnce() -> Result<R, Failure>) -> Result<R, Code> {
    observed::called_from(site);
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(result)) => return Ok(result),
        Ok(Err(failure)) => failure,
        Err(panic) => of_panic(&*panic),
    };
    error::note(&failure);
    Err(failure.code)
}

#[cold]
fn of_panic(panic: &(dyn Any + Send)) -> Failure {
    if let Some(SyncFailed(error)) = panic.downcast_ref() {
        return Failure::new(Code::Sync, error.to_string());
    }
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic");
    Failure::new(Code::Internal, text)
}

/// The register of the argument that follows these.
#[cfg(target_arch = "x86_64")]
macro_rules! next_register {
    () => {
        "rdi"
    };
    ($a:ident) => {
        "rsi"
    };
    ($a:ident $b:ident) => {
        "rdx"
    };
    ($a:ident $b:ident $c:ident) => {
        "rcx"
    };
    ($a:ident $b:ident $c:ident $d:ident) => {
        "r8"
    };
    ($a:ident $b:ident $c:ident $d:ident $e:ident) => {
        "r9"
    };
}

/// As on x86-64.
#[cfg(target_arch = "aarch64")]
macro_rules! next_register {
    () => {
        "x0"
    };
    ($a:ident) => {
        "x1"
    };
    ($a:ident $b:ident) => {
        "x2"
    };
    ($a:ident $b:ident $c:ident) => {
        "x3"
    };
    ($a:ident $b:ident $c:ident $d:ident) => {
        "x4"
    };
    ($a:ident $b:ident $c:ident $d:ident $e:ident) => {
        "x5"
    };
}

/// Defines what C calls, with at most five arguments.
///
/// Each has an entry, which puts its return address, the place in the program that called, behind the
/// arguments, and jumps to the body.
macro_rules! entries {
    ($($function:tt)*) => { $crate::entry::entries_with! { site_of_caller; $($function)* } };
}

/// As [`entries`], for what the library does for itself: the entry puts an address of its own behind the arguments, so that accesses are
/// reported as the library's and not as those of the program's line.
macro_rules! own_entries {
    ($($function:tt)*) => { $crate::entry::entries_with! { site_of_itself; $($function)* } };
}

/// Both.
macro_rules! entries_with {
    ($enter:ident; $($(#[$about:meta])* fn $name:ident($($arg:ident: $type:ty),*; $site:ident) -> $result:ty $body:block)*) => {
        $crate::entry::entries_with! { @each $enter; $($(#[$about])* $name ($($arg: $type),*) $site ($result) $body)* }
    };
    (@each $enter:ident; ) => {};
    (@each $enter:ident; $(#[$about:meta])* $name:ident ($($arg:ident: $type:ty),*) $site:ident ($result:ty) $body:block $($rest:tt)*) => {
        const _: () = {
            extern "C" fn body($($arg: $type,)* $site: u64) -> $result $body

            $(#[$about])*
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> $result {
                $crate::entry::$enter!(body, $crate::entry::next_register!($($arg)*))
            }
        };
        $crate::entry::entries_with! { @each $enter; $($rest)* }
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! site_of_caller {
    ($body:ident, $register:expr) => {
        core::arch::naked_asm!(concat!("mov ", $register, ", qword ptr [rsp]"), "jmp {body}", body = sym $body)
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! site_of_itself {
    ($body:ident, $register:expr) => {
        core::arch::naked_asm!(concat!("lea ", $register, ", [rip]"), "jmp {body}", body = sym $body)
    };
}

/// As on x86-64.
#[cfg(target_arch = "aarch64")]
macro_rules! site_of_caller {
    ($body:ident, $register:expr) => {
        core::arch::naked_asm!(concat!("mov ", $register, ", x30"), "b {body}", body = sym $body)
    };
}

/// As on x86-64.
#[cfg(target_arch = "aarch64")]
macro_rules! site_of_itself {
    ($body:ident, $register:expr) => {
        core::arch::naked_asm!(concat!("adr ", $register, ", . + 4"), "b {body}", body = sym $body)
    };
}
pub(crate) use {entries, entries_with, next_register, own_entries, site_of_caller, site_of_itself};
