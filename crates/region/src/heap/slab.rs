//! Slabs: chunks of blocks of one size.

use space::{LINE, Space};

use crate::Error;

/// Sizes of blocks. Neighbours differ by half of the smaller one at most.
pub(super) const SIZES: [u64; 20] = [
    16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384,
];

/// The class of blocks for so many bytes in chunks of `chunk` bytes; `None` if they are to have chunks of their own.
pub(super) fn class(bytes: u64, chunk: u64) -> Option<usize> {
    SIZES.iter().position(|size| *size >= bytes.max(1)).filter(|&class| SIZES[class] <= chunk / 4)
}

/// Where the blocks of a slab are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) size: u64,
    /// Number of blocks.
    pub(super) count: u64,
    /// Offset of the first one in the chunk.
    pub(super) first: u64,
}

impl Shape {
    pub(super) fn new(class: usize, chunk: u64) -> Shape {
        let size = SIZES[class];
        // Two bits for each block, in pairs of words; then as many as fit behind whole lines of them.
        let mut count = chunk / size;
        loop {
            let first = (count.div_ceil(64) * 16).next_multiple_of(LINE);
            if first + count * size <= chunk {
                return Shape { size, count, first };
            }
            count -= 1;
        }
    }

    /// Number of pairs.
    pub(super) fn pairs(&self) -> u64 {
        self.count.div_ceil(64)
    }

    /// The bits of pair `pair` that are blocks.
    fn bits(&self, pair: u64) -> u64 {
        let count = (self.count - pair * 64).min(64);
        u64::MAX >> (64 - count)
    }
}

/// A slab, in memory.
#[derive(Debug)]
pub(super) struct Slab {
    pub(super) class: usize,
    pub(super) shape: Shape,
    /// By block: whether it is free.
    free: Vec<u64>,
    pub(super) free_count: u64,
    /// A pair before which nothing is free.
    hint: usize,
}

impl Slab {
    /// A slab without taken blocks.
    pub(super) fn new(class: usize, chunk: u64) -> Slab {
        let shape = Shape::new(class, chunk);
        let free = (0..shape.pairs()).map(|pair| shape.bits(pair)).collect();
        Slab { class, shape, free, free_count: shape.count, hint: 0 }
    }

    /// Writes the pairs of a slab without taken blocks. Flushes, does not fence.
    pub(super) fn format<S: Space>(space: &S, base: u64, shape: &Shape) {
        for pair in 0..shape.pairs() {
            space.store_u64(base + 16 * pair, 0);
            space.store_u64(base + 16 * pair + 8, u64::MAX);
        }
        space.flush(base, 16 * shape.pairs());
    }

    /// The slab of chunk `base` as the medium has it.
    pub(super) fn read<S: Space>(space: &S, base: u64, class: usize, chunk: u64) -> Result<Slab, Error> {
        let mut slab = Slab::new(class, chunk);
        slab.free_count = 0;
        for pair in 0..slab.shape.pairs() {
            let at = base + 16 * pair;
            let (taken, complement) = (space.load_u64(at), space.load_u64(at + 8));
            let bits = slab.shape.bits(pair);
            if taken != !complement || taken & !bits != 0 {
                return Err(Error::Damaged { what: "the allocator's map of a slab", offset: at });
            }
            slab.free[pair as usize] = !taken & bits;
            slab.free_count += u64::from((!taken & bits).count_ones());
        }
        Ok(slab)
    }

    /// Takes a free block.
    pub(super) fn take(&mut self) -> Option<u64> {
        let at = self.hint + self.free[self.hint..].iter().position(|bits| *bits != 0)?;
        self.hint = at;
        let bit = self.free[at].trailing_zeros();
        self.free[at] &= !(1 << bit);
        self.free_count -= 1;
        Some(at as u64 * 64 + u64::from(bit))
    }

    /// Gives a block back. One that is free stays so: two regions freed it, which their program should not have let them.
    pub(super) fn put_back(&mut self, block: u64) {
        let at = (block / 64) as usize;
        if self.is_free(block) {
            return;
        }
        self.free[at] |= 1 << (block % 64);
        self.free_count += 1;
        self.hint = self.hint.min(at);
    }

    pub(super) fn is_free(&self, block: u64) -> bool {
        self.free[(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// The block that begins `offset` bytes behind the chunk's beginning.
    pub(super) fn block_at(&self, offset: u64) -> Option<u64> {
        let behind = offset.checked_sub(self.shape.first)?;
        (behind.is_multiple_of(self.shape.size) && behind / self.shape.size < self.shape.count)
            .then_some(behind / self.shape.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_fits_its_class_and_blocks_do_not_meet_their_map() {
        for chunk in [4096, 65536] {
            for bytes in 1..=chunk / 4 {
                let class = class(bytes, chunk).unwrap_or_else(|| panic!("{bytes} of {chunk}"));
                assert!(SIZES[class] >= bytes && (class == 0 || SIZES[class - 1] < bytes));
                let shape = Shape::new(class, chunk);
                assert!(shape.pairs() * 16 <= shape.first && shape.first + shape.count * shape.size <= chunk);
                assert!(shape.count >= 3, "{bytes} of {chunk}: {shape:?}");
            }
            assert_eq!(class(chunk / 4 + 1, chunk), None);
        }
    }
}
