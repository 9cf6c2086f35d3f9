//! Where what is in a store's file: header, state, chunks. `docs/kv-format.md` describes it for others.

use space::Space;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{Engine, Error, Options, Placement};

/// The first word of a store.
const MAGIC: u64 = u64::from_le_bytes(*b"SLKVDATA");
/// The format that this library reads and writes.
pub const VERSION: u64 = 1;
/// Where the second copy of the header is.
pub(crate) const SECOND: u64 = 4096;
/// How many chunks were ever used.
pub(crate) const HIGH: u64 = 512;
/// Which chunk has what closing left; 0 if the store is open, or was not closed.
const CLOSED: u64 = 520;
/// Where chunks begin.
pub(crate) const CHUNKS: u64 = 8192;
/// Bytes at the beginning of a chunk that say what it is.
pub(crate) const CHUNK_HEAD: u64 = 64;

/// What a store is, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) engine: Engine,
    pub(crate) index: Placement,
    /// Bytes of a chunk.
    pub(crate) chunk: u64,
    /// A random number that goes into every checksum, so that no record of another store is one of this.
    pub(crate) id: u64,
}

/// What a chunk is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Free,
    /// Records one after the other. Detail: where they end; while they are appended to, 1 and up to where
    /// they are durable at least, or 0.
    Log,
    /// Slots. Detail: bytes of one.
    Slab,
    /// One record that goes on in the chunks that follow. Detail: how many chunks.
    Large,
    /// A piece of the index. Detail: how many chunks.
    Index,
    /// A batch that is being made.
    Journal,
    /// What closing left (`closed.rs`). Detail: how many chunks.
    Left,
}

impl Use {
    pub(crate) const ALL: [Use; 7] =
        [Use::Free, Use::Log, Use::Slab, Use::Large, Use::Index, Use::Journal, Use::Left];

    fn number(self) -> u64 {
        Use::ALL.iter().position(|other| *other == self).unwrap_or(0) as u64
    }
}

impl Use {
    /// Whether it goes on in the chunks that follow, as many as its detail says.
    pub(crate) fn is_long(self) -> bool {
        matches!(self, Use::Large | Use::Index | Use::Left)
    }
}

/// A store that is being made.
pub(crate) struct Begun(());

impl Begun {
    /// Makes it one: the header's first word is the last to become durable.
    pub(crate) fn finish<S: Space>(self, layout: &Layout, space: &S) {
        let words = layout.words();
        for copy in [SECOND, 0] {
            space.store_u64(copy + 8 * words.len() as u64, check_of(&words));
            for (at, word) in words.iter().enumerate().skip(1) {
                space.store_u64(copy + 8 * at as u64, *word);
            }
            space.persist(copy, 64);
            space.store_u64(copy, MAGIC);
            space.persist(copy, 8);
        }
    }
}

/// A chunk's first words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) used: Use,
    /// Different each time that the chunk is used; 0 if it never was.
    pub(crate) generation: u64,
    pub(crate) detail: u64,
}

impl Head {
    /// Where a log ends, if nothing is appended any more.
    pub(crate) fn log_end(&self) -> Option<u64> {
        (self.detail != 0 && self.detail & 1 == 0).then_some(self.detail)
    }

    /// Up to where a log is durable that is appended to, 0 if nobody said so.
    pub(crate) fn log_mark(&self) -> u64 {
        if self.detail & 1 == 1 { self.detail - 1 } else { 0 }
    }
}

impl Layout {
    pub(crate) fn new(options: &Options, id: u64) -> Result<Layout, Error> {
        if !options.chunk.is_power_of_two() || !(1 << 10..=1 << 30).contains(&options.chunk) {
            return Err(Error::Options("a chunk has a power of two of bytes, from 1 KiB to 1 GiB"));
        }
        Ok(Layout { engine: options.engine, index: options.index, chunk: options.chunk, id })
    }

    fn words(&self) -> [u64; 7] {
        let kinds = self.engine as u64 | (self.index as u64) << 8;
        [MAGIC, VERSION, kinds, self.chunk, self.id, 0, 0]
    }

    /// Begins a new store, on zeros.
    pub(crate) fn begin<S: Space>(&self, space: &S) -> Result<Begun, Error> {
        let needed = CHUNKS + 2 * self.chunk;
        if space.len() < needed {
            return Err(Error::Full { wanted: needed });
        }
        for offset in [0, SECOND, CHUNKS].into_iter().chain((0..8).map(|word| HIGH + 8 * word)) {
            let found = space.load_u64(offset);
            if found != 0 {
                return Err(Error::NotEmpty { offset, found });
            }
        }
        self.set_high(space, 0);
        space.fence();
        Ok(Begun(()))
    }

    /// Reads the header, from whichever copy is whole.
    pub(crate) fn open<S: Space>(space: &S) -> Result<Layout, Error> {
        if space.len() < CHUNKS {
            return Err(Error::NotAStore { second: SECOND, empty: false });
        }
        let first = Self::read(space, 0);
        match first {
            Ok(_) | Err(Error::Version { .. }) => first,
            Err(first) => Self::read(space, SECOND).map_err(|second| match (first, second) {
                (damaged @ Error::Damaged { .. }, _) | (_, damaged @ Error::Damaged { .. }) => damaged,
                (_, second) => second,
            }),
        }
    }

