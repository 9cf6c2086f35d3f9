//! What is taken of a heap, and what is free.

use std::collections::BTreeMap;

use super::slab::Slab;

/// What a heap holds. Bytes, but for the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of the heap's chunks, without tables.
    pub heap: u64,
    /// Bytes of blocks that somebody has.
    pub taken: u64,
    /// Number of these blocks.
    pub blocks: u64,
    /// Bytes of free chunks.
    pub free_chunks: u64,
    /// The longest piece of free chunks.
    pub longest_free: u64,
    /// Slabs by size of their blocks: slabs, blocks taken, blocks in all.
    pub slabs: BTreeMap<u64, (u64, u64, u64)>,
}

impl Usage {
    /// Part of the slabs' blocks that is free: memory that only objects of the same size can have.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn fragmentation(&self) -> f64 {
        let (mut free, mut all) = (0, 0);
        for (size, (_, taken, blocks)) in &self.slabs {
            free += size * (blocks - taken);
            all += size * blocks;
        }
        free as f64 / all.max(1) as f64
    }

    pub(super) fn add_slab(&mut self, slab: &Slab) {
        let taken = slab.taken_count();
        self.taken += taken * slab.shape.size;
        self.blocks += taken;
        let (slabs, of_them, blocks) = self.slabs.entry(slab.shape.size).or_default();
        *slabs += 1;
        *of_them += taken;
        *blocks += slab.shape.count;
    }

    pub(super) fn add_large(&mut self, bytes: u64) {
        self.taken += bytes;
        self.blocks += 1;
    }
}
