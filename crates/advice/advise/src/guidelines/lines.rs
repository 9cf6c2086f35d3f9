//! What flushes found: the state of recently stored and flushed lines.
//!
//! A bounded table, so a line can be forgotten. Each set remembers whether it has forgotten anything that
//! would matter, and a flush of a line that is absent from such a set counts as unclear, never as useless.

use event::SiteId;

/// Bytes of a cache line.
pub(super) const LINE: u64 = 64;
const WAYS: usize = 4;
const SETS: usize = 1 << 16;

/// What a flush found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A change to write back: who stored last, and how many bytes of lines were dirtied since.
    Change {
        /// The code that stored last.
        stored_by: SiteId,
        /// Bytes of lines dirtied since then.
        distance: u64,
    },
    /// Nothing stored since the same thread flushed the line here.
    FlushedBefore(SiteId),
    /// A line that nobody stored to, or that this thread wrote around the cache.
    Clean,
    /// Can't tell: the line's state was forgotten, or another thread flushed it (a helper must flush
    /// what it depends on, as it can't know of the other one's fence).
    Unclear,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    /// Stored to since its last flush.
    Dirty,
    /// Flushed since its last store.
    Flushed,
    /// Written by non-temporal stores only since its last flush.
    Streamed,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    line: u64,
    /// `Lines::dirtied` at the last store.
    stored_at: u32,
    /// The last storing site if dirty, the last flushing one if flushed.
    site: SiteId,
    /// Thread that flushed or streamed.
    thread: u32,
    state: State,
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Empty until the table is needed.
    entries: Vec<[Entry; WAYS]>,
    /// Sets that forgot something that matters.
    forgetful: Vec<bool>,
    /// Lines that became dirty, modulo 2^32: the clock of distances.
    dirtied: u32,
    /// Thread of the flushes so far, and whether there were several.
    flusher: Option<u32>,
    several_flushers: bool,
}

impl Lines {
    /// Whether the table is in use.
    #[inline]
    pub(super) fn active(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Starts over. `complete`: no store to the lines of interest was missed so far.
    pub(super) fn start(&mut self, complete: bool) {
        let absent = Entry { line: 0, stored_at: 0, site: SiteId::UNKNOWN, thread: 0, state: State::Absent };
        *self = Lines {
            entries: vec![[absent; WAYS]; SETS],
            forgetful: vec![!complete; SETS],
            ..Lines::default()
        };
    }

    /// Bytes were stored through the cache. `over` gets, for each line that other code had stored to and
    /// nobody flushed since, that code and how many bytes of lines were dirtied in between.
    pub(super) fn store(&mut self, addr: u64, len: u32, site: SiteId, mut over: impl FnMut(SiteId, u64)) {
        for line in lines(addr, len) {
            let (set, way) = self.locate(line);
            let entry = &mut self.entries[set][way];
            if entry.state != State::Dirty {
                entry.state = State::Dirty;
                self.dirtied = self.dirtied.wrapping_add(1);
            } else if entry.site != site {
                over(entry.site, u64::from(self.dirtied.wrapping_sub(entry.stored_at)) * LINE);
            }
            entry.site = site;
            entry.stored_at = self.dirtied;
        }
    }

    /// Bytes were stored around the cache.
    pub(super) fn store_nt(&mut self, addr: u64, len: u32, thread: u32) {
        for line in lines(addr, len) {
            let (set, way) = self.locate(line);
            let entry = &mut self.entries[set][way];
            if entry.state != State::Dirty {
                entry.state = State::Streamed;
                entry.thread = thread;
            }
        }
    }

    /// The line that contains `addr` was flushed.
    pub(super) fn flush(&mut self, addr: u64, site: SiteId, thread: u32) -> Found {
        self.several_flushers |= self.flusher.is_some_and(|flusher| flusher != thread);
        self.flusher = Some(thread);
        let line = addr / LINE;
        let (set, way) = self.locate(line);
        let entry = &mut self.entries[set][way];
        let found = match entry.state {
            State::Dirty => Found::Change {
                stored_by: entry.site,
                distance: u64::from(self.dirtied.wrapping_sub(entry.stored_at)) * LINE,
            },
            State::Flushed if entry.thread == thread => Found::FlushedBefore(entry.site),
            State::Streamed if entry.thread == thread => Found::Clean,
            State::Flushed | State::Streamed => Found::Unclear,
            State::Absent if self.forgetful[set] => Found::Unclear,
            State::Absent => Found::Clean,
        };
        *entry = Entry { line, stored_at: entry.stored_at, site, thread, state: State::Flushed };
        found
    }

    /// Bytes held.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<[Entry; WAYS]>() + self.forgetful.capacity()
    }

