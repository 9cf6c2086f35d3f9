//! Versions: how a reader that takes no lock knows that what it read was of one moment.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

/// Somebody changed a node meanwhile, or something is to be done first under its latch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conflict;

/// The version of a node: odd while it is changed.
#[derive(Clone, Copy)]
pub(crate) struct Version<'a>(pub &'a AtomicU64);

impl Version<'_> {
    /// A number to hold against [`Version::unchanged`].
    #[inline(always)]
    pub fn begin(self) -> Result<u64, Conflict> {
        let version = self.0.load(Acquire);
        if version & 1 == 0 { Ok(version) } else { Err(Conflict) }
    }

    /// Whether all that was read since [`Version::begin`] is of one moment.
    #[inline(always)]
    pub fn unchanged(self, version: u64) -> Result<(), Conflict> {
        fence(Acquire);
        if self.0.load(Relaxed) == version { Ok(()) } else { Err(Conflict) }
    }

    /// Makes changes that readers see as one. One thread at a time.
    #[inline(always)]
    pub fn change<R>(self, make: impl FnOnce() -> R) -> R {
        let version = self.0.load(Relaxed);
        self.0.store(version + 1, Relaxed);
        fence(Release);
        let made = make();
        self.0.store(version + 2, Release);
        made
    }
}
