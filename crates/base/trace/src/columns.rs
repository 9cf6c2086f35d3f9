//! A block's payload: columns of bytes, each stored plainly or compressed by itself.
//!
//! A column holds one kind of thing, so its statistics are its own and a column that does not shrink
//! costs no time when it is read.

use super::bytes::Bytes;
use super::error::Malformed;
use super::format::{BLOCK_HEADER, BlockHeader, BlockKind, COLUMN_MAX};
use super::predict::column;

/// How hard a [`super::Writer`] tries to make the file small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    /// Columns as they are encoded: fastest to write.
    None,
    /// As [`Compression::Fast`], but for the columns of the words of code blocks, which are small already:
    /// for recordings, in which these are most of all and which share the processor with the program.
    Light,
    /// Each column with zstd at the best of its fast levels.
    #[default]
    Fast,
}

/// Level of [`Compression::Fast`]: what level 1 makes of most columns, in half the time.
const FAST_LEVEL: i32 = -1;
/// Columns below this are not worth a frame.
const PACK_MIN: usize = 64;
/// Columns of the words of code blocks.
const WORDS: [usize; 3] = [column::CHANGES, column::CODES, column::DIFFERENCES];
/// A column of events of which less than half was saved is not compressed in so many blocks that follow.
const RESTS: u8 = 7;
/// Bytes of a column's entry in the directory: its length unpacked and as stored.
const ENTRY: usize = 8;
/// zstd's best: a block of four bytes that stands for 128 KiB.
const UNPACKED_PER_BYTE: usize = 32 << 10;
/// Bytes after the unpacked columns, so that eight bytes can be read from anywhere in them.
pub(super) const PADDING: usize = 8;

/// Writes blocks; reuses the compressor's memory.
pub(super) struct Packer {
    compressor: Option<zstd::bulk::Compressor<'static>>,
    /// Columns of events that stay as they are.
    plain: &'static [usize],
    packed: Vec<u8>,
    /// By column of events: how many blocks are still not to be compressed.
    rests: Vec<u8>,
}

impl Packer {
    pub(super) fn new(compression: Compression) -> std::io::Result<Self> {
        let compressor = match compression {
            Compression::None => None,
            Compression::Light | Compression::Fast => Some(zstd::bulk::Compressor::new(FAST_LEVEL)?),
        };
        let plain: &[usize] = if compression == Compression::Light { &WORDS } else { &[] };
        Ok(Packer { compressor, plain, packed: Vec::new(), rests: Vec::new() })
    }

    /// Appends the block with this header and these columns to `out`.
    pub(super) fn append(
        &mut self,
        out: &mut Vec<u8>,
        mut header: BlockHeader,
        columns: &[&[u8]],
    ) -> std::io::Result<()> {
        let start = out.len();
        let directory = start + BLOCK_HEADER;
        let data = directory + columns.len() * ENTRY;
        out.resize(data, 0);
        self.rests.resize(columns.len().max(self.rests.len()), 0);
        for (number, column) in columns.iter().enumerate() {
            debug_assert!(column.len() <= COLUMN_MAX);
            let rest = &mut self.rests[number];
            let is_events = header.kind == BlockKind::Events;
            let rests = is_events && *rest > 0;
            *rest = rest.saturating_sub(u8::from(rests));
            let rests = rests || is_events && self.plain.contains(&number);
            let stored = match &mut self.compressor {
                Some(compressor) if column.len() >= PACK_MIN && !rests => {
                    self.packed.clear();
                    self.packed.reserve(zstd::zstd_safe::compress_bound(column.len()));
                    compressor.compress_to_buffer(column, &mut self.packed)?;
                    if is_events && self.packed.len() > column.len() / 2 {
                        *rest = RESTS;
                    }
                    // A thirtieth saved does not pay for the reader's time.
                    if self.packed.len() < column.len() - column.len() / 32 { &self.packed } else { *column }
                }
                _ => *column,
            };
            out.extend_from_slice(stored);
            let entry = directory + number * ENTRY;
            out[entry..entry + 4].copy_from_slice(&(column.len() as u32).to_le_bytes());
            out[entry + 4..entry + 8].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        }
        header.columns = columns.len() as u8;
        header.payload = (out.len() - directory) as u32;
        header.checksum = crc32fast::hash(&out[directory..]);
        out[start..directory].copy_from_slice(&header.encode());
        Ok(())
    }
}

/// The unpacked columns of one block, one after the other, then [`PADDING`] zeros.
#[derive(Default)]
pub(super) struct Columns {
    pub data: Vec<u8>,
    /// Where each column ends; it starts where the one before it ends.
    pub ends: Vec<usize>,
}

impl Columns {
    /// Where column `number` starts and ends in `data`.
    pub(super) fn range(&self, number: usize) -> std::ops::Range<usize> {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        start..self.ends[number]
    }

    pub(super) fn get(&self, number: usize) -> &[u8] {
        &self.data[self.range(number)]
    }

