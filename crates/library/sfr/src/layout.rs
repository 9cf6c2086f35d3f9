//! Where the parts of a pool are.
//!
//! ```text
//! offset 0        header: who the pool is (table below)
//! offset 256      selector: its lowest bit says which vector of heads counts
//! offset 320      root: offset of the root block, 0 for none; a program's word, logged like data
//! offset 512      first vector of heads: a word for each log
//! offset 4608     second vector
//! offset 12288    a line for each log: a head, and where its ring is
//! offset 45056    table of units: a word each
//! behind it       units, at a multiple of their size: rings of logs, and blocks
//! ```
//!
//! | bytes of the header | content |
//! |---|---|
//! | 0–7 | `SLSFR001` |
//! | 8–11, 12–15 | format version, zeros |
//! | 16–23 | the pool's number, random |
//! | 24–31 | bytes of the pool |
//! | 32–39 | address at which it wants to be mapped, 0 for any |
//! | 40–47, 48–55, 56–63 | bytes of a unit, offset of the first, number of units |
//! | 64–127 | name of the layout, padded with zeros |
//! | 128–135 | checksum of the bytes before |
//!
//! The head of a log is the higher one of the word in the vector that counts and the word in its own line:
//! a pruner moves the heads of many logs by writing the other vector and then the selector, a thread
//! moves its own by writing its line.

use space::{Env, LINE, Space};
use xxhash_rust::xxh3::xxh3_64;

use crate::Error;

/// Logs of a pool: threads that can store to it at the same time.
pub const LOGS_MAX: u32 = 512;
/// Bytes of a pool, at least.
pub const POOL_MIN: u64 = 128 << 10;
/// Bytes from which [`crate::Pool::base_of`] knows a pool.
pub const HEADER_BYTES: usize = 256;

pub const SELECTOR: u64 = 256;
pub const ROOT: u64 = 320;
const VECTORS: u64 = 512;
const LINES: u64 = 12288;
pub const TABLE: u64 = LINES + LOGS_MAX as u64 * LINE;

const MAGIC: [u8; 8] = *b"SLSFR001";
const VERSION: u32 = 1;
const NAME: usize = 64;
const CHECKED: usize = 128;
/// Bytes of a layout's name, at most.
pub const NAME_MAX: usize = CHECKED - NAME;

/// Offset of a log's head in vector 0 or 1.
pub fn vector(which: u64, log: u32) -> u64 {
    VECTORS + (which & 1) * u64::from(LOGS_MAX) * 8 + u64::from(log) * 8
}

/// Offset of a log's line: its head, then the word of its ring.
pub fn line(log: u32) -> u64 {
    LINES + u64::from(log) * LINE
}

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub number: u64,
    pub bytes: u64,
    pub base: u64,
    pub unit: u64,
    pub units_at: u64,
    pub units: u64,
}

impl Layout {
    /// The parts of a new pool of `bytes`.
    pub fn new(number: u64, bytes: u64, base: u64) -> Result<Layout, Error> {
        if bytes < POOL_MIN {
            return Err(Error::TooSmall { there: bytes });
        }
        let unit: u64 = if bytes < 8 << 20 { 4096 } else { 64 << 10 };
        let bytes = bytes / unit * unit;
        // One word of the table for each unit, itself included: never too few.
        let units_at = (TABLE + bytes / unit * 8).next_multiple_of(unit);
        Ok(Layout { number, bytes, base, unit, units_at, units: (bytes - units_at) / unit })
    }

    /// Offset of a unit's word in the table.
    pub fn word(&self, unit: u64) -> u64 {
        TABLE + unit * 8
    }

    /// Offset of a unit.
    pub fn unit_at(&self, unit: u64) -> u64 {
        self.units_at + unit * self.unit
    }

    /// Writes it, after everything else is durable.
    pub fn write<E: Env>(&self, env: &E, name: &str) {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let words = [self.number, self.bytes, self.base, self.unit, self.units_at, self.units];
        for (bytes, word) in header[16..].as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        header[NAME..NAME + name.len()].copy_from_slice(name.as_bytes());
        let sum = xxh3_64(&header[..CHECKED]);
        header[CHECKED..CHECKED + 8].copy_from_slice(&sum.to_le_bytes());
        // Its first word makes it one, and comes last.
        env.space().store(8, &header[8..]);
        env.space().persist(8, HEADER_BYTES as u64 - 8);
        env.space().store(0, &header[..8]);
        env.space().persist(0, 8);
    }

    /// Reads it from a pool's first bytes, and holds it against itself.
    pub fn read(header: &[u8]) -> Result<Layout, Error> {
        let Some(header) = header.first_chunk::<HEADER_BYTES>() else {
            return Err(Error::TooSmall { there: header.len() as u64 });
        };
        let word = |at: usize| u64::from_le_bytes(header[at..].first_chunk().copied().unwrap_or_default());
        if header[..8] != MAGIC {
            return Err(Error::NotAPool { found: word(0).to_le_bytes() });
        }
        let found = word(8) as u32;
        if found != VERSION {
            return Err(Error::Version { found, known: VERSION });
        }
        let layout = Layout {
            number: word(16),
            bytes: word(24),
            base: word(32),
            unit: word(40),
            units_at: word(48),
            units: word(56),
        };
        let fitting = Layout::new(layout.number, layout.bytes, layout.base);
        if xxh3_64(&header[..CHECKED]) != word(CHECKED) || fitting != Ok(layout) {
            return Err(Error::Damaged { offset: 0, what: "the header" });
        }
        Ok(layout)
    }

    /// The layout's name in a header that has been read.
    pub fn name(header: &[u8; HEADER_BYTES]) -> String {
        let name = &header[NAME..CHECKED];
        let end = name.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        String::from_utf8_lossy(&name[..end]).into_owned()
    }
}
