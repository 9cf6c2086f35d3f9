//! The cells: how often each physical unit was written.

use crate::Rates;

/// Write counts of physical units. A unit dies with the write that exceeds its endurance.
#[derive(Clone, Debug)]
pub struct Media {
    worn: Vec<u32>,
    limit: u32,
    dead: u64,
    moved: u64,
}

impl Media {
    /// Fresh units that survive `limit` writes each.
    #[must_use]
    pub fn new(units: u64, limit: u32) -> Self {
        Media { worn: vec![0; units as usize], limit, dead: 0, moved: 0 }
    }

    /// A unit is written by the program.
    #[inline(always)]
    pub fn write(&mut self, unit: u64) {
        let worn = &mut self.worn[unit as usize];
        *worn = worn.saturating_add(1);
        self.dead += u64::from(*worn == self.limit);
    }

    /// A unit is written because its contents moved there.
    #[inline]
    pub fn move_to(&mut self, unit: u64) {
        self.moved += 1;
        self.write(unit);
    }

    /// Units that have reached their endurance.
    #[must_use]
    pub fn dead(&self) -> u64 {
        self.dead
    }

    /// Writes by moves so far.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Writes of each unit.
    #[must_use]
    pub fn worn(&self) -> &[u32] {
        &self.worn
    }

    /// The same as rates per run.
    #[must_use]
    pub fn rates(&self) -> Rates {
        let mut sorted = self.worn.clone();
        sorted.sort_unstable();
        Rates::counted(sorted.chunk_by(|a, b| a == b).map(|same| (f64::from(same[0]), same.len() as u64)))
    }
}
