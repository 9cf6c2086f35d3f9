//! The first pages of a pool: who it is and where its parts are.
//!
//! ```text
//! offset 0       header, first copy      (see the table below)
//! offset 4096    header, second copy
//! offset 8192    state line: the mark up to which logs are applied
//! offset 8256    root line: the root object's offset, then its complement
//! offset 12288   logs, one after the other
//! behind them    heap: zones of chunks, at a multiple of the chunk's size
//! ```
//!
//! | bytes of a copy | content |
//! |---|---|
//! | 0–7 | `SLPOOL`, two zeros |
//! | 8–11 | format version |
//! | 12–15 | number of the engine |
//! | 16–23 | the pool's number, random |
//! | 24–31 | generation: how often the header was written |
//! | 32–39 | bytes of the pool |
//! | 40–43, 44–47 | number of logs, bytes of each |
//! | 48–51 | bytes of a chunk |
//! | 52–55 | zeros |
//! | 56–119 | name of the layout, padded with zeros |
//! | 120–123 | CRC-32 of the bytes before |
//!
//! A change writes the second copy, makes it durable, and then does the same to the first: at any moment one
//! of them is whole. Whoever reads takes the whole one of the higher generation. A new pool's second copy
//! begins with another mark until it is whole, so that what a crash left of it differs from foreign data.

use space::{LINE, Space};

use crate::engine::Logs;
use crate::{Damage, Error};

/// Version of the format that this library writes and reads.
pub const VERSION: u32 = 3;
/// Bytes of a layout's name, at most.
pub const NAME_MAX: usize = 64;

const MAGIC: [u8; 8] = *b"SLPOOL\0\0";
/// The mark of a header that is being made.
const BEGUN: [u8; 8] = *b"SLBEGUN\0";
const SECOND: u64 = 4096;
const LEN: usize = 128;
const CHECKSUM: usize = 120;
/// Where the mark stands up to which logs are applied.
pub(crate) const STATE: u64 = 8192;
/// Where the root object's offset stands.
pub(crate) const ROOT: u64 = STATE + LINE;
/// Where logs begin.
pub(crate) const LOGS: u64 = 12288;

/// The sizes of a new pool's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Logs: regions that can commit at the same time.
    pub logs: u32,
    /// Bytes of a log, a multiple of 64.
    pub log_bytes: u32,
    /// Bytes of a chunk, a power of two from 4 KiB on: the unit of large allocations. A zone has as many
    /// chunks as a chunk has words: its first chunk is a table of them.
    pub chunk_bytes: u32,
}

impl Geometry {
    /// What fits a pool of `bytes`: of a small one, an eighth are logs.
    #[must_use]
    pub fn for_size(bytes: u64) -> Geometry {
        let logs = if bytes < 1 << 20 { 2 } else { 8 };
        let log_bytes = (bytes / 8 / logs).clamp(1024, 1 << 18).next_multiple_of(LINE);
        let chunk_bytes = if bytes < 4 << 20 { 4096 } else { 1 << 16 };
        Geometry { logs: logs as u32, log_bytes: log_bytes as u32, chunk_bytes }
    }

    fn check(&self) -> Result<(), Error> {
        let Geometry { logs, log_bytes, chunk_bytes } = *self;
        if logs == 0 || logs > 1 << 16 {
            return Err(Error::Options("there are 1 to 65536 logs"));
        }
        if log_bytes < 256 || !log_bytes.is_multiple_of(LINE as u32) {
            return Err(Error::Options("a log has at least 256 bytes, and a multiple of 64"));
        }
        if !chunk_bytes.is_power_of_two() || !(4096..=1 << 24).contains(&chunk_bytes) {
            return Err(Error::Options("a chunk has 4 KiB to 16 MiB, a power of two"));
        }
        Ok(())
    }
}

/// What the header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the engine that keeps the logs.
    pub engine: u32,
    /// The pool's random number.
    pub pool: u64,
    /// How often the header was written.
    pub generation: u64,
    /// Bytes of the pool.
    pub bytes: u64,
    /// Sizes of its parts.
    pub geometry: Geometry,
    /// Name of the layout: what the application that made it calls its structures.
    pub layout: String,
}

impl Header {
    /// Where logs are.
    #[must_use]
    pub fn logs(&self) -> Logs {
        let Geometry { logs, log_bytes, .. } = self.geometry;
        Logs { base: LOGS, count: logs, bytes: u64::from(log_bytes), state: STATE, end: self.bytes }
    }

    /// Where the heap begins.
    #[must_use]
    pub fn heap(&self) -> u64 {
        let logs = self.logs();
        (logs.base + u64::from(logs.count) * logs.bytes)
            .next_multiple_of(u64::from(self.geometry.chunk_bytes))
    }

