//! The instructions for persistent memory, one file per instruction set with the same items:
//!
//! - `offer_of_this_cpu()`: asks the processor what it has; [`Offer`] keeps the answer.
//! - `Flush`: which write-back instruction to use; `kind()` says which one of the vocabulary it is, `line()` executes it.
//! - `demote()`: the hint to move a line one step outwards.
//! - `fence()`: waits until earlier write-backs and non-temporal stores are done, before later stores.
//! - `store_pair()`: stores two words at once: a core has room for so many stores, not for so many bytes, that wait for a fence.
//! - `store_nt()`: copies words by non-temporal stores.
//!
//! None of these is in the standard library as a function that compiles for a baseline processor and runs
//! where the processor has it; hence inline assembly.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::fmt;
use std::sync::OnceLock;

#[cfg(target_arch = "aarch64")]
use aarch64::offer_of_this_cpu;
#[cfg(target_arch = "aarch64")]
pub use aarch64::{Flush, demote, fence, prefetch, store_nt, store_pair};
#[cfg(target_arch = "x86_64")]
use x86_64::offer_of_this_cpu;
#[cfg(target_arch = "x86_64")]
pub use x86_64::{Flush, demote, fence, prefetch, store_nt, store_pair};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!(
    "pmem knows the cache instructions of x86-64 and aarch64 only; add a file to crates/library/pmem/src/isa"
);

/// What this processor offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The best write-back instruction.
    pub flush: Flush,
    /// The instruction that writes a line back and keeps it, if there is one. No substitute is: a flush that invalidates
    /// makes the next access miss.
    pub clean: Option<Flush>,
    /// Whether the demotion hint has an effect.
    pub demote: bool,
    /// Whether a line that is stored by a non-temporal store is durable sooner than one that is stored and flushed. By maker, as measured: a
    /// Zen 4 takes 126 ns for a region by redo that has nothing to flush but its log's line if that is stored by a non-temporal store, and 186 ns with a flush of it; on Cascade Lake a flush was sooner (the figure was
    /// not kept), and other Intel processors were not tried.
    pub nt_is_sooner: bool,
    /// Bytes from one line to the next, a power of two.
    pub line: usize,
}

impl Offer {
    /// Asks the processor; once per process.
    #[must_use]
    pub fn of_this_cpu() -> Offer {
        static OFFER: OnceLock<Offer> = OnceLock::new();
        *OFFER.get_or_init(offer_of_this_cpu)
    }
}

impl fmt::Display for Offer {
    /// `flush: clwb, cleaning: clwb, demotion: none`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clean = self.clean.map_or("none", Flush::name);
        let demote = if self.demote { "yes" } else { "none" };
        write!(f, "flush: {}, cleaning: {clean}, demotion: {demote}", self.flush.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offer_is_stable_and_says_its_name() {
        let offer = Offer::of_this_cpu();
        assert_eq!(offer, Offer::of_this_cpu());
        assert!(offer.to_string().starts_with(&format!("flush: {}", offer.flush.name())));
    }

    /// Every processor has the least of them, so the other arms are run too, not only the best one.
    #[test]
    fn flushes_fences_and_hints_leave_memory_alone() {
        #[cfg(target_arch = "x86_64")]
        let least = Flush::Clflush;
        #[cfg(target_arch = "aarch64")]
        let least = Flush::Cvac;
        let value = std::sync::atomic::AtomicU64::new(7);
        for flush in [least, Offer::of_this_cpu().flush] {
            // SAFETY: the address is that of a live variable, the instruction is one that this processor has.
            unsafe {
                flush.line(value.as_ptr().cast());
                demote(value.as_ptr().cast());
            }
            fence();
            assert_eq!(value.load(std::sync::atomic::Ordering::Relaxed), 7);
        }
    }
}
