//! Caches: the slabs that a few threads take blocks from, and nobody else.
//!
//! A thread has one by its number. It takes a block under the cache's latch alone, and what it frees goes back to the slab's cache, whoever frees
//! it. Nothing of this is on the medium: at open no cache has a slab.

use std::collections::{BTreeMap, BTreeSet};

use super::Block;
use super::slab::{SIZES, Slab};

/// Slabs by where they begin, and which of them have a free block.
#[derive(Debug)]
pub(super) struct Cache {
    slabs: BTreeMap<u64, Slab>,
    /// By class: slabs that have a free block, the one to take from last.
    open: Vec<Vec<u64>>,
    /// Slabs from which no block is taken, although they have free ones.
    closed: Vec<u64>,
}

impl Cache {
    pub(super) fn new() -> Cache {
        Cache { slabs: BTreeMap::new(), open: vec![Vec::new(); SIZES.len()], closed: Vec::new() }
    }

    /// Takes a free block of that class.
    pub(super) fn take(&mut self, class: usize) -> Option<Block> {
        let base = self.open[class].last()?;
        let slab = self.slabs.get_mut(base)?;
        let block = slab.take()?;
        if slab.free_count == 0 {
            self.open[class].pop();
        }
        Some(block)
    }

    /// The slab in which `offset` lies.
    fn slab(&self, offset: u64) -> Option<&Slab> {
        let (_, slab) = self.slabs.range(..=offset).next_back()?;
        slab.covers(offset).then_some(slab)
    }

    /// Whether `offset` lies in one of the slabs; and the block that begins there, if somebody has it.
    pub(super) fn find(&self, offset: u64) -> Option<Option<Block>> {
        Some(self.slab(offset)?.find(offset))
    }

    /// Whether the block is of one of the slabs; then nobody has it any more.
    pub(super) fn release(&mut self, block: &Block) -> bool {
        let Some((&base, slab)) = self.slabs.range_mut(..=block.offset).next_back() else { return false };
        if !slab.covers(block.offset) {
            return false;
        }
        if slab.release(block.offset) {
            self.open[slab.class].push(base);
        }
        true
    }

    /// Has a slab from now on.
    pub(super) fn insert(&mut self, slab: Slab) {
        if slab.free_count > 0 {
            self.open[slab.class].push(slab.base);
        }
        self.slabs.insert(slab.base, slab);
    }

    /// Gives up the slabs without a taken block.
    pub(super) fn remove_empty(&mut self) -> Vec<Slab> {
        let candidates = self.open.iter().flatten().chain(&self.closed);
        let is_empty = |base: &&u64| self.slabs.get(base).is_some_and(Slab::is_empty);
        let empty: BTreeSet<u64> = candidates.filter(is_empty).copied().collect();
        for list in self.open.iter_mut().chain([&mut self.closed]) {
            list.retain(|base| !empty.contains(base));
        }
        empty.iter().filter_map(|base| self.slabs.remove(base)).collect()
    }

    /// Slabs that have both free blocks and others, and are not closed.
    pub(super) fn used_in_part(&self) -> impl Iterator<Item = &Slab> {
        let open = self.open.iter().flatten().filter_map(|base| self.slabs.get(base));
        open.filter(|slab| !slab.is_empty())
    }

    /// Takes no more blocks of the slab that begins there, if it has free ones: where it begins and ends, and the blocks that somebody has. It is never
    /// full, so that what is freed of it does not open it.
    pub(super) fn close(&mut self, base: u64) -> Option<(u64, u64, Vec<Block>)> {
        let slab = self.slabs.get(&base).filter(|slab| slab.free_count > 0)?;
        self.open[slab.class].retain(|open| *open != base);
        self.closed.push(base);
        Some((base, slab.end(), slab.taken().collect()))
    }

    /// Takes blocks of closed slabs again.
    pub(super) fn open_closed(&mut self) {
        for base in std::mem::take(&mut self.closed) {
            if let Some(slab) = self.slabs.get(&base) {
                self.open[slab.class].push(base);
            }
        }
    }

    /// All slabs.
    pub(super) fn slabs(&self) -> impl Iterator<Item = &Slab> {
        self.slabs.values()
    }
}
