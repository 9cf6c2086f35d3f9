//! Entries of stream functions, which may have any number of arguments.
//!
//! What a stream writes is the doing of whoever called the function that led to it. Most of them are passed
//! on: an entry notes its return address and jumps on, so that all arguments stay as they are. `dprintf` and
//! its relatives, whose stream nobody has seen, we carry out ourselves where the file is watched.

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::contents::{ordinary, write_through};
use super::named::watching;
use crate::real::heap;
use crate::real::next::{next, real, required};
use crate::state::local::{STREAMING, caller, hooks, local};

/// Formats and writes at once, as `vdprintf` does.
extern "C" fn print(fd: c_int, format: *const c_char, arguments: *const Arguments) -> c_int {
    let pc = local().streaming.get();
    // SAFETY: the program's, of which each use takes a copy.
    let (mut first, mut second) = unsafe { (*arguments, *arguments) };
    if !watching() || ordinary(fd).is_none() {
        let real = real!(c"vdprintf" as fn(c_int, *const c_char, *mut Arguments) -> c_int);
        // SAFETY: the program's arguments.
        return unsafe { real(fd, format, &raw mut first) };
    }
    let format_to = real!(c"vsnprintf" as fn(*mut c_char, usize, *const c_char, *mut Arguments) -> c_int);
    // SAFETY: as above; it only counts.
    let len = unsafe { format_to(null_mut(), 0, format, &raw mut first) };
    let Ok(bytes) = usize::try_from(len) else { return len };
    // SAFETY: asks for memory.
    let text = unsafe { heap::malloc(bytes + 1) }.cast::<c_char>();
    if text.is_null() {
        return -1;
    }
    // SAFETY: as above, into memory of that size.
    unsafe { format_to(text, bytes + 1, format, &raw mut second) };
    let mut done = 0;
    while done < bytes {
        // SAFETY: within the text.
        let written = write_through(pc, fd, unsafe { text.add(done) }.cast(), bytes - done);
        match usize::try_from(written) {
            Ok(more @ 1..) => done += more,
            _ => break,
        }
    }
    // SAFETY: ours, of above.
    unsafe { heap::free(text.cast()) };
    if done == bytes { len } else { -1 }
}

/// A `va_list`'s element.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Arguments {
    general: u32,
    vector: u32,
    stack: *const c_void,
    saved: *const c_void,
}

/// Entries of functions with any number of arguments, `$general` bytes of which are named: gathers them and
/// calls [`print`].
macro_rules! printing {
    ($($name:ident, $general:literal, [$($arrange:literal)*];)*) => { $(
        /// Entry of the function of the same name.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "mov r11, qword ptr [rip + strandline_tls@GOTTPOFF]",
                "mov r10, qword ptr [rsp]",
                "mov qword ptr fs:[r11 + {streaming}], r10",
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
                "mov dword ptr [rsp], {general}",
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 224]",
                "mov qword ptr [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov qword ptr [rsp + 16], rax",
                $($arrange,)*
                "mov rdx, rsp",
                "call {print}",
                "add rsp, 216",
                "ret",
                streaming = const STREAMING,
                general = const $general,
                print = sym print,
            );
        }
    )* };
}

printing! {
    dprintf, 16, [];
    // Between descriptor and format, how strict to be.
    __dprintf_chk, 24, ["mov rsi, rdx"];
}

hooks! {
    fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut Arguments) -> c_int {
        local().streaming.set(caller());
        print(fd, format, arguments)
    }
    fn __vdprintf_chk(fd: c_int, _strict: c_int, format: *const c_char, arguments: *mut Arguments) -> c_int {
        local().streaming.set(caller());
        print(fd, format, arguments)
    }
}

/// A function of the C library that we pass on to.
#[repr(C)]
struct Passed {
    /// 0: not looked up yet. First: the entries read it.
    address: AtomicUsize,
    name: &'static CStr,
}

extern "C" fn look_up(passed: &Passed, _: u64, _: u64) {
    required(&passed.address, passed.name);
}

/// Entries that note who called, for what the C library then writes, and pass on.
macro_rules! passing {
    ($($name:ident = $text:literal;)*) => {
        mod passed {
            $(
                #[allow(non_upper_case_globals, reason = "named as the function that it stands for")]
                pub static $name: super::Passed =
                    super::Passed { address: super::AtomicUsize::new(0), name: $text };
            )*
        }

        /// Looks all of them up.
        pub fn prepare() {
            $(passed::$name.address.store(next($text), Ordering::Relaxed);)*
        }

        $(
            /// Entry of the function of the same name.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                naked_asm!(
                    "mov r11, qword ptr [rip + strandline_tls@GOTTPOFF]",
                    "mov r10, qword ptr [rsp]",
                    "mov qword ptr fs:[r11 + {streaming}], r10",
                    "mov r11, qword ptr [rip + {passed}]",
                    "test r11, r11",
                    "je 2f",
                    "jmp r11",
                    // A constructor that runs before ours.
                    "2:",
                    "push rax",
                    "push rcx",
                    "push rdx",
                    "lea rax, [rip + {passed}]",
                    "lea rcx, [rip + {look_up}]",
                    "call {save}",
                    "pop rdx",
                    "pop rcx",
                    "pop rax",
                    "jmp qword ptr [rip + {passed}]",
                    streaming = const STREAMING,
                    passed = sym passed::$name,
                    look_up = sym look_up,
                    save = sym crate::memory::instructions::slow,
                );
            }
        )*
    };
}

passing! {
    fflush = c"fflush";
    fflush_unlocked = c"fflush_unlocked";
    fcloseall = c"fcloseall";
    fwrite = c"fwrite";
    fwrite_unlocked = c"fwrite_unlocked";
    fputs = c"fputs";
    fputs_unlocked = c"fputs_unlocked";
    fputc = c"fputc";
    fputc_unlocked = c"fputc_unlocked";
    putc = c"putc";
    putc_unlocked = c"putc_unlocked";
    _IO_putc = c"_IO_putc";
    __overflow = c"__overflow";
    putw = c"putw";
    fprintf = c"fprintf";
    vfprintf = c"vfprintf";
    __fprintf_chk = c"__fprintf_chk";
    __vfprintf_chk = c"__vfprintf_chk";
    setvbuf = c"setvbuf";
}
