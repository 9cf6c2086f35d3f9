//! Hooks before single instructions that the compiler's pass did not see: inline assembly, non-temporal and
//! masked stores, string instructions. Anything may be alive there, the flags and vector registers too, and
//! the stack may be aligned to nothing.

use std::arch::naked_asm;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::local::{announce, boundary};
use crate::window;

/// Bytes that `xsave` needs for [`STATES`] in its standard form, or `fxsave`.
const SAVED_BYTES: usize = 2688;
/// The states that our code may change: x87, SSE, AVX, and AVX-512's three.
const STATES: u32 = 0b1110_0111;
/// 1: the processor and the kernel know `xsave`.
static XSAVE: AtomicU32 = AtomicU32::new(0);

/// Finds out what there is to save.
pub fn prepare() {
    const OSXSAVE: u32 = 1 << 27;
    let leaf = std::arch::x86_64::__cpuid(1);
    XSAVE.store(u32::from(leaf.ecx & OSXSAVE != 0), Ordering::Relaxed);
}

/// Calls the function in `rax` as `f(rdi, rsi, rdx)` with every register kept but `rax` and the flags.
#[unsafe(naked)]
unsafe extern "C" fn slow() {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rbx",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "sub rsp, {bytes}",
        "and rsp, -64",
        "mov rbx, rax",
        "mov r10, rdx",
        "cmp dword ptr [rip + {xsave}], 0",
        "je 2f",
        // The reserved words of its header must be zero, or it can't be restored.
        "xor eax, eax",
        "mov qword ptr [rsp + 512], rax",
        "mov qword ptr [rsp + 520], rax",
        "mov qword ptr [rsp + 528], rax",
        "mov qword ptr [rsp + 536], rax",
        "mov qword ptr [rsp + 544], rax",
        "mov qword ptr [rsp + 552], rax",
        "mov qword ptr [rsp + 560], rax",
        "mov qword ptr [rsp + 568], rax",
        "xor edx, edx",
        "mov eax, {states}",
        "xsave64 [rsp]",
        "jmp 3f",
        "2:",
        "fxsave64 [rsp]",
        "3:",
        "cld",
        "mov rdx, r10",
        "call rbx",
        "cmp dword ptr [rip + {xsave}], 0",
        "je 2f",
        "xor edx, edx",
        "mov eax, {states}",
        "xrstor64 [rsp]",
        "jmp 3f",
        "2:",
        "fxrstor64 [rsp]",
        "3:",
        "lea rsp, [rbp - 72]",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rbx",
        "pop rbp",
        "ret",
        bytes = const SAVED_BYTES,
        states = const STATES,
        xsave = sym XSAVE,
    );
}

extern "C" fn store(address: usize, bytes: usize, _: usize) {
    announce(address, bytes);
}

/// Before a store of `rsi` bytes at `rdi`; changes nothing.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_persist_store() {
    naked_asm!(
        "pushfq",
        "push rax",
        "mov rax, rdi",
        "shr rax, {shift}",
        "cmp eax, {window}",
        "jne 2f",
        "lea rax, [rip + {store}]",
        "call {slow}",
        "2:",
        "pop rax",
        "popfq",
        "ret",
        shift = const window::SHIFT,
        window = const window::NUMBER,
        store = sym store,
        slow = sym slow,
    );
}

extern "C" fn system_call(_: usize, _: usize, _: usize) {
    boundary();
}

/// Before a system call in inline assembly; changes nothing.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_persist_system_call() {
    naked_asm!(
        "pushfq",
        "push rax",
        "lea rax, [rip + {call}]",
        "call {slow}",
        "pop rax",
        "popfq",
        "ret",
        call = sym system_call,
        slow = sym slow,
    );
}

/// A masked store of elements of `shape >> 16` bytes, `shape & 0xFFFF` of them, from the first that is stored
/// to the last: what lies between keeps its bytes, and behind it there may be no memory.
extern "C" fn masked(address: usize, mask: usize, shape: usize) {
    let (bytes, elements) = (shape >> 16, shape & 0xFFFF);
    let mask = if elements < 64 { mask & ((1 << elements) - 1) } else { mask };
    if mask != 0 {
        let (first, last) = (mask.trailing_zeros() as usize, 63 - mask.leading_zeros() as usize);
        announce(address + first * bytes, (last + 1 - first) * bytes);
    }
}

