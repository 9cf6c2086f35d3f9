//! Records that are longer than a log: their words stand in an overflow extent: chunks of the heap, and the
//! log says where.
//!
//! ```text
//! in the log     perhaps runs, then kind << 61, first chunk, words, words of a chunk, check
//! each chunk     offset of the next one, then words of the record
//! ```
//!
//! The chunks are durable before the log names them, and serve for nothing else until the logs are settled,
//! so a record that is whole has all of its words. The check finds damage.

use space::Space;

use super::{Extent, Logs};

/// Words that the log has of it.
pub(super) const WORDS: u64 = 5;

/// Where the words of a record are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverflowRecord {
    first: u64,
    words: u64,
    /// Words of a chunk.
    chunk: u64,
    check: u64,
}

impl OverflowRecord {
    /// What the log has of it behind the kind.
    pub(super) fn encode(&self) -> [u64; 4] {
        [self.first, self.words, self.chunk, self.check]
    }

    /// Where its first chunk begins.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn decode(words: &[u64]) -> Option<OverflowRecord> {
        let &[first, words, chunk, check] = words else { return None };
        Some(OverflowRecord { first, words, chunk, check })
    }

    /// Writes words to chunks that have room for them. Flushes, does not fence.
    pub(super) fn write<S: Space>(space: &S, extent: &Extent, words: &[u64]) -> OverflowRecord {
        let chunk = extent.chunk_bytes / 8;
        let mut check = Check::default();
        let nexts = extent.chunks[1..].iter().copied().chain([0]);
        for ((&base, next), words) in extent.chunks.iter().zip(nexts).zip(words.chunks(chunk as usize - 1)) {
            space.store_u64(base, next);
            check.add(next);
            for (at, &word) in (base + 8..).step_by(8).zip(words) {
                space.store_u64(at, word);
                check.add(word);
            }
            space.flush(base, 8 + 8 * words.len() as u64);
        }
        OverflowRecord { first: extent.chunks[0], words: words.len() as u64, chunk, check: check.0 }
    }

    /// The words; `None` if they are not what was written.
    pub(super) fn read<S: Space>(&self, space: &S, logs: &Logs) -> Option<Vec<u64>> {
        let heap = logs.base + u64::from(logs.count) * logs.bytes;
        if self.chunk < 2 || self.words > logs.end / 8 {
            return None;
        }
        let mut check = Check::default();
        let mut words = Vec::new();
        let mut base = self.first;
        while (words.len() as u64) < self.words {
            let count = (self.words - words.len() as u64).min(self.chunk - 1);
            if base < heap || !base.is_multiple_of(8) || base.checked_add(8 + 8 * count)? > logs.end {
                return None;
            }
            let next = space.load_u64(base);
            check.add(next);
            for at in (base + 8..).step_by(8).take(count as usize) {
                let word = space.load_u64(at);
                check.add(word);
                words.push(word);
            }
            base = next;
        }
        (check.0 == self.check).then_some(words)
    }
}

/// A number that any change of one word changes.
#[derive(Default)]
struct Check(u64);

impl Check {
    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use space::Image;

    const LOGS: Logs = Logs { base: 128, count: 1, bytes: 128, state: 64, end: 4096 };

    proptest! {
        #[test]
        fn words_are_read_as_they_were_written_or_not_at_all(
            words in prop::collection::vec(any::<u64>(), 1..90), damage in prop::option::of((0usize..128, 0u32..64))
        ) {
            let space = Image::new(4096);
            let extent = Extent { chunks: vec![1024, 512, 2048, 256, 768, 3072], chunk_bytes: 128 };
            let there = OverflowRecord::write(&space, &extent, &words);
            prop_assert_eq!(OverflowRecord::decode(&there.encode()), Some(there));
            let used = extent.chunks.iter().zip(words.chunks(15));
            let places: Vec<u64> = used.flat_map(|(base, words)| (0..=words.len() as u64).map(move |at| base + 8 * at)).collect();
            match damage {
                None => prop_assert_eq!(there.read(&space, &LOGS), Some(words)),
                Some((word, bit)) => {
                    let at = places[word % places.len()];
                    space.store_u64(at, space.load_u64(at) ^ 1 << bit);
                    prop_assert_eq!(there.read(&space, &LOGS), None);
                }
            }
        }
    }

    #[test]
    fn what_can_not_be_is_not_read() {
        let space = Image::new(4096);
        for (first, words, chunk) in
            [(0, 5, 16), (1025, 5, 16), (4090, 5, 16), (!7, 5, 16), (1024, 5, 1), (1024, u64::MAX, 16)]
        {
            let there = OverflowRecord { first, words, chunk, check: 0 };
            assert_eq!(there.read(&space, &LOGS), None, "{there:?}");
        }
    }
}
