//! aarch64.

use std::arch::asm;
use std::sync::atomic::{AtomicU64, Ordering};

use event::FlushKind;

/// The write-back instructions, best first. Both keep the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// `dc cvap`: to the point of persistence (Armv8.2 DPB).
    Cvap,
    /// `dc cvac`: to the point of coherency, which is memory on machines without the above.
    Cvac,
}

impl Flush {
    /// The best one of this processor.
    #[must_use]
    pub fn detect() -> Flush {
        if std::arch::is_aarch64_feature_detected!("dpb") { Flush::Cvap } else { Flush::Cvac }
    }

    /// As the vocabulary has it.
    #[inline(always)]
    #[must_use]
    pub fn kind(self) -> FlushKind {
        FlushKind::Clwb
    }

    /// The instruction's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Flush::Cvap => "dc cvap",
            Flush::Cvac => "dc cvac",
        }
    }

    /// Writes back the line that contains `address`. Lines of 64 bytes are assumed; on a processor with
    /// longer ones a range is flushed more often than needed, which is harmless.
    ///
    /// # Safety
    /// `address` is mapped, and the processor has the instruction ([`Flush::detect`] chose it).
    #[inline(always)]
    pub unsafe fn line(self, address: *const u8) {
        // SAFETY: the caller vouches for both address and instruction; neither changes memory or registers.
        // `cvap` is written as its `sys` alias because assemblers want a target feature for the name.
        unsafe {
            match self {
                Flush::Cvap => {
                    asm!("sys #3, c7, c12, #1, {}", in(reg) address, options(nostack, preserves_flags))
                }
                Flush::Cvac => asm!("dc cvac, {}", in(reg) address, options(nostack, preserves_flags)),
            }
        }
    }
}

/// There is no demotion hint.
#[must_use]
pub fn offers_demote() -> bool {
    false
}

/// Nothing: there is no demotion hint.
///
/// # Safety
/// `address` is mapped.
#[inline(always)]
pub unsafe fn demote(address: *const u8) {
    let _ = address;
}

/// Waits until this thread's write-backs are complete, before any later access.
#[inline(always)]
pub fn fence() {
    // SAFETY: a barrier without operands. `dsb`, not `dmb`: only it waits for `dc` to complete; the whole
    // system, because memory is outside the inner shareable domain.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
}

/// Copies `words` to `to` and writes their lines back. Non-temporal pairs (`stnp`) exist here, but are a hint
/// that promises nothing about the cache, so the lines must be flushed anyway.
///
/// # Safety
/// `to` is 8-aligned and `8 * words.len()` bytes from it are writable, and no reference to them exists.
#[inline]
pub unsafe fn store_nt(to: *mut u8, words: &[[u8; 8]], flush: Flush) {
    for (i, word) in words.iter().enumerate() {
        // SAFETY: word `i` is inside the caller's range and aligned.
        let target = unsafe { &*to.add(8 * i).cast::<AtomicU64>() };
        target.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
    }
    let end = to.addr() + 8 * words.len();
    let mut line = to.addr() & !63;
    while line < end {
        // SAFETY: the line holds a byte that was just written.
        unsafe { flush.line(to.with_addr(line)) };
        line += 64;
    }
}
