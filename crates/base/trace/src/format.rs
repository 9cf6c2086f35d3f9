//! The frame of a trace file: header, block headers, trailer. `docs/trace-format.md` is the
//! description byte by byte; the tests hold this file to its offsets.

use event::{Capabilities, InstructionCounts, Sampling, Source};

use super::bytes::{Bytes, put_str, put_varint};
use super::error::Malformed;

/// First bytes of a trace. The high bit and the line ends show transfers that mangle text.
pub(super) const MAGIC: [u8; 8] = *b"\x89SLT\r\n\x1a\n";
/// Version of the format that [`super::Writer`] writes and [`super::Reader`] reads.
pub const VERSION: u16 = 3;
/// Where the version stands in the file.
pub(super) const VERSION_OFFSET: u64 = 8;
/// Bytes before the header's body.
pub(super) const HEADER_PREFIX: usize = 16;
/// Largest body of a header: a command line is bounded by the system, so is this.
pub(super) const HEADER_BODY_MAX: usize = 16 << 20;

/// First bytes of a block.
pub(super) const BLOCK_MAGIC: [u8; 4] = *b"SLTB";
/// Bytes of a block's header.
pub(super) const BLOCK_HEADER: usize = 68;
/// Most events of a block.
pub(super) const BLOCK_EVENTS: usize = (1 << 16) - 1;
/// Largest column of a block, unpacked. Bounds what a reader allocates on a file's word.
pub(super) const COLUMN_MAX: usize = 64 << 20;
/// Largest text of a definition.
pub(super) const TEXT_MAX: usize = 1 << 20;
/// A block is closed when its stored values exceed this.
pub(super) const BLOCK_VALUES: usize = 1 << 20;
/// Largest single store whose value can be kept.
pub(super) const STORE_VALUES_MAX: usize = COLUMN_MAX - BLOCK_VALUES;

/// Last bytes of a trace that was finished.
pub(super) const TRAILER_MAGIC: [u8; 8] = *b"SLTEND\r\n";
/// Bytes of the trailer.
pub(super) const TRAILER: usize = 32;

/// What stands at the head of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the file's format.
    pub version: u16,
    /// Bytes of a cache line on the observed machine.
    pub line_bytes: u32,
    /// Where the events come from.
    pub source: Source,
}

impl Header {
    /// The header as the file's first bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let source = &self.source;
        let mut body = Vec::new();
        body.extend_from_slice(&self.line_bytes.to_le_bytes());
        body.extend_from_slice(&source.capabilities.bits().to_le_bytes());
        body.push(match source.instructions {
            InstructionCounts::Unknown => 0,
            InstructionCounts::Estimated => 1,
            InstructionCounts::Exact => 2,
        });
        body.push(u8::from(source.sampling.is_some()));
        let Sampling { recorded, period } = source.sampling.unwrap_or(Sampling { recorded: 0, period: 0 });
        body.extend_from_slice(&recorded.to_le_bytes());
        body.extend_from_slice(&period.to_le_bytes());
        put_str(&mut body, &source.producer);
        put_varint(&mut body, source.command.len() as u64);
        source.command.iter().for_each(|argument| put_str(&mut body, argument));

