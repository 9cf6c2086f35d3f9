//! Records of the logs.
//!
//! | word | content |
//! |---|---|
//! | 0 | checksum of all other bits (32 bits), kind (8), number of pairs (16) |
//! | 1 | position: number of the chunk (32), offset in it (32) |
//! | 2 | leaf (32), next leaf on the right (32; all ones if there is none) |
//! | 3 | offset in the space of the leaf's record before; 0 if there is none |
//! | 4… | the key that bounds the leaf on the right, if it has one; then pairs |
//!
//! A position is used once, ever: a record of an earlier use of the memory is none of a later one.

use space::Space;

use crate::Fixed;

/// Words before the pairs.
const HEAD: usize = 4;
/// No leaf.
pub(super) const NONE: u32 = u32::MAX;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One pair that was set.
    Put,
    /// One key that was taken out.
    Remove,
    /// All that the leaf has, in ascending order; the chain ends here.
    Whole { bounded: bool },
}

impl Kind {
    fn number(self) -> u64 {
        match self {
            Kind::Put => 1,
            Kind::Remove => 2,
            Kind::Whole { bounded: false } => 3,
            Kind::Whole { bounded: true } => 4,
        }
    }

    fn of_number(number: u64) -> Option<Kind> {
        [Kind::Put, Kind::Remove, Kind::Whole { bounded: false }, Kind::Whole { bounded: true }]
            .into_iter()
            .find(|kind| kind.number() == number)
    }
}

/// What is to be written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content<'a, K, V> {
    Put(K, V),
    Remove(K),
    Whole { pairs: &'a [(K, V)], high: Option<K>, next: u32 },
}

impl<K: Fixed, V: Fixed> Content<'_, K, V> {
    pub fn bytes(&self) -> u64 {
        let words = match self {
            Content::Put(..) => K::WORDS + V::WORDS,
            Content::Remove(_) => K::WORDS,
            Content::Whole { pairs, high, .. } => {
                usize::from(high.is_some()) * K::WORDS + pairs.len() * (K::WORDS + V::WORDS)
            }
        };
        8 * (HEAD + words) as u64
    }

    /// The record's words.
    pub fn words(&self, words: &mut Vec<u64>, leaf: u32, position: u64, before: u64) {
        let (kind, count, next) = match self {
            Content::Put(..) => (Kind::Put, 1, NONE),
            Content::Remove(_) => (Kind::Remove, 1, NONE),
            Content::Whole { pairs, high, next } => {
                (Kind::Whole { bounded: high.is_some() }, pairs.len() as u64, *next)
            }
        };
        words.clear();
        words.push(kind.number() << 32 | count << 40);
        words.extend([position, u64::from(leaf) | u64::from(next) << 32, before]);
        let mut key = |key: &K| words.extend((0..K::WORDS).map(|word| key.word(word)));
        match self {
            Content::Put(one, value) => {
                key(one);
                words.extend((0..V::WORDS).map(|word| value.word(word)));
            }
            Content::Remove(one) => key(one),
            Content::Whole { pairs, high, .. } => {
                high.iter().for_each(key);
                for (key, value) in *pairs {
                    words.extend((0..K::WORDS).map(|word| key.word(word)));
                    words.extend((0..V::WORDS).map(|word| value.word(word)));
                }
            }
        }
        words[0] |= u64::from(checksum(words));
    }
}

/// Of all bits but those of the checksum itself.
fn checksum(words: &[u64]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for word in words {
        hasher.update(&word.to_le_bytes());
    }
    hasher.finalize()
}

/// A record that is there. Its content is read when it is asked for; a reader without a lock may find
/// anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Where it is in the space.
    pub at: u64,
    pub kind: Kind,
    pub count: u64,
}

impl Record {
    /// What is at that offset, if it looks like a record that ends before `end`.
    #[inline]
    pub fn read<S: Space, K: Fixed, V: Fixed>(space: &S, at: u64, end: u64) -> Option<Record> {
        if !at.is_multiple_of(8) || at == 0 || at.checked_add(8 * HEAD as u64)? > end {
            return None;
        }
        let head = space.load_u64(at);
        let record = Record { at, kind: Kind::of_number(head >> 32 & 0xFF)?, count: head >> 40 & 0xFFFF };
        let single = record.count == 1 || matches!(record.kind, Kind::Whole { .. });
        (single && at + record.bytes::<K, V>() <= end).then_some(record)
    }

