//! Pages and their faults, for all cores: which are there, the kernel's lock, the tables of the offload engine.

use std::collections::{HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::config::{Offload, PageFaults};
use crate::{Config, Time};

/// What translation did, all cores together. Times are of cores that waited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranslationFigures {
    /// Look-ups that each TLB level answered.
    pub hits: Vec<u64>,
    /// Look-ups that none did: walks.
    pub walks: u64,
    /// Entries of page tables that walks read, through the caches.
    pub walk_reads: u64,
    /// From the beginning to the end of all walks, without the kernel's time.
    pub walk_time: Time,
    /// First stores, first loads, and stores to the page of zeros, that the kernel handled.
    pub kernel_writes: u64,
    /// See above.
    pub kernel_reads: u64,
    /// See above.
    pub kernel_copies: u64,
    /// The kernel's time for them, zeroing included.
    pub kernel_time: Time,
    /// Of it, waiting for the lock of the page tables.
    pub kernel_waited: Time,
    /// Faults that the walker completed.
    pub offloaded: u64,
    /// Of these, loads.
    pub offloaded_reads: u64,
    /// From the entry's lock to the page, all of them.
    pub offload_time: Time,
    /// Bytes that the walker read and wrote for these, beyond the walk.
    pub offload_bytes: u64,
    /// The thread's work.
    pub background: Time,
    /// Pages in tables at the end.
    pub reserved: u64,
}

/// How a page is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct There {
    pub(crate) since: Time,
    /// A page of its own, not the page of zeros.
    pub(crate) own: bool,
}

/// A core's table of pages.
#[derive(Debug)]
pub(super) struct Ring {
    /// When each page that the thread has put in is there, the next first.
    pub(super) pages: VecDeque<Time>,
    /// Entry from which the walker takes next, and which the thread fills next, 1 to the number of entries.
    pub(super) tail: u64,
    pub(super) head: u64,
}

/// State of pages.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) faults: Option<PageFaults>,
    pub(crate) figures: TranslationFigures,
    /// Changes when pages go: TLBs are emptied.
    pub(crate) epoch: u64,
    there: HashMap<u64, There>,
    page_bits: u32,
    pub(super) free: Option<u64>,
    lock_until: Time,
    pub(super) rings: Vec<Ring>,
    pub(super) refill_at: Time,
    /// Time that the thread takes from its core.
    pub(crate) stolen: Time,
}

impl Pages {
    pub(crate) fn new(config: &Config) -> Option<Pages> {
        let tlb = config.tlb.as_ref()?;
        let offload = tlb.faults.as_ref().and_then(|faults| faults.offload.as_ref());
        let rings = offload.map_or(0, |_| config.cores.count);
        Some(Pages {
            figures: TranslationFigures { hits: vec![0; tlb.levels.len()], ..Default::default() },
            epoch: 0,
            there: HashMap::new(),
            page_bits: tlb.page_bits(),
            free: tlb.faults.as_ref().and_then(|faults| faults.free),
            lock_until: Time::ZERO,
            rings: (0..rings).map(|_| Ring { pages: VecDeque::new(), tail: 1, head: 1 }).collect(),
            refill_at: Time::ZERO,
            stolen: Time::ZERO,
            faults: tlb.faults.clone(),
        })
    }

    /// How a page is there, if it is.
    pub(crate) fn there(&self, page: u64) -> Option<There> {
        match self.faults {
            Some(_) => self.there.get(&page).copied(),
            None => Some(There { since: Time::ZERO, own: true }),
        }
    }

    /// It is there now.
    pub(crate) fn appears(&mut self, page: u64, there: There) {
        self.there.insert(page, there);
    }

    /// `len` bytes at `addr` are unmapped.
    pub(crate) fn unmap(&mut self, addr: u64, len: u64) {
        if self.faults.is_none() || self.there.is_empty() {
            return;
        }
        let (first, end) = (addr >> self.page_bits, addr.saturating_add(len) >> self.page_bits);
        let before = self.there.len();
        self.there.retain(|page, _| *page < first || *page >= end);
        let gone = (before - self.there.len()) as u64;
        if gone > 0 {
            self.free = self.free.map(|free| free + gone);
            self.epoch += 1;
        }
    }

    /// The page of an address.
    pub(crate) fn page(&self, address: u64) -> u64 {
        address >> self.page_bits
    }

    /// The offload engine, if there is one.
    pub(super) fn offload(&self) -> Option<&Offload> {
        self.faults.as_ref()?.offload.as_ref()
    }

    pub(crate) fn worker(&self) -> Option<u32> {
        self.offload()?.worker
    }

    /// Whether faults may be completed by walkers.
    pub(crate) fn offloads(&self) -> bool {
        self.offload().is_some()
    }

    /// Entry of a core's table from which its walker takes next.
    pub(crate) fn tail(&self, core: usize) -> u64 {
        self.rings[core].tail
    }

    /// The walker of a core takes a page at `at`, if there is one.
    pub(crate) fn take(&mut self, core: usize, at: Time) -> bool {
        let entries = self.offload().map_or(1, |offload| u64::from(offload.ring));
        let ring = &mut self.rings[core];
        if ring.pages.front().is_none_or(|ready| *ready > at) {
            return false;
        }
        ring.pages.pop_front();
        ring.tail = if ring.tail == entries { 1 } else { ring.tail + 1 };
        true
    }

    /// The kernel handles a fault from `at` on. Returns when the lock lets it go on, and how long it takes from then.
    pub(crate) fn kernel(&mut self, at: Time, store: bool) -> (Time, Time) {
        let Some(faults) = &self.faults else { return (at, Time::ZERO) };
        let begins = at.max(self.lock_until);
        self.lock_until = begins + faults.locked;
        let mut takes = if store { faults.write } else { faults.read };
        if store {
            match &mut self.free {
                Some(0) => takes += faults.reclaim,
                Some(free) => *free -= 1,
                None => {}
            }
        }
        self.figures.kernel_waited += begins.since(at);
        (begins, takes)
    }

    /// Pages that lie in tables.
    pub(crate) fn reserved(&self) -> u64 {
        self.rings.iter().map(|ring| ring.pages.len() as u64).sum()
    }
}
