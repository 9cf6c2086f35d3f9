//! A log's ring: a power of two of units, in which an entry has the place that its position says.

use space::{Env, Space};

use crate::entry::{ENTRY, Entry};
use crate::layout::{self, Layout};

/// Where a log's entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The first unit.
    pub unit: u64,
    /// How many there are, a power of two.
    pub units: u64,
    at: u64,
    entries: u64,
}

impl Ring {
    pub fn new(layout: &Layout, unit: u64, units: u64) -> Ring {
        Ring { unit, units, at: layout.unit_at(unit), entries: units * layout.unit / ENTRY }
    }

    /// The ring that the word in a log's line names; `None` if the log never had one.
    pub fn read<E: Env>(env: &E, layout: &Layout, log: u32) -> Result<Option<Ring>, crate::Error> {
        let offset = layout::line(log) + 8;
        let word = env.space().load_u64(offset);
        let (unit, units) = (word >> 32, word & 0xFFFF_FFFF);
        if word == 0 {
            return Ok(None);
        }
        if !units.is_power_of_two() || unit + units > layout.units {
            return Err(crate::Error::Damaged { offset, what: "the word of a log's ring" });
        }
        Ok(Some(Ring::new(layout, unit, units)))
    }

    /// Makes it the log's ring, durably. The units are known as a log's already.
    pub fn publish<E: Env>(&self, env: &E, log: u32) {
        let offset = layout::line(log) + 8;
        env.space().store_u64(offset, self.unit << 32 | self.units);
        env.space().persist(offset, 8);
    }

    /// Entries that there is room for.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Offset of the entry with this position.
    #[inline]
    pub fn place(&self, position: u64) -> u64 {
        self.at + (position & (self.entries - 1)) * ENTRY
    }

    /// All whole entries of a log, by position: holes are legal.
    pub fn scan<E: Env>(&self, env: &E, seed: u64) -> Vec<Entry> {
        let mut found: Vec<_> =
            (0..self.entries).filter_map(|place| self.read_entry(env, place, seed)).collect();
        found.sort_unstable_by_key(|entry| entry.position);
        found
    }

    fn index(&self, position: u64) -> u64 {
        (self.place(position) - self.at) / ENTRY
    }

    fn read_entry<E: Env>(&self, env: &E, place: u64, seed: u64) -> Option<Entry> {
        let at = self.at + place * ENTRY;
        let words = std::array::from_fn(|word| env.space().load_u64(at + word as u64 * 8));
        Entry::from_words(&words, seed).filter(|entry| self.index(entry.position) == place)
    }
}
