//! `System`: the memory of the model, its size, and which mistake it makes.

use super::flaw::Flaw;
use super::layout::{FIRST_HUGE, FREE, FREE_HUGE, Ring, Scope};
use super::memory::Memory;

/// What actors work on.
#[derive(Clone, Debug)]
pub struct System<M> {
    /// The shared words.
    pub memory: M,
    /// Their arrangement.
    pub scope: Scope,
    /// The one mistake that actors make, if any.
    pub flaw: Option<Flaw>,
}

/// A user-mode access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Core that runs it.
    pub core: u64,
    /// Process.
    pub process: u64,
    /// Page of the region.
    pub page: u64,
    /// Whether it stores.
    pub write: bool,
}

/// How an access ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// It was performed.
    Done,
    /// The region is gone or does not permit it.
    Refused,
    /// There is no memory.
    NoMemory,
}

impl<M: Memory> System<M> {
    pub(super) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    pub(super) async fn lock(&self, at: u64) {
        loop {
            self.memory.wait(at, |value| value == 0).await;
            if self.memory.cas(at, 0, 1).await.is_ok() {
                return;
            }
        }
    }

    pub(super) async fn unlock(&self, at: u64) {
        self.memory.store(at, 0).await;
    }

    pub(super) async fn lock_table(&self, ring: &Ring) {
        if !self.has(Flaw::NoTableLock) {
            self.lock(ring.lock).await;
        }
    }

    pub(super) async fn unlock_table(&self, ring: &Ring) {
        if !self.has(Flaw::NoTableLock) {
            self.unlock(ring.lock).await;
        }
    }

    /// A zeroed page. The allocator's own lock is one locked instruction here.
    pub(super) async fn allocate(&self, huge: bool) -> Option<u64> {
        let (set, base) = if huge { (FREE_HUGE, FIRST_HUGE) } else { (FREE, 0) };
        let free = self.memory.update(set, |free| free & free.wrapping_sub(1)).await;
        if free == 0 {
            return None;
        }
        let frame = base + u64::from(free.trailing_zeros());
        self.memory.poke(self.scope.content(frame), 0);
        Some(frame)
    }

    pub(super) async fn release(&self, frame: u64) {
        let (set, number) = if frame < FIRST_HUGE { (FREE, frame) } else { (FREE_HUGE, frame - FIRST_HUGE) };
        let before = self.memory.update(set, |free| free | 1 << number).await;
        if before >> number & 1 == 1 {
            self.memory.fail(format!("memory {frame} is freed twice"));
        }
    }

    /// Whether nobody has the page; a check, not a step.
    pub(super) fn is_free(&self, frame: u64) -> bool {
        let (set, number) = if frame < FIRST_HUGE { (FREE, frame) } else { (FREE_HUGE, frame - FIRST_HUGE) };
        self.memory.peek(set) >> number & 1 == 1
    }

    /// Waits until no core is within an access that may have used an old entry.
    pub(super) async fn shoot_down(&self) {
        for core in 0..self.scope.cores {
            self.memory.wait(self.scope.walking(core), |walking| walking == 0).await;
        }
    }
}
