//! Wide characters. Our streams ([`super::streams`]) take none, so a program that writes some to a watched
//! file does not do what it does without us: that is said.

#[cfg(target_arch = "x86_64")]
use core::arch::naked_asm;
use core::ffi::{CStr, c_int};
#[cfg(target_arch = "x86_64")]
use core::sync::atomic::AtomicUsize;

use libc::FILE;

use super::contents::result;
use super::named::{Path, complain_of};
use super::streams::descriptor;
use crate::real::next::real;
#[cfg(target_arch = "x86_64")]
use crate::real::next::required;
use crate::state::local::{caller, hooks};

/// Says so if it is a stream of ours; whether it is.
fn meant_for(pc: u64, call: &[u8], file: *mut FILE) -> bool {
    let Some(fd) = descriptor(file) else { return false };
    if let Some(path) = Path::of(fd) {
        complain_of(pc, call, path.bytes());
    }
    true
}

/// Puts a wide character; in a stream of ours, where the C library has no room for one, an error.
fn put(
    call: &'static CStr,
    letter: c_int,
    file: *mut FILE,
    real: impl FnOnce(c_int, *mut FILE) -> c_int,
) -> c_int {
    if meant_for(caller(), call.to_bytes(), file) {
        result(-(libc::EILSEQ as isize)) as c_int
    } else {
        real(letter, file)
    }
}

hooks! {
    fn fwide(file: *mut FILE, mode: c_int) -> c_int {
        if mode > 0 {
            meant_for(caller(), b"fwide", file);
        }
        let real = real!(c"fwide" as fn(*mut FILE, c_int) -> c_int);
        // SAFETY: the program's arguments.
        unsafe { real(file, mode) }
    }
    fn fputws(text: *const c_int, file: *mut FILE) -> c_int {
        meant_for(caller(), b"fputws", file);
        let real = real!(c"fputws" as fn(*const c_int, *mut FILE) -> c_int);
        // SAFETY: the program's arguments.
        unsafe { real(text, file) }
    }
    fn fputwc(letter: c_int, file: *mut FILE) -> c_int {
        let real = real!(c"fputwc" as fn(c_int, *mut FILE) -> c_int);
        // SAFETY: the program's arguments.
        put(c"fputwc", letter, file, |letter, file| unsafe { real(letter, file) })
    }
    fn putwc(letter: c_int, file: *mut FILE) -> c_int {
        let real = real!(c"putwc" as fn(c_int, *mut FILE) -> c_int);
        // SAFETY: the program's arguments.
        put(c"putwc", letter, file, |letter, file| unsafe { real(letter, file) })
    }
}

/// A function of the C library that we pass on to.
#[cfg(target_arch = "x86_64")]
#[repr(C)]
struct Passed {
    /// First: the entries read it.
    address: AtomicUsize,
    name: &'static CStr,
}

#[cfg(target_arch = "x86_64")]
extern "C" fn announced(passed: &Passed, file: *mut FILE, saved: &[u64; 4]) {
    required(&passed.address, passed.name);
    // Behind what the entry saved is where the call returns to.
    meant_for(saved[3], passed.name.to_bytes(), file);
}

/// Entries of functions with any number of arguments, of which the first is the stream.
#[cfg(target_arch = "x86_64")]
macro_rules! printing {
    ($($name:ident = $text:literal;)*) => { $(
        /// Entry of the function of the same name.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            #[allow(non_upper_case_globals, reason = "named as the function that it stands for")]
            static passed: Passed = Passed { address: AtomicUsize::new(0), name: $text };
            naked_asm!(
                "push rax",
                "push rcx",
                "push rdx",
                "mov rdx, rsp",
                "lea rax, [rip + {passed}]",
                "lea rcx, [rip + {announced}]",
                "call {save}",
                "pop rdx",
                "pop rcx",
                "pop rax",
                "jmp qword ptr [rip + {passed}]",
                passed = sym passed,
                announced = sym announced,
                save = sym crate::memory::instructions::slow,
            );
        }
    )* };
}

#[cfg(target_arch = "x86_64")]
printing! {
    fwprintf = c"fwprintf";
    vfwprintf = c"vfwprintf";
    __fwprintf_chk = c"__fwprintf_chk";
    __vfwprintf_chk = c"__vfwprintf_chk";
}