        let mut out = Vec::with_capacity(HEADER_PREFIX + body.len() + 4);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.extend_from_slice(&body);
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Inverse of [`Header::encode`] for the whole header, whose checksum was already verified.
    pub(super) fn decode(header: &[u8]) -> Result<Header, Malformed> {
        let mut bytes = Bytes::at(header, VERSION_OFFSET as usize);
        let version = bytes.u16()?;
        let mut bytes = Bytes::at(&header[..header.len().saturating_sub(4)], HEADER_PREFIX);
        let line_bytes = bytes.u32()?;
        let capabilities =
            Capabilities::from_bits(bytes.u32()?).ok_or(Malformed("a capability that nobody knows"))?;
        let instructions = match bytes.u8()? {
            0 => InstructionCounts::Unknown,
            1 => InstructionCounts::Estimated,
            2 => InstructionCounts::Exact,
            _ => return Err(Malformed("an unknown kind of instruction count")),
        };
        let sampled = bytes.u8()?;
        let (recorded, period) = (bytes.u64()?, bytes.u64()?);
        let sampling = match sampled {
            0 => None,
            1 => Some(Sampling { recorded, period }),
            _ => return Err(Malformed("an unknown kind of sampling")),
        };
        let producer = bytes.str()?.to_owned();
        let arguments = bytes.varint()?;
        let mut command = Vec::new();
        for _ in 0..arguments {
            command.push(bytes.str()?.to_owned());
        }
        if !bytes.is_empty() {
            return Err(Malformed("the header is longer than its contents"));
        }
        let source = Source { producer, command, capabilities, instructions, sampling };
        Ok(Header { version, line_bytes, source })
    }
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum BlockKind {
    /// Events of one thread.
    Events = 1,
    /// Sites and names.
    Definitions = 2,
    /// Where the other blocks are.
    Index = 3,
}

/// The fixed part of a block. For blocks that hold no events `thread`, times and sequence numbers are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub kind: BlockKind,
    /// Columns of the payload.
    pub columns: u8,
    /// Bytes that follow the header.
    pub payload: u32,
    pub thread: u32,
    /// Events, definitions or index entries.
    pub count: u32,
    /// Of the payload.
    pub checksum: u32,
    /// Number of the first event among its thread's, from 0.
    pub first: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    /// First and last position in the global order of synchronisation; 0 if there is none.
    pub first_seq: u64,
    pub last_seq: u64,
}

impl BlockHeader {
    /// A header for a block without events.
    pub(super) fn plain(kind: BlockKind, count: u32) -> Self {
        BlockHeader {
            kind,
            columns: 0,
            payload: 0,
            thread: 0,
            count,
            checksum: 0,
            first: 0,
            start_ns: 0,
            end_ns: 0,
            first_seq: 0,
            last_seq: 0,
        }
    }

    pub(super) fn encode(&self) -> [u8; BLOCK_HEADER] {
        let mut out = [0; BLOCK_HEADER];
        out[0..4].copy_from_slice(&BLOCK_MAGIC);
        out[4] = self.kind as u8;
        out[5] = self.columns;
        out[8..12].copy_from_slice(&self.payload.to_le_bytes());
        out[12..16].copy_from_slice(&self.thread.to_le_bytes());
        out[16..20].copy_from_slice(&self.count.to_le_bytes());
        out[20..24].copy_from_slice(&self.checksum.to_le_bytes());
        out[24..32].copy_from_slice(&self.first.to_le_bytes());
        out[32..40].copy_from_slice(&self.start_ns.to_le_bytes());
        out[40..48].copy_from_slice(&self.end_ns.to_le_bytes());
        out[48..56].copy_from_slice(&self.first_seq.to_le_bytes());
        out[56..64].copy_from_slice(&self.last_seq.to_le_bytes());
        let checksum = crc32fast::hash(&out[..64]);
        out[64..68].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub(super) fn decode(header: &[u8; BLOCK_HEADER]) -> Result<BlockHeader, Malformed> {
        if header[..4] != BLOCK_MAGIC {
            return Err(Malformed("no block starts here"));
        }
        let mut bytes = Bytes::at(header, 64);
        verify(&header[..64], bytes.u32()?, "a block header's checksum does not match")?;
        let mut bytes = Bytes::at(header, 4);
        let kind = match bytes.u8()? {
            1 => BlockKind::Events,
            2 => BlockKind::Definitions,
            3 => BlockKind::Index,
            _ => return Err(Malformed("an unknown kind of block")),
        };
        let columns = bytes.u8()?;
        if bytes.u16()? != 0 {
            return Err(Malformed("a reserved field is not zero"));
        }
        Ok(BlockHeader {
            kind,
            columns,
            payload: bytes.u32()?,
            thread: bytes.u32()?,
            count: bytes.u32()?,
            checksum: bytes.u32()?,
            first: bytes.u64()?,
            start_ns: bytes.u64()?,
            end_ns: bytes.u64()?,
            first_seq: bytes.u64()?,
            last_seq: bytes.u64()?,
        })
    }
}

/// The end of a trace that was finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    /// Where the first index block starts; they follow each other up to the trailer.
    pub index: u64,
    /// Events in the file.
    pub events: u64,
    /// Index blocks.
    pub index_blocks: u32,
}