    /// The line's entry; an absent one takes the place of the least valuable of its set.
    fn locate(&mut self, line: u64) -> (usize, usize) {
        let set = (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % SETS;
        let entries = &self.entries[set];
        if let Some(way) = entries.iter().position(|e| e.line == line && e.state != State::Absent) {
            return (set, way);
        }
        let now = self.dirtied;
        // Absent ones first, then those whose loss costs a missed finding, then the longest dirty.
        let way = (0..WAYS)
            .min_by_key(|&way| match entries[way].state {
                State::Absent => (0, 0),
                State::Flushed | State::Streamed => (1, 0),
                State::Dirty => (2, u32::MAX - now.wrapping_sub(entries[way].stored_at)),
            })
            .unwrap_or_default();
        // A flush of a forgotten line that was flushed does nothing either, unless it was another's.
        self.forgetful[set] |= match entries[way].state {
            State::Absent => false,
            State::Flushed | State::Streamed => self.several_flushers,
            State::Dirty => true,
        };
        self.entries[set][way] =
            Entry { line, stored_at: now, site: SiteId::UNKNOWN, thread: 0, state: State::Absent };
        (set, way)
    }
}

/// The lines that `len` bytes at `addr` touch.
fn lines(addr: u64, len: u32) -> impl Iterator<Item = u64> {
    let last = addr.saturating_add(u64::from(len.max(1)) - 1);
    addr / LINE..=last / LINE
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: SiteId = SiteId(1);
    const FLUSH: SiteId = SiteId(2);

    fn table() -> Lines {
        let mut lines = Lines::default();
        lines.start(true);
        lines
    }

    #[test]
    fn a_stored_line_has_a_change_once() {
        let mut lines = table();
        lines.store(100, 8, STORE, |_, _| {});
        assert_eq!(lines.flush(64, FLUSH, 0), Found::Change { stored_by: STORE, distance: 0 });
        assert_eq!(lines.flush(127, SiteId(3), 0), Found::FlushedBefore(FLUSH));
        lines.store(100, 8, STORE, |_, _| {});
        assert!(matches!(lines.flush(64, FLUSH, 0), Found::Change { .. }));
    }

    #[test]
    fn a_store_across_lines_changes_each() {
        let mut lines = table();
        lines.store(60, 200, STORE, |_, _| {});
        for line in 0..5 {
            assert!(matches!(lines.flush(line * 64, FLUSH, 0), Found::Change { .. }), "line {line}");
        }
        assert_eq!(lines.flush(5 * 64, FLUSH, 0), Found::Clean);
    }

    #[test]
    fn non_temporal_stores_leave_nothing_to_flush() {
        let mut lines = table();
        lines.store_nt(0, 64, 0);
        assert_eq!(lines.flush(0, FLUSH, 0), Found::Clean);
        lines.store(64, 8, STORE, |_, _| {});
        lines.store_nt(72, 8, 0);
        assert!(matches!(lines.flush(64, FLUSH, 0), Found::Change { .. }), "the ordinary store still counts");
    }

    #[test]
    fn what_another_thread_flushed_is_unclear() {
        let mut lines = table();
        lines.store(0, 8, STORE, |_, _| {});
        lines.flush(0, FLUSH, 0);
        assert_eq!(lines.flush(0, FLUSH, 1), Found::Unclear);
    }

    #[test]
    fn distance_counts_lines_dirtied_since_not_stores() {
        let mut lines = table();
        lines.store(0, 8, STORE, |_, _| {});
        (0..1000).for_each(|_| lines.store(4096, 8, STORE, |_, _| {}));
        lines.store(8192, 128, STORE, |_, _| {});
        assert_eq!(lines.flush(0, FLUSH, 0), Found::Change { stored_by: STORE, distance: 3 * 64 });
    }

    #[test]
    fn a_store_over_other_codes_change_names_it_once() {
        let mut lines = table();
        let mut over = Vec::new();
        lines.store(0, 4096, STORE, |_, _| {});
        lines.store(0, 8, STORE, |site, distance| over.push((site, distance)));
        lines.store(100, 60, SiteId(3), |site, distance| over.push((site, distance)));
        lines.store(100, 60, SiteId(3), |site, distance| over.push((site, distance)));
        lines.flush(640, FLUSH, 0);
        lines.store(640, 8, SiteId(3), |site, distance| over.push((site, distance)));
        assert_eq!(over, [(STORE, 62 * 64), (STORE, 61 * 64)]);
    }

    #[test]
    fn forgetting_a_change_never_makes_a_flush_look_useless() {
        let mut lines = table();
        let many = 2 * (SETS * WAYS) as u64;
        (0..many).for_each(|line| lines.store(line * 64, 64, STORE, |_, _| {}));
        for line in 0..many {
            let found = lines.flush(line * 64, FLUSH, 0);
            assert!(matches!(found, Found::Change { .. } | Found::Unclear), "line {line}: {found:?}");
        }
    }

    #[test]
    fn a_table_that_started_late_does_not_accuse() {
        let mut lines = Lines::default();
        lines.start(false);
        assert_eq!(lines.flush(0, FLUSH, 0), Found::Unclear);
        assert_eq!(lines.flush(0, FLUSH, 0), Found::FlushedBefore(FLUSH));
    }
}
