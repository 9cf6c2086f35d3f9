//! A core's TLB and the state of its walker.

use super::tlb::Levels;
use crate::{Config, Time};

/// A walk or a fault that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    pub(super) address: u64,
    pub(super) began: Time,
    /// When the next step can begin.
    pub(super) at: Time,
    pub(super) step: Step,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Reads the entry of this level.
    Read(u32),
    /// Locks the entry of the page tables, reads tail and this entry of the table, stores: a part of it.
    Offload { part: u32, entry: u64 },
    /// Zeroes this line; the kernel is done no sooner than at the time, and began with the fault at the other.
    Zero { line: u64, until: Time, begun: Time },
}

/// A core's translation.
#[derive(Clone, Debug)]
pub(crate) struct Mmu {
    pub(super) levels: Levels,
    pub(super) epoch: u64,
    pub(super) walk: Option<Walk>,
    /// The line at hand is translated, and its access may be tried again.
    pub(super) translated: bool,
}

impl Mmu {
    pub(crate) fn new(config: &Config) -> Option<Box<Mmu>> {
        let tlb = config.tlb.as_ref()?;
        Some(Box::new(Mmu { levels: Levels::new(tlb), epoch: 0, walk: None, translated: false }))
    }
}
