//! Allocations: blocks by address, and what became of each site's.

use std::collections::{BTreeMap, HashMap};

use crate::reuse::{Distances, Reuse, WorkingSet};

const BLOCKS_MAX: usize = 1 << 20;
const SITES_MAX: usize = 4096;
/// Parts into which the blocks of a site are cut for [`Structure::heat`].
pub const HEAT: usize = 64;
/// Spans of [`Structure::footprint`].
const SPANS: usize = 32;

/// A live block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) len: u64,
    pub(crate) site: u32,
    /// Of [`crate::calls::Table`].
    pub(crate) row: u32,
    /// Where it is in [`Heap::slots`].
    slot: u32,
    born: u64,
    /// When one of its lines was fetched last, and whether any was.
    used: u64,
    touched: bool,
}

/// Accesses by which a last use may be later than it seems, and more.
const SLACK: u64 = 8192;
/// Threads whose fetches are kept apart.
const THREADS: usize = 8;

/// The blocks of one allocation site: a data structure, as far as one can tell.
#[derive(Clone, Debug)]
pub struct Structure {
    /// Blocks allocated.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Blocks freed.
    pub freed: u64,
    /// Of these, those that lived for less than [`crate::Options::short_life`] accesses.
    pub short: u64,
    /// Accesses, of all data, that the freed ones lived for, together.
    pub lived: u64,
    /// Bytes that were live at once, at most, and at the end.
    pub peak: u64,
    /// Bytes live at the end.
    pub live: u64,
    /// Lines fetched from them into a first-level cache, and the threads that did so, as bits (the last for all from 63).
    pub fetches: u64,
    /// Threads that fetched.
    pub threads: u64,
    /// Where in a block these were: loads and stores, [`HEAT`] parts of equal size.
    pub heat: [[u32; HEAT]; 2],
    /// Where each thread's were, loads and stores together, of the first eight threads.
    pub by_thread: Vec<(u32, [u32; HEAT])>,
    /// Most bytes that were live at once, in equal spans of accesses, the last one perhaps not full.
    pub footprint: Vec<u64>,
    /// Lines in use, and how far apart their uses are.
    pub(crate) working: WorkingSet,
    /// How far apart fetches of one line are.
    pub reuse: Reuse,
    /// Bytes live when most memory was.
    pub at_peak: u64,
    /// Of these, those of blocks that were used for the last time before.
    pub idle_at_peak: u64,
}

impl Default for Structure {
    fn default() -> Self {
        Structure {
            blocks: 0,
            bytes: 0,
            freed: 0,
            short: 0,
            lived: 0,
            peak: 0,
            live: 0,
            fetches: 0,
            threads: 0,
            heat: [[0; HEAT]; 2],
            by_thread: Vec::new(),
            footprint: Vec::new(),
            working: WorkingSet::default(),
            reuse: Reuse::default(),
            at_peak: 0,
            idle_at_peak: 0,
        }
    }
}

/// Lines of which it is remembered in which block they lay; a power of two.
const HINTS: usize = 1 << 16;

/// All blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heap {
    /// Slots of live blocks by their start.
    starts: BTreeMap<u64, u32>,
    /// Blocks with their starts; what was freed has no length.
    slots: Vec<(u64, Block)>,
    free: Vec<u32>,
    /// Slot of the block that a line lay in last, by the line; looked at before it is believed.
    hints: Vec<u32>,
    pub(crate) sites: HashMap<u32, Structure>,
    /// Accesses of a span of `footprint`.
    pub(crate) span: u64,
    /// Bytes live, at most, when, and as they were when the sites' parts of it were noted.
    live: u64,
    pub(crate) peak: u64,
    peak_at: u64,
    noted: u64,
    noted_at: u64,
    distances: Distances,
}

