//! `qsort`: the whole array counts as loaded and stored by its caller, once it is sorted.
//!
//! Interposed by its name and not renamed, because a program may have one of its own. A comparison is the
//! program's and may throw: so nothing of Rust is between it and the caller.

use core::arch::naked_asm;
use core::ffi::CStr;
use core::sync::atomic::AtomicUsize;

use crate::memory::access::{about_to_store, load, stored};
use crate::real::next::required;
use abi::access::STORE;

static QSORT: AtomicUsize = AtomicUsize::new(0);
static QSORT_R: AtomicUsize = AtomicUsize::new(0);

fn about_to_sort(cache: &AtomicUsize, name: &CStr) -> usize {
    about_to_store();
    required(cache, name)
}

extern "C" fn about_to_qsort() -> usize {
    about_to_sort(&QSORT, c"qsort")
}

extern "C" fn about_to_qsort_r() -> usize {
    about_to_sort(&QSORT_R, c"qsort_r")
}

/// Records the array. The comparisons may have recorded a store as their last.
extern "C" fn sorted(array: u64, count: u64, size: u64, pc: u64) {
    about_to_store();
    load(pc, array, count * size);
    stored(STORE, pc, array, count * size);
}

macro_rules! sorts {
    ($($name:ident $before:ident;)*) => { $(
        /// Interposed.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                ".cfi_def_cfa_offset 48",
                "call {before}",
                "mov rdi, qword ptr [rsp + 32]",
                "mov rsi, qword ptr [rsp + 24]",
                "mov rdx, qword ptr [rsp + 16]",
                "mov rcx, qword ptr [rsp + 8]",
                "mov r8, qword ptr [rsp]",
                "call rax",
                "mov rdi, qword ptr [rsp + 32]",
                "mov rsi, qword ptr [rsp + 24]",
                "mov rdx, qword ptr [rsp + 16]",
                "mov rcx, qword ptr [rsp + 40]",
                "call {sorted}",
                "add rsp, 40",
                ".cfi_def_cfa_offset 8",
                "ret",
                ".cfi_endproc",
                before = sym $before,
                sorted = sym sorted,
            );
        }
    )* };
}

sorts! {
    qsort about_to_qsort;
    qsort_r about_to_qsort_r;
}
