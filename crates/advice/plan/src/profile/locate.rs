//! Whose memory an address is: the structure that was allocated there.

use std::collections::{BTreeMap, HashMap};

use event::{Event, NameId, Op, Site, SiteId};
use serde::{Deserialize, Serialize};

/// Number of a structure; 0 is what nobody allocated.
pub type Structure = u32;

/// What is neither allocated nor mapped as far as the source can see: stacks, globals.
pub const REST: Structure = 0;

/// Structures, at most; allocation sites beyond count as [`REST`].
const STRUCTURES_MAX: usize = 1 << 16;
/// A mapping is looked at in so many parts, none smaller than [`PART_MIN`].
const PARTS: u64 = 64;
const PART_MIN: u64 = 64 << 10;
/// Bytes of the pages by which memory is placed.
pub const PAGE: u64 = 4096;

/// Who made a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// Nobody that was seen: stacks, globals.
    Rest,
    /// All memory that a site allocates.
    Site(u32),
    /// One of the equal parts of a mapping.
    Part {
        /// The mapping's name.
        mapping: u32,
        /// Which part.
        part: u32,
    },
}

/// What sites of the same name are one structure by: `None` keeps a site by itself.
pub type Namer = fn(&Site) -> Option<String>;

/// Allocations and mappings that live, by address.
#[derive(Clone, Debug, Default)]
pub struct Locator {
    numbers: HashMap<Owner, Structure>,
    owners: Vec<Owner>,
    /// First byte of each allocation: its end and structure.
    allocations: BTreeMap<u64, (u64, Structure)>,
    /// First byte of each mapping: its end, name and the bytes of a part.
    mappings: BTreeMap<u64, (u64, NameId, u64)>,
    /// The last answer, and the addresses for which it holds.
    last: (u64, u64, Structure),
    /// What joins sites, the first site of each name, and the site that stands for another.
    namer: Option<Namer>,
    named: HashMap<String, SiteId>,
    stands_for: HashMap<SiteId, SiteId>,
    /// By structure: bytes that live, and their maximum.
    live: Vec<(u64, u64)>,
}

impl Locator {
    /// Without allocations.
    #[must_use]
    pub fn new() -> Locator {
        let mut locator = Locator::default();
        locator.number(Owner::Rest);
        locator
    }

    /// Joins sites by a name.
    pub fn join_by(&mut self, namer: Namer) {
        self.namer = Some(namer);
    }

    /// Takes note of what a site is, which comes before its first event.
    pub fn define(&mut self, id: SiteId, site: &Site) {
        if let Some(name) = self.namer.and_then(|namer| namer(site)) {
            let first = *self.named.entry(name).or_insert(id);
            self.stands_for.insert(id, first);
        }
    }

    /// The structures' owners, by number.
    #[must_use]
    pub fn owners(&self) -> &[Owner] {
        &self.owners
    }

    /// Most bytes that lived at once, by structure. 0 for [`REST`], and for parts of mappings.
    #[must_use]
    pub fn peak(&self, structure: Structure) -> u64 {
        self.live[structure as usize].1
    }

    /// Takes note of an allocation, a mapping, or the end of one.
    pub fn note(&mut self, event: &Event) {
        match event.op {
            Op::Alloc { addr, len } => self.allocate(addr, len, event.site),
            Op::Free { addr } => self.free(addr),
            Op::Map { addr, len, name } if len > 0 => {
                self.last = (0, 0, REST);
                let part = (len / PARTS).next_multiple_of(PAGE).max(PART_MIN);
                self.mappings.insert(addr, (addr.saturating_add(len), name, part));
                // Numbered here, so that they do not depend on which is accessed first.
                for part in 0..u32::try_from(len.div_ceil(part)).unwrap_or(u32::MAX) {
                    self.number(Owner::Part { mapping: name.0, part });
                }
            }
            Op::Unmap { addr, .. } => {
                self.last = (0, 0, REST);
                self.mappings.remove(&addr);
            }
            _ => {}
        }
    }

    /// The structure that has the byte.
    #[inline]
    pub fn find(&mut self, address: u64) -> Structure {
        let (first, end, structure) = self.last;
        if address.wrapping_sub(first) < end.wrapping_sub(first) {
            return structure;
        }
        self.search(address)
    }

