//! x86-64.

use std::arch::asm;
use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_set_epi64x, _mm_stream_si64, _mm_stream_si128};

use event::FlushKind;
use raw_cpuid::CpuIdReader;

use super::Offer;

/// The write-back instructions, best first. All leave the data in memory (or the controller's power-fail
/// domain) once a fence has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Keeps the line (Skylake-SP and Zen 2 on).
    Clwb,
    /// Invalidates the line, weakly ordered.
    Clflushopt,
    /// Invalidates the line, ordered; every x86-64 has it.
    Clflush,
}

impl Flush {
    /// As the vocabulary has it.
    #[inline(always)]
    #[must_use]
    pub fn kind(self) -> FlushKind {
        match self {
            Flush::Clwb => FlushKind::Clwb,
            Flush::Clflushopt => FlushKind::Clflushopt,
            Flush::Clflush => FlushKind::Clflush,
        }
    }

    /// The instruction's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Flush::Clwb => "clwb",
            Flush::Clflushopt => "clflushopt",
            Flush::Clflush => "clflush",
        }
    }

    /// Writes back the line that contains `address`.
    ///
    /// # Safety
    /// `address` is mapped, and the processor has the instruction ([`Offer::of_this_cpu`] says so).
    #[inline(always)]
    pub unsafe fn line(self, address: *const u8) {
        // SAFETY: the caller vouches for both address and instruction; none of the three changes memory or
        // registers. They are not `nomem`: stores before must stay before.
        unsafe {
            match self {
                Flush::Clwb => asm!("clwb [{}]", in(reg) address, options(nostack, preserves_flags)),
                Flush::Clflushopt => {
                    asm!("clflushopt [{}]", in(reg) address, options(nostack, preserves_flags))
                }
                Flush::Clflush => asm!("clflush [{}]", in(reg) address, options(nostack, preserves_flags)),
            }
        }
    }
}

/// The maker's name in leaf 0, as `ebx`, `edx` and `ecx` have it: `AuthenticAMD`, `HygonGenuine`.
const PAST_CACHE_SOONER: [[u32; 3]; 2] =
    [[0x6874_7541, 0x6974_6e65, 0x444d_4163], [0x6f67_7948, 0x6e65_476e, 0x656e_6975]];

/// What the processor that answers `cpuid` offers.
pub(super) fn offer(cpuid: impl CpuIdReader) -> Offer {
    let first = cpuid.cpuid1(0);
    let nt_is_sooner = PAST_CACHE_SOONER.contains(&[first.ebx, first.edx, first.ecx]);
    // Leaf 7, sub-leaf 0, where there is one.
    let (ebx, ecx) = if first.eax >= 7 {
        let features = cpuid.cpuid2(7, 0);
        (features.ebx, features.ecx)
    } else {
        (0, 0)
    };
    let clwb = ebx & 1 << 24 != 0;
    let flush = match ebx & 1 << 23 != 0 {
        _ if clwb => Flush::Clwb,
        true => Flush::Clflushopt,
        false => Flush::Clflush,
    };
    // Only `clwb` keeps the line, so only it can clean.
    Offer { flush, clean: clwb.then_some(Flush::Clwb), demote: ecx & 1 << 25 != 0, nt_is_sooner, line: 64 }
}

/// What this processor offers.
pub(super) fn offer_of_this_cpu() -> Offer {
    offer(|eax, ecx| raw_cpuid::cpuid!(eax, ecx))
}

/// Moves the line that contains `address` towards the shared cache.
///
/// # Safety
/// `address` is mapped.
#[inline(always)]
pub unsafe fn demote(address: *const u8) {
    // SAFETY: a hint on a mapped address; processors without it execute a no-op of the same encoding.
    unsafe { asm!("cldemote [{}]", in(reg) address, options(nostack, preserves_flags)) }
}

/// Orders this thread's stores, flushes and non-temporal stores before its later ones.
#[inline(always)]
pub fn fence() {
    // SAFETY: `sfence` has no operands; every x86-64 has it.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) }
}

/// Starts to fetch the line of `address` for a store.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    // SAFETY: a hint that no address makes fault; processors without it execute a no-op of the same encoding.
    unsafe { asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly)) }
}

