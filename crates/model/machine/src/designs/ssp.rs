//! Shadow sub-paging (Ni 2022, chapter 3): a region's lines go to the other of two pages, and a bit per line says where its last version is.
//!
//! State per page in use: the *committed* bitmap, and which TLBs hold its translation. Per core: a TLB of the pages it accesses,
//! and the region's lines, which are the *updated* bitmaps of the write-set buffer (64 pages). *current* is committed with the running
//! regions' updated lines flipped, so it needs no state of its own here.
//!
//! - *First store of a region to a line*: one flip message. The old version is durable where it is, so nothing is copied or logged. A line
//!   that an ordinary store left dirty is written back before.
//! - *End of a region*: its lines are written back; then one journal record of 16 bytes per page is written, the journal's last line in
//!   full; when memory has that, the region is durable. Begin and end are full barriers.
//! - *TLB miss*: the entry comes from the part of the SSP cache that the last-level cache holds, or from memory (`ssp_miss`).
//! - *Last TLB gives a page up*: the page with fewer lines is copied to the other, and a record says so (eager). With `ssp_eager = false`
//!   that waits until more pages than TLBs can hold, and `ssp_spare` more, have lines in both.
//! - *Checkpoint* when the journal has `ssp_journal` records: one line for each changed slot.
//! - *Overflow*: a region of more than 64 pages goes to the software handler. It is counted, and each line of the pages beyond is logged as a
//!   redo log would, in two lines.
//!
//! Each page has a second place in memory, and each version of a line goes to the place in which the one before is not, so rows and
//! buffers of the device see two pages. Simplified: a line keeps its set in the caches when its tag changes, and a page keeps its second place,
//! while the source gives that of a slot to the slot's next page.

use std::collections::{HashMap, HashSet, VecDeque};

use event::Capabilities;

use super::as_tso::as_tso;
use super::persistency::{Persistency, RegionMark};
use super::tso::Tso;
use super::write_set::{PAGE_SHIFT, WriteSet};
use crate::interleave::PERSISTENT;
use crate::simulation::{Cause, Later, Shared, TimedCore, Wait};
use crate::{Config, LINE_BYTES, Time};

/// Pages of the write-set buffer [published].
const WRITE_SET_PAGES: usize = 64;
/// Bytes of a journal record [published].
const RECORD: u64 = 16;
/// Lanes of what regions wait for, and of what goes on behind them.
const REGION: usize = 0;
const BACKGROUND: usize = 1;

/// The design.
pub(crate) struct Ssp {
    tso: Tso,
    cores: Vec<Core>,
    pages: HashMap<u64, Page>,
    /// Pages that no TLB holds and that have lines in both copies, oldest first; lazily consolidated.
    apart: VecDeque<u64>,
    apart_max: usize,
    eager: bool,
    /// Pages whose SSP entry the last-level cache has.
    cached: Recent,
    miss: Time,
    /// Bytes of the journal so far, and slots changed since the last checkpoint.
    journal: u64,
    changed: HashSet<u64>,
    records: u64,
    checkpoint: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    committed: u64,
    /// TLBs that hold it.
    tlbs: u32,
}

#[derive(Clone, Debug, Default)]
struct Core {
    set: WriteSet,
    /// Pages of the region.
    pages: HashSet<u64>,
    /// The pages that the core translates, and the last one.
    tlb: Recent,
    last: Option<u64>,
}

/// The last so many different numbers, by a clock that sweeps.
#[derive(Clone, Debug, Default)]
struct Recent {
    ring: Vec<(u64, bool)>,
    places: HashMap<u64, usize>,
    hand: usize,
    capacity: usize,
}

impl Recent {
    /// Whether `number` is there.
    fn has(&mut self, number: u64) -> bool {
        let place = self.places.get(&number).copied();
        place.map(|place| self.ring[place].1 = true).is_some()
    }

    /// Puts `number` in, which is not there. Returns the one that goes.
    fn insert(&mut self, number: u64) -> Option<u64> {
        if self.ring.len() < self.capacity {
            self.places.insert(number, self.ring.len());
            self.ring.push((number, true));
            return None;
        }
        while std::mem::take(&mut self.ring[self.hand].1) {
            self.hand = (self.hand + 1) % self.capacity;
        }
        let gone = std::mem::replace(&mut self.ring[self.hand], (number, true)).0;
        self.places.remove(&gone);
        self.places.insert(number, self.hand);
        self.hand = (self.hand + 1) % self.capacity;
        Some(gone)
    }
}