    /// Where the heap's last whole chunk ends.
    pub(crate) fn heap_end(&self) -> u64 {
        self.bytes - (self.bytes - self.heap()) % u64::from(self.geometry.chunk_bytes)
    }

    /// Whether such a pool can be.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.geometry.check()?;
        if self.layout.len() > NAME_MAX || self.layout.contains('\0') {
            return Err(Error::Options("a layout's name has at most 64 bytes and no zero among them"));
        }
        // A zone's table, and a chunk to have.
        if self.bytes < self.heap() + 2 * u64::from(self.geometry.chunk_bytes) {
            return Err(Error::Options("the pool is too small for its logs and one chunk"));
        }
        Ok(())
    }

    /// Makes this the header of a space that has none. The mark comes last in each copy: until it is there,
    /// nothing is, and whoever finds what is left can begin again.
    pub(crate) fn write_first<S: Space>(&self, space: &S) {
        space.store(SECOND, &BEGUN);
        space.persist(SECOND, 8);
        for copy in [SECOND, 0] {
            space.store(copy + 8, &self.encode()[8..]);
            space.persist(copy + 8, LEN as u64 - 8);
            space.store(copy, &MAGIC);
            space.persist(copy, 8);
        }
    }

    /// Makes this the header instead of another one, in both copies, one after the other.
    pub(crate) fn write<S: Space>(&self, space: &S) {
        for copy in [SECOND, 0] {
            space.store(copy, &self.encode());
            space.persist(copy, LEN as u64);
        }
    }

    /// The header of a pool.
    ///
    /// # Errors
    /// If there is none, or none of this version, or it describes what can't be.
    pub fn read<S: Space>(space: &S) -> Result<Header, Error> {
        let copy = |at| {
            let mut bytes = [0; LEN];
            if space.len() >= at + LEN as u64 {
                space.load(at, &mut bytes);
            }
            bytes
        };
        let copies = [(0, copy(0)), (SECOND, copy(SECOND))];
        if copies.iter().all(|(_, bytes)| bytes[..8] != MAGIC) {
            let [first, second] = copies.map(|(_, bytes)| bytes);
            let is_empty = |bytes: [u8; LEN]| bytes == [0; LEN];
            let empty = is_empty(first) && (is_empty(second) || second[..8] == BEGUN);
            return Err(Error::NotAPool { second: SECOND, empty });
        }
        let whole = copies.iter().filter(|(_, bytes)| is_whole(bytes));
        let Some((at, bytes)) = whole.max_by_key(|(at, bytes)| (word(bytes, 24), u64::MAX - at)) else {
            let checksum = CHECKSUM as u64;
            return Err(Error::HeaderDamaged { first: checksum, second: SECOND + checksum });
        };
        let header = Self::decode(*at, bytes)?;
        if space.len() < header.bytes {
            return Err(Error::Short { offset: at + 32, expected: header.bytes, found: space.len() });
        }
        Ok(header)
    }

    /// That a file was cut which begins so and has `len` bytes, which may be no length of a space; `None` if
    /// it is no pool, or not too short.
    #[must_use]
    pub fn cut(beginning: &[u8], len: u64) -> Option<Error> {
        let copies = [0, SECOND].into_iter().filter_map(|at| {
            let bytes: &[u8; LEN] = beginning.get(at as usize..)?.first_chunk()?;
            is_whole(bytes).then(|| Self::decode(at, bytes).ok()).flatten().map(|header| (at, header))
        });
        let (at, header) = copies.max_by_key(|(at, header)| (header.generation, u64::MAX - at))?;
        (len < header.bytes).then_some(Error::Short { offset: at + 32, expected: header.bytes, found: len })
    }

    /// The copies that are not as this header says, by their offsets: after damage, or a crash while it was
    /// written.
    pub(crate) fn differing<S: Space>(&self, space: &S) -> impl Iterator<Item = u64> {
        let mut bytes = [0; LEN];
        [0, SECOND].into_iter().filter(move |&at| {
            space.load(at, &mut bytes);
            bytes != self.encode()
        })
    }

    fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let Geometry { logs, log_bytes, chunk_bytes } = self.geometry;
        bytes[..8].copy_from_slice(&MAGIC);
        for (at, half) in [(8, VERSION), (12, self.engine), (40, logs), (44, log_bytes), (48, chunk_bytes)] {
            bytes[at..at + 4].copy_from_slice(&half.to_le_bytes());
        }
        for (at, word) in [(16, self.pool), (24, self.generation), (32, self.bytes)] {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[56..56 + self.layout.len()].copy_from_slice(self.layout.as_bytes());
        let checksum = crc32fast::hash(&bytes[..CHECKSUM]);
        bytes[CHECKSUM..CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header in a whole copy at `at`.
    fn decode(at: u64, bytes: &[u8; LEN]) -> Result<Header, Error> {
        let version = half(bytes, 8);
        if version != VERSION {
            return Err(Error::Version { offset: at + 8, found: version, supported: VERSION });
        }
        let name = &bytes[56..56 + NAME_MAX];
        let name = &name[..name.iter().position(|byte| *byte == 0).unwrap_or(NAME_MAX)];
        let header = Header {
            engine: half(bytes, 12),
            pool: word(bytes, 16),
            generation: word(bytes, 24),
            bytes: word(bytes, 32),
            geometry: Geometry {
                logs: half(bytes, 40),
                log_bytes: half(bytes, 44),
                chunk_bytes: half(bytes, 48),
            },
            layout: String::from_utf8_lossy(name).into_owned(),
        };
        header.check().map_err(|_| Damage::HeaderSizes { offset: at + 32, found: header.bytes })?;
        Ok(header)
    }
}

/// Whether a copy is what was written.
fn is_whole(bytes: &[u8; LEN]) -> bool {
    bytes[..8] == MAGIC && half(bytes, CHECKSUM) == crc32fast::hash(&bytes[..CHECKSUM])
}

fn half(bytes: &[u8; LEN], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn word(bytes: &[u8; LEN], at: usize) -> u64 {
    u64::from(half(bytes, at)) | u64::from(half(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use space::Image;

    fn header() -> Header {
        Header {
            engine: 1,
            pool: 77,
            generation: 3,
            bytes: 1 << 20,
            geometry: Geometry::for_size(1 << 20),
            layout: "a layout".to_owned(),
        }
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let space = Image::new(1 << 20);
        header().write(&space);
        assert_eq!(Header::read(&space), Ok(header()));
        assert_eq!(header().differing(&space).count(), 0);
    }

    #[test]
    fn one_whole_copy_suffices_and_the_newer_counts() {
        for torn in [0, SECOND] {
            let space = Image::new(1 << 20);
            header().write(&space);
            let newer = Header { generation: 4, bytes: 1 << 19, ..header() };
            let other = SECOND - torn;
            space.store(other, &newer.encode());
            assert_eq!(Header::read(&space), Ok(newer.clone()), "{torn}");
            space.store_word::<u8>(torn + 60, 0xFF);
            assert_eq!(Header::read(&space), Ok(newer), "{torn}");
            space.store_word::<u8>(other + 60, 0xFF);
            assert!(matches!(Header::read(&space), Err(Error::HeaderDamaged { .. })));
        }
    }

    #[test]
    fn what_is_no_pool_is_reported_so() {
        let empty = Image::new(4096);
        assert_eq!(Header::read(&empty), Err(Error::NotAPool { second: SECOND, empty: true }));
        empty.store_u64(0, 5);
        assert_eq!(Header::read(&empty), Err(Error::NotAPool { second: SECOND, empty: false }));
        let short = Image::new(1 << 16);
        header().write(&short);
        let expected = Error::Short { offset: 32, expected: 1 << 20, found: 1 << 16 };
        assert_eq!(Header::read(&short), Err(expected));
    }

    #[test]
    fn a_file_that_was_cut_anywhere_is_reported_so() {
        let space = Image::new(1 << 20);
        header().write(&space);
        let bytes = space.to_bytes();
        for len in [200, 4096, 5001, (1 << 20) - 1] {
            let expected = Error::Short { offset: 32, expected: 1 << 20, found: len };
            assert_eq!(Header::cut(&bytes[..len as usize], len), Some(expected));
        }
        space.store_u64(56, 0);
        let bytes = space.to_bytes();
        let expected = Error::Short { offset: 4096 + 32, expected: 1 << 20, found: 5001 };
        assert_eq!(Header::cut(&bytes[..5001], 5001), Some(expected));
        assert_eq!([100, 4100].map(|len| Header::cut(&bytes[..len], len as u64)), [None, None], "it is none");
        assert_eq!(Header::cut(&bytes, (1 << 20) + 1), None, "it is longer");
    }

    proptest! {
        #[test]
        fn damage_is_an_error_or_the_header(changes in prop::collection::vec((0u64..8192, any::<u8>()), 1..20)) {
            let space = Image::new(1 << 20);
            header().write(&space);
            for (at, byte) in changes {
                space.store_word(at, byte);
            }
            if let Ok(read) = Header::read(&space) {
                prop_assert_eq!(read, header());
            }
        }
    }
}