/// Stores two words that follow each other with one instruction. Each of them is there wholly or not at all.
///
/// # Safety
/// `to` is 16-aligned and 16 bytes from it are writable, and no reference to them exists.
#[inline(always)]
pub unsafe fn store_pair(to: *mut u8, first: u64, second: u64) {
    // SAFETY: every x86-64 has SSE2; the target is the caller's.
    unsafe {
        let pair = _mm_set_epi64x(second.cast_signed(), first.cast_signed());
        asm!("movdqa [{}], {}", in(reg) to, in(xmm_reg) pair, options(nostack, preserves_flags));
    }
}

/// Copies `words` to `to` by non-temporal stores.
///
/// # Safety
/// `to` is 8-aligned and `8 * words.len()` bytes from it are writable, and no reference to them exists.
#[inline]
pub unsafe fn store_nt(to: *mut u8, words: &[[u8; 8]], _: Flush) {
    let mut at = to;
    let mut rest = words;
    while !rest.is_empty() {
        // Whole lines in pieces of 16 bytes, the rest word by word. Either fills the write-combining buffer.
        if at.addr().is_multiple_of(64) && rest.len() >= 8 {
            let (line, after) = rest.split_at(8);
            for (i, pair) in line.chunks_exact(2).enumerate() {
                // SAFETY: `pair` is 16 readable bytes; the target is inside the caller's range and
                // 16-aligned.
                unsafe {
                    let value = _mm_loadu_si128(pair.as_ptr().cast::<__m128i>());
                    _mm_stream_si128(at.add(16 * i).cast::<__m128i>(), value);
                }
            }
            // SAFETY: still inside the caller's range, or just behind it.
            at = unsafe { at.add(64) };
            rest = after;
        } else {
            // SAFETY: 8 bytes inside the caller's range, 8-aligned.
            unsafe {
                _mm_stream_si64(at.cast::<i64>(), i64::from_le_bytes(rest[0]));
                at = at.add(8);
            }
            rest = &rest[1..];
        }
    }
}

#[cfg(test)]
mod tests {
    use raw_cpuid::CpuIdResult;

    use super::*;

    /// A processor whose highest leaf is `leaves`, with these feature words in leaf 7 and this maker's name.
    fn processor(leaves: u32, ebx: u32, ecx: u32, maker: &[u8; 12]) -> Offer {
        let [name_b, name_d, name_c] =
            [0, 4, 8].map(|at| u32::from_le_bytes([maker[at], maker[at + 1], maker[at + 2], maker[at + 3]]));
        offer(move |leaf, _| match leaf {
            0 => CpuIdResult { eax: leaves, ebx: name_b, ecx: name_c, edx: name_d },
            7 => CpuIdResult { eax: 0, ebx, ecx, edx: 0 },
            _ => CpuIdResult { eax: 0, ebx: 0, ecx: 0, edx: 0 },
        })
    }

    #[test]
    fn instructions_are_chosen_by_cpuid() {
        const CLFLUSHOPT: u32 = 1 << 23;
        const CLWB: u32 = 1 << 24;
        const CLDEMOTE: u32 = 1 << 25;
        for (leaves, ebx, ecx, flush, clean, demote) in [
            // Broadwell: neither.
            (20, 0, 0, Flush::Clflush, None, false),
            // A Skylake desktop: what it has invalidates, so it is a flush and no pre-store.
            (22, CLFLUSHOPT, 0, Flush::Clflushopt, None, false),
            // Cascade Lake, Zen 2.
            (22, CLFLUSHOPT | CLWB, 0, Flush::Clwb, Some(Flush::Clwb), false),
            // Tremont and Sapphire Rapids.
            (31, CLFLUSHOPT | CLWB, CLDEMOTE, Flush::Clwb, Some(Flush::Clwb), true),
            (27, CLFLUSHOPT, CLDEMOTE, Flush::Clflushopt, None, true),
            // Words of a leaf that does not exist mean nothing.
            (4, CLFLUSHOPT | CLWB, CLDEMOTE, Flush::Clflush, None, false),
        ] {
            for (maker, nt_is_sooner) in [
                (b"GenuineIntel", false),
                (b"AuthenticAMD", true),
                (b"HygonGenuine", true),
                (b"\0\0\0\0\0\0\0\0\0\0\0\0", false),
            ] {
                let expected = Offer { flush, clean, demote, nt_is_sooner, line: 64 };
                assert_eq!(processor(leaves, ebx, ecx, maker), expected);
            }
        }
    }
}
