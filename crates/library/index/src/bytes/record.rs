//! A key and its value in a slot.
//!
//! | bytes | |
//! |---|---|
//! | 0 | checksum of all that follows, of the map and of the place; 0 where no record is |
//! | 8 | sequence: of two records of a key the higher one counts |
//! | 16 | bytes of the key << 32, bytes of the value |
//! | 24 | the key, filled up to whole words with zeros, then the value, likewise |

use space::Space;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes before the key.
pub(super) const HEAD: u64 = 24;
/// Bytes of a key and of a value at most.
pub(super) const LONGEST: usize = u32::MAX as usize;

fn whole(bytes: u64) -> u64 {
    bytes.next_multiple_of(8)
}

/// Bytes of a record.
pub(super) fn bytes_of(key: usize, value: usize) -> u64 {
    HEAD + whole(key as u64) + whole(value as u64)
}

fn seed(map: u64, offset: u64) -> u64 {
    map ^ offset.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Never 0.
fn check(bytes: &[u8], map: u64, offset: u64) -> u64 {
    xxh3_64_with_seed(&bytes[8..], seed(map, offset)).max(1)
}

/// Stores and flushes a record.
pub(super) fn write<S: Space>(space: &S, map: u64, offset: u64, sequence: u64, key: &[u8], value: &[u8]) {
    let mut bytes = vec![0; bytes_of(key.len(), value.len()) as usize];
    bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
    bytes[16..24].copy_from_slice(&((key.len() as u64) << 32 | value.len() as u64).to_le_bytes());
    bytes[HEAD as usize..][..key.len()].copy_from_slice(key);
    let at = (HEAD + whole(key.len() as u64)) as usize;
    bytes[at..][..value.len()].copy_from_slice(value);
    let check = check(&bytes, map, offset);
    bytes[..8].copy_from_slice(&check.to_le_bytes());
    space.store(offset, &bytes);
    space.flush(offset, bytes.len() as u64);
}

/// A record that its checksum confirms.
#[derive(Debug)]
pub(super) struct Record {
    pub sequence: u64,
    key: usize,
    value: usize,
    bytes: Vec<u8>,
}

impl Record {
    /// The record at `offset`, if there is a whole one in `room` bytes.
    pub fn read<S: Space>(space: &S, map: u64, offset: u64, room: u64) -> Option<Record> {
        let found = space.load_u64(offset);
        if found == 0 || room < HEAD {
            return None;
        }
        let lengths = space.load_u64(offset + 16);
        let (key, value) = ((lengths >> 32) as usize, lengths as u32 as usize);
        if bytes_of(key, value) > room {
            return None;
        }
        let mut bytes = vec![0; bytes_of(key, value) as usize];
        space.load(offset, &mut bytes);
        if found != check(&bytes, map, offset) || bytes[16..24] != lengths.to_le_bytes() {
            return None;
        }
        let sequence = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
        Some(Record { sequence, key, value, bytes })
    }

    /// Its length in the space.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub fn key(&self) -> &[u8] {
        &self.bytes[HEAD as usize..][..self.key]
    }

    pub fn value(&self) -> &[u8] {
        &self.bytes[(HEAD + whole(self.key as u64)) as usize..][..self.value]
    }

    /// The value, in the memory that the record was read to.
    pub fn into_value(mut self) -> Vec<u8> {
        let begin = (HEAD + whole(self.key as u64)) as usize;
        self.bytes.copy_within(begin..begin + self.value, 0);
        self.bytes.truncate(self.value);
        self.bytes
    }
}
