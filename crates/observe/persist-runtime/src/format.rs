//! `sprintf` and its relatives, as the program's code calls them.
//!
//! How much they write is known once they have done it: first into nothing, and wide characters elsewhere.
//! Those with any number of arguments gather them as a `va_list` and call the function that takes one. What a
//! program compiled with `_FORTIFY_SOURCE` calls goes on to the functions that check.

use std::arch::naked_asm;
use std::ffi::{c_char, c_int, c_void};

use libc::wchar_t;

use crate::arguments::List;
use crate::calls::sends;
use crate::counts::{Character, MOST, counts};
use crate::local::writing;
use crate::real::real;
use crate::scan::{Scratch, scan_input, scan_stream, scan_text};
use crate::sync::call;
use crate::window;

type Arguments = *mut List;
type Text = *mut c_char;
type Stream = *mut c_void;
type Format = *const c_char;
type WideFormat = *const wchar_t;

/// Does what writes counts where the arguments say.
fn counting<C: Character>(format: *const C, arguments: Arguments, call: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's.
    let places = unsafe { counts(format, arguments) };
    writing(&places, call)
}

macro_rules! prints {
    ($($name:ident $print:ident($($arg:ident: $type:ty),*) as $character:ty;)*) => { $(
        extern "C-unwind" fn $print($($arg: $type,)* arguments: Arguments) -> c_int {
            sends();
            prints!(@format format, $($arg)*);
            counting(format.cast::<$character>(), arguments, || {
                call!($name($($arg: $type,)* arguments: Arguments) -> c_int)
            })
        }

        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type,)* arguments: Arguments) -> c_int {
            $print($($arg,)* arguments)
        }
    )* };
    (@format $to:ident, $format:ident) => { let $to = $format; };
    (@format $to:ident, $first:ident $($rest:ident)+) => { prints!(@format $to, $($rest)+) };
}

// The format comes last.
prints! {
    vprintf print_out(format: Format) as u8;
    vfprintf print_to(stream: Stream, format: Format) as u8;
    vdprintf print_to_file(fd: c_int, format: Format) as u8;
    vsyslog print_to_log(priority: c_int, format: Format) as u8;
    __vprintf_chk print_out_checked(strict: c_int, format: Format) as u8;
    __vfprintf_chk print_to_checked(stream: Stream, strict: c_int, format: Format) as u8;
    __vdprintf_chk print_to_file_checked(fd: c_int, strict: c_int, format: Format) as u8;
    __vsyslog_chk print_to_log_checked(priority: c_int, strict: c_int, format: Format) as u8;
    vwprintf print_wide_out(format: WideFormat) as wchar_t;
    vfwprintf print_wide_to(stream: Stream, format: WideFormat) as wchar_t;
    __vwprintf_chk print_wide_out_checked(strict: c_int, format: WideFormat) as wchar_t;
    __vfwprintf_chk print_wide_to_checked(stream: Stream, strict: c_int, format: WideFormat) as wchar_t;
}

/// Prints into a text of so many bytes by `print`.
fn into(to: Text, room: usize, format: Format, arguments: Arguments, print: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's.
    let counts: [(usize, usize); MOST] = unsafe { counts(format.cast::<u8>(), arguments) };
    let mut places = [(0, 0); MOST + 1];
    places[1..].copy_from_slice(&counts);
    if window::contains(to as usize) && room > 0 {
        // SAFETY: the caller's; a copy, because reading takes from it.
        let mut copy = unsafe { *arguments };
        let nowhere = std::ptr::null_mut();
        let real = real!(c"vsnprintf", fn(Text, usize, Format, Arguments) -> c_int);
        // SAFETY: writes nothing but counts; else the caller's arguments.
        let len = writing(&counts, || unsafe { real(nowhere, 0, format, &mut copy) });
        places[0] = (to as usize, usize::try_from(len).map_or(0, |len| (len + 1).min(room)));
    }
    writing(&places, print)
}

extern "C-unwind" fn print_within(to: Text, room: usize, format: Format, arguments: Arguments) -> c_int {
    into(
        to,
        room,
        format,
        arguments,
        || call!(vsnprintf(to: Text, room: usize, format: Format, arguments: Arguments) -> c_int),
    )
}

extern "C-unwind" fn print(to: Text, format: Format, arguments: Arguments) -> c_int {
    into(
        to,
        usize::MAX,
        format,
        arguments,
        || call!(vsprintf(to: Text, format: Format, arguments: Arguments) -> c_int),
    )
}

extern "C-unwind" fn print_checked(
    to: Text,
    strict: c_int,
    size: usize,
    format: Format,
    arguments: Arguments,
) -> c_int {
    into(to, size, format, arguments, || {
        call!(__vsprintf_chk(
            to: Text, strict: c_int, size: usize, format: Format, arguments: Arguments
        ) -> c_int)
    })
}

extern "C-unwind" fn print_within_checked(
    to: Text,
    room: usize,
    strict: c_int,
    size: usize,
    format: Format,
    arguments: Arguments,
) -> c_int {
    into(to, room.min(size), format, arguments, || {
        call!(__vsnprintf_chk(
            to: Text, room: usize, strict: c_int, size: usize, format: Format, arguments: Arguments
        ) -> c_int)
    })
}

