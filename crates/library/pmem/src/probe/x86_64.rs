//! Lines of 64 B moved with the widest instructions of this processor, and its time-stamp counter.

use std::arch::asm;
use std::sync::OnceLock;

use raw_cpuid::CpuId;

/// How wide the instructions are that move a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// One of 64 B per line.
    Avx512,
    /// Two of 32 B.
    Avx2,
    /// Four of 16 B; every x86-64 has them.
    Sse2,
}

/// Entries of the last-level TLB for 4 KiB pages of data, as the processor states them.
pub fn tlb_entries() -> Option<u32> {
    let cpu = CpuId::new();
    let intel = cpu.get_deterministic_address_translation_info().into_iter().flatten();
    let intel = intel
        .filter(|level| {
            level.has_4k_entries()
                && matches!(level.cache_type(), raw_cpuid::DatType::DataTLB | raw_cpuid::DatType::UnifiedTLB)
        })
        .map(|level| u32::from(level.ways()) * level.sets())
        .max();
    let amd = || {
        let info = cpu.get_l2_l3_cache_and_tlb_info()?;
        Some(u32::from(info.dtlb_4k_size()))
    };
    intel.or_else(amd).filter(|entries| *entries > 0)
}

impl Width {
    /// The widest of this processor, whose system saves the registers; asked once per process.
    pub fn detect() -> Width {
        static WIDTH: OnceLock<Width> = OnceLock::new();
        *WIDTH.get_or_init(|| {
            if std::arch::is_x86_feature_detected!("avx512f") {
                Width::Avx512
            } else if std::arch::is_x86_feature_detected!("avx2") {
                Width::Avx2
            } else {
                Width::Sse2
            }
        })
    }

