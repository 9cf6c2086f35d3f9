//! What was counted per code site.

use event::SiteId;

use super::sizes::{SizeHistogram, WriteSizes, WritesByKind};
use super::streams::Run;

/// Sites with a count of their own.
const SITES_MAX: usize = 65_536;

/// Kinds of runs: ordinary or non-temporal, to other or persistent memory.
const CLASSES: usize = 4;

fn class(persistent: bool, nt: bool) -> usize {
    usize::from(persistent) * 2 + usize::from(nt)
}

/// A site's flushes and fences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ordering {
    /// Flushes of the memory that the run is about.
    pub(super) flushes: u64,
    /// Of these, of lines that the thread had flushed before.
    pub(super) redundant: u64,
    /// Where one of these had been flushed before.
    pub(super) flushed_before: Option<SiteId>,
    /// Of these, of lines without a change.
    pub(super) clean: u64,
    /// Lines stored last by this site that were flushed late.
    pub(super) late: u64,
    /// Store and full fences.
    pub(super) fences: u64,
    /// Of these, with nothing to order.
    pub(super) useless: u64,
}

/// Counts per site and for the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    totals: [SizeHistogram; CLASSES],
    /// Per site and class: position in `sizes` plus 1, or 0.
    index: Vec<[u32; CLASSES]>,
    sizes: Vec<SizeHistogram>,
    ordering: Vec<Ordering>,
}

/// The table's row for `site`; row 0 stands for unknown ones and those past the bound.
fn row<T: Clone + Default>(table: &mut Vec<T>, site: SiteId) -> &mut T {
    let at = Some(site.0 as usize).filter(|&at| at < SITES_MAX).unwrap_or_default();
    if at >= table.len() {
        table.resize(at + 1, T::default());
    }
    &mut table[at]
}

impl Evidence {
    /// Counts a run.
    pub(super) fn run(&mut self, run: Run, persistent: bool) {
        let class = class(persistent, run.nt);
        self.totals[class].add(run.bytes);
        let at = &mut row(&mut self.index, run.site)[class];
        if *at == 0 {
            self.sizes.push(SizeHistogram::default());
            *at = u32::try_from(self.sizes.len()).unwrap_or(u32::MAX);
        }
        self.sizes[*at as usize - 1].add(run.bytes);
    }

    /// A site's flushes and fences, to count.
    pub(super) fn ordering(&mut self, site: SiteId) -> &mut Ordering {
        row(&mut self.ordering, site)
    }

    /// Every site that flushed, fenced or stored what was flushed late.
    pub(super) fn orderings(&self) -> impl Iterator<Item = (SiteId, &Ordering)> {
        (0u32..).map(SiteId).zip(&self.ordering)
    }

    /// Forgets the flushes so far: they were outside persistent memory, as it turns out.
    pub(super) fn forget_flushes(&mut self) {
        for row in &mut self.ordering {
            *row = Ordering { fences: row.fences, useless: row.useless, ..Ordering::default() };
        }
    }

    /// Sizes of a site's runs in persistent or in other memory.
    pub(super) fn sizes(&self, site: SiteId, persistent: bool) -> WritesByKind {
        let of = |nt| {
            let at = self.index.get(site.0 as usize).map_or(0, |row| row[class(persistent, nt)]);
            at.checked_sub(1).map_or_else(SizeHistogram::default, |at| self.sizes[at as usize])
        };
        WritesByKind { temporal: of(false), non_temporal: of(true) }
    }

    /// Sizes of all runs in persistent or in other memory.
    pub(super) fn totals(&self, persistent: bool) -> WritesByKind {
        WritesByKind {
            temporal: self.totals[class(persistent, false)],
            non_temporal: self.totals[class(persistent, true)],
        }
    }

    /// Sizes of all runs.
    pub(super) fn write_sizes(&self) -> WriteSizes {
        let (persistent, other) = (self.totals(true), self.totals(false));
        WriteSizes {
            all: WritesByKind {
                temporal: persistent.temporal.plus(&other.temporal),
                non_temporal: persistent.non_temporal.plus(&other.non_temporal),
            },
            persistent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_past_the_bound_count_as_unknown() {
        let mut evidence = Evidence::default();
        evidence.run(Run { site: SiteId(u32::MAX), bytes: 8, nt: false }, false);
        evidence.ordering(SiteId(u32::MAX - 1)).flushes = 3;
        assert_eq!(evidence.sizes(SiteId::UNKNOWN, false).temporal.total_bytes(), 8);
        assert_eq!(
            evidence.orderings().map(|(site, o)| (site, o.flushes)).collect::<Vec<_>>(),
            [(SiteId::UNKNOWN, 3)]
        );
    }

    #[test]
    fn classes_are_kept_apart_and_add_up() {
        let mut evidence = Evidence::default();
        for (persistent, nt, bytes) in
            [(false, false, 1), (false, true, 2), (true, false, 4), (true, true, 8)]
        {
            evidence.run(Run { site: SiteId(1), bytes, nt }, persistent);
        }
        let sizes = evidence.sizes(SiteId(1), true);
        assert_eq!((sizes.temporal.total_bytes(), sizes.non_temporal.total_bytes()), (4, 8));
        let all = evidence.write_sizes().all;
        assert_eq!((all.temporal.total_bytes(), all.non_temporal.total_bytes()), (5, 10));
    }
}
