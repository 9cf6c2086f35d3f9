//! Fingerprints: what ordinary memory knows of each bucket, so that an operation touches only the slot that
//! it is about.
//!
//! A bucket has two words. Their low ten bytes are a byte of the hash of each slot's key, 0 for a free slot.
//! The rest of the second word is the bucket's *state*: a version, and whether the bucket is open. A writer
//! closes a bucket before it changes anything and opens it with the next version once the change is durable.
//! A reader that found it open, and finds the same state after it has read, has read what was durable.
//! Buckets of a segment that nobody has used since the table was opened have zeros: they are closed.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

/// Slots of a bucket that there is room for.
pub(super) const SLOTS_MAX: usize = 10;

const ONES: u64 = 0x0101_0101_0101_0101;
const LOWS: u64 = 0x7F7F_7F7F_7F7F_7F7F;
/// The bytes of the second word that are fingerprints.
const LAST: u64 = 0xFFFF;
const OPEN: u64 = 1 << 16;
const VERSION: u64 = 1 << 17;

/// The two words of a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket<'a> {
    first: &'a AtomicU64,
    second: &'a AtomicU64,
}

/// What was in the second word.
pub(super) type State = u64;

/// The byte of a hash; never 0.
#[inline(always)]
pub(super) fn fingerprint(hash: u64) -> u8 {
    (hash as u8).max(1)
}

/// The highest bit of each byte that is 0. Exact: a free slot may still hold a pair that does not count.
#[inline(always)]
fn zero_bytes(word: u64) -> u64 {
    !used_bytes(word) & !LOWS
}

/// The highest bit of each byte that is not 0.
#[inline(always)]
fn used_bytes(word: u64) -> u64 {
    (((word & LOWS) + LOWS) | word) & !LOWS
}

impl<'a> Bucket<'a> {
    #[inline(always)]
    pub fn new(words: &'a [AtomicU64; 2]) -> Self {
        Bucket { first: &words[0], second: &words[1] }
    }

    /// Whether the bucket was open.
    #[inline(always)]
    pub fn is_open(state: State) -> bool {
        state & OPEN != 0
    }

    /// The state now. What is read behind a [`fence`] that acquires was there when the bucket had this state;
    /// it still was if the state is the same behind one more such fence.
    #[inline(always)]
    pub fn state(self) -> State {
        self.second.load(Relaxed)
    }

    /// Whether it was opened since the table was.
    pub fn is_loaded(self) -> bool {
        self.state() >= VERSION
    }

    /// The writer's first step. Its changes are not seen before.
    #[inline(always)]
    pub fn close(self) {
        self.second.store(self.state() & !OPEN, Relaxed);
        fence(Release);
    }

    /// The writer's last step.
    #[inline(always)]
    pub fn open(self) {
        let version = self.state() & !OPEN;
        self.second.store(version.wrapping_add(VERSION) | OPEN, Release);
    }

    #[inline(always)]
    pub fn fingerprint(self, slot: usize) -> u8 {
        let word = if slot < 8 { self.first } else { self.second };
        (word.load(Relaxed) >> (slot % 8 * 8)) as u8
    }

    /// Of a closed bucket.
    #[inline(always)]
    pub fn set(self, slot: usize, fingerprint: u8) {
        let word = if slot < 8 { self.first } else { self.second };
        let shift = slot % 8 * 8;
        word.store(word.load(Relaxed) & !(0xFF << shift) | u64::from(fingerprint) << shift, Relaxed);
    }

    /// How many of its slots are in use, and the first one that is free.
    #[inline(always)]
    pub fn usage(self, slots: usize) -> (u32, Option<usize>) {
        let used = [used_bytes(self.first.load(Relaxed)), used_bytes(self.state() & LAST)];
        let count = used[0].count_ones() + used[1].count_ones();
        let free = [zero_bytes(self.first.load(Relaxed)), zero_bytes(self.state() | !LAST)];
        let slot = if free[0] != 0 { free[0].trailing_zeros() / 8 } else { 8 + free[1].trailing_zeros() / 8 };
        (count, Some(slot as usize).filter(|slot| *slot < slots))
    }
}

/// The slots of two buckets that may have a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidates(u64);

impl Candidates {
    /// `states` are what was found in the second words.
    #[inline(always)]
    pub fn of(buckets: [Bucket<'_>; 2], states: [State; 2], fingerprint: u8) -> Candidates {
        let pattern = u64::from(fingerprint) * ONES;
        let first = buckets.map(|bucket| zero_bytes(bucket.first.load(Relaxed) ^ pattern));
        let second = states.map(|state| zero_bytes((state ^ pattern) | !LAST));
        // Bit 8 i + j: slot i + 8 (j mod 2) of bucket j div 2.
        Candidates(first[0] >> 7 | second[0] >> 6 | first[1] >> 5 | second[1] >> 4)
    }

    /// The first of them: which bucket, which slot.
    #[inline(always)]
    pub fn first(self) -> Option<(usize, usize)> {
        let bit = self.0.trailing_zeros() as usize;
        (self.0 != 0).then_some((bit % 8 / 2, bit / 8 + 8 * (bit % 2)))
    }

    #[inline(always)]
    pub fn without_first(self) -> Candidates {
        Candidates(self.0 & self.0.wrapping_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(mut candidates: Candidates) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        while let Some(place) = candidates.first() {
            found.push(place);
            candidates = candidates.without_first();
        }
        found
    }

    proptest! {
        #[test]
        fn candidates_and_free_slots_are_found(
            bytes in prop::array::uniform2(prop::array::uniform10(0u8..4)),
            sought in 1u8..4,
            slots in 1usize..=SLOTS_MAX,
        ) {
            let words: [[AtomicU64; 2]; 2] = Default::default();
            let buckets = [Bucket::new(&words[0]), Bucket::new(&words[1])];
            for (bucket, bytes) in buckets.iter().zip(bytes) {
                bucket.open();
                bytes.iter().enumerate().for_each(|(slot, byte)| bucket.set(slot, *byte));
                prop_assert!(bytes.iter().enumerate().all(|(slot, byte)| bucket.fingerprint(slot) == *byte));
                let free = bytes.iter().position(|byte| *byte == 0).filter(|slot| *slot < slots);
                let used = bytes.iter().filter(|byte| **byte != 0).count();
                prop_assert_eq!(bucket.usage(slots), (used as u32, free));
            }
            let states = buckets.map(Bucket::state);
            let candidates = Candidates::of(buckets, states, sought);
            let found = all(candidates);
            for (bucket, bytes) in bytes.iter().enumerate() {
                for (slot, byte) in bytes.iter().enumerate() {
                    prop_assert_eq!(*byte == sought, found.contains(&(bucket, slot)));
                }
            }
        }
    }

    #[test]
    fn a_change_is_noticed() {
        let words: [AtomicU64; 2] = Default::default();
        let bucket = Bucket::new(&words);
        assert!(!Bucket::is_open(bucket.state()) && !bucket.is_loaded());
        bucket.open();
        let state = bucket.state();
        assert!(Bucket::is_open(state) && bucket.is_loaded());
        bucket.close();
        assert!(!Bucket::is_open(bucket.state()) && bucket.is_loaded());
        bucket.open();
        assert!(bucket.state() != state && Bucket::is_open(bucket.state()));
    }
}