    fn read<S: Space>(space: &S, copy: u64) -> Result<Layout, Error> {
        let words: [u64; 8] = std::array::from_fn(|at| space.load_u64(copy + 8 * at as u64));
        if words[0] != MAGIC {
            let empty = (0..CHUNKS).step_by(8).all(|at| space.load_u64(at) == 0);
            return Err(Error::NotAStore { second: SECOND, empty });
        }
        if words[7] != check_of(&words[..7]) {
            return Err(Error::damaged(copy + 56, "the header's checksum", words[7]));
        }
        if words[1] != VERSION {
            return Err(Error::Version { offset: copy + 8, found: words[1], supported: VERSION });
        }
        let kinds = words[2];
        let engine = match kinds & 0xFF {
            0 => Engine::Log,
            1 => Engine::Slab,
            _ => return Err(Error::damaged(copy + 16, "the number of an engine", kinds)),
        };
        let index = match kinds >> 8 {
            0 => Placement::Volatile,
            1 => Placement::Persistent,
            _ => return Err(Error::damaged(copy + 16, "where the index is", kinds)),
        };
        let chunk = words[3];
        if !chunk.is_power_of_two() || !(1 << 10..=1 << 30).contains(&chunk) {
            return Err(Error::damaged(copy + 24, "the bytes of a chunk", chunk));
        }
        Ok(Layout { engine, index, chunk, id: words[4] })
    }

    /// The first byte of chunk `at`.
    pub(crate) fn chunk_at(&self, at: u32) -> u64 {
        CHUNKS + u64::from(at) * self.chunk
    }

    /// The chunk in which `offset` is.
    pub(crate) fn chunk_of(&self, offset: u64) -> u32 {
        ((offset - CHUNKS) / self.chunk) as u32
    }

    /// Chunks that a space of `len` bytes has room for.
    pub(crate) fn chunks_in(&self, len: u64) -> u32 {
        u32::try_from(len.saturating_sub(CHUNKS) / self.chunk).unwrap_or(u32::MAX)
    }

    /// Stores and flushes how many chunks were ever used.
    pub(crate) fn set_high<S: Space>(&self, space: &S, count: u32) {
        space.store_u64(HIGH, self.guarded(HIGH, u64::from(count), 0));
        space.flush_line(HIGH);
    }

    pub(crate) fn high<S: Space>(&self, space: &S) -> Result<u32, Error> {
        let word = space.load_u64(HIGH);
        let count = self.unguarded(HIGH, word, 0).and_then(|count| u32::try_from(count).ok());
        count.ok_or_else(|| Error::damaged(HIGH, "how many chunks were used, and its guard", word))
    }

    /// Makes durable which chunk has what closing left.
    pub(crate) fn set_closed<S: Space>(&self, space: &S, chunk: Option<u32>) {
        let word = chunk.map_or(0, |chunk| self.guarded(CLOSED, u64::from(chunk) + 1, 0));
        space.store_u64(CLOSED, word);
        space.persist(CLOSED, 8);
    }

    /// That chunk. What is damaged leads nowhere: it can be done without.
    pub(crate) fn closed<S: Space>(&self, space: &S) -> Option<u32> {
        let chunk = self.unguarded(CLOSED, space.load_u64(CLOSED), 0)?.checked_sub(1)?;
        u32::try_from(chunk).ok()
    }

    /// Makes a chunk's head durable, its detail before its use: whoever reads the use finds the detail.
    pub(crate) fn set_head<S: Space>(&self, space: &S, at: u32, head: Head) {
        if head.used != Use::Free {
            self.set_detail(space, at, head.generation, head.detail);
            space.fence();
        }
        self.set_use(space, at, head);
        space.fence();
    }

    /// Stores and flushes what a chunk is used for.
    pub(crate) fn set_use<S: Space>(&self, space: &S, at: u32, head: Head) {
        let offset = self.chunk_at(at);
        space.store_u64(offset, self.guarded(offset, head.generation << 4 | head.used.number(), 0));
        space.flush_line(offset);
    }

    /// Stores and flushes a chunk's detail.
    pub(crate) fn set_detail<S: Space>(&self, space: &S, at: u32, generation: u64, detail: u64) {
        let offset = self.chunk_at(at) + 8;
        space.store_u64(offset, self.guarded(offset, detail, generation));
        space.flush(offset, 8);
    }

    pub(crate) fn head<S: Space>(&self, space: &S, at: u32) -> Result<Head, Error> {
        let offset = self.chunk_at(at);
        let word = space.load_u64(offset);
        if word == 0 {
            return Ok(Head { used: Use::Free, generation: 0, detail: 0 });
        }
        let damaged = || Error::damaged(offset, "what a chunk is used for, and its guard", word);
        let value = self.unguarded(offset, word, 0).ok_or_else(damaged)?;
        let used = *Use::ALL.get((value & 15) as usize).ok_or_else(damaged)?;
        let generation = value >> 4;
        let detail = if used == Use::Free {
            0
        } else {
            let word = space.load_u64(offset + 8);
            let damaged = || Error::damaged(offset + 8, "a chunk's detail and its guard", word);
            self.unguarded(offset + 8, word, generation).ok_or_else(damaged)?
        };
        Ok(Head { used, generation, detail })
    }

    /// A value of 48 bits with 16 that confirm it.
    fn guarded(&self, offset: u64, value: u64, salt: u64) -> u64 {
        value << 16 | self.guard(offset, value, salt)
    }

    fn unguarded(&self, offset: u64, word: u64, salt: u64) -> Option<u64> {
        let value = word >> 16;
        (self.guarded(offset, value, salt) == word).then_some(value)
    }

    fn guard(&self, offset: u64, value: u64, salt: u64) -> u64 {
        let mut bytes = [0; 24];
        for (part, word) in bytes.chunks_exact_mut(8).zip([offset, value, salt]) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        // Never 0, so that a word that says something is not 0.
        (xxh3_64_with_seed(&bytes, self.id) & 0xFFFF).max(1)
    }
}

fn check_of(words: &[u64]) -> u64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    xxh3_64_with_seed(&bytes, MAGIC)
}
