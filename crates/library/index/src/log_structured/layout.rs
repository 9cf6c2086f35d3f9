//! The root words, in the first 256 bytes of the first extent.

use space::Space;

use crate::{Error, Fixed};

/// Bytes of a chunk before its records.
pub(super) const CHUNK_HEAD: u64 = 64;

const MAGIC: u64 = u64::from_le_bytes(*b"SLBTLS01");
const SHAPE: u64 = 8;
const CHUNK: u64 = 16;
const CAPACITY: u64 = 24;
const CEILING: u64 = 32;
const EXTENTS: u64 = 40;

/// The root words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Root {
    pub offset: u64,
    pub chunk_bytes: u64,
    /// Items of a leaf's chain at which it is rewritten.
    pub capacity: u64,
    pub logs: usize,
}

impl Root {
    fn shape<K: Fixed, V: Fixed>(&self) -> u64 {
        K::WORDS as u64 | (V::WORDS as u64) << 8 | (self.logs as u64) << 16
    }

    /// Writes all words but the magic one; the caller waits.
    pub fn write<S: Space, K: Fixed, V: Fixed>(&self, space: &S) {
        space.store_u64(self.offset + SHAPE, self.shape::<K, V>());
        space.store_u64(self.offset + CHUNK, self.chunk_bytes);
        space.store_u64(self.offset + CAPACITY, self.capacity);
        space.store_u64(self.offset + CEILING, 1);
        space.store_u64(self.offset + EXTENTS, 1);
        space.flush(self.offset, 64);
    }

    pub fn finish<S: Space>(&self, space: &S) {
        space.store_u64(self.offset, MAGIC);
        space.persist(self.offset, 8);
    }

    pub fn check_new<S: Space>(space: &S, offset: u64) -> Result<(), Error> {
        let found = space.load_u64(offset);
        let what = "room for a new log-structured tree";
        if found == 0 { Ok(()) } else { Err(Error::Mismatch { offset, found, expected: 0, what }) }
    }

    pub fn read<S: Space, K: Fixed, V: Fixed>(space: &S, offset: u64) -> Result<Root, Error> {
        let found = space.load_u64(offset);
        if found != MAGIC {
            return Err(Error::Mismatch { offset, found, expected: MAGIC, what: "a log-structured tree" });
        }
        let found = space.load_u64(offset + SHAPE);
        let root = Root {
            offset,
            chunk_bytes: space.load_u64(offset + CHUNK),
            capacity: space.load_u64(offset + CAPACITY),
            logs: (found >> 16) as usize,
        };
        let expected = root.shape::<K, V>();
        if found != expected {
            let what = "lengths of keys and values";
            return Err(Error::Mismatch { offset: offset + SHAPE, found, expected, what });
        }
        root.check::<K, V>().map_err(|_| Error::Damaged { offset, what: "sizes of logs and leaves" })?;
        Ok(root)
    }

    /// Whether the sizes fit each other.
    pub fn check<K: Fixed, V: Fixed>(&self) -> Result<(), Error> {
        let pair = 8 * (K::WORDS + V::WORDS) as u64;
        let chunk = self.chunk_bytes;
        if !chunk.is_multiple_of(256) || !(1024..=1 << 30).contains(&chunk) {
            return Err(Error::Options("bytes of a chunk are not a multiple of 256 from 1024 to 1 GiB"));
        }
        if !(4..=1024).contains(&self.capacity) || 4 * self.capacity * pair > 3 * chunk {
            return Err(Error::Options("a leaf has room for less than 4 pairs, or too many for a chunk"));
        }
        if !(1..=1024).contains(&self.logs) {
            return Err(Error::Options("there are not 1 to 1024 logs"));
        }
        Ok(())
    }

    /// A number that no chunk has reached.
    pub fn ceiling<S: Space>(&self, space: &S) -> u64 {
        space.load_u64(self.offset + CEILING)
    }

    pub fn set_ceiling<S: Space>(&self, space: &S, ceiling: u64) {
        space.store_u64(self.offset + CEILING, ceiling);
        space.persist(self.offset + CEILING, 8);
    }

    /// Extents whose chunks have heads.
    pub fn extents<S: Space>(&self, space: &S) -> u64 {
        space.load_u64(self.offset + EXTENTS)
    }

    pub fn set_extents<S: Space>(&self, space: &S, extents: u64) {
        space.store_u64(self.offset + EXTENTS, extents);
        space.persist(self.offset + EXTENTS, 8);
    }
}
