//! Which addresses a program has mapped, each with a value.
//!
//! A consumer asks once per memory access, so the usual cases cost a subtraction and a comparison: no range
//! or one range, and an address outside all of them. Among several ranges the answer of the last search is
//! kept.

/// What a range of addresses has, besides its bounds.
pub trait RangeValue: Copy {
    /// The value of an address whose predecessor by `bytes` has this one.
    #[must_use]
    fn after(self, bytes: u64) -> Self;

    /// Whether a range of `bytes` with this value and one behind it with the value `next` are one range.
    fn joins(self, bytes: u64, next: Self) -> bool;
}

impl RangeValue for () {
    fn after(self, _bytes: u64) {}

    fn joins(self, _bytes: u64, (): ()) -> bool {
        true
    }
}

/// `count` addresses from `first` on.
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
    fn contains(self, address: u64) -> bool {
        address.wrapping_sub(self.first) < self.count
    }
}

/// Disjoint ranges of addresses, which may as well be numbers of lines or pages.
#[derive(Clone, Debug)]
pub struct Ranges<T = ()> {
    /// In order.
    ranges: Vec<(Span, T)>,
    /// From the first to the last of them.
    hull: Span,
    /// The last search: the range or gap found, and the range's value.
    last: (Span, Option<T>),
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Ranges { ranges: Vec::new(), hull: Span::default(), last: (Span::default(), None) }
    }
}

impl<T: RangeValue> Ranges<T> {
    /// Whether `address` is in a range.
    #[inline(always)]
    pub fn contains(&mut self, address: u64) -> bool {
        let inside = self.hull.contains(address);
        if self.ranges.len() <= 1 || !inside {
            return inside;
        }
        self.search(address).1.is_some()
    }

    /// The value of `address`, and how many addresses from there on are in the same range.
    #[inline]
    pub fn get(&mut self, address: u64) -> Option<(T, u64)> {
        if !self.hull.contains(address) {
            return None;
        }
        let (span, value) = self.search(address);
        let within = address - span.first;
        value.map(|value| (value.after(within), span.count - within))
    }

    /// The range or gap within the hull that `address` lies in.
    #[inline(always)]
    fn search(&mut self, address: u64) -> (Span, Option<T>) {
        if !self.last.0.contains(address) {
            self.last = self.found(address);
        }
        self.last
    }

    fn found(&self, address: u64) -> (Span, Option<T>) {
        let after = self.ranges.partition_point(|(span, _)| span.first <= address);
        let (before, value) = self.ranges[after.saturating_sub(1)];
        if before.contains(address) {
            return (before, Some(value));
        }
        let end = self.ranges.get(after).map_or(self.hull.end(), |(next, _)| next.first);
        (Span::between(before.end(), end), None)
    }

    /// Adds `count` addresses from `first` on with `value`, in place of what was there.
    pub fn map(&mut self, first: u64, count: u64, value: T) {
        self.unmap(first, count);
        let mut new = Span::between(first, first.saturating_add(count));
        if new.count == 0 {
            return;
        }
        let mut value = value;
        let at = self.ranges.partition_point(|(span, _)| span.first < new.first);
        let (mut from, mut to) = (at, at);
        if let Some((before, its)) = at.checked_sub(1).map(|before| self.ranges[before])
            && before.end() == new.first
            && its.joins(before.count, value)
        {
            (new, value, from) = (Span::between(before.first, new.end()), its, at - 1);
        }
        if let Some(&(next, its)) = self.ranges.get(at)
            && new.end() == next.first
            && value.joins(new.count, its)
        {
            (new, to) = (Span::between(new.first, next.end()), at + 1);
        }
        self.ranges.splice(from..to, [(new, value)]);
        self.changed();
    }

    /// Takes `count` addresses from `first` on out; what reaches beyond them on either side stays.
    pub fn unmap(&mut self, first: u64, count: u64) {
        let gone = Span::between(first, first.saturating_add(count));
        let from = self.ranges.partition_point(|(span, _)| span.end() <= gone.first);
        let to = self.ranges.partition_point(|(span, _)| span.first < gone.end());
        if gone.count == 0 || from >= to {
            return;
        }
        let (head, head_value) = self.ranges[from];
        let (tail, tail_value) = self.ranges[to - 1];
        let cut = gone.end().saturating_sub(tail.first);
        let head = (Span::between(head.first, head.end().min(gone.first)), head_value);
        let tail = (Span::between(gone.end(), tail.end()), tail_value.after(cut));
        self.ranges.splice(from..to, [head, tail].into_iter().filter(|(span, _)| span.count > 0));
        self.changed();
    }