impl Heap {
    /// A block; whether there is room for it.
    pub(crate) fn alloc(&mut self, (addr, len): (u64, u64), (site, row): (u32, u32), now: u64) -> bool {
        if self.starts.len() >= BLOCKS_MAX
            || (self.sites.len() >= SITES_MAX && !self.sites.contains_key(&site))
        {
            return false;
        }
        self.put(addr, Block { len, site, row, slot: 0, born: now, used: now, touched: false });
        self.live += len;
        if self.live > self.peak {
            (self.peak, self.peak_at) = (self.live, now);
        }
        self.note(now);
        let span = self.span;
        let of = self.sites.entry(site).or_default();
        of.blocks += 1;
        of.bytes += len;
        of.live += len;
        of.peak = of.peak.max(of.live);
        of.extend((now / span) as usize);
        true
    }

    /// The length and the row of the block that was there.
    pub(crate) fn free(&mut self, addr: u64, now: u64, short: u64) -> Option<(u64, u32)> {
        self.note_peak();
        let slot = self.starts.remove(&addr)?;
        let block = self.slots[slot as usize].1;
        self.vacate(slot);
        self.live -= block.len;
        self.note(now);
        let (span, noted_at) = (self.span, self.noted_at);
        if let Some(of) = self.sites.get_mut(&block.site) {
            if block.idle_at(noted_at, now) {
                of.idle_at_peak += block.len;
            }
            of.extend((now / span) as usize);
            of.freed += 1;
            of.lived += now - block.born;
            of.short += u64::from(now - block.born < short);
            of.live -= block.len;
        }
        Some((block.len, block.row))
    }

    /// Notes each site's part of the peak, if it has grown since that was done last.
    fn note_peak(&mut self) {
        if self.live < self.peak || self.peak < self.noted + self.noted / 64 + 4096 {
            return;
        }
        (self.noted, self.noted_at) = (self.peak, self.peak_at);
        for of in self.sites.values_mut() {
            (of.at_peak, of.idle_at_peak) = (of.live, 0);
        }
    }

    /// Bytes of a site that were live when most memory was, and of these those of blocks that had been used for the last
    /// time. What is left at the end was in use until then or never again.
    pub(crate) fn at_peak(&self, now: u64) -> HashMap<u32, (u64, u64)> {
        // The peak may be now.
        let unnoted = self.live == self.peak && self.peak > self.noted + self.noted / 64 + 4096;
        let moment = if unnoted { self.peak_at } else { self.noted_at };
        let of = |of: &Structure| if unnoted { (of.live, 0) } else { (of.at_peak, of.idle_at_peak) };
        let mut all: HashMap<u32, (u64, u64)> =
            self.sites.iter().map(|(&site, own)| (site, of(own))).collect();
        for block in self.live_blocks().filter(|block| block.idle_at(moment, now)) {
            all.entry(block.site).or_default().1 += block.len;
        }
        all
    }

    /// Makes spans longer when there would be too many of them.
    fn note(&mut self, now: u64) {
        self.span = self.span.max(1024);
        while now / self.span >= SPANS as u64 {
            self.span *= 2;
            for of in self.sites.values_mut() {
                of.footprint =
                    of.footprint.chunks(2).map(|pair| pair.iter().copied().max().unwrap_or(0)).collect();
                of.working.halve();
            }
        }
    }

    /// Takes a block in; one that was there was freed unseen.
    fn put(&mut self, start: u64, block: Block) {
        if let Some(slot) = self.starts.remove(&start) {
            self.vacate(slot);
        }
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        self.starts.insert(start, slot);
        let entry = (start, Block { slot, ..block });
        match self.slots.get_mut(slot as usize) {
            Some(there) => *there = entry,
            None => self.slots.push(entry),
        }
    }

    fn vacate(&mut self, slot: u32) {
        self.slots[slot as usize] = (u64::MAX, Block { len: 0, ..self.slots[slot as usize].1 });
        self.free.push(slot);
    }

    fn live_blocks(&self) -> impl Iterator<Item = &Block> {
        self.starts.values().map(|&slot| &self.slots[slot as usize].1)
    }