    /// The same, if it is whole and of that position.
    pub fn read_whole<S: Space, K: Fixed, V: Fixed>(
        space: &S,
        at: u64,
        end: u64,
        position: u64,
        words: &mut Vec<u64>,
    ) -> Option<Record> {
        let record = Record::read::<S, K, V>(space, at, end)?;
        if space.load_u64(at + 8) != position {
            return None;
        }
        words.clear();
        words.extend((0..record.bytes::<K, V>() / 8).map(|word| space.load_u64(at + 8 * word)));
        let found = words[0] as u32;
        words[0] &= !u64::from(u32::MAX);
        (checksum(words) == found).then_some(record)
    }

    pub fn bytes<K: Fixed, V: Fixed>(&self) -> u64 {
        let pair = (K::WORDS + V::WORDS) as u64;
        let words = match self.kind {
            Kind::Put => pair,
            Kind::Remove => K::WORDS as u64,
            Kind::Whole { bounded } => u64::from(bounded) * K::WORDS as u64 + self.count * pair,
        };
        8 * (HEAD as u64 + words)
    }

    pub fn position<S: Space>(&self, space: &S) -> u64 {
        space.load_u64(self.at + 8)
    }

    pub fn leaf<S: Space>(&self, space: &S) -> u32 {
        space.load_u64(self.at + 16) as u32
    }

    pub fn next<S: Space>(&self, space: &S) -> Option<u32> {
        let next = (space.load_u64(self.at + 16) >> 32) as u32;
        (next != NONE).then_some(next)
    }

    #[inline]
    pub fn before<S: Space>(&self, space: &S) -> u64 {
        space.load_u64(self.at + 24)
    }

    /// A key that begins at that word.
    #[inline]
    fn words_at<S: Space, T: Fixed>(&self, space: &S, word: u64) -> T {
        let mut words = [0; 2];
        for (at, found) in words[..T::WORDS].iter_mut().enumerate() {
            *found = space.load_u64(self.at + 8 * (word + at as u64));
        }
        T::from_words(words)
    }

    /// The key that bounds the leaf on the right.
    pub fn high<S: Space, K: Fixed>(&self, space: &S) -> Option<K> {
        let bounded = self.kind == Kind::Whole { bounded: true };
        bounded.then(|| self.words_at(space, HEAD as u64))
    }

    #[inline]
    fn pair_word<K: Fixed, V: Fixed>(&self, number: u64) -> u64 {
        let bound = if self.kind == (Kind::Whole { bounded: true }) { K::WORDS } else { 0 };
        (HEAD + bound) as u64 + number * (K::WORDS + V::WORDS) as u64
    }

    #[inline]
    pub fn key<S: Space, K: Fixed, V: Fixed>(&self, space: &S, number: u64) -> K {
        self.words_at(space, self.pair_word::<K, V>(number))
    }

    #[inline]
    pub fn value<S: Space, K: Fixed, V: Fixed>(&self, space: &S, number: u64) -> V {
        self.words_at(space, self.pair_word::<K, V>(number) + K::WORDS as u64)
    }

    /// What it says of a key: nothing, or its value or that it has none.
    #[inline]
    pub fn find<S: Space, K: Fixed, V: Fixed>(&self, space: &S, key: K) -> Option<Option<V>> {
        match self.kind {
            Kind::Put => {
                (self.key::<S, K, V>(space, 0) == key).then(|| Some(self.value::<S, K, V>(space, 0)))
            }
            Kind::Remove => (self.key::<S, K, V>(space, 0) == key).then_some(None),
            Kind::Whole { .. } => {
                let (mut low, mut high) = (0, self.count);
                while low < high {
                    let middle = (low + high) / 2;
                    if self.key::<S, K, V>(space, middle) < key { low = middle + 1 } else { high = middle }
                }
                let is_there = low < self.count && self.key::<S, K, V>(space, low) == key;
                Some(is_there.then(|| self.value::<S, K, V>(space, low)))
            }
        }
    }
}
