//! Slabs: chunks of blocks of one size.

use space::{LINE, Space};

use super::{Block, Mark};
use crate::{Damage, Error};

/// Sizes of blocks. Neighbours differ by half of the smaller one at most.
pub(crate) const SIZES: [u64; 20] = [
    16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384,
];

/// The class of blocks for so many bytes, if there is one.
#[inline(always)]
pub(super) fn class(bytes: u64) -> Option<usize> {
    let class = SIZES.partition_point(|size| *size < bytes);
    (class < SIZES.len()).then_some(class)
}

/// Whether chunks of `chunk` bytes are divided into blocks of that class; else they have chunks of their own.
pub(super) fn fits(class: usize, chunk: u64) -> bool {
    SIZES[class] <= chunk / 4
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
#[derive(Clone, Debug)]
pub(super) struct Slab {
    /// Where its chunk begins.
    pub(super) base: u64,
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
    pub(super) fn new(base: u64, class: usize, chunk: u64) -> Slab {
        let shape = Shape::new(class, chunk);
        let free = (0..shape.pairs()).map(|pair| shape.bits(pair)).collect();
        Slab { base, class, shape, free, free_count: shape.count, hint: 0 }
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
        let mut slab = Slab::new(base, class, chunk);
        slab.free_count = 0;
        for pair in 0..slab.shape.pairs() {
            let at = base + 16 * pair;
            let (taken, complement) = (space.load_u64(at), space.load_u64(at + 8));
            let bits = slab.shape.bits(pair);
            if taken != !complement || taken & !bits != 0 {
                return Err(Damage::SlabMap { offset: at, found: taken, complement }.into());
            }
            slab.free[pair as usize] = !taken & bits;
            slab.free_count += u64::from((!taken & bits).count_ones());
        }
        Ok(slab)
    }

    /// Takes a free block.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<Block> {
        let mut at = self.hint;
        while *self.free.get(at)? == 0 {
            at += 1;
        }
        self.hint = at;
        let bit = self.free[at].trailing_zeros();
        self.free[at] &= !(1 << bit);
        self.free_count -= 1;
        Some(self.block(at as u64 * 64 + u64::from(bit)))
    }

    /// The block that begins at `offset`, if somebody has it.
    #[inline(always)]
    pub(super) fn find(&self, offset: u64) -> Option<Block> {
        self.number(offset).filter(|&number| !self.is_free(number)).map(|number| self.block(number))
    }

    /// Gives the block at `offset` back; whether it is the only free one now. One that is free stays so: two
    /// regions freed it, which their program should not have let them.
    #[inline(always)]
    pub(super) fn release(&mut self, offset: u64) -> bool {
        let Some(number) = self.number(offset).filter(|&number| !self.is_free(number)) else { return false };
        let at = (number / 64) as usize;
        self.free[at] |= 1 << (number % 64);
        self.free_count += 1;
        self.hint = self.hint.min(at);
        self.free_count == 1
    }

    fn is_free(&self, number: u64) -> bool {
        self.free[(number / 64) as usize] >> (number % 64) & 1 == 1
    }

    /// Whether nobody has a block of it.
    pub(super) fn is_empty(&self) -> bool {
        self.free_count == self.shape.count
    }

    /// Where its last block ends.
    pub(super) fn end(&self) -> u64 {
        self.base + self.shape.first + self.shape.count * self.shape.size
    }

    /// How many blocks somebody has.
    pub(super) fn taken_count(&self) -> u64 {
        self.shape.count - self.free_count
    }

    /// The number of the block that begins at `offset`.
    #[inline(always)]
    fn number(&self, offset: u64) -> Option<u64> {
        let behind = offset.checked_sub(self.base + self.shape.first)?;
        (behind.is_multiple_of(self.shape.size) && behind / self.shape.size < self.shape.count)
            .then_some(behind / self.shape.size)
    }

    #[inline(always)]
    fn block(&self, number: u64) -> Block {
        Block {
            offset: self.base + self.shape.first + number * self.shape.size,
            bytes: self.shape.size,
            mark: Mark::bit(self.base + number / 64 * 16, 1 << (number % 64)),
        }
    }

    /// The blocks that somebody has.
    pub(super) fn taken(&self) -> impl Iterator<Item = Block> {
        (0..self.shape.count).filter(|&number| !self.is_free(number)).map(|number| self.block(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_fits_its_class_and_blocks_do_not_meet_their_map() {
        for chunk in [4096, 65536] {
            for bytes in 1..=chunk / 4 {
                let class = class(bytes).unwrap_or_else(|| panic!("{bytes} of {chunk}"));
                assert!(fits(class, chunk));
                assert!(SIZES[class] >= bytes && (class == 0 || SIZES[class - 1] < bytes));
                let shape = Shape::new(class, chunk);
                assert!(shape.pairs() * 16 <= shape.first && shape.first + shape.count * shape.size <= chunk);
                assert!(shape.count >= 3, "{bytes} of {chunk}: {shape:?}");
            }
            assert!(class(chunk / 4 + 1).is_none_or(|class| !fits(class, chunk)));
        }
    }
}
