//! Which addresses are persistent, of a bounded number of ranges.

/// Ranges held at a time.
const RANGES_MAX: usize = 65_536;

/// The persistent ranges of the program.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    ranges: event::Ranges,
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
    pub(super) fn contains(&mut self, addr: u64) -> bool {
        self.ranges.contains(addr)
    }

    /// Adds `len` bytes at `addr`, replacing what was there.
    pub(super) fn add(&mut self, addr: u64, len: u64) {
        self.seen = true;
        self.ranges.unmap(addr, len);
        if self.ranges.len() >= RANGES_MAX {
            self.refused += 1;
        } else {
            self.ranges.map(addr, len, ());
        }
    }

    /// Takes `len` bytes at `addr` out.
    pub(super) fn remove(&mut self, addr: u64, len: u64) {
        self.ranges.unmap(addr, len);
    }

    /// Bytes held.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.ranges.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_ranges_is_bounded() {
        let mut ranges = Ranges::default();
        for i in (0..RANGES_MAX as u64 + 10).rev() {
            ranges.add(i * 2, 1);
        }
        assert_eq!((ranges.ranges.len(), ranges.refused()), (RANGES_MAX, 10));
    }
}
