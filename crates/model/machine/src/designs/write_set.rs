//! What the region that a core executes has stored to, and the counts that designs for regions share.

use std::collections::HashMap;

use super::persistency::RegionMark;
use crate::interleave::PERSISTENT;
use crate::simulation::{Arrival, Shared, TimedCore};

/// Lines of a page of 4 KiB, as a shift.
pub(super) const PAGE_SHIFT: u32 = 6;

/// The lines of a region, in the order of their first stores.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteSet {
    /// Regions that are under way, one within the other.
    depth: u32,
    /// Lines, each with its stored words, a bit each.
    pub(super) lines: Vec<(u64, u8)>,
    places: HashMap<u64, usize>,
    /// The store at hand has its line, and waits for a log entry.
    pub(super) arrived: Option<Arrival>,
    /// How far the region's end has come.
    pub(super) stage: u8,
    /// Lines of log and journal that the core has written.
    pub(super) logged: u64,
}

impl WriteSet {
    /// Whether a region is under way.
    pub(super) fn is_open(&self) -> bool {
        self.depth > 0
    }

    /// A mark of the program. Returns whether it ends the outermost region: what that takes is the design's, and [`WriteSet::end`] its last
    /// step. An end without a beginning is none.
    pub(super) fn mark(
        &mut self,
        mark: RegionMark,
        core: &mut TimedCore,
        site: u32,
        shared: &mut Shared,
    ) -> bool {
        match mark {
            RegionMark::Begin(_) => {
                core.stall_for_stores(site, shared);
                self.depth += 1;
            }
            RegionMark::End(_) if self.depth == 1 => return true,
            RegionMark::End(_) => self.depth = self.depth.saturating_sub(1),
        }
        false
    }

    /// The outermost region is over: all is forgotten and counted.
    pub(super) fn end(&mut self, shared: &mut Shared) {
        (self.depth, self.stage) = (0, 0);
        let mut pages: Vec<u64> = self.lines.iter().map(|(line, _)| line >> PAGE_SHIFT).collect();
        pages.sort_unstable();
        pages.dedup();
        let extra = &mut shared.extra;
        extra.regions += 1;
        extra.region_lines += self.lines.len() as u64;
        extra.region_pages += pages.len() as u64;
        extra.region_pages_max = extra.region_pages_max.max(pages.len() as u64);
        self.lines.clear();
        self.places.clear();
    }

    /// Adds the words of `bytes` (a mask) of `line`. Returns how many are new, and whether the line is.
    pub(super) fn add(&mut self, line: u64, bytes: u64) -> (u32, bool) {
        let words =
            (0..8).filter(|word| bytes >> (8 * word) & 0xff != 0).fold(0u8, |set, word| set | 1 << word);
        let next = self.lines.len();
        let place = *self.places.entry(line).or_insert(next);
        if place == next {
            self.lines.push((line, words));
            return (words.count_ones(), true);
        }
        let known = &mut self.lines[place].1;
        let new = words & !*known;
        *known |= words;
        (new.count_ones(), false)
    }

    /// A line of the core's log comes into being, to be pushed to its write-back queue.
    pub(super) fn log(&mut self, core: &TimedCore, site: u32, shared: &mut Shared) {
        // Far behind what programs map, and apart for each core.
        let line = PERSISTENT | (1 << 44) | (core.number as u64) << 24 | (self.logged & 0xf_ffff);
        self.logged += 1;
        shared.extra.logging_bytes += crate::LINE_BYTES;
        shared.write_by_design(line, site, core.window.account.thread);
    }
}
