//! Stores on their way into the cache.
//!
//! With total store order a store waits in the store queue until it has retired, all stores before it are in the cache
//! and its line is there and owned; the line is asked for as soon as the store enters the window, so the
//! misses of several stores overlap.

use super::figures::Cause;
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
