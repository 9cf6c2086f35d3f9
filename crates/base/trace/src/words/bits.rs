//! Bits beside words, 64 at a time from anywhere.

use super::BLOCK_WORDS;

/// So many bits for each word of a block: what is asked for together lies together.
pub(super) struct Bits<const KINDS: usize>(Vec<[u64; KINDS]>);

impl<const KINDS: usize> Default for Bits<KINDS> {
    fn default() -> Self {
        Bits(Vec::new())
    }
}

impl<const KINDS: usize> Bits<KINDS> {
    /// Makes room for a block, and for 64 more.
    pub(super) fn reserve(&mut self) {
        self.0 = vec![[0; KINDS]; BLOCK_WORDS / 64 + 2];
    }

    /// The 64 bits of each kind from word `at` on.
    #[inline(always)]
    pub(super) fn get(&self, at: usize) -> [u64; KINDS] {
        let shift = at % 64;
        let Some([low, high]) = self.0[at / 64..].first_chunk() else { return [0; KINDS] };
        std::array::from_fn(|kind| low[kind] >> shift | high[kind] << 1 << (63 - shift))
    }

    /// Starts with a first word. Words are put one behind the other from there.
    pub(super) fn begin(&mut self) {
        if let Some(first) = self.0.first_mut() {
            *first = [0; KINDS];
        }
    }

    /// Puts the bits of each kind from word `at` on. Those of words that are put later are 0.
    #[inline(always)]
    pub(super) fn put(&mut self, at: usize, bits: [u64; KINDS]) {
        let shift = at % 64;
        let Some([low, high]) = self.0[at / 64..].first_chunk_mut() else { return };
        for kind in 0..KINDS {
            low[kind] |= bits[kind] << shift;
            high[kind] = bits[kind] >> 1 >> (63 - shift);
        }
    }

    /// The last word before `end` whose bit of the first kind is set.
    pub(super) fn last_before(&self, end: usize) -> Option<usize> {
        let within = (1u64 << (end % 64)) - 1;
        let mut element = end / 64;
        let mut bits = self.0.get(element)?[0] & within;
        while bits == 0 {
            element = element.checked_sub(1)?;
            bits = self.0[element][0];
        }
        Some(element * 64 + 63 - bits.leading_zeros() as usize)
    }
}

/// Bits one after the other, as a column.
#[derive(Default)]
pub(super) struct BitColumn {
    /// Of these, the first `len` are complete; there is room for eight more.
    bytes: Vec<u8>,
    len: usize,
    /// Those that are less than a word of them, and how many.
    waiting: u64,
    count: u32,
}

impl BitColumn {
    /// Adds the lower `count` of `bits`, whose others are 0.
    ///
    /// What waits is written each time, and no branch depends on whether it is a whole word: that can't be
    /// predicted.
    #[inline(always)]
    pub(super) fn put(&mut self, bits: u64, count: u32) {
        let waiting = self.waiting | bits << self.count;
        self.write(waiting);
        let whole = self.count + count >= u64::BITS;
        self.len += if whole { 8 } else { 0 };
        self.waiting = if whole { bits >> 1 >> (u64::BITS - 1 - self.count) } else { waiting };
        self.count = (self.count + count) % u64::BITS;
    }

    #[inline(always)]
    fn write(&mut self, waiting: u64) {
        if self.bytes.len() < self.len + 8 {
            self.bytes.resize(2 * self.len + 8, 0);
        }
        self.bytes[self.len..self.len + 8].copy_from_slice(&waiting.to_le_bytes());
    }

    /// The column.
    pub(super) fn finish(&mut self) -> &[u8] {
        self.write(self.waiting);
        &self.bytes[..self.len + self.count.div_ceil(8) as usize]
    }

    pub(super) fn clear(&mut self) {
        (self.len, self.waiting, self.count) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_come_back_from_anywhere(pieces in prop::collection::vec((any::<u64>(), 1u32..=64), 1..50)) {
            let (mut bits, mut column) = (Bits::<2>::default(), BitColumn::default());
            bits.reserve();
            // As if another block had been there.
            bits.put(0, [u64::MAX; 2]);
            bits.begin();
            let mut expected = Vec::new();
            for (piece, count) in pieces {
                let all = u64::MAX >> (64 - count);
                let piece = piece & all;
                bits.put(expected.len(), [piece, piece ^ all]);
                column.put(piece, count);
                expected.extend((0..count).map(|bit| piece >> bit & 1 != 0));
            }
            let column = column.finish();
            prop_assert_eq!(column.len(), expected.len().div_ceil(8));
            for (at, &bit) in expected.iter().enumerate() {
                let [is, is_not] = bits.get(at).map(|bits| bits & 1 != 0);
                prop_assert_eq!((is, is_not), (bit, !bit));
                prop_assert_eq!(column[at / 8] >> (at % 8) & 1 != 0, bit);
                let last = expected[..at].iter().rposition(|bit| *bit);
                prop_assert_eq!(bits.last_before(at), last);
            }
        }
    }
}
