//! Slots for records, by size, in regions.
//!
//! Extents are divided into *regions* from front to back. A region has slots of one size; its first three
//! words say which, how long it is, and a checksum of both. What lies behind an extent's last region was
//! never used. Which slots are in use is what the records say.

use std::collections::BTreeMap;

use space::Space;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::record;
use crate::{Error, Extent, Extents};

/// Bytes of a region before its slots.
pub(super) const HEAD: u64 = 64;
/// Bytes of a region whose slots are short; slots of more than a quarter of that have regions of their own.
const REGION: u64 = 16 << 10;
/// Regions begin at multiples of this.
const UNIT: u64 = 256;
/// Bytes of a new extent: as many as all before together, between these.
const FIRST: u64 = 64 << 10;
const MOST: u64 = 64 << 20;

/// Bytes of the slot for a record of `bytes`: four sizes from a power of two to the next.
pub(super) fn size_of(bytes: u64) -> u64 {
    if bytes <= 64 {
        return bytes.next_multiple_of(16);
    }
    let step = (bytes - 1).ilog2() - 2;
    bytes.next_multiple_of(1 << step)
}

/// Slots of one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    at: u64,
    bytes: u64,
    pub size: u64,
}

impl Region {
    fn check(self, map: u64) -> u64 {
        let words = [self.at, self.bytes, self.size].map(u64::to_le_bytes);
        xxh3_64_with_seed(words.as_flattened(), map)
    }

    /// The region that begins at `at`, if one does.
    fn read<S: Space>(space: &S, map: u64, at: u64, end: u64) -> Option<Region> {
        if end - at < HEAD {
            return None;
        }
        let [size, bytes, check] = [0, 8, 16].map(|word| space.load_u64(at + word));
        let region = Region { at, bytes, size };
        let right = bytes >= HEAD && bytes <= end - at && bytes.is_multiple_of(UNIT) && size >= record::HEAD;
        (right && check == region.check(map)).then_some(region)
    }

    /// Makes it one, durably, with empty slots: what an earlier owner left would look like torn records.
    fn write<S: Space>(self, space: &S, map: u64) {
        for slot in self.slots().filter(|slot| space.load_u64(*slot) != 0) {
            space.store_u64(slot, 0);
        }
        self.flush(space);
        space.fence();
        space.store_words(self.at, &[self.size, self.bytes, self.check(map)]);
        space.persist(self.at, 24);
    }

    /// Flushes all of it.
    pub fn flush<S: Space>(self, space: &S) {
        space.flush(self.at, self.bytes);
    }

    /// All slots.
    pub fn slots(self) -> impl DoubleEndedIterator<Item = u64> {
        let count = (self.bytes - HEAD) / self.size;
        (0..count).map(move |slot| self.at + HEAD + slot * self.size)
    }
}

/// Memory that was never used, from one offset to another.
pub(super) type Blank = (u64, u64);

/// The regions of an extent, and what lies behind the last; `head` bytes at its beginning are not to be
/// divided.
///
/// # Errors
/// If a region lies behind memory that is none.
pub(super) fn regions_of<S: Space>(
    space: &S,
    map: u64,
    extent: Extent,
    head: u64,
) -> Result<(Vec<Region>, Blank), Error> {
    let (mut at, end) = (extent.offset + head, extent.offset + extent.bytes);
    let mut regions = Vec::new();
    while let Some(region) = Region::read(space, map, at, end) {
        at += region.bytes;
        regions.push(region);
    }
    let is_region = |later: &u64| Region::read(space, map, *later, end).is_some();
    if (at..end).step_by(UNIT as usize).skip(1).any(|later| is_region(&later)) {
        return Err(Error::Damaged { offset: at, what: "the sizes of a region and its slots" });
    }
    Ok((regions, (at, end)))
}

/// What is free.
#[derive(Debug, Default)]
pub(super) struct Free {
    /// By size.
    slots: BTreeMap<u64, Vec<u64>>,
    pub blank: Vec<Blank>,
    /// Bytes of all extents.
    pub total: u64,
}

impl Free {
    pub fn give(&mut self, size: u64, slot: u64) {
        self.slots.entry(size).or_default().push(slot);
    }

    /// A slot of that size. It may hold what was there before.
    pub fn take<S: Space>(
        &mut self,
        space: &S,
        map: u64,
        extents: &impl Extents<S>,
        size: u64,
    ) -> Result<u64, Error> {
        if let Some(slot) = self.slots.get_mut(&size).and_then(Vec::pop) {
            return Ok(slot);
        }
        let region = self.region(space, extents, size)?;
        region.write(space, map);
        let slots = self.slots.entry(size).or_default();
        slots.extend(region.slots().rev());
        slots.pop().ok_or(Error::Full { wanted: size, len: space.len() })
    }

    /// A region for slots of that size, of memory that was never used.
    fn region<S: Space>(&mut self, space: &S, extents: &impl Extents<S>, size: u64) -> Result<Region, Error> {
        let least = (HEAD + size).next_multiple_of(UNIT);
        let wish = if size > REGION / 4 { least } else { REGION };
        let fits = |(from, to): &Blank| to - from >= least;
        let at = match self.blank.iter().position(fits) {
            Some(at) => at,
            None => {
                let extent = Self::extent(space, extents, least, self.total.clamp(FIRST, MOST))?;
                self.total += extent.bytes;
                self.blank.push((extent.offset, extent.offset + extent.bytes));
                self.blank.len() - 1
            }
        };
        let (from, to) = &mut self.blank[at];
        let bytes = wish.min((*to - *from) / UNIT * UNIT);
        let region = Region { at: *from, bytes, size };
        *from += bytes;
        Ok(region)
    }

    fn extent<S: Space>(
        space: &S,
        extents: &impl Extents<S>,
        least: u64,
        wish: u64,
    ) -> Result<Extent, Error> {
        let mut wish = wish.max(least).next_multiple_of(UNIT);
        loop {
            match extents.add(space, wish) {
                Err(Error::Full { .. }) if wish > least => {
                    wish = (wish / 2).next_multiple_of(UNIT).max(least)
                }
                other => return other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_classes_of_their_own_and_hardly_longer_than_what_is_in_them() {
        for bytes in 24..100_000 {
            let size = size_of(bytes);
            assert!(size >= bytes && size_of(size) == size && size.is_multiple_of(16), "{bytes} {size}");
            assert!(bytes <= 64 || size <= bytes + bytes / 4, "{bytes} {size}");
        }
    }
}
