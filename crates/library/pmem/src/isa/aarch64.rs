//! aarch64.

use std::arch::asm;
use std::sync::atomic::{AtomicU64, Ordering};

use event::FlushKind;

use super::Offer;

/// The write-back instructions, best first. Both keep the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// `dc cvap`: to the point of persistence (Armv8.2 DPB).
    Cvap,
    /// `dc cvac`: to the point of coherency, which is memory on machines without the above.
    Cvac,
}

impl Flush {
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
    /// `address` is mapped, and the processor has the instruction ([`Offer::of_this_cpu`] says so).
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

/// What this processor offers: every one has both pre-stores.
pub(super) fn offer_of_this_cpu() -> Offer {
    let flush = if std::arch::is_aarch64_feature_detected!("dpb") { Flush::Cvap } else { Flush::Cvac };
    let types: u64;
    // SAFETY: Linux lets programs read the cache type register; reading changes nothing.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) types, options(nomem, nostack, preserves_flags)) };
    // Cleaning is meant to reach memory, not what survives power loss, which may be further away.
    Offer { flush, clean: Some(Flush::Cvac), demote: true, nt_is_sooner: false, line: line(types) }
}

/// Bytes of the smallest data cache line, from the cache type register's `DminLine`, the logarithm of words of 4.
fn line(types: u64) -> usize {
    4 << (types >> 16 & 15)
}

/// Writes the line that contains `address` back to the point of unification, where instruction fetch and page walks see
/// it: the second-level cache on most processors.
///
/// # Safety
/// `address` is mapped.
#[inline(always)]
pub unsafe fn demote(address: *const u8) {
    // SAFETY: the caller vouches for the address; the instruction changes neither memory nor registers.
    unsafe { asm!("dc cvau, {}", in(reg) address, options(nostack, preserves_flags)) }
}

/// Waits until this thread's write-backs are complete, before any later access.
#[inline(always)]
pub fn fence() {
    // SAFETY: a barrier without operands. `dsb`, not `dmb`: only it waits for `dc` to complete; the whole
    // system, because memory is outside the inner shareable domain.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
}

/// Starts to fetch the line of `address` for a store.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    // SAFETY: a hint that no address makes fault.
    unsafe { asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly)) }
}

/// Stores two words that follow each other with one instruction. Each of them is there wholly or not at all.
///
/// # Safety
/// `to` is 16-aligned and 16 bytes from it are writable, and no reference to them exists.
#[inline(always)]
pub unsafe fn store_pair(to: *mut u8, first: u64, second: u64) {
    // SAFETY: the target is the caller's.
    unsafe {
        asm!("stp {}, {}, [{}]", in(reg) first, in(reg) second, in(reg) to, options(nostack, preserves_flags))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_comes_from_the_cache_type_register() {
        assert_eq!(line(0x8444_C004), 64);
        assert_eq!(line(0x8445_C004), 128, "ThunderX");
    }
}
