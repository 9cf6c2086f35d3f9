//! The lines of the three levels of cache, and what is counted at each level.

use device::{Cache, Modulo, Rng, Spread};

use crate::slices::Slices;
use crate::{CacheFigures, CacheLevel, LINE_BYTES};

/// Flag of a [`Line`]: holds stores that memory has not seen.
pub(crate) const DIRTY: u32 = 1;
/// Flag of a [`Line`]: no other core has a copy, so a store needs to ask nobody.
pub(crate) const EXCLUSIVE: u32 = 2;
/// Bits that the flags take.
const FLAG_BITS: u32 = 2;
/// Sites that a [`Line`] can distinguish.
pub(crate) const SITES_MAX: u32 = 1 << 22;
const _: () = assert!(SITES_MAX.leading_zeros() + 1 >= FLAG_BITS);

/// [`Line::link`] of a line without partner.
pub(crate) const NO_LINK: u32 = u32::MAX;

/// What a cache knows of a line besides its number, in few bytes: most of a miss's time goes into the
/// computer's own cache misses on the slots of a modelled LLC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// The flags, and above them, if dirty, the code site that stored last.
    state: u32,
    /// In an L1: the line's slot in the L2. In an L2: its slot in the L1, or [`NO_LINK`]. In the LLC:
    /// the thread that wrote it, if dirty.
    pub(crate) link: u32,
}

impl Line {
    pub(crate) fn new(site: u32, link: u32, flags: u32) -> Self {
        Line { state: site << FLAG_BITS | flags, link }
    }

    pub(crate) fn with_link(self, link: u32) -> Self {
        Line { link, ..self }
    }

    /// If dirty: the code site that stored last. Else of no meaning.
    pub(crate) fn site(&self) -> u32 {
        self.state >> FLAG_BITS
    }

    pub(crate) fn dirty(&self) -> bool {
        self.state & DIRTY != 0
    }

    pub(crate) fn exclusive(&self) -> bool {
        self.state & EXCLUSIVE != 0
    }

    /// Raises a flag.
    pub(crate) fn set(&mut self, flag: u32) {
        self.state |= flag;
    }

    /// Lowers a flag.
    pub(crate) fn clear(&mut self, flag: u32) {
        self.state &= !flag;
    }

    /// The same, after [`Line::store`] if that is the case.
    #[inline(always)]
    pub(crate) fn stored_if(self, stored: bool, site: u32) -> Line {
        let after = site << FLAG_BITS | self.state & EXCLUSIVE | DIRTY;
        Line { state: std::hint::select_unpredictable(stored, after, self.state), ..self }
    }

    /// `site` stored last, here or in a copy that this one takes over.
    pub(crate) fn store(&mut self, site: u32) {
        *self = self.stored_if(true, site);
    }
}

/// A private cache.
pub(crate) type Private = Cache<Line>;

/// The last-level cache.
pub(crate) type Shared = Cache<Line, Sets>;

/// How lines are spread over the sets of the last-level cache.
#[derive(Clone, Debug)]
pub(crate) enum Sets {
    /// Sets follow one another.
    Modulo(Modulo),
    /// By the hash of a processor's slices.
    Slices(Slices),
}

impl Spread for Sets {
    #[inline(always)]
    fn set(&self, line: u64) -> usize {
        match self {
            Sets::Modulo(sets) => sets.set(line),
            Sets::Slices(slices) => slices.set(line),
        }
    }
}

/// The private cache of a level.
pub(crate) fn private(level: &CacheLevel, rng: Rng) -> Private {
    Cache::new(level.sets(), level.ways as usize, level.replacement, rng)
}

/// The last-level cache.
pub(crate) fn shared(level: &CacheLevel, rng: Rng) -> Shared {
    let sets = level.sets();
    let spread = match level.slices.and_then(|count| Slices::new(count, sets)) {
        Some(slices) => Sets::Slices(slices),
        None => Sets::Modulo(Modulo::new(sets)),
    };
    Cache::spread_by(spread, sets, level.ways as usize, level.replacement, rng)
}

/// Lines held that memory has not seen.
pub(crate) fn dirty_lines<S: Spread>(cache: &Cache<Line, S>) -> u64 {
    cache.held().filter(|(_, _, line)| line.dirty()).count() as u64
}

/// What happened at one cache; lines, all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) evictions: u64,
    pub(crate) invalidations: u64,
    pub(crate) forwards: u64,
    /// Lines that became dirty here or came in dirty.
    pub(crate) dirty_in: u64,
    /// Of these, onto a line that was dirty already.
    pub(crate) dirty_absorbed: u64,
    /// Dirty lines handed on.
    pub(crate) dirty_out: u64,
}

impl Counts {
    /// A dirty line came in, on a line that held `before`.
    pub(crate) fn dirty_arrives(&mut self, before: Line) {
        self.dirty_in += 1;
        self.dirty_absorbed += u64::from(before.dirty());
    }

    pub(crate) fn add(&mut self, other: &Counts) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.evictions += other.evictions;
        self.invalidations += other.invalidations;
        self.forwards += other.forwards;
        self.dirty_in += other.dirty_in;
        self.dirty_absorbed += other.dirty_absorbed;
        self.dirty_out += other.dirty_out;
    }

    pub(crate) fn figures(&self, level: &str, dirty_lines: u64) -> CacheFigures {
        CacheFigures {
            level: level.to_owned(),
            hits: self.hits,
            misses: self.misses,
            evictions: self.evictions,
            writebacks: self.dirty_out,
            invalidations: self.invalidations,
            forwards: self.forwards,
            held_dirty_bytes: dirty_lines * LINE_BYTES,
        }
    }
}
