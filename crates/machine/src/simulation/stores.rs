//! Stores on their way into the cache.
//!
//! With total store order a store waits in the store queue until it has retired, all stores before it are in the cache
//! and its line is there and owned; the line is asked for as soon as the store enters the window, so the
//! misses of several stores overlap. A weakly ordered core keeps the lines that it has stored to in a private buffer and
//! asks for them when room is needed, at a fence, at a release or when the program demotes them; stores to a
//! line that waits melt into it. A line that is asked for has its place in the buffer until it comes, and needs no fill buffer
//! besides: the buffer holds what is to be put into it, and goes on answering loads.

use super::figures::Cause;
use super::slots::LineSlots;
use super::window::{SiteStalls, Wait, Window};
use crate::{Config, Time};

/// A store or flush in the store queue.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// When the cache has it.
    commit: Time,
    arrival: Arrival,
    site: u32,
}

/// When a store's line is there, and what that depended on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) done: Time,
    /// When it was to be asked for,
    pub(crate) wanted: Time,
    /// when it could be,
    pub(crate) granted: Time,
    /// and what it had to wait for until then.
    pub(crate) before: Cause,
}

impl Arrival {
    /// A line that is there.
    pub(crate) const HERE: Arrival =
        Arrival { done: Time::ZERO, wanted: Time::ZERO, granted: Time::ZERO, before: Cause::StoreBuffer };
}

impl Arrival {
    /// As a wait for `cause`.
    pub(crate) fn wait(self, cause: Cause, site: u32) -> Wait {
        let Arrival { done, wanted, granted, before } = self;
        Wait { wanted, granted, before, done, cause, site }
    }
}

/// A core's store queue.
#[derive(Clone, Debug)]
pub(crate) struct Stores {
    /// The last so many, in a ring.
    entries: Box<[Entry]>,
    /// Place of the next, which the oldest has now.
    next: usize,
    /// When the cache has the last one so far.
    pub(crate) committed: Time,
    cycle: Time,
}

impl Stores {
    pub(crate) fn new(config: &Config) -> Self {
        let pipeline = &config.cores.pipeline;
        let empty = Entry { commit: Time::ZERO, arrival: Arrival::HERE, site: 0 };
        Stores {
            entries: vec![empty; pipeline.store_queue as usize].into(),
            next: 0,
            committed: Time::ZERO,
            cycle: pipeline.cycle,
        }
    }

    /// Entries.
    pub(crate) fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Waits for a free entry.
    #[inline(always)]
    pub(crate) fn make_room(&self, window: &mut Window, sites: &mut SiteStalls) {
        let oldest = &self.entries[self.next];
        if oldest.commit > window.dispatch {
            let wait = oldest.arrival.wait(Cause::StoreBuffer, oldest.site);
            window.stand_still(&Wait { done: oldest.commit, ..wait }, sites);
        }
    }

    /// A store of `site`, retired at `retired`, takes an entry. Returns when the cache has it.
    #[inline(always)]
    pub(crate) fn push(&mut self, retired: Time, arrival: Arrival, site: u32) -> Time {
        let commit = retired.max(self.committed + self.cycle).max(arrival.done);
        self.entries[self.next] = Entry { commit, arrival, site };
        self.next = if self.next + 1 == self.entries.len() { 0 } else { self.next + 1 };
        self.committed = commit;
        commit
    }
}

/// A line that nobody else knows to be changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) line: u64,
    /// Who stored last.
    pub(crate) site: u32,
    /// Stores that it holds.
    pub(crate) stores: u64,
    /// Their times of retirement, added up.
    pub(crate) retired: Time,
}

/// The private buffer of a weakly ordered core.
#[derive(Clone, Debug)]
pub(crate) struct Private {
    /// In the order of their first stores.
    pub(crate) kept: Vec<Kept>,
    /// Those whose lines were asked for and have not come.
    pub(crate) leaving: LineSlots,
    capacity: usize,
}

impl Private {
    pub(crate) fn new(config: &Config) -> Self {
        let capacity = config.cores.pipeline.private_lines;
        Private { kept: Vec::new(), leaving: LineSlots::new(capacity), capacity: capacity as usize }
    }

    /// Puts a store of `site`, retired at `retired`, to a line that is kept already. False if it is not.
    pub(crate) fn melt(&mut self, line: u64, site: u32, retired: Time) -> bool {
        let Some(kept) = self.kept.iter_mut().find(|kept| kept.line == line) else { return false };
        kept.site = site;
        kept.stores += 1;
        kept.retired += retired;
        true
    }

    pub(crate) fn holds(&self, line: u64) -> bool {
        self.kept.iter().any(|kept| kept.line == line)
    }

    /// Whether the oldest should make room for one more: half of the buffer is for those that are leaving.
    pub(crate) fn is_pressed(&self) -> bool {
        self.kept.len() > self.capacity / 2
    }

    /// When there is room for one more.
    pub(crate) fn room_at(&self, now: Time) -> Time {
        let free = self.capacity - self.kept.len();
        self.leaving.when_at_most(free.saturating_sub(1), now)
    }
}
