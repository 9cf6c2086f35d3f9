//! Which addresses are persistent.

/// Ranges held at a time.
const RANGES_MAX: usize = 65_536;

/// Disjoint, sorted address ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    /// First address and the address after the last one.
    ranges: Vec<(u64, u64)>,
    /// Smallest range around all others: answers most questions with one comparison.
    hull: (u64, u64),
    /// Whether there has been a range.
    seen: bool,
    /// Ranges that did not fit.
    refused: u64,
}

impl Ranges {
    /// Whether a range was ever added.
    pub(super) fn seen(&self) -> bool {
        self.seen
    }

    /// Ranges that were not followed, because too many were there at a time.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether `addr` is in a range.
    #[inline]
    pub(super) fn contains(&self, addr: u64) -> bool {
        if addr < self.hull.0 || addr >= self.hull.1 {
            return false;
        }
        let after = self.ranges.partition_point(|&(start, _)| start <= addr);
        after > 0 && addr < self.ranges[after - 1].1
    }

    /// Adds `len` bytes at `addr`, replacing what was there.
    pub(super) fn add(&mut self, addr: u64, len: u64) {
        self.seen = true;
        self.remove(addr, len);
        if self.ranges.len() >= RANGES_MAX {
            self.refused += 1;
        } else if len > 0 {
            let at = self.ranges.partition_point(|&(start, _)| start < addr);
            self.ranges.insert(at, (addr, addr.saturating_add(len)));
        }
        self.wrap();
    }

    /// Takes `len` bytes at `addr` out.
    pub(super) fn remove(&mut self, addr: u64, len: u64) {
        let end = addr.saturating_add(len);
        let first = self.ranges.partition_point(|&(_, stop)| stop <= addr);
        let last = self.ranges.partition_point(|&(start, _)| start < end);
        if first < last {
            let head = (self.ranges[first].0, addr);
            let tail = (end, self.ranges[last - 1].1);
            let kept = [head, tail].into_iter().filter(|(start, stop)| start < stop);
            self.ranges.splice(first..last, kept);
        }
        self.wrap();
    }

    /// Bytes held.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.ranges.capacity() * size_of::<(u64, u64)>()
    }

    fn wrap(&mut self) {
        let start = self.ranges.first().map_or(0, |range| range.0);
        let end = self.ranges.last().map_or(0, |range| range.1);
        self.hull = (start, end);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_bitmap(steps in prop::collection::vec((any::<bool>(), 0u64..64, 0u64..20), 0..40)) {
            let mut ranges = Ranges::default();
            let mut bitmap = [false; 96];
            for (add, addr, len) in steps {
                if add { ranges.add(addr, len) } else { ranges.remove(addr, len) }
                bitmap[addr as usize..(addr + len) as usize].fill(add);
            }
            for (addr, &inside) in bitmap.iter().enumerate() {
                prop_assert_eq!(ranges.contains(addr as u64), inside, "at {}", addr);
            }
        }
    }

    #[test]
    fn the_number_of_ranges_is_bounded() {
        let mut ranges = Ranges::default();
        for i in (0..RANGES_MAX as u64 + 10).rev() {
            ranges.add(i * 2, 1);
        }
        assert_eq!((ranges.ranges.len(), ranges.refused()), (RANGES_MAX, 10));
    }
}