impl Trailer {
    pub(super) fn encode(&self) -> [u8; TRAILER] {
        let mut out = [0; TRAILER];
        out[0..8].copy_from_slice(&self.index.to_le_bytes());
        out[8..16].copy_from_slice(&self.events.to_le_bytes());
        out[16..20].copy_from_slice(&self.index_blocks.to_le_bytes());
        let checksum = crc32fast::hash(&out[..20]);
        out[20..24].copy_from_slice(&checksum.to_le_bytes());
        out[24..32].copy_from_slice(&TRAILER_MAGIC);
        out
    }

    /// `None` if these bytes are no trailer: then the writer was killed.
    pub(super) fn decode(trailer: &[u8; TRAILER]) -> Option<Trailer> {
        let mut bytes = Bytes::new(trailer);
        let (index, events, index_blocks) = (bytes.u64().ok()?, bytes.u64().ok()?, bytes.u32().ok()?);
        verify(&trailer[..20], bytes.u32().ok()?, "").ok()?;
        (trailer[24..] == TRAILER_MAGIC).then_some(Trailer { index, events, index_blocks })
    }
}

/// Compares a checksum. A fuzzer can't guess checksums, so under one they are not looked at: what is
/// behind them must hold by itself.
pub(super) fn verify(data: &[u8], checksum: u32, what: &'static str) -> Result<(), Malformed> {
    if cfg!(fuzzing) || crc32fast::hash(data) == checksum { Ok(()) } else { Err(Malformed(what)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            version: VERSION,
            line_bytes: 128,
            source: Source {
                producer: "test 1".to_owned(),
                command: vec!["./app".to_owned(), "\u{e9}".to_owned(), String::new()],
                capabilities: Capabilities::LOADS | Capabilities::REGIONS,
                instructions: InstructionCounts::Estimated,
                sampling: Some(Sampling { recorded: 3, period: u64::MAX }),
            },
        }
    }

    #[test]
    fn a_header_comes_back() {
        assert_eq!(Header::decode(&header().encode()), Ok(header()));
    }

    #[test]
    fn the_header_stands_where_the_document_says() {
        let bytes = header().encode();
        assert_eq!(&bytes[0..8], b"\x89SLT\r\n\x1a\n");
        assert_eq!(&bytes[8..12], [3, 0, 0, 0]);
        assert_eq!(bytes[12..16], (bytes.len() as u32 - 20).to_le_bytes());
        assert_eq!(&bytes[16..20], [128, 0, 0, 0]);
        assert_eq!(&bytes[42..49], b"\x06test 1");
    }

    #[test]
    fn a_block_header_comes_back() {
        let block = BlockHeader {
            kind: BlockKind::Events,
            columns: 9,
            payload: 1,
            thread: 2,
            count: 3,
            checksum: 4,
            first: 5,
            start_ns: 6,
            end_ns: 7,
            first_seq: 8,
            last_seq: 9,
        };
        assert_eq!(BlockHeader::decode(&block.encode()), Ok(block));
    }

    #[test]
    fn every_flip_in_a_block_header_shows() {
        let good = BlockHeader::plain(BlockKind::Definitions, 7).encode();
        for bit in 0..BLOCK_HEADER * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(BlockHeader::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_flip_in_a_trailer_shows() {
        let good = Trailer { index: 1, events: 2, index_blocks: 3 };
        assert_eq!(Trailer::decode(&good.encode()), Some(good));
        for bit in 0..TRAILER * 8 {
            let mut bad = good.encode();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Trailer::decode(&bad), None, "bit {bit}");
        }
    }
}