    /// The block that an address lies in, with its start.
    #[inline]
    pub(crate) fn find(&mut self, addr: u64) -> Option<(u64, Block)> {
        let within = |&(start, block): &(u64, Block)| addr.wrapping_sub(start) < block.len.max(1);
        let hint = (addr >> 6) as usize & (HINTS - 1);
        let known = self.hints.get(hint).and_then(|&slot| self.slots.get(slot as usize));
        if let Some(&found) = known.filter(|entry| entry.0 != u64::MAX && within(entry)) {
            return Some(found);
        }
        let (_, &slot) = self.starts.range(..=addr).next_back()?;
        let found = self.slots[slot as usize];
        if !within(&found) {
            return None;
        }
        self.hints.resize(HINTS, 0);
        self.hints[hint] = slot;
        Some(found)
    }

    /// A line was fetched from a block.
    pub(crate) fn fetched(&mut self, start: u64, block: Block, at: (u32, u64, bool), now: u64) {
        let (thread, addr, store) = at;
        let there = &mut self.slots[block.slot as usize];
        if there.0 == start {
            (there.1.used, there.1.touched) = (now, true);
        }
        let distance = self.distances.of(addr >> 6);
        self.note(now);
        let span = (now / self.span.max(1)) as usize;
        if let Some(of) = self.sites.get_mut(&block.site) {
            of.working.touch(addr >> 6, span);
            of.reuse.note(distance);
            of.fetches += 1;
            of.threads |= 1 << thread.min(63);
            let part = ((addr - start) as u128 * HEAT as u128 / u128::from(block.len.max(1))) as usize;
            let part = part.min(HEAT - 1);
            of.heat[usize::from(store)][part] += 1;
            let known = of.by_thread.iter().position(|(own, _)| *own == thread);
            if known.is_none() && of.by_thread.len() < THREADS {
                of.by_thread.push((thread, [0; HEAT]));
            }
            let at = known.unwrap_or(of.by_thread.len() - 1);
            if let Some((own, parts)) = of.by_thread.get_mut(at)
                && *own == thread
            {
                parts[part] += 1;
            }
        }
    }

    /// Of the blocks of a site that are left: their ages together, how many, and how many of them were used when they
    /// were older than `old`.
    pub(crate) fn left(&self, site: u32, now: u64, old: u64) -> (u64, u64, u64) {
        let mut all = (0, 0, 0);
        for block in self.live_blocks().filter(|block| block.site == site) {
            all.0 += now - block.born;
            all.1 += 1;
            all.2 += u64::from(block.used - block.born > old);
        }
        all
    }
}

impl Block {
    /// Whether it was there at a moment, long before its end, and had been used for the last time. What nobody seen uses says nothing.
    fn idle_at(&self, moment: u64, end: u64) -> bool {
        self.touched && self.born <= moment && self.used <= moment && moment + SLACK < end
    }
}

impl Structure {
    /// Lines of it that were fetched in each span of `footprint`, estimated.
    #[must_use]
    pub fn working_set(&self) -> Vec<u64> {
        self.working.lines()
    }

    /// Notes what is live, up to a span.
    fn extend(&mut self, span: usize) {
        let before = self.footprint.last().copied().unwrap_or(0).min(self.live);
        if self.footprint.len() <= span {
            self.footprint.resize(span + 1, before);
        }
        if let Some(there) = self.footprint.get_mut(span) {
            *there = (*there).max(self.live);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of one size come and go, so that slots, starts and lines are used again.
    #[test]
    fn a_hint_finds_what_the_tree_finds() {
        let (mut heap, mut wanted, mut state) = (Heap::default(), BTreeMap::new(), 1u64);
        for now in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let start = (state >> 40) % 64 * 48;
            if state >> 63 == 0 {
                heap.alloc((start, 40), (1, 0), now);
                wanted.insert(start, ());
            } else if wanted.remove(&start).is_some() {
                assert!(heap.free(start, now, 1).is_some());
            }
            let at = (state >> 20) % (65 * 48);
            let block = wanted.range(..=at).next_back().map(|of| *of.0).filter(|start| at - start < 40);
            assert_eq!(heap.find(at).map(|found| found.0), block, "at {at} after {now}");
        }
    }
}
