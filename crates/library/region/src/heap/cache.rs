//! Caches: the slabs that a few threads take blocks from, and nobody else.
//!
//! A thread has one by its number. It takes a block under the cache's latch alone, and what it frees goes
//! back to the slab's cache, whoever frees it. Nothing of this is on the medium: at open no cache has a slab.

use std::collections::BTreeMap;

use super::Block;
use super::slab::{SIZES, Slab};

/// Slabs that are found without a search: a power of two.
const NEAR: usize = 16;

/// Slabs, and which of them have a free block.
#[derive(Debug)]
pub(super) struct Cache {
    /// Bytes of a chunk. In the heap, which begins at a multiple of it (`Header::heap`), one begins at each.
    chunk_bytes: u64,
    /// In places that stay theirs.
    slabs: Vec<Option<Slab>>,
    /// Places without a slab.
    unused: Vec<usize>,
    /// Places, by where the slab begins.
    by_base: BTreeMap<u64, usize>,
    /// The place found last, by hash of where the slab begins. It may be another one's by now.
    near: [usize; NEAR],
    /// By class: places of slabs that have a free block, the one to take from last.
    open: Vec<Vec<usize>>,
    /// Where slabs begin from which no block is taken, although they have free ones.
    closed: Vec<u64>,
}

impl Cache {
    /// A cache of slabs in chunks of so many bytes, a power of two.
    pub(super) fn new(chunk_bytes: u64) -> Cache {
        Cache {
            chunk_bytes,
            slabs: Vec::new(),
            unused: Vec::new(),
            by_base: BTreeMap::new(),
            near: [0; NEAR],
            open: vec![Vec::new(); SIZES.len()],
            closed: Vec::new(),
        }
    }

    /// Takes a free block of that class.
    #[inline(always)]
    pub(super) fn take(&mut self, class: usize) -> Option<Block> {
        let open = &mut self.open[class];
        let slab = self.slabs[*open.last()?].as_mut()?;
        let block = slab.take()?;
        if slab.free_count == 0 {
            open.pop();
        }
        Some(block)
    }

    /// The place of the slab in whose chunk `offset` lies.
    #[inline(always)]
    fn place(&mut self, offset: u64) -> Option<usize> {
        let base = offset & !(self.chunk_bytes - 1);
        let near = (base.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - NEAR.ilog2())) as usize;
        let place = self.near[near];
        if matches!(self.slabs.get(place), Some(Some(slab)) if slab.base == base) {
            return Some(place);
        }
        self.near[near] = *self.by_base.get(&base)?;
        Some(self.near[near])
    }

    /// Whether `offset` lies in one of the slabs; and the block that begins there, if somebody has it.
    #[inline(always)]
    pub(super) fn find(&mut self, offset: u64) -> Option<Option<Block>> {
        let place = self.place(offset)?;
        Some(self.slabs[place].as_ref()?.find(offset))
    }

    /// Whether the block is of one of the slabs; then nobody has it any more.
    #[inline(always)]
    pub(super) fn release(&mut self, block: &Block) -> bool {
        let Some(place) = self.place(block.offset) else { return false };
        let Some(slab) = &mut self.slabs[place] else { return false };
        if slab.release(block.offset) {
            self.open[slab.class].push(place);
        }
        true
    }

    /// Has a slab from now on.
    pub(super) fn insert(&mut self, slab: Slab) {
        let place = self.unused.pop().unwrap_or_else(|| {
            self.slabs.push(None);
            self.slabs.len() - 1
        });
        if slab.free_count > 0 {
            self.open[slab.class].push(place);
        }
        self.by_base.insert(slab.base, place);
        self.slabs[place] = Some(slab);
    }

    /// Gives up the slabs without a taken block.
    pub(super) fn remove_empty(&mut self) -> Vec<Slab> {
        let Cache { slabs, unused, by_base, open, closed, .. } = self;
        let is_empty = |place: usize| slabs[place].as_ref().is_some_and(Slab::is_empty);
        closed.retain(|base| !by_base.get(base).is_some_and(|&place| is_empty(place)));
        open.iter_mut().for_each(|places| places.retain(|&place| !is_empty(place)));
        let empty: Vec<usize> = by_base.values().copied().filter(|&place| is_empty(place)).collect();
        unused.extend(&empty);
        let empty: Vec<Slab> = empty.into_iter().filter_map(|place| slabs[place].take()).collect();
        empty.iter().for_each(|slab| _ = by_base.remove(&slab.base));
        empty
    }

    /// Slabs that have both free blocks and others, and are not closed.
    pub(super) fn used_in_part(&self) -> impl Iterator<Item = &Slab> {
        let open = self.open.iter().flatten().filter_map(|&place| self.slabs[place].as_ref());
        open.filter(|slab| !slab.is_empty())
    }

    /// Takes no more blocks of the slab that begins there, if it has free ones: where it begins and ends, and
    /// the blocks that somebody has. It is never full, so that what is freed of it does not open it.
    pub(super) fn close(&mut self, base: u64) -> Option<(u64, u64, Vec<Block>)> {
        let place = *self.by_base.get(&base)?;
        let slab = self.slabs[place].as_ref().filter(|slab| slab.free_count > 0)?;
        debug_assert!(!self.closed.contains(&base));
        self.open[slab.class].retain(|open| *open != place);
        self.closed.push(base);
        Some((base, slab.end(), slab.taken().collect()))
    }

    /// Takes blocks of closed slabs again.
    pub(super) fn open_closed(&mut self) {
        for base in std::mem::take(&mut self.closed) {
            if let Some(&place) = self.by_base.get(&base)
                && let Some(slab) = &self.slabs[place]
            {
                self.open[slab.class].push(place);
            }
        }
    }

    /// All slabs, by where they begin.
    pub(super) fn slabs(&self) -> impl Iterator<Item = &Slab> {
        self.by_base.values().filter_map(|&place| self.slabs[place].as_ref())
    }
}