    /// The instructions' name.
    pub fn name(self) -> &'static str {
        match self {
            Width::Avx512 => "AVX-512, 64 B",
            Width::Avx2 => "AVX2, 2 x 32 B",
            Width::Sse2 => "SSE2, 4 x 16 B",
        }
    }

    /// Reads the lines from `from` to `end` and forgets them.
    ///
    /// # Safety
    /// `from` is below `end`, both are multiples of 64, all between is mapped, and the processor has the
    /// instructions ([`Width::detect`] chose them).
    #[inline(always)]
    pub unsafe fn load(self, from: *const u8, end: *const u8) {
        // SAFETY: the caller vouches for range and instructions. The loads change nothing but the registers that
        // are named; `vzeroupper` leaves the lower halves, which are named, too.
        unsafe {
            match self {
                Width::Avx512 => asm!(
                    "2:", "vmovdqa64 zmm0, [{at}]", "add {at}, 64", "cmp {at}, {end}", "jb 2b", "vzeroupper",
                    at = inout(reg) from => _, end = in(reg) end, out("xmm0") _, options(nostack, readonly)),
                Width::Avx2 => asm!(
                    "2:", "vmovdqa ymm0, [{at}]", "vmovdqa ymm1, [{at} + 32]",
                    "add {at}, 64", "cmp {at}, {end}", "jb 2b", "vzeroupper",
                    at = inout(reg) from => _, end = in(reg) end, out("xmm0") _, out("xmm1") _,
                    options(nostack, readonly)),
                Width::Sse2 => asm!(
                    "2:", "movdqa xmm0, [{at}]", "movdqa xmm1, [{at} + 16]",
                    "movdqa xmm2, [{at} + 32]", "movdqa xmm3, [{at} + 48]",
                    "add {at}, 64", "cmp {at}, {end}", "jb 2b",
                    at = inout(reg) from => _, end = in(reg) end,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, options(nostack, readonly)),
            }
        }
    }

    /// Fills the lines from `from` to `end` with `word`, through the cache.
    ///
    /// # Safety
    /// As for [`Width::load`], and the range is writable and nobody has references into it.
    #[inline(always)]
    pub unsafe fn store(self, from: *mut u8, end: *const u8, word: u64) {
        // SAFETY: the caller vouches for range and instructions; other registers are named.
        unsafe {
            match self {
                Width::Avx512 => asm!(
                    "vpbroadcastq zmm0, {word}",
                    "2:", "vmovdqa64 [{at}], zmm0", "add {at}, 64", "cmp {at}, {end}", "jb 2b", "vzeroupper",
                    at = inout(reg) from => _, end = in(reg) end, word = in(reg) word, out("xmm0") _,
                    options(nostack)),
                Width::Avx2 => asm!(
                    "vmovq xmm0, {word}", "vpbroadcastq ymm0, xmm0",
                    "2:", "vmovdqa [{at}], ymm0", "vmovdqa [{at} + 32], ymm0",
                    "add {at}, 64", "cmp {at}, {end}", "jb 2b", "vzeroupper",
                    at = inout(reg) from => _, end = in(reg) end, word = in(reg) word, out("xmm0") _,
                    options(nostack)),
                Width::Sse2 => asm!(
                    "movq xmm0, {word}", "punpcklqdq xmm0, xmm0",
                    "2:", "movdqa [{at}], xmm0", "movdqa [{at} + 16], xmm0",
                    "movdqa [{at} + 32], xmm0", "movdqa [{at} + 48], xmm0",
                    "add {at}, 64", "cmp {at}, {end}", "jb 2b",
                    at = inout(reg) from => _, end = in(reg) end, word = in(reg) word, out("xmm0") _,
                    options(nostack)),
            }
        }
    }

    /// Copies the lines from `from` to `end` to where `to` points, through the cache.
    ///
    /// # Safety
    /// As for [`Width::load`]; as many lines at `to` are writable, none of them is one of the others, and nobody has references
    /// into them.
    #[inline(always)]
    pub unsafe fn copy(self, from: *const u8, end: *const u8, to: *mut u8) {
        // SAFETY: the caller vouches for ranges and instructions; other registers are named.
        unsafe {
            match self {
                Width::Avx512 => asm!(
                    "2:", "vmovdqa64 zmm0, [{at}]", "vmovdqa64 [{to}], zmm0", "add {at}, 64", "add {to}, 64",
                    "cmp {at}, {end}", "jb 2b", "vzeroupper",
                    at = inout(reg) from => _, to = inout(reg) to => _, end = in(reg) end, out("xmm0") _,
                    options(nostack)),
                Width::Avx2 => asm!(
                    "2:", "vmovdqa ymm0, [{at}]", "vmovdqa ymm1, [{at} + 32]",
                    "vmovdqa [{to}], ymm0", "vmovdqa [{to} + 32], ymm1", "add {at}, 64", "add {to}, 64",
                    "cmp {at}, {end}", "jb 2b", "vzeroupper",
                    at = inout(reg) from => _, to = inout(reg) to => _, end = in(reg) end,
                    out("xmm0") _, out("xmm1") _, options(nostack)),
                Width::Sse2 => asm!(
                    "2:", "movdqa xmm0, [{at}]", "movdqa xmm1, [{at} + 16]",
                    "movdqa xmm2, [{at} + 32]", "movdqa xmm3, [{at} + 48]",
                    "movdqa [{to}], xmm0", "movdqa [{to} + 16], xmm1",
                    "movdqa [{to} + 32], xmm2", "movdqa [{to} + 48], xmm3", "add {at}, 64", "add {to}, 64",
                    "cmp {at}, {end}", "jb 2b",
                    at = inout(reg) from => _, to = inout(reg) to => _, end = in(reg) end,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, options(nostack)),
            }
        }
    }

    /// Fills the lines from `from` to `end` with `word`, by non-temporal stores.
    ///
    /// # Safety
    /// As for [`Width::store`].
    #[inline(always)]
    pub unsafe fn store_nt(self, from: *mut u8, end: *const u8, word: u64) {
        // SAFETY: the caller vouches for range and instructions; other registers are named.
        unsafe {
            match self {
                Width::Avx512 => asm!(
                    "vpbroadcastq zmm0, {word}",
                    "2:", "vmovntdq [{at}], zmm0", "add {at}, 64", "cmp {at}, {end}", "jb 2b", "vzeroupper",
                    at = inout(reg) from => _, end = in(reg) end, word = in(reg) word, out("xmm0") _,
                    options(nostack)),
                Width::Avx2 => asm!(
                    "vmovq xmm0, {word}", "vpbroadcastq ymm0, xmm0",
                    "2:", "vmovntdq [{at}], ymm0", "vmovntdq [{at} + 32], ymm0",
                    "add {at}, 64", "cmp {at}, {end}", "jb 2b", "vzeroupper",
                    at = inout(reg) from => _, end = in(reg) end, word = in(reg) word, out("xmm0") _,
                    options(nostack)),
                Width::Sse2 => asm!(
                    "movq xmm0, {word}", "punpcklqdq xmm0, xmm0",
                    "2:", "movntdq [{at}], xmm0", "movntdq [{at} + 16], xmm0",
                    "movntdq [{at} + 32], xmm0", "movntdq [{at} + 48], xmm0",
                    "add {at}, 64", "cmp {at}, {end}", "jb 2b",
                    at = inout(reg) from => _, end = in(reg) end, word = in(reg) word, out("xmm0") _,
                    options(nostack)),
            }
        }
    }
}