    /// Changes the value of the range that begins at `first`. Returns the new one and the range's length, or
    /// `None` if no range begins there.
    pub fn change(&mut self, first: u64, change: impl FnOnce(T) -> T) -> Option<(T, u64)> {
        let at = self.ranges.binary_search_by_key(&first, |(span, _)| span.first).ok()?;
        let (span, value) = &mut self.ranges[at];
        *value = change(*value);
        let changed = (*value, span.count);
        self.changed();
        Some(changed)
    }

    /// How many ranges there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes of memory that the ranges take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.ranges.capacity() * size_of::<(Span, T)>()
    }

    fn changed(&mut self) {
        self.hull = match (self.ranges.first(), self.ranges.last()) {
            (Some((first, _)), Some((last, _))) => Span::between(first.first, last.end()),
            _ => Span::default(),
        };
        self.last = (Span::default(), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An offset: ranges keep their bounds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Offset(u64);

    impl RangeValue for Offset {
        fn after(self, bytes: u64) -> Self {
            Offset(self.0 + bytes)
        }

        fn joins(self, _bytes: u64, _next: Self) -> bool {
            false
        }
    }

    #[test]
    fn a_range_has_its_addresses_and_no_others() {
        let mut ranges = Ranges::default();
        assert!(!ranges.contains(0));
        ranges.map(64, 128, ());
        let inside: Vec<u64> = (0..400).filter(|&at| ranges.contains(at)).collect();
        assert_eq!((inside.first(), inside.last(), inside.len()), (Some(&64), Some(&191), 128));
        ranges.unmap(64, 128);
        assert!(ranges.is_empty() && (0..400).all(|at| !ranges.contains(at)));
    }

    #[test]
    fn neighbours_become_one_and_a_hole_makes_two() {
        let mut ranges = Ranges::default();
        ranges.map(10, 10, ());
        ranges.map(30, 10, ());
        ranges.map(20, 10, ());
        assert_eq!((ranges.len(), ranges.get(10)), (1, Some(((), 30))));
        ranges.unmap(20, 1);
        assert_eq!((ranges.len(), ranges.get(10), ranges.get(20)), (2, Some(((), 10)), None));
    }

    #[test]
    fn what_is_cut_off_in_front_moves_the_value() {
        let mut ranges = Ranges::default();
        ranges.map(0x1000, 0x3000, Offset(0));
        assert_eq!(ranges.get(0x1008), Some((Offset(8), 0x2FF8)));
        ranges.unmap(0x2000, 0x1000);
        assert_eq!(ranges.get(0x1FFF), Some((Offset(0xFFF), 1)));
        assert_eq!((ranges.get(0x2000), ranges.get(0x4000)), (None, None));
        assert_eq!(ranges.get(0x3000), Some((Offset(0x2000), 0x1000)));
        ranges.map(0x3000, 0x1000, Offset(7));
        assert_eq!(ranges.change(0x3000, |_| Offset(0x8000)), Some((Offset(0x8000), 0x1000)));
        assert_eq!(ranges.change(0x3001, |_| Offset(0)), None);
        assert_eq!(ranges.get(0x3010), Some((Offset(0x8010), 0xFF0)));
    }

    proptest! {
        #[test]
        fn any_maps_and_unmaps_agree_with_a_table(
            changes in prop::collection::vec((any::<bool>(), 0u64..200, 0u64..50), 1..30),
            probes in prop::collection::vec(0u64..260, 50),
        ) {
            let (mut joined, mut apart) = (Ranges::default(), Ranges::default());
            let mut table = [None; 260];
            for (number, (map, first, count)) in changes.into_iter().enumerate() {
                let offset = number as u64 * 1000;
                for at in first..first + count {
                    table[at as usize] = map.then_some(Offset(offset + at - first));
                }
                if map {
                    joined.map(first, count, ());
                    apart.map(first, count, Offset(offset));
                } else {
                    joined.unmap(first, count);
                    apart.unmap(first, count);
                }
                for &at in &probes {
                    let expected = table[at as usize];
                    prop_assert_eq!(joined.contains(at), expected.is_some(), "at {}", at);
                    prop_assert_eq!(apart.get(at).map(|(value, _)| value), expected, "at {}", at);
                    prop_assert_eq!(joined.get(at).is_some(), expected.is_some(), "at {}", at);
                }
            }
        }
    }
}
