//! Allocations: blocks by address, and what became of each site's.

use std::collections::{BTreeMap, HashMap};

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
    born: u64,
    /// When one of its lines was fetched last.
    used: u64,
}

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
    /// Most bytes that were live at once, in equal spans of accesses, the last one perhaps not full.
    pub footprint: Vec<u64>,
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
            footprint: Vec::new(),
        }
    }
}

/// All blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heap {
    blocks: BTreeMap<u64, Block>,
    pub(crate) sites: HashMap<u32, Structure>,
    /// Accesses of a span of `footprint`.
    pub(crate) span: u64,
    /// The block that was found last.
    last: Option<(u64, Block)>,
}

impl Heap {
    pub(crate) fn alloc(&mut self, addr: u64, len: u64, site: u32, now: u64) {
        if self.blocks.len() >= BLOCKS_MAX
            || (self.sites.len() >= SITES_MAX && !self.sites.contains_key(&site))
        {
            return;
        }
        self.last = None;
        self.blocks.insert(addr, Block { len, site, born: now, used: now });
        self.note(now);
        let span = self.span;
        let of = self.sites.entry(site).or_default();
        of.blocks += 1;
        of.bytes += len;
        of.live += len;
        of.peak = of.peak.max(of.live);
        of.extend((now / span) as usize);
    }

    pub(crate) fn free(&mut self, addr: u64, now: u64, short: u64) -> Option<u64> {
        let block = self.blocks.remove(&addr)?;
        self.last = None;
        self.note(now);
        let span = self.span;
        if let Some(of) = self.sites.get_mut(&block.site) {
            of.extend((now / span) as usize);
            of.freed += 1;
            of.lived += now - block.born;
            of.short += u64::from(now - block.born < short);
            of.live -= block.len;
        }
        Some(block.len)
    }

    /// Makes spans longer when there would be too many of them.
    fn note(&mut self, now: u64) {
        self.span = self.span.max(1024);
        while now / self.span >= SPANS as u64 {
            self.span *= 2;
            for of in self.sites.values_mut() {
                of.footprint =
                    of.footprint.chunks(2).map(|pair| pair.iter().copied().max().unwrap_or(0)).collect();
            }
        }
    }

    /// The block that an address lies in, with its start.
    #[inline]
    pub(crate) fn find(&mut self, addr: u64) -> Option<(u64, Block)> {
        let within = |(start, block): (u64, Block)| {
            (addr.wrapping_sub(start) < block.len.max(1)).then_some((start, block))
        };
        if let Some(found) = self.last.and_then(within) {
            return Some(found);
        }
        let (&start, &block) = self.blocks.range(..=addr).next_back()?;
        let found = within((start, block));
        self.last = found.or(self.last);
        found
    }

    /// A line was fetched from a block.
    pub(crate) fn fetched(&mut self, start: u64, block: Block, at: (u32, u64, bool), now: u64) {
        let (thread, addr, store) = at;
        if now - block.used > 4096
            && let Some(there) = self.blocks.get_mut(&start)
        {
            there.used = now;
            self.last = None;
        }
        if let Some(of) = self.sites.get_mut(&block.site) {
            of.fetches += 1;
            of.threads |= 1 << thread.min(63);
            let part = ((addr - start) as u128 * HEAT as u128 / u128::from(block.len.max(1))) as usize;
            of.heat[usize::from(store)][part.min(HEAT - 1)] += 1;
        }
    }

    /// Of the blocks of a site that are left: their ages together, how many, and how many of them were used when they
    /// were older than `old`.
    pub(crate) fn left(&self, site: u32, now: u64, old: u64) -> (u64, u64, u64) {
        let mut all = (0, 0, 0);
        for block in self.blocks.values().filter(|block| block.site == site) {
            all.0 += now - block.born;
            all.1 += 1;
            all.2 += u64::from(block.used - block.born > old);
        }
        all
    }
}

impl Structure {
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
