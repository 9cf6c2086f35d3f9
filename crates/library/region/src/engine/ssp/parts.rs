//! What is where in the place that a pool has for logs.
//!
//! ```text
//! journal          a quarter of it, at least four lines
//! table, twice     a line for three slots: which page a slot has, and which of its lines
//! spare pages      one for each slot
//! ```
//!
//! A page has 1 to 64 lines, a power of two: the most with which there are still four slots for each of them.
//! Where little room is, pages are small, so that a region may touch some of them.

use space::LINE;

use crate::engine::Logs;
use crate::log::WORDS;

/// Slots whose state fits into a line of the table.
pub(super) const SLOTS_PER_LINE: u32 = 3;
/// Slots, at most: their numbers have 16 bits in the journal.
pub(super) const SLOTS_MAX: u64 = 1 << 16;

/// The parts, and what belongs to which slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// Offset of the journal's first line.
    pub(super) journal: u64,
    /// Bytes of the journal.
    pub(super) journal_bytes: u64,
    /// Number of slots.
    pub(super) slots: u32,
    /// A page has `1 << page_shift` bytes.
    page_shift: u32,
}

impl Parts {
    /// The parts of such logs.
    pub(super) fn of(logs: &Logs) -> Parts {
        let lines = u64::from(logs.count) * logs.bytes / LINE;
        let journal = (lines / 4).max(4).min(lines);
        // A record that names all slots fits into the journal.
        let nameable = (journal * WORDS as u64 - 1) / 2;
        let slots = |page_lines: u64| {
            let lines_of = |slots: u64| slots * page_lines + 2 * slots.div_ceil(u64::from(SLOTS_PER_LINE));
            let room = lines - journal;
            let mut slots = (room / page_lines).min(nameable).min(SLOTS_MAX);
            // The tables take one line of about a hundred, or four of ten at worst: this ends soon.
            while lines_of(slots) > room {
                slots -= (lines_of(slots) - room).div_ceil(page_lines + 1).min(slots);
            }
            slots
        };
        let shift = (1..=6).rev().find(|shift| slots(1 << shift) >= 4 << shift).unwrap_or(0);
        Parts {
            journal: logs.base,
            journal_bytes: journal * LINE,
            slots: slots(1 << shift) as u32,
            page_shift: shift + LINE.trailing_zeros(),
        }
    }

    /// Lines of a table.
    pub(super) fn table_lines(&self) -> u32 {
        self.slots.div_ceil(SLOTS_PER_LINE)
    }

    /// Offset of a table's line, the first or the second table.
    pub(super) fn table(&self, table: usize, line: u32) -> u64 {
        let before = table as u64 * u64::from(self.table_lines()) + u64::from(line);
        self.journal + self.journal_bytes + before * LINE
    }

    /// Offset of a slot's spare page.
    pub(super) fn spare(&self, slot: u32) -> u64 {
        self.table(2, 0) + (u64::from(slot) << self.page_shift)
    }

    /// The number of the page with the byte at `offset`, and that of its line in it.
    #[inline]
    pub(super) fn page(&self, offset: u64) -> (u64, u32) {
        let within = offset & ((1 << self.page_shift) - 1);
        (offset >> self.page_shift, (within / LINE) as u32)
    }

    /// Offset of a page.
    #[inline]
    pub(super) fn home(&self, page: u64) -> u64 {
        page << self.page_shift
    }

    /// The bits that are lines of a page.
    pub(super) fn lines(&self) -> u64 {
        u64::MAX >> (64 - ((1u64 << self.page_shift) / LINE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn logs(count: u32, bytes: u64) -> Logs {
        Logs { base: 12288, count, bytes, state: 8192, end: 1 << 40 }
    }

    proptest! {
        #[test]
        fn parts_fit_and_do_not_meet(count in 1u32..32, lines in 4u64..5000) {
            let logs = logs(count, lines * LINE);
            let parts = Parts::of(&logs);
            let end = logs.base + u64::from(count) * logs.bytes;
            prop_assert!(parts.spare(parts.slots) <= end);
            prop_assert!(parts.table(0, 0) == parts.journal + parts.journal_bytes);
            prop_assert!(parts.journal_bytes >= 4 * LINE);
            prop_assert!(2 * u64::from(parts.slots) < parts.journal_bytes / LINE * 7);
            prop_assert!(parts.table_lines() * SLOTS_PER_LINE >= parts.slots);
            // Nothing that could have been a slot is left over.
            let rest = end - parts.spare(parts.slots);
            let named = (parts.journal_bytes / LINE * 7 - 1) / 2 == u64::from(parts.slots);
            prop_assert!(named || rest < (1 << parts.page_shift) + 4 * LINE, "{parts:?}: {rest}");
        }
    }

    #[test]
    fn pages_are_large_where_there_is_room() {
        let page =
            |bytes| (Parts::of(&logs(1, bytes)).lines().count_ones(), Parts::of(&logs(1, bytes)).slots);
        assert_eq!(page(256), (1, 0));
        assert_eq!(page(1024), (1, 6));
        assert_eq!(page(4096), (2, 18));
        assert_eq!(page(128 << 10), (16, 92));
        assert_eq!(page(2 << 20), (64, 380));
    }

    #[test]
    fn a_byte_is_in_a_line_of_a_page() {
        let parts = Parts::of(&logs(8, 256 << 10));
        assert_eq!(parts.page(5 * 4096 + 3 * 64 + 9), (5, 3));
        assert_eq!(parts.home(5), 5 * 4096);
        assert_eq!(parts.lines(), u64::MAX);
    }
}
