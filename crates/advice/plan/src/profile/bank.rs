//! The last-level cache at every candidate's number of ways, side by side, behind one private cache per core.
//!
//! The last level takes what the second level pushes out, and gives up what a core takes back. What reaches it does not
//! depend on its size, so one pass over the events gives the misses of all sizes, with the machine's own replacement.

use device::{Cache, LINE_BYTES, Replacement, Rng};
use machine::Config;

use super::locate::Structure;

/// Whose line it is, and whether it is to be written back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub(super) structure: Structure,
    pub(super) dirty: bool,
}

/// One candidate.
pub(super) struct Candidate {
    pub(super) cache: Cache<Held>,
}

/// What a look at all candidates found: bit `i` is set if the line missed in candidate `i`.
pub(super) type Missed = u32;

/// A core's first and second level.
pub(super) struct Private {
    l1: Cache<()>,
    l2: Cache<Held>,
}

/// The candidates.
pub(super) struct Bank {
    pub(super) candidates: Vec<Candidate>,
}

/// What a private cache did with an access.
pub(super) enum Private2 {
    /// It had the line.
    Hit,
    /// It did not, and pushed this line out to make room.
    Missed(Option<(u64, Held)>),
}

impl Private {
    pub(super) fn new(config: &Config, core: u64) -> Private {
        let cache = |sets: u64, ways: u32, replacement, salt| {
            Cache::new(sets.max(1) as usize, ways as usize, replacement, Rng::new(config.seed ^ salt))
        };
        let sets = |level: &machine::CacheLevel| level.size.0 / LINE_BYTES / u64::from(level.ways);
        Private {
            l1: Cache::new(
                sets(&config.l1) as usize,
                config.l1.ways as usize,
                plain(config.l1.replacement),
                Rng::new(core),
            ),
            l2: cache(sets(&config.l2), config.l2.ways, plain(config.l2.replacement), core << 8 | 2),
        }
    }

    /// A load or store of a line. `owner` is asked only if the second level does not have it.
    #[inline]
    pub(super) fn access(&mut self, line: u64, store: bool, owner: impl FnOnce() -> Structure) -> Private2 {
        if let Some(slot) = self.l1.find(line) {
            self.l1.touch(slot);
            if store && let Some(slot) = self.l2.find(line) {
                self.l2.slots[slot].item.dirty = true;
            }
            return Private2::Hit;
        }
        let found = self.l2.find(line);
        let answer = match found {
            Some(slot) => {
                self.l2.touch(slot);
                self.l2.slots[slot].item.dirty |= store;
                Private2::Hit
            }
            None => {
                let (_, evicted) = self.l2.insert(line, Held { structure: owner(), dirty: store });
                // The second level holds every line of the first.
                if let Some((tag, _)) = evicted
                    && let Some(slot) = self.l1.find(tag)
                {
                    self.l1.remove(slot);
                }
                Private2::Missed(evicted)
            }
        };
        self.l1.insert(line, ());
        answer
    }

    /// Takes a line out, or only cleans it.
    pub(super) fn flush(&mut self, line: u64, keep: bool) -> Option<Held> {
        let slot = self.l2.find(line)?;
        let held = self.l2.slots[slot].item;
        if keep {
            self.l2.slots[slot].item.dirty = false;
            return Some(held);
        }
        self.l2.remove(slot);
        if let Some(slot) = self.l1.find(line) {
            self.l1.remove(slot);
        }
        Some(held)
    }
}

impl Bank {
    /// Candidates with so many ways each, of the machine's last level.
    pub(super) fn new(config: &Config, ways: &[u32]) -> Bank {
        let sets = (config.llc.size.0 / LINE_BYTES / u64::from(config.llc.ways)).max(1) as usize;
        let candidates = ways.iter().map(|&ways| {
            let fits = ways.is_power_of_two() || config.llc.replacement != Replacement::TreePlru;
            let replacement = if fits { plain(config.llc.replacement) } else { Replacement::Lru };
            Candidate { cache: Cache::new(sets, ways as usize, replacement, Rng::new(config.seed ^ 1 << 60)) }
        });
        Bank { candidates: candidates.collect() }
    }

    /// A core takes a line. Returns the candidates that do not have it, and whether one of them had it dirty, by bit.
    pub(super) fn take(&mut self, line: u64) -> (Missed, u32) {
        let (mut missed, mut dirty) = (0, 0);
        for (bit, candidate) in self.candidates.iter_mut().enumerate() {
            match candidate.cache.find(line) {
                Some(slot) => dirty |= u32::from(candidate.cache.remove(slot).dirty) << bit,
                None => missed |= 1 << bit,
            }
        }
        (missed, dirty)
    }

    /// A line leaves a core. `written` hears which structure's line is written back, by candidate.
    pub(super) fn put(&mut self, line: u64, held: Held, mut written: impl FnMut(usize, Structure)) {
        for (number, candidate) in self.candidates.iter_mut().enumerate() {
            if let Some(slot) = candidate.cache.find(line) {
                candidate.cache.slots[slot].item.dirty |= held.dirty;
                candidate.cache.touch(slot);
                continue;
            }
            if let Some((_, old)) = candidate.cache.insert(line, held).1
                && old.dirty
            {
                written(number, old.structure);
            }
        }
    }
}

/// Queue-aware replacement needs the queues of a machine with time; without them what leaves is chance.
fn plain(replacement: Replacement) -> Replacement {
    if replacement == Replacement::QueueAware { Replacement::Random } else { replacement }
}
