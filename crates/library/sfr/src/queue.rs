//! What a thread and the pruner share about a log: ends of SFRs that are not committed yet.

use std::collections::VecDeque;

use crate::order::Order;
use crate::ring::Ring;

/// The end of an SFR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Position behind its last entry.
    pub position: u64,
    pub order: Order,
    /// Whether a commit may end here: not within a critical section of ATLAS.
    pub last: bool,
}

/// What is counted about a log's threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub stores: u64,
    pub entries: u64,
    pub flushes: u64,
    pub fences: u64,
    pub regions: u64,
    pub commits: u64,
    pub live_max: u64,
}

impl Counters {
    pub fn add(&mut self, other: &Counters) {
        self.stores += other.stores;
        self.entries += other.entries;
        self.flushes += other.flushes;
        self.fences += other.fences;
        self.regions += other.regions;
        self.commits += other.commits;
        self.live_max = self.live_max.max(other.live_max);
    }
}

/// A log as others see it.
#[derive(Debug)]
pub struct Queue {
    /// Whether a thread has it.
    pub taken: bool,
    /// Position of the first entry that is not committed.
    pub head: u64,
    /// Position of the next entry, as of the last end.
    pub tail: u64,
    /// The clock as of the last end.
    pub clock: u64,
    pub ring: Option<Ring>,
    pub ends: VecDeque<End>,
    /// Ends that were queued since the opening.
    pub ended: u64,
    /// Freed blocks, and the position at which their SFR ended.
    pub freed: VecDeque<(u64, u64)>,
    pub counters: Counters,
}

impl Queue {
    pub fn new(head: u64, clock: u64, ring: Option<Ring>) -> Queue {
        Queue {
            taken: false,
            head,
            tail: head,
            clock,
            ring,
            ends: VecDeque::new(),
            ended: 0,
            freed: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Ends that are committed.
    pub fn committed(&self) -> u64 {
        self.ended - self.ends.len() as u64
    }
}