/// Reads the 8 bytes at `address` and forgets them.
///
/// # Safety
/// They are mapped.
#[inline(always)]
pub unsafe fn load_word(address: *const u8) {
    // SAFETY: the caller vouches for the address; the register is named.
    unsafe {
        asm!("mov {to}, [{at}]", at = in(reg) address, to = out(reg) _, options(nostack, readonly, preserves_flags));
    }
}

/// Writes the 8 bytes at `address`, through the cache.
///
/// # Safety
/// They are mapped, writable, and nobody has references to them.
#[inline(always)]
pub unsafe fn store_word(address: *mut u8, word: u64) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        asm!("mov [{at}], {word}", at = in(reg) address, word = in(reg) word, options(nostack, preserves_flags));
    }
}

/// Throws the line that contains `address` out of all caches. It is gone after the next [`fence_all`].
///
/// # Safety
/// `address` is mapped.
#[inline(always)]
pub unsafe fn evict(address: *const u8) {
    // SAFETY: the caller vouches for the address; every x86-64 has the instruction.
    unsafe { asm!("clflush [{}]", in(reg) address, options(nostack, preserves_flags)) }
}

/// Waits until every access, flush and non-temporal store before is done.
#[inline(always)]
pub fn fence_all() {
    // SAFETY: `mfence` has no operands; every x86-64 has it.
    unsafe { asm!("mfence", options(nostack, preserves_flags)) }
}

/// The time-stamp counter, after all loads before and before all instructions after.
#[inline(always)]
pub fn ticks() -> u64 {
    let (high, low): (u64, u64);
    // SAFETY: reads a counter; the registers that it writes are named.
    unsafe {
        asm!("rdtscp", "lfence", out("rax") low, out("rdx") high, out("rcx") _, options(nostack, preserves_flags));
    }
    high << 32 | low
}

/// Whether the counter runs at one speed whatever the processor's frequency.
pub fn ticks_are_steady() -> bool {
    CpuId::new().get_advanced_power_mgmt_info().is_some_and(|info| info.has_invariant_tsc())
}

/// Whether a hypervisor says that it is there.
pub fn is_virtual() -> bool {
    CpuId::new().get_feature_info().is_some_and(|info| info.has_hypervisor())
}

/// The processor's own name for itself.
pub fn model() -> String {
    CpuId::new()
        .get_processor_brand_string()
        .map_or_else(|| "x86-64".to_owned(), |brand| brand.as_str().trim().to_owned())
}