impl Ssp {
    pub(crate) fn new(config: &Config) -> Self {
        let pipeline = &config.cores.pipeline;
        let tlb = Recent { capacity: pipeline.tlb_entries as usize, ..Recent::default() };
        let core = Core { tlb, ..Core::default() };
        Ssp {
            tso: Tso::new(config),
            cores: vec![core; config.cores.count as usize],
            pages: HashMap::new(),
            apart: VecDeque::new(),
            apart_max: pipeline.ssp_spare as usize,
            eager: pipeline.ssp_eager,
            cached: Recent { capacity: pipeline.ssp_entries as usize, ..Recent::default() },
            miss: pipeline.ssp_miss,
            journal: 0,
            changed: HashSet::new(),
            records: 0,
            checkpoint: pipeline.ssp_journal.into(),
        }
    }

    /// The core translates the page of `line`.
    fn translate(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        let page = line >> PAGE_SHIFT;
        let own = &mut self.cores[core.number];
        if own.last == Some(page) || own.tlb.has(page) {
            own.last = Some(page);
            return Ok(());
        }
        core.turn(shared)?;
        own.last = Some(page);
        let evicted = own.tlb.insert(page);
        self.pages.entry(page).or_default().tlbs += 1;
        shared.extra.tlb_misses += 1;
        let hit = self.cached.has(page);
        if !hit {
            self.cached.insert(page);
        }
        shared.extra.entry_hits += u64::from(hit);
        let took = if hit { shared.latencies.llc } else { self.miss };
        core.window.hold(Wait::simple(core.window.dispatch + took, Cause::LoadMiss, site));
        if let Some(evicted) = evicted {
            self.leaves(core, evicted, site, shared);
        }
        Ok(())
    }

    /// A TLB gives a page up.
    fn leaves(&mut self, core: &mut TimedCore, page: u64, site: u32, shared: &mut Shared) {
        let held = self.pages.entry(page).or_default();
        held.tlbs -= 1;
        let in_use = held.tlbs > 0 || self.cores.iter().any(|core| core.pages.contains(&page));
        if in_use || held.committed == 0 {
            return;
        }
        if self.eager {
            self.consolidate(core, page, site, shared);
            return;
        }
        self.apart.push_back(page);
        while self.apart.len() > self.apart_max {
            let Some(oldest) = self.apart.pop_front() else { break };
            if self.pages.get(&oldest).is_some_and(|page| page.tlbs == 0) {
                self.consolidate(core, oldest, site, shared);
            }
        }
    }

    /// Brings a page's lines together in that of its copies which has more, beside what the core does.
    fn consolidate(&mut self, core: &mut TimedCore, page: u64, site: u32, shared: &mut Shared) {
        let Some(held) = self.pages.get_mut(&page) else { return };
        let second = held.committed.count_ones();
        let moves_second = second <= 32;
        let moved = if moves_second { held.committed } else { !held.committed };
        held.committed = 0;
        let (thread, now) = (core.window.account.thread, core.request_time());
        let mut ready = now;
        for at in (0..64).filter(|at| moved >> at & 1 != 0) {
            let line = page << PAGE_SHIFT | at;
            ready = ready.max(shared.read_by_design(now, line, core.number, thread));
            shared.places.flip(line);
            shared.write_by_design(line, site, thread);
            shared.extra.consolidation_bytes += LINE_BYTES;
        }
        self.record(core, page, site, shared);
        core.outgoing.lane = BACKGROUND;
        core.outgoing.push(ready, shared.hierarchy.below.writes.drain(..));
        core.outgoing.lane = REGION;
    }