/// Makes a text, of which the program says where its address goes.
fn make(to: *mut Text, format: Format, arguments: Arguments, print: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's.
    let counts: [(usize, usize); MOST] = unsafe { counts(format.cast::<u8>(), arguments) };
    let mut places = [(to as usize, 8); MOST + 1];
    places[1..].copy_from_slice(&counts);
    writing(&places, print)
}

extern "C-unwind" fn print_new(to: *mut Text, format: Format, arguments: Arguments) -> c_int {
    make(
        to,
        format,
        arguments,
        || call!(vasprintf(to: *mut Text, format: Format, arguments: Arguments) -> c_int),
    )
}

extern "C-unwind" fn print_new_checked(
    to: *mut Text,
    strict: c_int,
    format: Format,
    arguments: Arguments,
) -> c_int {
    make(
        to,
        format,
        arguments,
        || call!(__vasprintf_chk(to: *mut Text, strict: c_int, format: Format, arguments: Arguments) -> c_int),
    )
}

/// Prints wide characters: elsewhere first if they go into the window, since how many there will be is not
/// to be had otherwise.
fn wide_into(
    to: *mut wchar_t,
    room: usize,
    format: WideFormat,
    arguments: Arguments,
    print: impl FnOnce(*mut wchar_t) -> c_int,
) -> c_int {
    counting(format, arguments, || {
        if !window::contains(to as usize) || room == 0 {
            return print(to);
        }
        let scratch = Scratch::new(room.saturating_mul(4));
        let elsewhere = scratch.at as *mut wchar_t;
        let len = print(elsewhere);
        let bytes = usize::try_from(len).map_or(room, |len| len + 1).saturating_mul(4).min(scratch.bytes);
        writing(&[(to as usize, bytes)], || {
            // SAFETY: the program has room for so many characters; the other place is ours.
            unsafe { std::ptr::copy_nonoverlapping(elsewhere.cast::<u8>(), to.cast::<u8>(), bytes) };
        });
        len
    })
}

extern "C-unwind" fn print_wide(
    to: *mut wchar_t,
    room: usize,
    format: WideFormat,
    arguments: Arguments,
) -> c_int {
    wide_into(
        to,
        room,
        format,
        arguments,
        |to| call!(vswprintf(to: *mut wchar_t, room: usize, format: WideFormat, arguments: Arguments) -> c_int),
    )
}

extern "C-unwind" fn print_wide_checked(
    to: *mut wchar_t,
    room: usize,
    strict: c_int,
    size: usize,
    format: WideFormat,
    arguments: Arguments,
) -> c_int {
    wide_into(to, room, format, arguments, |to| {
        call!(__vswprintf_chk(
            to: *mut wchar_t, room: usize, strict: c_int, size: usize, format: WideFormat, arguments: Arguments
        ) -> c_int)
    })
}

macro_rules! lists {
    ($($name:ident = $print:ident($($arg:ident: $type:ty),*);)*) => { $(
        /// As the function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type,)* arguments: Arguments) -> c_int {
            $print($($arg,)* arguments)
        }
    )* };
}

lists! {
    strandline_vsprintf = print(to: Text, format: Format);
    strandline_vsnprintf = print_within(to: Text, room: usize, format: Format);
    strandline___vsprintf_chk = print_checked(to: Text, strict: c_int, size: usize, format: Format);
    strandline___vsnprintf_chk = print_within_checked(
        to: Text, room: usize, strict: c_int, size: usize, format: Format
    );
    vasprintf = print_new(to: *mut Text, format: Format);
    __vasprintf_chk = print_new_checked(to: *mut Text, strict: c_int, format: Format);
    vswprintf = print_wide(to: *mut wchar_t, room: usize, format: WideFormat);
    __vswprintf_chk = print_wide_checked(
        to: *mut wchar_t, room: usize, strict: c_int, size: usize, format: WideFormat
    );
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
    syslog, 2, "rdx", print_to_log;
    __printf_chk, 2, "rdx", print_out_checked;
    __fprintf_chk, 3, "rcx", print_to_checked;
    __dprintf_chk, 3, "rcx", print_to_file_checked;
    __syslog_chk, 3, "rcx", print_to_log_checked;
    wprintf, 1, "rsi", print_wide_out;
    fwprintf, 2, "rdx", print_wide_to;
    __wprintf_chk, 2, "rdx", print_wide_out_checked;
    __fwprintf_chk, 3, "rcx", print_wide_to_checked;
    asprintf, 2, "rdx", print_new;
    __asprintf_chk, 3, "rcx", print_new_checked;
    swprintf, 3, "rcx", print_wide;
    __swprintf_chk, 5, "r9", print_wide_checked;
    strandline_sprintf, 2, "rdx", print;
    strandline_snprintf, 3, "rcx", print_within;
    strandline___sprintf_chk, 4, "r8", print_checked;
    strandline___snprintf_chk, 5, "r9", print_within_checked;
}
