//! Lines of 64 B moved with pairs of vector registers, and the generic timer.

use std::arch::asm;

/// How wide the instructions are that move a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Two pairs of 16 B registers per line.
    Neon,
}

impl Width {
    /// The only one.
    pub fn detect() -> Width {
        Width::Neon
    }

    /// The instructions' name.
    pub fn name(self) -> &'static str {
        "Neon, 2 x 32 B"
    }

    /// Reads the lines from `from` to `end` and forgets them.
    ///
    /// # Safety
    /// `from` is below `end`, both are multiples of 64, and all between is mapped.
    #[inline(always)]
    pub unsafe fn load(self, from: *const u8, end: *const u8) {
        // SAFETY: the caller vouches for the range; the registers are named.
        unsafe {
            asm!(
                "2:", "ldp q0, q1, [{at}]", "ldp q2, q3, [{at}, #32]", "add {at}, {at}, #64",
                "cmp {at}, {end}", "b.lo 2b",
                at = inout(reg) from => _, end = in(reg) end,
                out("v0") _, out("v1") _, out("v2") _, out("v3") _, options(nostack, readonly));
        }
    }

    /// Fills the lines from `from` to `end` with `word`, through the cache.
    ///
    /// # Safety
    /// As for [`Width::load`], and the range is writable and nobody has references into it.
    #[inline(always)]
    pub unsafe fn store(self, from: *mut u8, end: *const u8, word: u64) {
        // SAFETY: the caller vouches for the range; the registers are named.
        unsafe {
            asm!(
                "dup v0.2d, {word}",
                "2:", "stp q0, q0, [{at}]", "stp q0, q0, [{at}, #32]", "add {at}, {at}, #64",
                "cmp {at}, {end}", "b.lo 2b",
                at = inout(reg) from => _, end = in(reg) end, word = in(reg) word, out("v0") _, options(nostack));
        }
    }

    /// Copies the lines from `from` to `end` to where `to` points, through the cache.
    ///
    /// # Safety
    /// As for [`Width::load`]; as many lines at `to` are writable, none of them is one of the others, and nobody has references
    /// into them.
    #[inline(always)]
    pub unsafe fn copy(self, from: *const u8, end: *const u8, to: *mut u8) {
        // SAFETY: the caller vouches for the ranges; the registers are named.
        unsafe {
            asm!(
                "2:", "ldp q0, q1, [{at}]", "ldp q2, q3, [{at}, #32]", "stp q0, q1, [{to}]", "stp q2, q3, [{to}, #32]",
                "add {at}, {at}, #64", "add {to}, {to}, #64", "cmp {at}, {end}", "b.lo 2b",
                at = inout(reg) from => _, to = inout(reg) to => _, end = in(reg) end,
                out("v0") _, out("v1") _, out("v2") _, out("v3") _, options(nostack));
        }
    }

    /// Fills the lines from `from` to `end` with `word`, with the hint that they will not be needed soon.
    ///
    /// # Safety
    /// As for [`Width::store`].
    #[inline(always)]
    pub unsafe fn store_nt(self, from: *mut u8, end: *const u8, word: u64) {
        // SAFETY: the caller vouches for the range; the registers are named.
        unsafe {
            asm!(
                "dup v0.2d, {word}",
                "2:", "stnp q0, q0, [{at}]", "stnp q0, q0, [{at}, #32]", "add {at}, {at}, #64",
                "cmp {at}, {end}", "b.lo 2b",
                at = inout(reg) from => _, end = in(reg) end, word = in(reg) word, out("v0") _, options(nostack));
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
        asm!("ldr {to}, [{at}]", at = in(reg) address, to = out(reg) _, options(nostack, readonly, preserves_flags));
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
        asm!("str {word}, [{at}]", at = in(reg) address, word = in(reg) word, options(nostack, preserves_flags));
    }
}

/// Throws the line that contains `address` out of all caches. It is gone after the next [`fence_all`].
///
/// # Safety
/// `address` is mapped.
#[inline(always)]
pub unsafe fn evict(address: *const u8) {
    // SAFETY: the caller vouches for the address.
    unsafe { asm!("dc civac, {}", in(reg) address, options(nostack, preserves_flags)) }
}

/// Waits until every access and flush before is done.
#[inline(always)]
pub fn fence_all() {
    // SAFETY: a barrier without operands.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
}

/// The generic timer, after all accesses before and before all instructions after.
#[inline(always)]
pub fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter that user programs may read.
    unsafe {
        asm!("dsb ld", "isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks, options(nostack, preserves_flags))
    };
    ticks
}

/// The architecture promises it.
pub fn ticks_are_steady() -> bool {
    true
}

/// Not to be found out from here.
pub fn is_virtual() -> bool {
    false
}

/// The instruction set; the kernel knows more.
pub fn model() -> String {
    "aarch64".to_owned()
}