    /// A record for the journal. Its line is written when it is full, or when somebody waits for it.
    fn record(&mut self, core: &TimedCore, page: u64, site: u32, shared: &mut Shared) {
        self.journal += RECORD;
        if self.journal.is_multiple_of(LINE_BYTES) {
            self.cores[core.number].set.log(core, site, shared);
        }
        self.changed.insert(page);
        self.records += 1;
        if self.records >= self.checkpoint {
            self.records = 0;
            for _ in self.changed.drain() {
                self.cores[core.number].set.log(core, site, shared);
                shared.extra.checkpoint_bytes += LINE_BYTES;
            }
        }
    }

    fn end(&mut self, core: &mut TimedCore, site: u32, shared: &mut Shared) -> Result<(), Later> {
        let number = core.number;
        if self.cores[number].set.stage == 0 {
            core.turn(shared)?;
            let at = core.stores.committed.max(core.window.retired);
            for &(line, _) in &self.cores[number].set.lines {
                shared.hierarchy.flush(number, line, true);
                core.flush_at(at, shared);
            }
            self.cores[number].set.stage = 1;
        }
        core.send_lane(REGION, shared)?;
        if self.cores[number].set.stage == 1 {
            let mut changes: HashMap<u64, u64> = HashMap::new();
            for &(line, _) in &self.cores[number].set.lines {
                *changes.entry(line >> PAGE_SHIFT).or_default() |= 1 << (line & 63);
            }
            let mut changes: Vec<(u64, u64)> = changes.into_iter().collect();
            changes.sort_unstable();
            let some = !changes.is_empty();
            for (page, updated) in changes {
                self.pages.entry(page).or_default().committed ^= updated;
                self.record(core, page, site, shared);
            }
            if some && !self.journal.is_multiple_of(LINE_BYTES) {
                self.cores[number].set.log(core, site, shared);
            }
            let data = core.outgoing.accepted(REGION);
            core.outgoing.push(data, shared.hierarchy.below.writes.drain(..));
            self.cores[number].set.stage = 2;
        }
        core.send_lane(REGION, shared)?;
        core.stall_for_fence(core.outgoing.accepted(REGION), site, shared);
        self.cores[number].pages.clear();
        self.cores[number].set.end(shared);
        Ok(())
    }

    /// The first store of the region to a line.
    fn first_store(&mut self, core: &mut TimedCore, line: u64, site: u32, shared: &mut Shared) {
        shared.extra.flips += 1;
        shared.places.flip(line);
        let pages = &mut self.cores[core.number].pages;
        let known = pages.contains(&(line >> PAGE_SHIFT));
        if known || pages.len() < WRITE_SET_PAGES {
            pages.insert(line >> PAGE_SHIFT);
            return;
        }
        shared.extra.overflows += u64::from(pages.len() == WRITE_SET_PAGES);
        pages.insert(line >> PAGE_SHIFT);
        for _ in 0..2 {
            self.cores[core.number].set.log(core, site, shared);
        }
        let at = core.stores.committed.max(core.window.retired);
        core.outgoing.push(at, shared.hierarchy.below.writes.drain(..));
    }
}

impl Persistency for Ssp {
    as_tso!(write_slots, flush, fence, publish, strand);

    fn needs(&self) -> Capabilities {
        Capabilities::MAPPINGS | Capabilities::REGIONS
    }

    fn leaves_hits_alone(&self) -> bool {
        false
    }

    fn lanes(&self) -> Option<(usize, usize)> {
        Some((2, 1024))
    }

    fn load(&mut self, core: &mut TimedCore, line: u64, site: u32, shared: &mut Shared) -> Result<(), Later> {
        if line & PERSISTENT != 0 {
            self.translate(core, line, site, shared)?;
        }
        core.load(line, site, shared)
    }

    fn store(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        bytes: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        if line & PERSISTENT != 0 {
            self.translate(core, line, site, shared)?;
        }
        self.tso.store(core, line, bytes, site, shared)?;
        if line & PERSISTENT != 0 && self.cores[core.number].set.is_open() {
            let (_, first) = self.cores[core.number].set.add(line, bytes);
            if first {
                self.first_store(core, line, site, shared);
            }
        }
        Ok(())
    }

    fn region(
        &mut self,
        core: &mut TimedCore,
        mark: RegionMark,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        if self.cores[core.number].set.mark(mark, core, site, shared) {
            self.end(core, site, shared)
        } else {
            Ok(())
        }
    }
}