/// The same for a store that packs the elements that the mask names.
extern "C" fn packed(address: usize, mask: usize, shape: usize) {
    let (bytes, elements) = (shape >> 16, shape & 0xFFFF);
    let mask = if elements < 64 { mask & ((1 << elements) - 1) } else { mask };
    announce(address, mask.count_ones() as usize * bytes);
}

macro_rules! masked_hooks {
    ($($name:ident: $what:ident, $bytes:literal, $elements:literal;)*) => { $(
        /// Before a masked store at `rdi`, of the elements that `rsi` says; changes nothing.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "pushfq",
                "push rax",
                "push rdx",
                "mov edx, {shape}",
                "lea rax, [rip + {what}]",
                "call {slow}",
                "pop rdx",
                "pop rax",
                "popfq",
                "ret",
                shape = const ($bytes << 16) | $elements,
                what = sym $what,
                slow = sym slow,
            );
        }
    )* };
}

masked_hooks! {
    strandline_persist_masked1x2: masked, 1, 2;
    strandline_persist_masked1x4: masked, 1, 4;
    strandline_persist_masked1x8: masked, 1, 8;
    strandline_persist_masked1x16: masked, 1, 16;
    strandline_persist_masked1x32: masked, 1, 32;
    strandline_persist_masked1x64: masked, 1, 64;
    strandline_persist_masked2x2: masked, 2, 2;
    strandline_persist_masked2x4: masked, 2, 4;
    strandline_persist_masked2x8: masked, 2, 8;
    strandline_persist_masked2x16: masked, 2, 16;
    strandline_persist_masked2x32: masked, 2, 32;
    strandline_persist_masked4x1: masked, 4, 1;
    strandline_persist_masked4x2: masked, 4, 2;
    strandline_persist_masked4x4: masked, 4, 4;
    strandline_persist_masked4x8: masked, 4, 8;
    strandline_persist_masked4x16: masked, 4, 16;
    strandline_persist_masked8x1: masked, 8, 1;
    strandline_persist_masked8x2: masked, 8, 2;
    strandline_persist_masked8x4: masked, 8, 4;
    strandline_persist_masked8x8: masked, 8, 8;
    strandline_persist_packed1x16: packed, 1, 16;
    strandline_persist_packed1x32: packed, 1, 32;
    strandline_persist_packed1x64: packed, 1, 64;
    strandline_persist_packed2x8: packed, 2, 8;
    strandline_persist_packed2x16: packed, 2, 16;
    strandline_persist_packed2x32: packed, 2, 32;
    strandline_persist_packed4x4: packed, 4, 4;
    strandline_persist_packed4x8: packed, 4, 8;
    strandline_persist_packed4x16: packed, 4, 16;
    strandline_persist_packed8x2: packed, 8, 2;
    strandline_persist_packed8x4: packed, 8, 4;
    strandline_persist_packed8x8: packed, 8, 8;
}

/// A string instruction of `turns` turns of `bytes` that begins at `address`, upwards or downwards.
extern "C" fn repeated(address: usize, turns: usize, shape: usize) {
    let (bytes, down) = (shape & 0xFF, shape >> 8 != 0);
    let all = turns * bytes;
    let begin = if down { (address + bytes).wrapping_sub(all) } else { address };
    if all > 0 && (window::contains(begin) || window::contains(begin + all - 1)) {
        announce(begin, all);
    }
}

macro_rules! string_hooks {
    ($($name:ident: $instruction:literal, $bytes:literal;)*) => { $(
        /// Called in place of the instruction that it is named after, which it carries out: what that
        /// changes, this changes.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "pushfq",
                "push rax",
                "push rdx",
                "push rsi",
                "mov rsi, rcx",
                // The direction flag, bit 10.
                "mov rdx, qword ptr [rsp + 24]",
                "and edx, 0x400",
                "or edx, {bytes}",
                "lea rax, [rip + {repeated}]",
                "call {slow}",
                "pop rsi",
                "pop rdx",
                "pop rax",
                "popfq",
                $instruction,
                "ret",
                bytes = const $bytes,
                repeated = sym repeated,
                slow = sym slow,
            );
        }
    )* };
}

string_hooks! {
    strandline_hook_movs1: "rep movsb", 1;
    strandline_hook_movs2: "rep movsw", 2;
    strandline_hook_movs4: "rep movsd", 4;
    strandline_hook_movs8: "rep movsq", 8;
    strandline_hook_stos1: "rep stosb", 1;
    strandline_hook_stos2: "rep stosw", 2;
    strandline_hook_stos4: "rep stosd", 4;
    strandline_hook_stos8: "rep stosq", 8;
}
