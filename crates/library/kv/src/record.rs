//! Records: a key, its value, and what recovery needs to judge them.
//!
//! Three words, the key, the value, each filled up to whole words. The first word holds the kind and a
//! checksum over everything else; it is 0 where no record is.

use space::Space;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes before the key.
pub(crate) const HEAD: u64 = 24;
/// The longest key.
pub const KEY_MAX: u64 = u16::MAX as u64;
/// The longest value that the format can hold.
pub const VALUE_MAX: u64 = (1 << 48) - 1;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The key has this value.
    Value = 1,
    /// The key was taken out. The value is a generation: all chunks that may hold older records of the key
    /// have that one or an older one.
    Tombstone = 2,
    /// The records in the value are valid together. There is no key.
    Batch = 3,
}

/// The parts of a record but its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) offset: u64,
    pub(crate) kind: Kind,
    pub(crate) timestamp: u64,
    pub(crate) key: u64,
    pub(crate) value: u64,
}

fn whole(bytes: u64) -> u64 {
    bytes.next_multiple_of(8)
}

/// Bytes of a record with such a key and value.
pub(crate) fn bytes_of(key: u64, value: u64) -> u64 {
    HEAD + whole(key) + whole(value)
}

/// What a record's checksum begins with: where it is, and in which life of its chunk.
pub(crate) fn seed(id: u64, generation: u64, offset: u64) -> u64 {
    id ^ generation.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ offset.wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Appends a record to `bytes`, still without its first word.
pub(crate) fn put_together(bytes: &mut Vec<u8>, timestamp: u64, key: &[u8], value: &[u8]) {
    let start = bytes.len();
    let len = bytes_of(key.len() as u64, value.len() as u64) as usize;
    bytes.reserve(len);
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&timestamp.to_le_bytes());
    bytes.extend_from_slice(&((key.len() as u64) << 48 | value.len() as u64).to_le_bytes());
    bytes.extend_from_slice(key);
    bytes.resize(start + HEAD as usize + whole(key.len() as u64) as usize, 0);
    bytes.extend_from_slice(value);
    bytes.resize(start + len, 0);
}

/// Fills in the first word of the record in `bytes`. `covers`: how much of it the checksum covers, all of it
/// in every store that is meant to last.
pub(crate) fn confirm(bytes: &mut [u8], kind: Kind, seed: u64, covers: usize) {
    let check = check(bytes, kind as u64, seed, covers);
    bytes[..8].copy_from_slice(&check.to_le_bytes());
}

fn check(bytes: &[u8], kind: u64, seed: u64, covers: usize) -> u64 {
    let hash = xxh3_64_with_seed(&bytes[8..covers.min(bytes.len())], seed ^ kind << 56);
    (hash >> 16).max(1) << 16 | kind
}

impl Record {
    /// The record at `offset` as its words have it, unless they lead beyond `end`. Nothing is confirmed.
    #[inline]
    pub(crate) fn at<S: Space>(space: &S, offset: u64, end: u64) -> Option<Record> {
        let kind = match space.load_u64(offset) & 0xFFFF {
            1 => Kind::Value,
            2 => Kind::Tombstone,
            3 => Kind::Batch,
            _ => return None,
        };
        let lengths = space.load_u64(offset + 16);
        let (key, value) = (lengths >> 48, lengths & VALUE_MAX);
        let record = Record { offset, kind, timestamp: space.load_u64(offset + 8), key, value };
        (record.bytes() <= end - offset).then_some(record)
    }

    /// The record at `offset`, if one is whole there. `buffer` holds its bytes then.
    pub(crate) fn whole_at<S: Space>(
        space: &S,
        offset: u64,
        end: u64,
        seed: u64,
        covers: usize,
        buffer: &mut Vec<u8>,
    ) -> Option<Record> {
        if end.checked_sub(offset)? < HEAD {
            return None;
        }
        let record = Record::at(space, offset, end)?;
        buffer.resize(record.bytes() as usize, 0);
        space.load(offset, buffer);
        let found = u64::from_le_bytes(buffer[..8].try_into().unwrap_or_default());
        (found == check(buffer, record.kind as u64, seed, covers)).then_some(record)
    }

    /// Its length in the file.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(self.key, self.value)
    }

    /// Its key, of its bytes in a buffer.
    pub(crate) fn key_in<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[HEAD as usize..(HEAD + self.key) as usize]
    }

    /// Its value, of its bytes in a buffer.
    pub(crate) fn value_in<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let begin = (HEAD + whole(self.key)) as usize;
        &bytes[begin..begin + self.value as usize]
    }
}

/// Whether the record at `offset` has this key. Where words are being overwritten, any answer.
#[inline]
pub(crate) fn has_key<S: Space>(space: &S, offset: u64, key: &[u8]) -> bool {
    let len = key.len() as u64;
    if space.load_u64(offset + 16) >> 48 != len || whole(len) > space.len().saturating_sub(offset + HEAD) {
        return false;
    }
    let (words, rest) = key.as_chunks::<8>();
    let mut at = offset + HEAD;
    for word in words {
        if space.load_u64(at) != u64::from_le_bytes(*word) {
            return false;
        }
        at += 8;
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    rest.is_empty() || space.load_u64(at) == u64::from_le_bytes(last)
}
