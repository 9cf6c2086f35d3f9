//! Which addresses are persistent.
//!
//! Asked once per memory access, so the two usual cases cost a subtraction and a comparison: no range or one
//! range, and an address outside all of them. Among several ranges the answer of the last search is kept.

use crate::LINE_BYTES;
use crate::memory::PERSISTENT;

/// Line numbers from `first` on, `count` of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    first: u64,
    count: u64,
}

impl Span {
    fn between(first: u64, end: u64) -> Self {
        Span { first, count: end.saturating_sub(first) }
    }

    fn end(self) -> u64 {
        self.first + self.count
    }

    #[inline(always)]
    fn contains(self, line: u64) -> bool {
        line.wrapping_sub(self.first) < self.count
    }
}

/// The persistent ranges of the program, in whole lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    /// In order, without overlap.
    mapped: Vec<Span>,
    /// From the first to the last of them.
    hull: Span,
    /// The last search: the range or gap found, and its lines' mark.
    last: (Span, u64),
}

impl Ranges {
    /// The line's number in the machine: marked if it is persistent.
    #[inline(always)]
    pub(crate) fn place(&mut self, line: u64) -> u64 {
        let inside = self.hull.contains(line);
        if self.mapped.len() <= 1 {
            return line | if inside { PERSISTENT } else { 0 };
        }
        if !inside {
            return line;
        }
        if !self.last.0.contains(line) {
            self.search(line);
        }
        line | self.last.1
    }

    /// Finds the range or gap within the hull that `line` lies in.
    fn search(&mut self, line: u64) {
        let after = self.mapped.partition_point(|range| range.first <= line);
        let before = self.mapped[after.saturating_sub(1)];
        self.last = if before.contains(line) {
            (before, PERSISTENT)
        } else {
            let end = self.mapped.get(after).map_or(self.hull.end(), |next| next.first);
            (Span::between(before.end(), end), 0)
        };
    }

    /// `len` bytes at `addr`, and the rest of their lines, become persistent.
    pub(crate) fn map(&mut self, addr: u64, len: u64) {
        let mut new = lines_of(addr, len);
        if new.count == 0 {
            return;
        }
        // Ranges that meet the new one melt into it. No other can meet the result: ranges do not touch.
        let (meeting, apart): (Vec<Span>, Vec<Span>) =
            self.mapped.iter().partition(|range| range.first <= new.end() && new.first <= range.end());
        for range in meeting {
            new = Span::between(new.first.min(range.first), new.end().max(range.end()));
        }
        self.mapped = apart;
        self.mapped.push(new);
        self.settle();
    }

    /// They are no longer.
    pub(crate) fn unmap(&mut self, addr: u64, len: u64) {
        let gone = lines_of(addr, len);
        let cut = |range: Span| {
            let left = Span::between(range.first, range.end().min(gone.first));
            let right = Span::between(range.first.max(gone.end()), range.end());
            [left, right]
        };
        self.mapped =
            self.mapped.iter().flat_map(|&range| cut(range)).filter(|range| range.count > 0).collect();
        self.settle();
    }

    fn settle(&mut self) {
        self.mapped.sort_unstable_by_key(|range| range.first);
        self.hull = match (self.mapped.first(), self.mapped.last()) {
            (Some(first), Some(last)) => Span::between(first.first, last.end()),
            _ => Span::default(),
        };
        self.last = (Span::default(), 0);
    }
}

fn lines_of(addr: u64, len: u64) -> Span {
    Span::between(addr / LINE_BYTES, addr.saturating_add(len).div_ceil(LINE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn persistent(ranges: &mut Ranges, line: u64) -> bool {
        ranges.place(line) & PERSISTENT != 0
    }

    #[test]
    fn a_range_covers_its_lines_and_no_others() {
        let mut ranges = Ranges::default();
        assert!(!persistent(&mut ranges, 0));
        ranges.map(4096, 8192);
        let inside: Vec<u64> = (0..400).filter(|&line| persistent(&mut ranges, line)).collect();
        assert_eq!((inside.first(), inside.last(), inside.len()), (Some(&64), Some(&191), 128));
        ranges.unmap(4096, 8192);
        assert!((0..400).all(|line| !persistent(&mut ranges, line)));
    }

    #[test]
    fn a_hole_splits_a_range() {
        let mut ranges = Ranges::default();
        ranges.map(0, 64 * 100);
        ranges.unmap(64 * 40, 64 * 20);
        for (line, expected) in
            [(0, true), (39, true), (40, false), (59, false), (60, true), (99, true), (100, false)]
        {
            assert_eq!(persistent(&mut ranges, line), expected, "line {line}");
        }
    }

    proptest! {
        #[test]
        fn any_maps_and_unmaps_agree_with_a_bitmap(
            changes in prop::collection::vec((any::<bool>(), 0u64..200, 0u64..50), 1..30),
            probes in prop::collection::vec(0u64..260, 50),
        ) {
            let mut ranges = Ranges::default();
            let mut bitmap = [false; 260];
            for (map, first, count) in changes {
                (first..first + count).for_each(|line| bitmap[line as usize] = map);
                if map { ranges.map(first * 64, count * 64) } else { ranges.unmap(first * 64, count * 64) }
                for &line in &probes {
                    prop_assert_eq!(persistent(&mut ranges, line), bitmap[line as usize], "line {}", line);
                }
            }
        }
    }
}