    fn search(&mut self, address: u64) -> Structure {
        let before = self.allocations.range(..=address).next_back();
        if let Some((&first, &(end, structure))) = before
            && address < end
        {
            self.last = (first, end, structure);
            return structure;
        }
        let floor = before.map_or(0, |(_, &(end, _))| end);
        let ceiling = self.allocations.range(address..).next().map_or(u64::MAX, |(&next, _)| next);
        let mapping = self.mappings.range(..=address).next_back().map(|(&first, &mapping)| (first, mapping));
        let Some((first, (end, name, part))) = mapping.filter(|(_, (end, ..))| address < *end) else {
            let floor = mapping.map_or(floor, |(_, (end, ..))| floor.max(end));
            let next = self.mappings.range(address..).next().map_or(u64::MAX, |(&next, _)| next);
            self.last = (floor, ceiling.min(next), REST);
            return REST;
        };
        let number = (address - first) / part;
        let owner = Owner::Part { mapping: name.0, part: u32::try_from(number).unwrap_or(u32::MAX) };
        let structure = self.number(owner);
        let start = first + number * part;
        self.last = (start.max(floor), (start + part).min(end).min(ceiling), structure);
        structure
    }

    fn allocate(&mut self, addr: u64, len: u64, site: SiteId) {
        self.free(addr);
        if len == 0 {
            return;
        }
        let site = self.stands_for.get(&site).copied().unwrap_or(site);
        let structure = self.number(Owner::Site(site.0));
        self.last = (0, 0, REST);
        self.allocations.insert(addr, (addr.saturating_add(len), structure));
        let (live, peak) = &mut self.live[structure as usize];
        *live += len;
        *peak = (*peak).max(*live);
    }

    fn free(&mut self, addr: u64) {
        if let Some((end, structure)) = self.allocations.remove(&addr) {
            self.last = (0, 0, REST);
            self.live[structure as usize].0 -= end - addr;
        }
    }

    fn number(&mut self, owner: Owner) -> Structure {
        if let Some(&number) = self.numbers.get(&owner) {
            return number;
        }
        if self.owners.len() >= STRUCTURES_MAX {
            return REST;
        }
        let number = self.owners.len() as Structure;
        self.numbers.insert(owner, number);
        self.owners.push(owner);
        self.live.push((0, 0));
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(locator: &mut Locator, op: Op, site: u32) {
        locator.note(&Event { op, site: SiteId(site), instructions: 1 });
    }

    #[test]
    fn an_address_belongs_to_the_site_that_allocated_it_and_to_nobody_after_it_is_freed() {
        let mut locator = Locator::new();
        note(&mut locator, Op::Alloc { addr: 1_000, len: 100 }, 7);
        note(&mut locator, Op::Alloc { addr: 2_000, len: 50 }, 8);
        note(&mut locator, Op::Alloc { addr: 3_000, len: 50 }, 7);
        let all = [999u64, 1_000, 1_099, 1_100, 2_049, 3_010].map(|address| locator.find(address));
        assert_eq!(all, [REST, 1, 1, REST, 2, 1]);
        assert_eq!(locator.owners(), [Owner::Rest, Owner::Site(7), Owner::Site(8)]);
        note(&mut locator, Op::Free { addr: 1_000 }, 0);
        assert_eq!(locator.find(1_050), REST);
        note(&mut locator, Op::Alloc { addr: 1_000, len: 10 }, 8);
        assert_eq!(locator.find(1_005), 2);
        assert_eq!((locator.peak(1), locator.peak(2)), (150, 60));
    }

    #[test]
    fn sites_of_one_name_are_one_structure() {
        let mut locator = Locator::new();
        locator.join_by(|site| site.module.strip_prefix("node").map(|_| "node".to_owned()));
        for (number, module) in [(7, "node a"), (8, "other"), (9, "node b")] {
            let site = Site { module: module.to_owned(), ..Site::default() };
            locator.define(SiteId(number), &site);
            note(&mut locator, Op::Alloc { addr: u64::from(number) * 1_000, len: 100 }, number);
        }
        assert_eq!([7_000, 8_000, 9_000].map(|address| locator.find(address)), [1, 2, 1]);
    }

    #[test]
    fn a_mapping_is_seen_in_parts_and_allocations_inside_it_by_their_site() {
        let mut locator = Locator::new();
        note(&mut locator, Op::Map { addr: 1 << 20, len: 64 << 20, name: NameId(3) }, 0);
        assert_eq!(locator.find((1 << 20) - 1), REST);
        let (first, second) = (locator.find(1 << 20), locator.find(2 << 20));
        assert_ne!(first, second, "a mebibyte is a part");
        note(&mut locator, Op::Alloc { addr: (1 << 20) + 4096, len: 64 }, 9);
        let inside = locator.find((1 << 20) + 4100);
        assert_eq!(locator.owners()[inside as usize], Owner::Site(9));
        assert_eq!(locator.find((1 << 20) + 8192), first);
        note(&mut locator, Op::Unmap { addr: 1 << 20, len: 64 << 20 }, 0);
        assert_eq!(locator.find(2 << 20), REST);
    }
}