    /// Takes a payload apart that has as many columns as its block's header says, each of at most
    /// `longest(number)` bytes.
    pub(super) fn unpack(
        &mut self,
        unpacker: &mut Unpacker,
        payload: &[u8],
        count: u8,
        longest: impl Fn(usize) -> usize,
    ) -> Result<(), Malformed> {
        self.data.clear();
        self.ends.clear();
        let mut directory = Bytes::new(payload);
        let mut stored_bytes = Bytes::at(payload, usize::from(count) * ENTRY);
        for number in 0..usize::from(count) {
            let (len, stored) = (directory.u32()? as usize, directory.u32()? as usize);
            // What zstd makes of a byte is bounded, and so is what a false length costs.
            if len > longest(number) || stored > len || len / UNPACKED_PER_BYTE > stored {
                return Err(Malformed("a column's length is impossible"));
            }
            let stored = stored_bytes.take(stored)?;
            let start = self.data.len();
            if stored.len() == len {
                self.data.extend_from_slice(stored);
            } else {
                self.data.resize(start + len, 0);
                unpacker.unpack(stored, &mut self.data[start..])?;
            }
            self.ends.push(self.data.len());
        }
        if !stored_bytes.is_empty() {
            return Err(Malformed("a block is longer than its columns"));
        }
        self.data.extend_from_slice(&[0; PADDING]);
        Ok(())
    }
}

/// Reads blocks; reuses the decompressor's memory.
pub(super) struct Unpacker(zstd::bulk::Decompressor<'static>);

impl Unpacker {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Unpacker(zstd::bulk::Decompressor::new()?))
    }

    fn unpack(&mut self, stored: &[u8], column: &mut [u8]) -> Result<(), Malformed> {
        match self.0.decompress_to_buffer(stored, column) {
            Ok(len) if len == column.len() => Ok(()),
            _ => Err(Malformed("a column does not unpack to its length")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(compression: Compression, columns: &[&[u8]]) -> (usize, Columns) {
        let mut packer = Packer::new(compression).unwrap();
        let mut out = b"before".to_vec();
        packer.append(&mut out, BlockHeader::plain(BlockKind::Definitions, 0), columns).unwrap();
        let block = &out[6..];
        let header = BlockHeader::decode(block[..BLOCK_HEADER].try_into().unwrap()).unwrap();
        let payload = &block[BLOCK_HEADER..];
        assert_eq!(header.payload as usize, payload.len());
        assert_eq!(header.checksum, crc32fast::hash(payload));
        let mut read = Columns::default();
        read.unpack(&mut Unpacker::new().unwrap(), payload, header.columns, |_| COLUMN_MAX).unwrap();
        (payload.len(), read)
    }

    #[test]
    fn columns_come_back_whatever_the_compression() {
        let even = vec![7; 10_000];
        let noise: Vec<u8> =
            (0..10_000u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        let columns: [&[u8]; 4] = [&even, &[], &noise, b"short"];
        for compression in [Compression::None, Compression::Fast] {
            let (bytes, read) = through(compression, &columns);
            for (number, column) in columns.iter().enumerate() {
                assert_eq!(read.get(number), *column);
            }
            assert_eq!(bytes < 15_000, compression == Compression::Fast);
        }
    }

    #[test]
    fn what_tells_words_of_runs_is_compressed_only_if_that_is_asked_for() {
        let even = vec![7; 10_000];
        let columns = [&even[..]; column::COUNT];
        let bytes = |compression, kind| {
            let mut out = Vec::new();
            let header = BlockHeader::plain(kind, 1);
            Packer::new(compression).unwrap().append(&mut out, header, &columns).unwrap();
            out.len()
        };
        let plain = 10_000 * WORDS.len();
        assert!((plain..plain + 10_000).contains(&bytes(Compression::Light, BlockKind::Events)));
        assert!(bytes(Compression::Light, BlockKind::Definitions) < 10_000);
        assert!(bytes(Compression::Fast, BlockKind::Events) < 10_000);
    }

    #[test]
    fn a_column_that_hardly_shrinks_is_tried_now_and_then() {
        let mut packer = Packer::new(Compression::Fast).unwrap();
        let mut random = 1u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 56) as u8
        };
        let noise: Vec<u8> = (0..10_000).map(|_| next()).collect();
        let even = vec![7; 10_000];
        let mut sizes = |kind, column: &[u8]| {
            let mut out = Vec::new();
            packer.append(&mut out, BlockHeader::plain(kind, 1), &[column, &even]).unwrap();
            out.len()
        };
        let small = sizes(BlockKind::Events, &even);
        assert!(small < 300 && sizes(BlockKind::Events, &noise) > 10_000);
        for _ in 0..RESTS {
            assert!(sizes(BlockKind::Events, &even) > 10_000, "the first column rests, the second does not");
            assert_eq!(sizes(BlockKind::Index, &even), small);
        }
        assert_eq!(sizes(BlockKind::Events, &even), small);
    }

    #[test]
    fn impossible_lengths_are_refused_before_memory_is_taken() {
        let mut payload = Vec::new();
        payload.extend_from_slice(&u32::MAX.to_le_bytes());
        payload.extend_from_slice(&4u32.to_le_bytes());
        payload.extend_from_slice(&[0; 4]);
        let mut columns = Columns::default();
        assert!(columns.unpack(&mut Unpacker::new().unwrap(), &payload, 1, |_| usize::MAX).is_err());
        assert!(columns.data.capacity() < 1024);
    }
}
