//! What a hash table keeps in its extents, and where.
//!
//! The first 256 bytes of the first extent are the root: see [`Root`]. Behind them in the first extent, and
//! at the beginning of all others, is a table with a word for each segment of the extent ([`Claim`]); the
//! segments follow it.

use space::Space;

use crate::{Error, Extent, Fixed};

/// Bytes of a bucket.
pub(super) const BUCKET: u64 = 256;
/// Bytes of the root, and what a table is rounded up to.
const HEAD: u64 = 256;
/// Most pieces of a table.
pub(super) const PIECES: usize = 64;
/// Most bits of a hash by which segments are found.
pub(super) const DEPTH_MAX: u32 = 32;

const MAGIC: u64 = u64::from_le_bytes(*b"SLHASH01");
const SHAPE: u64 = 8;
const SEED: u64 = 16;
const COUNT: u64 = 24;

/// The root words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Root {
    /// Where they are.
    pub offset: u64,
    /// Buckets of a segment, as a power of 2.
    pub bucket_bits: u32,
    /// What hashes begin with.
    pub seed: u64,
}

impl Root {
    /// The word that says what the pairs and the segments are like.
    fn shape<K: Fixed, V: Fixed>(bucket_bits: u32) -> u64 {
        K::WORDS as u64 | (V::WORDS as u64) << 8 | u64::from(bucket_bits) << 16
    }

    /// Writes all words but the magic one.
    pub fn write<S: Space, K: Fixed, V: Fixed>(&self, space: &S, pieces: u64) {
        space.store_u64(self.offset + SHAPE, Self::shape::<K, V>(self.bucket_bits));
        space.store_u64(self.offset + SEED, self.seed);
        space.store_u64(self.offset + COUNT, pieces);
        space.flush(self.offset, HEAD);
    }

    /// Makes it a table, once all else is durable.
    pub fn finish<S: Space>(&self, space: &S) {
        space.store_u64(self.offset, MAGIC);
        space.persist(self.offset, 8);
    }

    /// Whether there is nothing yet.
    pub fn check_new<S: Space>(space: &S, offset: u64) -> Result<(), Error> {
        let found = space.load_u64(offset);
        let what = "room for a new hash table";
        if found == 0 { Ok(()) } else { Err(Error::Mismatch { offset, found, expected: 0, what }) }
    }

    /// Reads it: the words, and how many extents are in use.
    pub fn read<S: Space, K: Fixed, V: Fixed>(space: &S, offset: u64) -> Result<(Root, u64), Error> {
        let found = space.load_u64(offset);
        if found != MAGIC {
            return Err(Error::Mismatch { offset, found, expected: MAGIC, what: "a hash table" });
        }
        let found = space.load_u64(offset + SHAPE);
        let bucket_bits = (found >> 16) as u32;
        let expected = Self::shape::<K, V>(bucket_bits & 0xFF);
        if found != expected || !(1..=16).contains(&bucket_bits) {
            let what = "lengths of keys and values";
            return Err(Error::Mismatch { offset: offset + SHAPE, found, expected, what });
        }
        Ok((
            Root { offset, bucket_bits, seed: space.load_u64(offset + SEED) },
            space.load_u64(offset + COUNT),
        ))
    }

    /// Makes so many extents the table's.
    pub fn set_pieces<S: Space>(&self, space: &S, pieces: u64) {
        space.store_u64(self.offset + COUNT, pieces);
        space.persist(self.offset + COUNT, 8);
    }

    /// Bytes of a segment.
    pub fn segment_bytes(&self) -> u64 {
        BUCKET << self.bucket_bits
    }

    /// Bytes that an extent needs for one segment.
    pub fn extent_min(&self) -> u64 {
        2 * HEAD + self.segment_bytes()
    }
}

/// How an extent is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// Where the words of the segments are.
    pub table: u64,
    /// Where the first segment is.
    pub base: u64,
    /// How many segments there are.
    pub count: u64,
}

impl Division {
    pub fn of(root: &Root, extent: Extent) -> Division {
        let head = if extent.offset == root.offset { HEAD } else { 0 };
        let bytes = extent.bytes.saturating_sub(head);
        let table_bytes = |count: u64| (8 * count).next_multiple_of(HEAD);
        let mut count = bytes / (root.segment_bytes() + 8);
        while count > 0 && table_bytes(count) + count * root.segment_bytes() > bytes {
            count -= 1;
        }
        let table = extent.offset + head;
        Division { table, base: table + table_bytes(count), count }
    }
}

/// A segment's word: which hashes are its own, as the first `depth` bits that they have. 0 if the segment is
/// free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    /// How many bits.
    pub depth: u32,
    /// These bits.
    pub prefix: u64,
}

impl Claim {
    const USED: u64 = 1 << 63;
    const DEPTH: u32 = 56;

    pub fn word(self) -> u64 {
        Self::USED | u64::from(self.depth) << Self::DEPTH | self.prefix
    }

    /// What a word says; `None` if the segment is free.
    pub fn read<S: Space>(space: &S, offset: u64) -> Result<Option<Claim>, Error> {
        let word = space.load_u64(offset);
        if word == 0 {
            return Ok(None);
        }
        let depth = (word >> Self::DEPTH & 0x7F) as u32;
        let prefix = word & ((1 << Self::DEPTH) - 1);
        if word & Self::USED == 0 || depth > DEPTH_MAX || prefix >> depth != 0 {
            return Err(Error::Damaged { offset, what: "which hashes a segment has" });
        }
        Ok(Some(Claim { depth, prefix }))
    }

    /// Whether that hash is one of its own.
    pub fn covers(self, hash: u64) -> bool {
        first_bits(hash, self.depth) == self.prefix
    }

    /// Where its hashes begin, as if all had [`DEPTH_MAX`] bits.
    pub fn begin(self) -> u64 {
        self.prefix << (DEPTH_MAX - self.depth)
    }

    /// Where they end.
    pub fn end(self) -> u64 {
        (self.prefix + 1) << (DEPTH_MAX - self.depth)
    }

    /// Its two halves.
    pub fn halves(self) -> [Claim; 2] {
        [0, 1].map(|bit| Claim { depth: self.depth + 1, prefix: self.prefix << 1 | bit })
    }
}

/// The first bits of a hash.
#[inline(always)]
pub(super) fn first_bits(hash: u64, bits: u32) -> u64 {
    hash >> (u64::BITS - 1 - bits) >> 1
}
