//! A core's TLB, and where page tables and tables of the offload engine lie.

use crate::config::Tlb;
use crate::{LINE_BYTES, Time};

/// Page tables and the engine's tables lie behind all that programs map.
const TABLES: u64 = 1 << 50;
/// Bytes between the tables of two levels, and those of two cores' engines.
const LEVEL: u64 = 1 << 46;
const RING: u64 = 1 << 24;
/// Bits of an address that are translated.
const ADDRESS_BITS: u32 = 48;

/// The line of the entry of `level` (1 is the lowest, which maps 4 KiB) on the way to `address`.
pub(crate) fn table_line(address: u64, level: u32) -> u64 {
    let index = (address & ((1 << ADDRESS_BITS) - 1)) >> (12 + 9 * (level - 1));
    (TABLES + u64::from(level) * LEVEL + index * 8) / LINE_BYTES
}

/// The line of an entry of a core's table of pages. Entries have 16 bytes; entry 0 is the header.
pub(crate) fn ring_line(core: usize, entry: u64) -> u64 {
    (TABLES + 7 * LEVEL + core as u64 * RING + entry * 16) / LINE_BYTES
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u64,
    /// Whether stores may use it.
    own: bool,
    used: u64,
}

/// A set-associative array with least-recently-used replacement.
#[derive(Clone, Debug)]
struct Array {
    entries: Vec<Entry>,
    ways: usize,
    mask: u64,
    clock: u64,
}

impl Array {
    fn new(entries: u32, ways: u32) -> Array {
        let empty = Entry { page: u64::MAX, own: false, used: 0 };
        let ways = ways.min(entries);
        let mask = u64::from(entries / ways.max(1)).saturating_sub(1);
        Array { entries: vec![empty; entries as usize], ways: ways as usize, mask, clock: 0 }
    }

    fn set(&mut self, page: u64) -> &mut [Entry] {
        let first = (page & self.mask) as usize * self.ways;
        &mut self.entries[first..first + self.ways]
    }

    /// Whether the page is there, and stores may use it.
    fn find(&mut self, page: u64) -> Option<bool> {
        self.clock += 1;
        let clock = self.clock;
        let found = self.set(page).iter_mut().find(|entry| entry.page == page)?;
        found.used = clock;
        Some(found.own)
    }

    fn insert(&mut self, page: u64, own: bool) {
        self.clock += 1;
        let clock = self.clock;
        let set = self.set(page);
        let at = set.iter().position(|entry| entry.page == page);
        let at = at.or_else(|| (0..set.len()).min_by_key(|&at| set[at].used));
        if let Some(entry) = at.and_then(|at| set.get_mut(at)) {
            *entry = Entry { page, own, used: clock };
        }
    }

    fn clear(&mut self) {
        self.entries.iter_mut().for_each(|entry| (entry.page, entry.used) = (u64::MAX, 0));
    }
}

/// What a look-up gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// In this level, with its latency; the level's number counts from 0.
    Level(usize, Time),
    /// Nowhere, or not for stores; all levels were looked up in this time.
    Nowhere(Time),
}

/// All levels of a core, and the upper entries that its walker keeps.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    arrays: Vec<(Array, Time)>,
    upper: Option<Array>,
    /// The level of the page tables that maps a page.
    leaf: u32,
    page_bits: u32,
}

impl Levels {
    pub(crate) fn new(tlb: &Tlb) -> Levels {
        let array =
            |level: &crate::config::TlbLevel| (Array::new(tlb.entries(level), level.ways), level.latency);
        Levels {
            arrays: tlb.levels.iter().map(array).collect(),
            upper: (tlb.walk_entries > 0).then(|| Array::new(tlb.walk_entries, tlb.walk_entries)),
            leaf: (tlb.page_bits() - 12) / 9 + 1,
            page_bits: tlb.page_bits(),
        }
    }

    /// The page of an address.
    pub(crate) fn page(&self, address: u64) -> u64 {
        address >> self.page_bits
    }

    /// The level of the page tables that maps pages.
    pub(crate) fn leaf(&self) -> u32 {
        self.leaf
    }

    /// Looks a page up for a load or a store.
    pub(crate) fn look_up(&mut self, page: u64, store: bool) -> Found {
        let mut latest = Time::ZERO;
        for at in 0..self.arrays.len() {
            let (array, latency) = &mut self.arrays[at];
            latest = latest.max(*latency);
            match array.find(page) {
                Some(own) if own || !store => {
                    let latency = *latency;
                    self.arrays[..at].iter_mut().for_each(|(array, _)| array.insert(page, own));
                    return Found::Level(at, latency);
                }
                _ => {}
            }
        }
        Found::Nowhere(latest)
    }

    /// The first level of the page tables that a walk has to read.
    pub(crate) fn walk_from(&mut self, address: u64) -> u32 {
        let Some(upper) = &mut self.upper else { return 4 };
        // An entry of level n leads to the table of level n - 1.
        (self.leaf + 1..=4)
            .find(|&level| upper.find(key(address, level)).is_some())
            .map_or(4, |level| level - 1)
    }

    /// The walker keeps an upper entry that it has read.
    pub(crate) fn keep(&mut self, address: u64, level: u32) {
        if let Some(upper) = self.upper.as_mut().filter(|_| level > self.leaf) {
            upper.insert(key(address, level), true);
        }
    }

    /// A walk has found the page.
    pub(crate) fn fill(&mut self, page: u64, own: bool) {
        self.arrays.iter_mut().for_each(|(array, _)| array.insert(page, own));
    }

    /// All is forgotten.
    pub(crate) fn clear(&mut self) {
        self.arrays.iter_mut().for_each(|(array, _)| array.clear());
        self.upper.iter_mut().for_each(Array::clear);
    }
}

fn key(address: u64, level: u32) -> u64 {
    (address >> (12 + 9 * (level - 1))) << 3 | u64::from(level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TlbLevel;

    fn levels(entries: u32, ways: u32) -> Levels {
        let level = TlbLevel { entries, ways, huge_entries: None, latency: Time(10) };
        Levels::new(&Tlb { levels: vec![level], walk_entries: 2, ..Tlb::default() })
    }

    #[test]
    fn the_least_recently_used_page_leaves_its_set() {
        let mut tlb = levels(4, 2);
        for page in [0, 2, 4] {
            tlb.fill(page, true);
            tlb.look_up(0, false);
        }
        let there = |tlb: &mut Levels, page| matches!(tlb.look_up(page, false), Found::Level(0, Time(10)));
        assert!(there(&mut tlb, 0) && there(&mut tlb, 4) && !there(&mut tlb, 2));
        tlb.fill(1, false);
        assert!(there(&mut tlb, 1));
        assert_eq!(tlb.look_up(1, true), Found::Nowhere(Time(10)), "the page of zeros takes no store");
    }

    #[test]
    fn a_walk_skips_what_the_walker_keeps() {
        let mut tlb = levels(4, 2);
        assert_eq!(tlb.walk_from(0x1234_5000), 4);
        tlb.keep(0x1234_5000, 2);
        assert_eq!(tlb.walk_from(0x1234_6000), 1, "the same 2 MiB");
        assert_eq!(tlb.walk_from(0x7234_6000), 4);
        assert_eq!(table_line(0x1000, 1), table_line(0x7000, 1), "eight entries share a line");
        assert_ne!(table_line(0x1000, 1), table_line(0x8000, 1));
    }
}
