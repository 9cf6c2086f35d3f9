//! Stores that bypass the caches, flushes and fences.

/// Ways of making stored lines leave the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flush {
    /// One line after the other, invalidated.
    Clflush,
    /// In any order, invalidated.
    Clflushopt,
    /// In any order, kept.
    Clwb,
}

impl Flush {
    /// All.
    pub const ALL: [Flush; 3] = [Flush::Clflush, Flush::Clflushopt, Flush::Clwb];

    /// Its instruction.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Flush::Clflush => "clflush",
            Flush::Clflushopt => "clflushopt",
            Flush::Clwb => "clwb",
        }
    }

    /// Whether this processor has it.
    #[must_use]
    pub fn is_here(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let leaf = std::arch::x86_64::__cpuid_count(7, 0);
            match self {
                Flush::Clflush => true,
                Flush::Clflushopt => leaf.ebx & 1 << 23 != 0,
                Flush::Clwb => leaf.ebx & 1 << 24 != 0,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            false
        }
    }
}

/// `memcpy` by non-temporal stores where the processor has them and the ends fit, by ordinary ones else.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes`, and they do not overlap.
pub unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let head = to.align_offset(16).min(bytes);
        let body = (bytes - head) / 16 * 16;
        // SAFETY: the caller's ranges; `to + head` is aligned to 16.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, head);
            for at in (head..head + body).step_by(16) {
                _mm_stream_si128(
                    to.add(at).cast::<__m128i>(),
                    _mm_loadu_si128(from.add(at).cast::<__m128i>()),
                );
            }
            std::ptr::copy_nonoverlapping(from.add(head + body), to.add(head + body), bytes - head - body);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's ranges.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, bytes);
    }
}

/// Orders earlier stores, non-temporal ones too, before later ones.
pub fn store_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: an instruction that every x86-64 has.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Flushes all lines of a range.
///
/// # Safety
/// The range is mapped, and [`Flush::is_here`].
pub unsafe fn flush(at: *const u8, bytes: usize, how: Flush) {
    #[cfg(target_arch = "x86_64")]
    for line in (at as usize & !63..at as usize + bytes).step_by(64) {
        // SAFETY: the caller's range; the instruction exists.
        unsafe {
            match how {
                Flush::Clflush => {
                    std::arch::asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags))
                }
                Flush::Clflushopt => {
                    std::arch::asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags))
                }
                Flush::Clwb => std::arch::asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)),
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, bytes, how);
}
