//! Security Refresh: addresses are mixed with a random key that is replaced step by step, so that nobody
//! outside can know where a unit lies.
//!
//! Two keys are in force: units that the current round has refreshed lie at `unit ^ new`, the others at `unit
//! ^ old`. Each step exchanges a unit with its partner, whose places are each other's under the two keys.
//! After a round the new key becomes the old one and another is drawn. Regions have keys of their own, behind
//! a fixed permutation.

use device::Rng;

use super::{Cost, Feistel, Leveller, Media};

/// Security Refresh in regions of equal size.
#[derive(Clone, Debug)]
pub struct SecurityRefresh {
    permutation: Feistel,
    interval: u32,
    region_shift: u32,
    regions: Vec<Region>,
    rng: Rng,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    old: u32,
    new: u32,
    next: u32,
    writes: u32,
}

impl Region {
    /// The place of a unit within the region.
    #[inline(always)]
    fn place(&self, unit: u32) -> u32 {
        let partner = unit ^ self.old ^ self.new;
        let refreshed = unit.min(partner) < self.next;
        unit ^ if refreshed { self.new } else { self.old }
    }
}

impl SecurityRefresh {
    /// `units` units in `regions` regions, both powers of two; each `interval` writes to a region refresh one
    /// more of its units.
    #[must_use]
    pub fn new(units: u64, regions: u64, interval: u32, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let per_region = units / regions;
        let mut key = || rng.below(per_region as usize) as u32;
        let regions = (0..regions).map(|_| Region { old: key(), new: key(), next: 0, writes: 0 }).collect();
        SecurityRefresh {
            permutation: Feistel::new(units.trailing_zeros(), Rng::part(seed, 1)),
            interval,
            region_shift: per_region.trailing_zeros(),
            regions,
            rng,
        }
    }
}

impl Leveller for SecurityRefresh {
    #[inline(always)]
    fn remap(&self, unit: u64) -> u64 {
        let permuted = self.permutation.apply(unit);
        let number = permuted >> self.region_shift;
        let within = (permuted & ((1 << self.region_shift) - 1)) as u32;
        number << self.region_shift | u64::from(self.regions[number as usize].place(within))
    }

    #[inline(always)]
    fn tick(&mut self, _: u64, at: u64, media: &mut Media) {
        let number = (at >> self.region_shift) as usize;
        let (base, per_region) = ((number as u64) << self.region_shift, 1u32 << self.region_shift);
        let region = &mut self.regions[number];
        region.writes += 1;
        if region.writes < self.interval {
            return;
        }
        region.writes = 0;
        let partner = region.next ^ region.old ^ region.new;
        if partner > region.next {
            media.move_to(base + u64::from(region.next ^ region.old));
            media.move_to(base + u64::from(region.next ^ region.new));
        }
        region.next += 1;
        if region.next == per_region {
            region.old = region.new;
            region.new = self.rng.below(per_region as usize) as u32;
            region.next = 0;
        }
    }

    fn physical(&self) -> u64 {
        (self.regions.len() as u64) << self.region_shift
    }

    fn cost(&self) -> Cost {
        Cost { lookup_ns: 12.0, table_bytes: 16 * self.regions.len() as u64, moved_at_once: 2 }
    }
}
