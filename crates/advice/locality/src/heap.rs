//! Allocations: blocks by address, and what became of each site's.

use std::collections::{BTreeMap, HashMap};

const BLOCKS_MAX: usize = 1 << 20;
const SITES_MAX: usize = 4096;
/// Parts into which the blocks of a site are cut for [`Structure::heat`].
pub const HEAT: usize = 64;

/// A live block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) len: u64,
    pub(crate) site: u32,
    born: u64,
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
    /// Bytes that were live at once, at most, and at the end.
    pub peak: u64,
    /// Bytes live at the end.
    pub live: u64,
    /// Lines fetched from them by the table of lines.
    pub fetches: u64,
    /// Where in a block these were: loads and stores, [`HEAT`] parts of equal size.
    pub heat: [[u32; HEAT]; 2],
}

impl Default for Structure {
    fn default() -> Self {
        Structure {
            blocks: 0,
            bytes: 0,
            freed: 0,
            short: 0,
            peak: 0,
            live: 0,
            fetches: 0,
            heat: [[0; HEAT]; 2],
        }
    }
}

/// All blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heap {
    blocks: BTreeMap<u64, Block>,
    pub(crate) sites: HashMap<u32, Structure>,
}

impl Heap {
    pub(crate) fn alloc(&mut self, addr: u64, len: u64, site: u32, now: u64) {
        if self.blocks.len() >= BLOCKS_MAX
            || (self.sites.len() >= SITES_MAX && !self.sites.contains_key(&site))
        {
            return;
        }
        self.blocks.insert(addr, Block { len, site, born: now });
        let of = self.sites.entry(site).or_default();
        of.blocks += 1;
        of.bytes += len;
        of.live += len;
        of.peak = of.peak.max(of.live);
    }

    pub(crate) fn free(&mut self, addr: u64, now: u64, short: u64) {
        let Some(block) = self.blocks.remove(&addr) else { return };
        if let Some(of) = self.sites.get_mut(&block.site) {
            of.freed += 1;
            of.short += u64::from(now - block.born < short);
            of.live -= block.len;
        }
    }

    /// The block that an address lies in, with its start.
    pub(crate) fn find(&self, addr: u64) -> Option<(u64, Block)> {
        let (&start, &block) = self.blocks.range(..=addr).next_back()?;
        (addr - start < block.len.max(1)).then_some((start, block))
    }

    /// A line was fetched from a block.
    pub(crate) fn fetched(&mut self, start: u64, block: Block, addr: u64, store: bool) {
        if let Some(of) = self.sites.get_mut(&block.site) {
            of.fetches += 1;
            let part = ((addr - start) as u128 * HEAT as u128 / u128::from(block.len.max(1))) as usize;
            of.heat[usize::from(store)][part.min(HEAT - 1)] += 1;
        }
    }
}
