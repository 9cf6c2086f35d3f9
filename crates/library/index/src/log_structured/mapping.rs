//! The mapping table, in ordinary memory: from the number of a leaf to its chain of records.
//!
//! An entry has the offsets of the newest records, so that a reader asks for all of them at the same time,
//! the bounds of the leaf, and a filter of the keys that its records name, so that most keys which are
//! absent cost no access. Readers use an entry between two looks at its version. Logs are never unmapped,
//! so what a reader follows is stale at worst.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::record::NONE;
use crate::Fixed;
use crate::version::Version;

/// Words of an entry.
pub(super) const WORDS: usize = 24;
/// Records whose offsets an entry has room for.
pub(super) const CACHED_MAX: usize = 8;

const VERSION: usize = 0;
const LINK: usize = 1;
const LOW: usize = 2;
const HIGH: usize = 4;
const DEPTH: usize = 6;
const BYTES: usize = 7;
const OLDEST: usize = 8;
const ITEMS: usize = 9;
const FILTER: usize = 10;
const FILTER_WORDS: usize = 4;
const NEWEST: usize = 14;

/// The leaf exists; it has a key that bounds it on the right.
const EXISTS: u64 = 1 << 32;
const BOUNDED: u64 = 1 << 33;

/// Where a key belongs, as a leaf sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Here,
    Right(u32),
    Elsewhere,
}

/// An entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf<'a>(pub &'a [AtomicU64; WORDS]);

impl Leaf<'_> {
    #[inline(always)]
    fn get(&self, word: usize) -> u64 {
        self.0[word].load(Relaxed)
    }

    #[inline(always)]
    fn set(&self, word: usize, value: u64) {
        self.0[word].store(value, Relaxed);
    }

    /// For readers without a lock.
    #[inline(always)]
    pub fn version(&self) -> Version<'_> {
        Version(&self.0[VERSION])
    }

    /// Changes the entry; for the holder of the leaf's lock.
    #[inline]
    pub fn change(&self, change: impl FnOnce(&Self)) {
        self.version().change(|| change(self));
    }

    pub fn exists(&self) -> bool {
        self.get(LINK) & EXISTS != 0
    }

    pub fn next(&self) -> Option<u32> {
        let next = self.get(LINK) as u32;
        (next != NONE).then_some(next)
    }

    #[inline(always)]
    fn key<K: Fixed>(&self, word: usize) -> K {
        K::from_words([self.get(word), self.get(word + 1)])
    }

    fn set_key<K: Fixed>(&self, word: usize, key: K) {
        (0..K::WORDS).for_each(|at| self.set(word + at, key.word(at)));
    }

    pub fn high<K: Fixed>(&self) -> Option<K> {
        (self.get(LINK) & BOUNDED != 0).then(|| self.key(HIGH))
    }

    pub fn set_low<K: Fixed>(&self, low: K) {
        self.set_key(LOW, low);
    }

    #[inline(always)]
    pub fn side<K: Fixed>(&self, key: K) -> Side {
        let link = self.get(LINK);
        if link & EXISTS == 0 || key < self.key(LOW) {
            Side::Elsewhere
        } else if link & BOUNDED != 0 && key >= self.key(HIGH) {
            Side::Right(link as u32)
        } else {
            Side::Here
        }
    }

    /// Records of the chain.
    #[inline(always)]
    pub fn depth(&self) -> usize {
        self.get(DEPTH) as usize
    }

    /// Bytes of the chain.
    pub fn bytes(&self) -> u64 {
        self.get(BYTES)
    }

    /// Position of the record at which the chain ends: of this leaf's records, those from there on are live.
    pub fn oldest(&self) -> u64 {
        self.get(OLDEST)
    }

    /// Pairs and removed keys that the chain names.
    #[inline(always)]
    pub fn items(&self) -> u64 {
        self.get(ITEMS)
    }

    /// Where the newest records are, the newest first.
    #[inline(always)]
    pub fn newest(&self, number: usize) -> u64 {
        self.get(NEWEST + number)
    }

    /// Which bits of the filter stand for a key: a word of it, two bits in that.
    #[inline(always)]
    fn bits<K: Fixed>(key: K) -> (usize, u64) {
        let second = if K::WORDS > 1 { key.word(1).rotate_left(32) } else { 0 };
        let hash = (key.word(0) ^ second).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let word = (hash >> 62) as usize;
        (FILTER + word % FILTER_WORDS, 1 << (hash >> 56 & 63) | 1 << (hash >> 50 & 63))
    }

    /// Whether the chain may name a key.
    #[inline(always)]
    pub fn may_name<K: Fixed>(&self, key: K) -> bool {
        let (word, bits) = Self::bits(key);
        self.get(word) & bits == bits
    }

    fn name<K: Fixed>(&self, key: K) {
        let (word, bits) = Self::bits(key);
        self.set(word, self.get(word) | bits);
    }

    /// One more record before the others.
    pub fn push<K: Fixed>(&self, at: u64, bytes: u64, key: K) {
        for number in (1..CACHED_MAX).rev() {
            self.set(NEWEST + number, self.get(NEWEST + number - 1));
        }
        self.set(NEWEST, at);
        self.set(DEPTH, self.get(DEPTH) + 1);
        self.set(BYTES, self.get(BYTES) + bytes);
        self.set(ITEMS, self.get(ITEMS) + 1);
        self.name(key);
    }

    /// One record in place of all.
    pub fn restart<K: Fixed>(
        &self,
        (at, position, bytes): (u64, u64, u64),
        keys: impl ExactSizeIterator<Item = K>,
        (high, next): (Option<K>, u32),
    ) {
        self.set(NEWEST, at);
        self.set(DEPTH, 1);
        self.set(BYTES, bytes);
        self.set(OLDEST, position);
        self.set(ITEMS, keys.len() as u64);
        (0..FILTER_WORDS).for_each(|word| self.set(FILTER + word, 0));
        keys.for_each(|key| self.name(key));
        if let Some(high) = high {
            self.set_key(HIGH, high);
        }
        let bounded = if high.is_some() { BOUNDED } else { 0 };
        self.set(LINK, u64::from(next) | EXISTS | bounded);
    }

    /// There is no such leaf.
    pub fn forget(&self) {
        self.set(LINK, 0);
        self.set(DEPTH, 0);
    }
}

const _: () = assert!(NEWEST + CACHED_MAX <= WORDS && FILTER + FILTER_WORDS <= NEWEST);
