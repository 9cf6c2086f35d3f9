//! What was counted per code site.

use event::SiteId;

use super::lines::LINE;
use super::sizes::{SizeHistogram, WriteSizes, WritesByKind};
use super::streams::Run;

/// Sites with a count of their own.
const SITES_MAX: usize = 65_536;

/// Kinds of runs: ordinary or non-temporal, to other or persistent memory.
const CLASSES: usize = 4;

fn class(persistent: bool, nt: bool) -> usize {
    usize::from(persistent) * 2 + usize::from(nt)
}

/// Long runs that were made durable in long pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Transfers {
    /// Pieces.
    pub(super) writes: u64,
    /// Their bytes.
    pub(super) bytes: u64,
}

/// A site's runs of one class.
#[derive(Clone, Copy, Debug, Default)]
struct Writes {
    runs: SizeHistogram,
    transfers: Transfers,
}

/// A site's flushes and fences, and what became of the lines that it stored.
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
    /// Lines stored last by this site that other code stored to soon, before anybody flushed them.
    pub(super) changed: u64,
    /// Store and full fences.
    pub(super) fences: u64,
    /// Of these, with nothing to order.
    pub(super) useless: u64,
}

/// Counts per site and for the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    pieces: [SizeHistogram; CLASSES],
    /// Per site and class: position in `writes` plus 1, or 0.
    index: Vec<[u32; CLASSES]>,
    writes: Vec<Writes>,
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
    /// Counts a run as `times` runs like it; its pieces are transfers if they have at least `transfer_bytes`
    /// on average. What is stored over again and again (a matrix that is summed up) is none: around the
    /// cache, each time would be a write.
    pub(super) fn run(&mut self, run: Run, times: u64, persistent: bool, transfer_bytes: u64) {
        let class = class(persistent, run.nt);
        let bytes = run.bytes.saturating_mul(times);
        self.pieces[class].add(bytes, run.pieces * times);
        let at = &mut row(&mut self.index, run.site)[class];
        if *at == 0 {
            self.writes.push(Writes::default());
            *at = u32::try_from(self.writes.len()).unwrap_or(u32::MAX);
        }
        let writes = &mut self.writes[*at as usize - 1];
        writes.runs.add(bytes, times);
        let once = run.stored / 2 < run.bytes;
        if once && run.bytes >= transfer_bytes && run.bytes / run.pieces >= transfer_bytes {
            writes.transfers.writes += run.pieces * times;
            writes.transfers.bytes = writes.transfers.bytes.saturating_add(bytes);
        }
    }

    /// A site's flushes and fences, to count.
    pub(super) fn ordering(&mut self, site: SiteId) -> &mut Ordering {
        row(&mut self.ordering, site)
    }

    /// Bytes of lines stored by a site that other code changed soon.
    pub(super) fn changed_bytes(&self, site: SiteId) -> u64 {
        self.ordering.get(site.0 as usize).map_or(0, |row| row.changed.saturating_mul(LINE))
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
        let of = |nt| self.writes(site, class(persistent, nt)).runs;
        WritesByKind { temporal: of(false), non_temporal: of(true) }
    }

    /// A site's transfers with ordinary stores.
    pub(super) fn temporal_transfers(&self, site: SiteId, persistent: bool) -> Transfers {
        self.writes(site, class(persistent, false)).transfers
    }

    fn writes(&self, site: SiteId, class: usize) -> Writes {
        let at = self.index.get(site.0 as usize).map_or(0, |row| row[class]);
        at.checked_sub(1).map_or_else(Writes::default, |at| self.writes[at as usize])
    }

    /// Sizes of all runs in persistent or in other memory.
    pub(super) fn totals(&self, persistent: bool) -> WritesByKind {
        let of = |nt| {
            let places = self.index.iter().filter_map(|row| row[class(persistent, nt)].checked_sub(1));
            places.fold(SizeHistogram::default(), |sum, at| sum.plus(&self.writes[at as usize].runs))
        };
        WritesByKind { temporal: of(false), non_temporal: of(true) }
    }

    /// Bytes held.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.index.capacity() * size_of::<[u32; CLASSES]>()
            + self.writes.capacity() * size_of::<Writes>()
            + self.ordering.capacity() * size_of::<Ordering>()
    }

    /// Sizes of all pieces of runs.
    pub(super) fn write_sizes(&self) -> WriteSizes {
        let both = |nt| self.pieces[class(true, nt)].plus(&self.pieces[class(false, nt)]);
        let persistent = |nt| self.pieces[class(true, nt)];
        WriteSizes {
            all: WritesByKind { temporal: both(false), non_temporal: both(true) },
            persistent: WritesByKind { temporal: persistent(false), non_temporal: persistent(true) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_past_the_bound_count_as_unknown() {
        let mut evidence = Evidence::default();
        evidence.run(
            Run { site: SiteId(u32::MAX), bytes: 8, stored: 8, pieces: 1, nt: false },
            1,
            false,
            1024,
        );
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
            evidence.run(Run { site: SiteId(1), bytes, stored: bytes, pieces: 1, nt }, 1, persistent, 1024);
        }
        let sizes = evidence.sizes(SiteId(1), true);
        assert_eq!((sizes.temporal.total_bytes(), sizes.non_temporal.total_bytes()), (4, 8));
        let all = evidence.write_sizes().all;
        assert_eq!((all.temporal.total_bytes(), all.non_temporal.total_bytes()), (5, 10));
    }

    #[test]
    fn small_durable_pieces_are_no_transfer() {
        let mut evidence = Evidence::default();
        let run = Run { site: SiteId(1), bytes: 8192, stored: 8192, pieces: 128, nt: false };
        evidence.run(run, 1, true, 1024);
        assert_eq!(evidence.temporal_transfers(SiteId(1), true), Transfers::default());
        evidence.run(Run { pieces: 2, ..run }, 1, true, 1024);
        assert_eq!(evidence.temporal_transfers(SiteId(1), true), Transfers { writes: 2, bytes: 8192 });
        let pieces = evidence.write_sizes().persistent.temporal;
        assert_eq!((pieces.writes[6], pieces.writes[12]), (128, 2));
        evidence.run(Run { pieces: 1, stored: 3 * 8192, ..run }, 1, true, 1024);
        assert_eq!(evidence.temporal_transfers(SiteId(1), true).writes, 2, "stored over again and again");
        assert_eq!(evidence.totals(true).temporal.writes[13], 3, "all are long runs");
    }
}
