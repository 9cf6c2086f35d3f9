//! What closing leaves, word by word.
//!
//! | bytes | |
//! |---|---|
//! | 0 | eight words: shards, chunks, bytes of tombstones, bytes of logs, end of the bits, 0, 0, checksum |
//! | 64 | four words a chunk: outdated bytes, bytes of tombstones, the generation of which they speak, bits |
//! | behind | four words a shard: where its keys are, how many, the newest timestamp, their checksum |
//! | behind | bits of free slots, a word for each 64; a chunk without slots has none, and 0 says so |
//! | behind | keys: the hash and the record's offset, a word each |
//!
//! Places are counted from the first byte of the first word. The head's checksum is of all up to where the
//! bits end.

use space::Space;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// Bytes before the list of chunks.
pub(crate) const HEAD: u64 = 64;
/// Bytes of an entry for a chunk or a shard.
const ENTRY: u64 = 32;

/// Where parts of it are, from the beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) chunks: u64,
    pub(crate) shards: u64,
}

impl Places {
    pub(crate) fn chunk(self, at: u64) -> u64 {
        HEAD + ENTRY * at
    }

    pub(crate) fn shard(self, at: u64) -> u64 {
        self.chunk(self.chunks) + ENTRY * at
    }

    /// Where the bits of free slots begin.
    pub(crate) fn bits(self) -> u64 {
        self.shard(self.shards)
    }
}

/// What closing left, while shards still have keys in it.
#[derive(Debug)]
pub(crate) struct Left {
    /// Its first chunk.
    pub(crate) chunk: u32,
    pub(crate) places: Places,
}

/// Words that are put together before they are stored.
pub(crate) struct Writer<'a, S: Space> {
    space: &'a S,
    at: u64,
    words: Vec<u64>,
    check: Xxh3,
}

impl<'a, S: Space> Writer<'a, S> {
    const WORDS: usize = 4096;

    pub(crate) fn new(space: &'a S, at: u64, seed: u64) -> Self {
        Writer { space, at, words: Vec::with_capacity(Self::WORDS), check: Xxh3::with_seed(seed) }
    }

    pub(crate) fn word(&mut self, word: u64) {
        self.words.push(word);
        if self.words.len() == Self::WORDS {
            self.store();
        }
    }

    fn store(&mut self) {
        let bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.check.update(&bytes);
        self.space.store(self.at, &bytes);
        self.space.flush(self.at, bytes.len() as u64);
        self.at += bytes.len() as u64;
        self.words.clear();
    }

    /// The checksum of all words, which are stored.
    pub(crate) fn finish(mut self) -> u64 {
        self.store();
        self.check.digest()
    }
}

pub(crate) fn word_in(bytes: &[u8], at: u64) -> u64 {
    bytes.get(at as usize..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

/// The checksum of the head, which has that of the rest in it.
pub(crate) fn check_of(head: &[u64; 7], rest: u64, seed: u64) -> u64 {
    let bytes: Vec<u8> = head.iter().chain([&rest]).flat_map(|word| word.to_le_bytes()).collect();
    xxh3_64_with_seed(&bytes, seed)
}
