//! No levelling: what the others are compared with.

use super::{Cost, Leveller, Media};

/// Each unit lies where it is.
#[derive(Clone, Copy, Debug)]
pub struct Unlevelled {
    units: u64,
}

impl Unlevelled {
    /// So many units.
    #[must_use]
    pub fn new(units: u64) -> Self {
        Unlevelled { units }
    }
}

impl Leveller for Unlevelled {
    #[inline(always)]
    fn remap(&self, unit: u64) -> u64 {
        unit
    }

    #[inline(always)]
    fn tick(&mut self, _: u64, _: u64, _: &mut Media) {}

    fn physical(&self) -> u64 {
        self.units
    }

    fn cost(&self) -> Cost {
        Cost::default()
    }
}
