//! Atomics of 16 bytes, which stable Rust does not have.

use core::arch::asm;
use core::sync::atomic::Ordering;

/// A 16-byte atomic. Every operation is sequentially consistent and a compare-and-exchange, so even a load
/// needs memory that may be written, as it does where compilers do it.
#[repr(C, align(16))]
pub struct AtomicU128(core::cell::UnsafeCell<u128>);

impl AtomicU128 {
    /// The atomic at `at`.
    ///
    /// # Safety
    /// `at` is 16-aligned, valid for `'a`, and only accessed atomically.
    pub unsafe fn from_ptr<'a>(at: *mut u128) -> &'a Self {
        // SAFETY: the same layout; the rest is the caller's duty.
        unsafe { &*at.cast::<Self>() }
    }

    /// As for the smaller ones.
    #[cfg(target_arch = "x86_64")]
    pub fn compare_exchange(&self, old: u128, new: u128, _: Ordering, _: Ordering) -> Result<u128, u128> {
        let (mut low, mut high) = (old as u64, (old >> 64) as u64);
        let done: u8;
        // SAFETY: the address is valid and aligned; `rbx`, which the compiler keeps, is put back.
        unsafe {
            asm!(
                "xchg rsi, rbx",
                "lock cmpxchg16b xmmword ptr [rdi]",
                "sete r8b",
                "mov rbx, rsi",
                in("rdi") self.0.get(),
                inout("rsi") new as u64 => _,
                out("r8b") done,
                in("rcx") (new >> 64) as u64,
                inout("rax") low,
                inout("rdx") high,
                options(nostack),
            );
        }
        let seen = u128::from(low) | u128::from(high) << 64;
        if done != 0 { Ok(seen) } else { Err(seen) }
    }

    /// As for the smaller ones.
    #[cfg(target_arch = "aarch64")]
    pub fn compare_exchange(&self, old: u128, new: u128, _: Ordering, _: Ordering) -> Result<u128, u128> {
        loop {
            let (low, high): (u64, u64);
            // SAFETY: the address is valid and aligned; nothing is accessed before the pair is stored.
            unsafe {
                asm!("ldaxp {low}, {high}, [{at}]", at = in(reg) self.0.get(), low = out(reg) low, high = out(reg) high, options(nostack));
            }
            let seen = u128::from(low) | u128::from(high) << 64;
            let write = if seen == old { new } else { seen };
            let failed: u32;
            // SAFETY: as above.
            unsafe {
                asm!(
                    "stlxp {failed:w}, {low}, {high}, [{at}]",
                    at = in(reg) self.0.get(), failed = out(reg) failed,
                    low = in(reg) write as u64, high = in(reg) (write >> 64) as u64,
                    options(nostack),
                );
            }
            if failed == 0 {
                return if seen == old { Ok(seen) } else { Err(seen) };
            }
        }
    }

    fn update(&self, change: impl Fn(u128) -> u128) -> u128 {
        let mut seen = self.load(Ordering::SeqCst);
        while let Err(other) = self.compare_exchange(seen, change(seen), Ordering::SeqCst, Ordering::SeqCst) {
            seen = other;
        }
        seen
    }

    /// As for the smaller ones.
    pub fn load(&self, _: Ordering) -> u128 {
        let (Ok(seen) | Err(seen)) = self.compare_exchange(0, 0, Ordering::SeqCst, Ordering::SeqCst);
        seen
    }

    /// As for the smaller ones.
    pub fn store(&self, value: u128, _: Ordering) {
        self.update(|_| value);
    }

    /// As for the smaller ones.
    pub fn swap(&self, value: u128, _: Ordering) -> u128 {
        self.update(|_| value)
    }

    /// As for the smaller ones.
    pub fn fetch_add(&self, value: u128, _: Ordering) -> u128 {
        self.update(|old| old.wrapping_add(value))
    }

    /// As for the smaller ones.
    pub fn fetch_sub(&self, value: u128, _: Ordering) -> u128 {
        self.update(|old| old.wrapping_sub(value))
    }

    /// As for the smaller ones.
    pub fn fetch_and(&self, value: u128, _: Ordering) -> u128 {
        self.update(|old| old & value)
    }

    /// As for the smaller ones.
    pub fn fetch_or(&self, value: u128, _: Ordering) -> u128 {
        self.update(|old| old | value)
    }

    /// As for the smaller ones.
    pub fn fetch_xor(&self, value: u128, _: Ordering) -> u128 {
        self.update(|old| old ^ value)
    }

    /// As for the smaller ones.
    pub fn fetch_nand(&self, value: u128, _: Ordering) -> u128 {
        self.update(|old| !(old & value))
    }
}
