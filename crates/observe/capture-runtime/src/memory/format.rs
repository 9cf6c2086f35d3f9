//! `sprintf` and its relatives, as instrumented code calls them: the text that they made is recorded as their
//! caller's store.
//!
//! What they read is not recorded. Those with any number of arguments gather them as a `va_list` and call the
//! function that takes one.

use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_void};

use crate::memory::access::{about_to_store, stored};
use crate::state::local::{CALLER, caller, hooks};
use abi::access::STORE;

type Arguments = *mut c_void;

unsafe extern "C" {
    fn vsprintf(to: *mut c_char, format: *const c_char, arguments: Arguments) -> c_int;
    fn vsnprintf(to: *mut c_char, room: usize, format: *const c_char, arguments: Arguments) -> c_int;
    fn __vsprintf_chk(
        to: *mut c_char,
        strict: c_int,
        size: usize,
        format: *const c_char,
        arguments: Arguments,
    ) -> c_int;
    fn __vsnprintf_chk(
        to: *mut c_char,
        room: usize,
        strict: c_int,
        size: usize,
        format: *const c_char,
        arguments: Arguments,
    ) -> c_int;
}

/// Formats by `print`, which gives the text's length, into at most `room` bytes.
fn formatted(to: *mut c_char, room: usize, print: impl FnOnce() -> c_int) -> c_int {
    let pc = caller();
    about_to_store();
    let len = print();
    if let Ok(bytes) = usize::try_from(len) {
        stored(STORE, pc, to as u64, (bytes + 1).min(room) as u64);
    }
    len
}

extern "C" fn print(to: *mut c_char, format: *const c_char, arguments: Arguments) -> c_int {
    // SAFETY: the caller's arguments.
    formatted(to, usize::MAX, || unsafe { vsprintf(to, format, arguments) })
}

extern "C" fn print_within(
    to: *mut c_char,
    room: usize,
    format: *const c_char,
    arguments: Arguments,
) -> c_int {
    // SAFETY: the caller's arguments.
    formatted(to, room, || unsafe { vsnprintf(to, room, format, arguments) })
}

extern "C" fn print_checked(
    to: *mut c_char,
    strict: c_int,
    size: usize,
    format: *const c_char,
    arguments: Arguments,
) -> c_int {
    // SAFETY: the caller's arguments.
    formatted(to, usize::MAX, || unsafe { __vsprintf_chk(to, strict, size, format, arguments) })
}

extern "C" fn print_within_checked(
    to: *mut c_char,
    room: usize,
    strict: c_int,
    size: usize,
    format: *const c_char,
    arguments: Arguments,
) -> c_int {
    // SAFETY: the caller's arguments.
    formatted(to, room, || unsafe { __vsnprintf_chk(to, room, strict, size, format, arguments) })
}

hooks! {
    fn strandline_vsprintf(to: *mut c_char, format: *const c_char, arguments: Arguments) -> c_int {
        print(to, format, arguments)
    }
    fn strandline_vsnprintf(to: *mut c_char, room: usize, format: *const c_char, arguments: Arguments) -> c_int {
        print_within(to, room, format, arguments)
    }
    fn strandline___vsprintf_chk(
        to: *mut c_char,
        strict: c_int,
        size: usize,
        format: *const c_char,
        arguments: Arguments,
    ) -> c_int {
        print_checked(to, strict, size, format, arguments)
    }
    fn strandline___vsnprintf_chk(
        to: *mut c_char,
        room: usize,
        strict: c_int,
        size: usize,
        format: *const c_char,
        arguments: Arguments,
    ) -> c_int {
        print_within_checked(to, room, strict, size, format, arguments)
    }
}

/// Entries of functions with `$named` named arguments and any number of others. The list is a `va_list`'s
/// element: bytes used of the registers' values, where those on the stack are, where the registers' are; it
/// goes in the register behind the named ones.
macro_rules! gathering {
    ($($name:ident, $named:literal, $register:literal, $print:ident;)*) => { $(
        /// Entry of the function of the same name.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "mov r11, qword ptr [rip + strandline_tls@GOTTPOFF]",
                "mov r10, qword ptr [rsp]",
                "mov qword ptr fs:[r11 + {caller}], r10",
                "sub rsp, 216",
                "mov qword ptr [rsp + 32], rdi",
                "mov qword ptr [rsp + 40], rsi",
                "mov qword ptr [rsp + 48], rdx",
                "mov qword ptr [rsp + 56], rcx",
                "mov qword ptr [rsp + 64], r8",
                "mov qword ptr [rsp + 72], r9",
                "test al, al",
                "je 2f",
                "movaps xmmword ptr [rsp + 80], xmm0",
                "movaps xmmword ptr [rsp + 96], xmm1",
                "movaps xmmword ptr [rsp + 112], xmm2",
                "movaps xmmword ptr [rsp + 128], xmm3",
                "movaps xmmword ptr [rsp + 144], xmm4",
                "movaps xmmword ptr [rsp + 160], xmm5",
                "movaps xmmword ptr [rsp + 176], xmm6",
                "movaps xmmword ptr [rsp + 192], xmm7",
                "2:",
                "mov dword ptr [rsp], 8 * {named}",
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 224]",
                "mov qword ptr [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov qword ptr [rsp + 16], rax",
                concat!("mov ", $register, ", rsp"),
                "call {print}",
                "add rsp, 216",
                "ret",
                caller = const CALLER,
                named = const $named,
                print = sym $print,
            );
        }
    )* };
}

gathering! {
    strandline_sprintf, 2, "rdx", print;
    strandline_snprintf, 3, "rcx", print_within;
    strandline___sprintf_chk, 4, "r8", print_checked;
    strandline___snprintf_chk, 5, "r9", print_within_checked;
}
