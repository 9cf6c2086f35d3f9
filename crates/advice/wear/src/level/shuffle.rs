//! Kevlar's shuffle: every page changes its frame at random once per *operation*, a part of the pages per
//! *interval*.
//!
//! A shuffle bit per page says that it has moved in this operation. At the end of each interval the pages
//! that have not, divided by the intervals that are left, are its quota; so many are chosen at random, in
//! pairs, and exchanged. When all bits are set they are cleared, and the next operation begins. Time is
//! counted in writes.

use device::Rng;
use serde::{Deserialize, Serialize};

use super::{Cost, Leveller, Media};

/// Where the contents of a page wait while a pair is exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Temporary {
    /// In DRAM: two pages are written per exchange. For contents that need not survive.
    Dram,
    /// In a spare frame, which becomes the frame of one of the two, so that the spare wanders: two pages are
    /// written.
    Spare,
    /// In one frame that is always the same: three pages are written, and that frame wears out first.
    Fixed,
}

/// The shuffle.
#[derive(Clone, Debug)]
pub struct Shuffle {
    page_shift: u32,
    temporary: Temporary,
    interval: u64,
    intervals: u32,
    frames: Vec<u32>,
    spare: u32,
    /// Pages that have not moved in this operation.
    unshuffled: Vec<u32>,
    left: u32,
    since: u64,
    rng: Rng,
}

impl Shuffle {
    /// `units` units in pages of `per_page`, both powers of two. An operation has `intervals` intervals of
    /// `interval` writes.
    #[must_use]
    pub fn new(
        units: u64,
        per_page: u64,
        interval: u64,
        intervals: u32,
        temporary: Temporary,
        seed: u64,
    ) -> Self {
        let pages = (units / per_page) as u32;
        Shuffle {
            page_shift: per_page.trailing_zeros(),
            temporary,
            interval,
            intervals,
            frames: (0..pages).collect(),
            spare: pages,
            unshuffled: (0..pages).collect(),
            left: intervals,
            since: 0,
            rng: Rng::new(seed),
        }
    }

    #[cold]
    fn end_interval(&mut self, media: &mut Media) {
        self.since = 0;
        let quota = self.unshuffled.len().div_ceil(self.left.max(1) as usize).div_ceil(2);
        for _ in 0..quota {
            let Some(first) = self.choose() else { break };
            // A page that is left over moves with one that has moved already.
            let second = self.choose().unwrap_or_else(|| self.rng.below(self.frames.len()) as u32);
            self.exchange(first, second, media);
        }
        self.left = self.left.saturating_sub(1);
        if self.unshuffled.is_empty() {
            self.unshuffled.extend(0..self.frames.len() as u32);
            self.left = self.intervals;
        }
    }

    fn choose(&mut self) -> Option<u32> {
        let count = self.unshuffled.len();
        (count > 0).then(|| self.unshuffled.swap_remove(self.rng.below(count)))
    }

    fn exchange(&mut self, first: u32, second: u32, media: &mut Media) {
        if first == second {
            return;
        }
        let (a, b) = (self.frames[first as usize], self.frames[second as usize]);
        match self.temporary {
            Temporary::Dram => {
                self.write(a, media);
                self.write(b, media);
                self.frames.swap(first as usize, second as usize);
            }
            Temporary::Fixed => {
                self.write(self.spare, media);
                self.write(a, media);
                self.write(b, media);
                self.frames.swap(first as usize, second as usize);
            }
            Temporary::Spare => {
                self.write(self.spare, media);
                self.write(a, media);
                self.frames[first as usize] = self.spare;
                self.frames[second as usize] = a;
                self.spare = b;
            }
        }
    }

    fn write(&self, frame: u32, media: &mut Media) {
        let first = u64::from(frame) << self.page_shift;
        (first..first + (1 << self.page_shift)).for_each(|unit| media.move_to(unit));
    }
}

impl Leveller for Shuffle {
    #[inline(always)]
    fn remap(&self, unit: u64) -> u64 {
        let frame = u64::from(self.frames[(unit >> self.page_shift) as usize]);
        frame << self.page_shift | (unit & ((1 << self.page_shift) - 1))
    }

    #[inline(always)]
    fn tick(&mut self, _: u64, _: u64, media: &mut Media) {
        self.since += 1;
        if self.since >= self.interval {
            self.end_interval(media);
        }
    }

    fn physical(&self) -> u64 {
        let spares = u64::from(self.temporary != Temporary::Dram);
        (self.frames.len() as u64 + spares) << self.page_shift
    }

    fn cost(&self) -> Cost {
        // The page table is there in any case; a bit per page is not.
        let table_bytes = self.frames.len() as u64 / 8;
        Cost { lookup_ns: 0.0, table_bytes, moved_at_once: 2 << self.page_shift }
    }
}
