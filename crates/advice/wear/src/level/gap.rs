//! Start-Gap: one spare unit wanders through the memory, and so shifts all others, behind a fixed
//! permutation.
//!
//! Two registers are all its state. Every `interval` writes the unit before the gap moves into it. When the
//! gap has gone through the memory, all units lie one further. A unit that is hammered stays where it is
//! until the gap comes by, so it wears by `units * interval` writes at a time; regions with a gap each
//! shorten that.

use super::{Cost, Feistel, Leveller, Media};

/// Start-Gap in regions of equal size.
#[derive(Clone, Debug)]
pub struct StartGap {
    permutation: Option<Feistel>,
    interval: u32,
    region_shift: u32,
    regions: Vec<Region>,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    start: u32,
    gap: u32,
    writes: u32,
}

impl StartGap {
    /// `units` units in `regions` regions, both powers of two; the gap of a region moves with every
    /// `interval` writes to it. With `seed`, addresses are permuted first.
    #[must_use]
    pub fn new(units: u64, regions: u64, interval: u32, seed: Option<u64>) -> Self {
        let per_region = units / regions;
        let region = Region { start: 0, gap: per_region as u32, writes: 0 };
        StartGap {
            permutation: seed.map(|seed| Feistel::new(units.trailing_zeros(), seed)),
            interval,
            region_shift: per_region.trailing_zeros(),
            regions: vec![region; regions as usize],
        }
    }

    fn per_region(&self) -> u64 {
        1 << self.region_shift
    }

    #[inline(always)]
    fn region_of(&self, unit: u64) -> (usize, u64) {
        let permuted = self.permutation.as_ref().map_or(unit, |permutation| permutation.apply(unit));
        ((permuted >> self.region_shift) as usize, permuted & (self.per_region() - 1))
    }
}

impl Leveller for StartGap {
    #[inline(always)]
    fn remap(&self, unit: u64) -> u64 {
        let (number, within) = self.region_of(unit);
        let region = self.regions[number];
        let rotated = (within + u64::from(region.start)) & (self.per_region() - 1);
        let place = rotated + u64::from(rotated >= u64::from(region.gap));
        number as u64 * (self.per_region() + 1) + place
    }

    #[inline(always)]
    fn tick(&mut self, _: u64, at: u64, media: &mut Media) {
        let per_region = self.per_region();
        let number = (at / (per_region + 1)) as usize;
        let base = number as u64 * (per_region + 1);
        let region = &mut self.regions[number];
        region.writes += 1;
        if region.writes < self.interval {
            return;
        }
        region.writes = 0;
        if region.gap == 0 {
            // The last unit goes to the first place, and all lie one further.
            media.move_to(base);
            region.gap = per_region as u32;
            region.start = (region.start + 1) & (per_region as u32 - 1);
        } else {
            media.move_to(base + u64::from(region.gap));
            region.gap -= 1;
        }
    }

    fn physical(&self) -> u64 {
        self.regions.len() as u64 * (self.per_region() + 1)
    }

    fn cost(&self) -> Cost {
        let steps = if self.permutation.is_some() { 8.0 } else { 2.0 };
        Cost { lookup_ns: steps, table_bytes: 12 * self.regions.len() as u64, moved_at_once: 1 }
    }
}
