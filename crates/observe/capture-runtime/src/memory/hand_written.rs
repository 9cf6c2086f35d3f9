//! Stores that no compiler records: masked ones, and string instructions in inline assembly.
//!
//! As with the other hooks before single instructions (`instructions.rs`), anything may be alive; these
//! always take the slow path.

use core::arch::naked_asm;

use crate::memory::access::{about_to_store, load, store_to_come, stored};
use crate::memory::instructions::slow;
use crate::state::local::local;
use abi::access::{STORE, STORE_NT};
use abi::{header, kind};

/// Records a store of which `mask` says the elements, `N` bytes each, from the first to the last of them. The
/// bits above `E` may be anything.
extern "C" fn masked<const N: u64, const E: u32>(pc: u64, addr: u64, mask: u64) {
    let mask = mask & u64::MAX >> (64 - E);
    if mask != 0 {
        let (first, end) = (u64::from(mask.trailing_zeros()), u64::from(64 - mask.leading_zeros()));
        store_to_come(pc, addr + first * N, (end - first) * N);
    }
}

/// Records a store of as many elements, one behind the other, as the mask has bits.
extern "C" fn packed<const N: u64, const E: u32>(pc: u64, addr: u64, mask: u64) {
    let mask = mask & u64::MAX >> (64 - E);
    if mask != 0 {
        store_to_come(pc, addr, u64::from(mask.count_ones()) * N);
    }
}

/// As `masked`, of a non-temporal store.
extern "C" fn streamed<const N: u64, const E: u32>(pc: u64, addr: u64, mask: u64) {
    let mask = mask & u64::MAX >> (64 - E);
    if mask != 0 {
        let (first, end) = (u64::from(mask.trailing_zeros()), u64::from(64 - mask.leading_zeros()));
        let header = header(kind::ACCESS, STORE_NT, pc);
        local().stream.store_to_come(header, addr + first * N, (end - first) * N);
    }
}

/// Defines hooks.
macro_rules! masked_hooks {
    ($($name:ident: $record:expr;)*) => { $(
        /// Called before a masked store with its address in `rdi` and its mask in `rsi`; changes nothing.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "push rax",
                "push rcx",
                "push rdx",
                "lahf",
                "seto al",
                "push rax",
                "mov rax, qword ptr [rsp + 32]",
                "mov rdx, rsi",
                "lea rcx, [rip + {record}]",
                "call {save}",
                "pop rax",
                "add al, 0x7f",
                "sahf",
                "pop rdx",
                "pop rcx",
                "pop rax",
                "ret",
                record = sym $record,
                save = sym slow,
            );
        }
    )* };
}

masked_hooks! {
    strandline_hook_streamed1x16: streamed::<1, 16>;
    strandline_hook_masked4x1: masked::<4, 1>;
    strandline_hook_masked8x1: masked::<8, 1>;
    strandline_hook_masked1x2: masked::<1, 2>;
    strandline_hook_masked1x4: masked::<1, 4>;
    strandline_hook_masked1x8: masked::<1, 8>;
    strandline_hook_masked2x2: masked::<2, 2>;
    strandline_hook_masked2x4: masked::<2, 4>;
    strandline_hook_masked4x2: masked::<4, 2>;
    strandline_hook_masked1x16: masked::<1, 16>;
    strandline_hook_masked1x32: masked::<1, 32>;
    strandline_hook_masked1x64: masked::<1, 64>;
    strandline_hook_masked2x8: masked::<2, 8>;
    strandline_hook_masked2x16: masked::<2, 16>;
    strandline_hook_masked2x32: masked::<2, 32>;
    strandline_hook_masked4x4: masked::<4, 4>;
    strandline_hook_masked4x8: masked::<4, 8>;
    strandline_hook_masked4x16: masked::<4, 16>;
    strandline_hook_masked8x2: masked::<8, 2>;
    strandline_hook_masked8x4: masked::<8, 4>;
    strandline_hook_masked8x8: masked::<8, 8>;
    strandline_hook_packed1x16: packed::<1, 16>;
    strandline_hook_packed1x32: packed::<1, 32>;
    strandline_hook_packed1x64: packed::<1, 64>;
    strandline_hook_packed2x8: packed::<2, 8>;
    strandline_hook_packed2x16: packed::<2, 16>;
    strandline_hook_packed2x32: packed::<2, 32>;
    strandline_hook_packed4x4: packed::<4, 4>;
    strandline_hook_packed4x8: packed::<4, 8>;
    strandline_hook_packed4x16: packed::<4, 16>;
    strandline_hook_packed8x2: packed::<8, 2>;
    strandline_hook_packed8x4: packed::<8, 4>;
    strandline_hook_packed8x8: packed::<8, 8>;
}

extern "C" fn before(_: u64, _: u64, _: u64) {
    about_to_store();
}

/// The same, of an instruction that loads so many elements first.
extern "C" fn before_copy<const N: u64>(pc: u64, from: u64, count: u64) {
    about_to_store();
    load(pc, from, count * N);
}

/// Records what a string instruction stored that began at `start` and ended at `end`: in either direction,
/// both are of elements' first bytes.
extern "C" fn done<const N: u64>(pc: u64, end: u64, start: u64) {
    let (from, len) = if start <= end { (start, end - start) } else { (end + N, start - end) };
    stored(STORE, pc, from, len);
}

/// Defines hooks. `$bytes` are those of a turn.
macro_rules! string_hooks {
    ($($name:ident: $instruction:literal, $bytes:literal, $before:expr;)*) => { $(
        /// Called in place of the instruction that it is named after, which it carries out: what that
        /// changes, this changes.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "pushfq",
                "push rax",
                "push rcx",
                "push rdx",
                "push rdi",
                "mov rax, qword ptr [rsp + 40]",
                "mov rdx, qword ptr [rsp + 16]",
                "mov rdi, rsi",
                "lea rcx, [rip + {before}]",
                "call {save}",
                "mov rdi, qword ptr [rsp]",
                "mov rax, qword ptr [rsp + 24]",
                "mov rcx, qword ptr [rsp + 16]",
                $instruction,
                // Where it began.
                "mov rdx, qword ptr [rsp]",
                "mov rax, qword ptr [rsp + 40]",
                "lea rcx, [rip + {done}]",
                "call {save}",
                "lea rsp, [rsp + 8]",
                "pop rdx",
                "lea rsp, [rsp + 8]",
                "mov ecx, 0",
                "pop rax",
                "popfq",
                "ret",
                before = sym $before,
                done = sym done::<$bytes>,
                save = sym slow,
            );
        }
    )* };
}

string_hooks! {
    strandline_hook_movs1: "rep movsb", 1, before_copy::<1>;
    strandline_hook_movs2: "rep movsw", 2, before_copy::<2>;
    strandline_hook_movs4: "rep movsd", 4, before_copy::<4>;
    strandline_hook_movs8: "rep movsq", 8, before_copy::<8>;
    strandline_hook_stos1: "rep stosb", 1, before;
    strandline_hook_stos2: "rep stosw", 2, before;
    strandline_hook_stos4: "rep stosd", 4, before;
    strandline_hook_stos8: "rep stosq", 8, before;
}
