//! An entry of a log: one cache line with the bytes that a store is about to overwrite.
//!
//! | word | content |
//! |---|---|
//! | 0 | position of the entry in its log, counted from 1 for ever |
//! | 1 | stamp: the thread's Lamport clock |
//! | 2 | offset of the bytes, 48 bits; their number, 8 bits; kind, 8 bits |
//! | 3–6 | the old bytes, padded with zeros |
//! | 7 | checksum of words 0 to 6, seeded with the pool's and the log's number |
//!
//! The line is written by one flush, and any of its words may survive alone. The checksum distinguishes a whole entry
//! from a torn one, and the position distinguishes this entry from an earlier one in the same place.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of an entry.
pub const ENTRY: u64 = 64;
/// Old bytes that an entry holds.
pub const DATA: u64 = 32;

/// The highest position and stamp that a log gets to; what is higher is damaged.
pub const POSITION_MAX: u64 = 1 << 60;

const OFFSET_BITS: u32 = 48;

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub position: u64,
    pub stamp: u64,
    pub offset: u64,
    /// 0 for a note on a lock, which undoes nothing.
    pub bytes: u64,
    pub data: [u64; 4],
}

impl Entry {
    /// A note that a critical section took or gave up the lock of a bucket, as its release `number`.
    pub fn note(position: u64, stamp: u64, bucket: usize, number: u64, release: bool) -> Entry {
        let data = [bucket as u64, number, u64::from(release), 0];
        Entry { position, stamp, offset: 0, bytes: 0, data }
    }

    pub fn to_words(self, seed: u64) -> [u64; 8] {
        let [a, b, c, d] = self.data;
        let place = self.offset | self.bytes << OFFSET_BITS;
        let mut words = [self.position, self.stamp, place, a, b, c, d, 0];
        words[7] = checksum(&words, seed);
        words
    }

    /// The entry, if it is whole and of the log with this seed.
    pub fn from_words(words: &[u64; 8], seed: u64) -> Option<Entry> {
        let [position, stamp, place, a, b, c, d, sum] = *words;
        let (offset, bytes) = range(place);
        let whole = sum == checksum(words, seed) && position != 0 && bytes <= DATA;
        whole.then_some(Entry { position, stamp, offset, bytes, data: [a, b, c, d] })
    }

    /// The old bytes.
    pub fn old(&self) -> [u8; DATA as usize] {
        let mut old = [0; DATA as usize];
        for (bytes, word) in old.as_chunks_mut::<8>().0.iter_mut().zip(self.data) {
            *bytes = word.to_le_bytes();
        }
        old
    }
}

/// Offset and number of bytes in an entry's third word.
pub fn range(place: u64) -> (u64, u64) {
    (place & ((1 << OFFSET_BITS) - 1), place >> OFFSET_BITS)
}

fn checksum(words: &[u64; 8], seed: u64) -> u64 {
    let mut bytes = [0; 56];
    for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    xxh3_64_with_seed(&bytes, seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_mixture_of_two_entries_is_one_of_them_or_none(
            old in any::<[u64; 6]>(), new in any::<[u64; 6]>(), from_new in any::<u8>(), seed in any::<u64>(),
        ) {
            let entry = |[position, stamp, a, b, c, d]: [u64; 6]| Entry {
                position: position | 1, stamp, offset: a % (1 << 48), bytes: b % 33, data: [a, b, c, d],
            };
            let (old, new) = (entry(old), entry(new));
            let (was, is) = (old.to_words(seed), new.to_words(seed));
            let mixed = std::array::from_fn(|word| if from_new >> word & 1 == 1 { is[word] } else { was[word] });
            let read = Entry::from_words(&mixed, seed);
            prop_assert!(read.is_none() || mixed == was || mixed == is);
            prop_assert_eq!(Entry::from_words(&is, seed), Some(new));
            prop_assert_eq!(Entry::from_words(&is, seed ^ 1), None);
        }
    }
}
