//! `sprintf` and its relatives, as the program's code calls them.
//!
//! How much they write is known once they have done it: first into nothing. Those with any number of
//! arguments gather them as a `va_list` and call the function that takes one.

use std::arch::naked_asm;
use std::ffi::{c_char, c_int, c_void};

use crate::arguments::List;
use crate::local::announce;
use crate::scan::{scan_input, scan_stream, scan_text};
use crate::window;

type Arguments = *mut List;

unsafe extern "C" {
    fn vprintf(format: *const c_char, arguments: Arguments) -> c_int;
    fn vfprintf(stream: *mut c_void, format: *const c_char, arguments: Arguments) -> c_int;
    fn vdprintf(fd: c_int, format: *const c_char, arguments: Arguments) -> c_int;
    fn vsnprintf(to: *mut c_char, room: usize, format: *const c_char, arguments: Arguments) -> c_int;
}

extern "C" fn print_out(format: *const c_char, arguments: Arguments) -> c_int {
    crate::calls::sends();
    // SAFETY: the caller's arguments.
    unsafe { vprintf(format, arguments) }
}

extern "C" fn print_to(stream: *mut c_void, format: *const c_char, arguments: Arguments) -> c_int {
    crate::calls::sends();
    // SAFETY: the caller's arguments.
    unsafe { vfprintf(stream, format, arguments) }
}

extern "C" fn print_to_file(fd: c_int, format: *const c_char, arguments: Arguments) -> c_int {
    crate::calls::sends();
    // SAFETY: the caller's arguments.
    unsafe { vdprintf(fd, format, arguments) }
}

extern "C" fn print_within(
    to: *mut c_char,
    room: usize,
    format: *const c_char,
    arguments: Arguments,
) -> c_int {
    if window::contains(to as usize) {
        // SAFETY: the caller's; a copy, because reading takes from it.
        let mut copy = unsafe { *arguments };
        // SAFETY: writes nothing; else the caller's arguments.
        let len = unsafe { vsnprintf(std::ptr::null_mut(), 0, format, &mut copy) };
        if let Ok(len) = usize::try_from(len) {
            announce(to as usize, (len + 1).min(room));
        }
    }
    // SAFETY: the caller's arguments.
    unsafe { vsnprintf(to, room, format, arguments) }
}

extern "C" fn print(to: *mut c_char, format: *const c_char, arguments: Arguments) -> c_int {
    // The most that the C library takes for a size of its own.
    print_within(to, i32::MAX as usize, format, arguments)
}

extern "C" fn print_checked(
    to: *mut c_char,
    _strict: c_int,
    size: usize,
    format: *const c_char,
    arguments: Arguments,
) -> c_int {
    print_within(to, size.min(i32::MAX as usize), format, arguments)
}

extern "C" fn print_within_checked(
    to: *mut c_char,
    room: usize,
    _strict: c_int,
    _size: usize,
    format: *const c_char,
    arguments: Arguments,
) -> c_int {
    print_within(to, room, format, arguments)
}

/// As `vsprintf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_vsprintf(
    to: *mut c_char,
    format: *const c_char,
    arguments: Arguments,
) -> c_int {
    print(to, format, arguments)
}

/// As `vsnprintf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_vsnprintf(
    to: *mut c_char,
    room: usize,
    format: *const c_char,
    arguments: Arguments,
) -> c_int {
    print_within(to, room, format, arguments)
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
                named = const $named,
                print = sym $print,
            );
        }
    )* };
}

gathering! {
    sscanf, 2, "rdx", scan_text;
    __isoc99_sscanf, 2, "rdx", scan_text;
    __isoc23_sscanf, 2, "rdx", scan_text;
    fscanf, 2, "rdx", scan_stream;
    __isoc99_fscanf, 2, "rdx", scan_stream;
    __isoc23_fscanf, 2, "rdx", scan_stream;
    scanf, 1, "rsi", scan_input;
    __isoc99_scanf, 1, "rsi", scan_input;
    __isoc23_scanf, 1, "rsi", scan_input;
    printf, 1, "rsi", print_out;
    fprintf, 2, "rdx", print_to;
    dprintf, 2, "rdx", print_to_file;
    strandline_sprintf, 2, "rdx", print;
    strandline_snprintf, 3, "rcx", print_within;
    strandline___sprintf_chk, 4, "r8", print_checked;
    strandline___snprintf_chk, 5, "r9", print_within_checked;
}
