//! How many lines a program touched: the clock by which caches lose what was written.
//!
//! Instructions would not do. Code without optimisation takes several times as many for the same lines, and a
//! copy next to none. So this counts lines that come anew into a table of 4 MiB with one place for each line:
//! a line that is used again at once does not count, one that comes back after a while does, as it does in a
//! cache.
//!
//! A set of bits counts the *different* lines, one bit each, as far as hashing keeps them apart: what all
//! fits into the caches of a machine is never evicted there, in whatever order.

use super::lines::split;

/// Lines that the table holds.
const HELD: usize = 1 << 16;
/// Bits that distinguish lines: half a MiB. They count up to some 40 million lines, within a few per cent up
/// to 16 million.
const DIFFERENT: u64 = 1 << 22;
/// What stands where there was none.
const NONE: u64 = u64::MAX;

/// The count, of all threads together: they share the last cache.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// Empty until the first access.
    lines: Vec<u64>,
    last: u64,
    count: u32,
    /// A bit for each different line.
    different: Vec<u64>,
    bits: u64,
}

impl Touched {
    /// An access.
    #[inline]
    pub(super) fn access(&mut self, addr: u64, len: u32) {
        if self.lines.is_empty() {
            (self.lines, self.last) = (vec![NONE; HELD], NONE);
            self.different = vec![0; (DIFFERENT / u64::from(u64::BITS)) as usize];
        }
        for (line, _) in split(addr, len) {
            if line == self.last {
                continue;
            }
            self.last = line;
            let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let held = &mut self.lines[(hash >> 48) as usize];
            if *held != line {
                *held = line;
                self.count = self.count.wrapping_add(1);
                // Mixed once more: a product spreads neighbours more evenly than chance, which the estimate
                // counts on.
                let bit = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 42;
                let word = &mut self.different[(bit / 64) as usize];
                self.bits += u64::from(*word >> (bit % 64) & 1 == 0);
                *word |= 1 << (bit % 64);
            }
        }
    }

    /// Different lines so far, about: some share a bit, and so many that the share of free bits tells how
    /// many.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn different(&self) -> u64 {
        let free = (DIFFERENT - self.bits).max(1) as f64 / DIFFERENT as f64;
        (-free.ln() * DIFFERENT as f64).round() as u64
    }

    /// Lines so far, modulo 2^32.
    pub(super) fn count(&self) -> u32 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_when_it_comes_and_when_it_comes_back() {
        let mut touched = Touched::default();
        let sweep = |touched: &mut Touched, lines: u64| {
            let before = touched.count();
            (0..8 * lines).for_each(|word| touched.access(word * 8, 8));
            touched.count() - before
        };
        assert_eq!(sweep(&mut touched, 1_000), 1_000, "eight words, one line");
        // The hash may put some lines into one place.
        assert!(sweep(&mut touched, 1_000) < 50, "they are still near");
        sweep(&mut touched, 1_000_000);
        assert!(sweep(&mut touched, 1_000) > 990, "much came in between");
        let before = touched.count();
        touched.access(1 << 40, 256);
        assert_eq!(touched.count() - before, 4, "a copy");
    }

    #[test]
    fn different_lines_are_counted_once() {
        for lines in [0, 1, 1_000, 500_000, 3_000_000] {
            let mut touched = Touched::default();
            for _ in 0..2 {
                (0..lines).for_each(|line| touched.access(line * 64, 8));
            }
            let off = touched.different().abs_diff(lines);
            assert!(off * 50 <= lines, "{lines}: {}", touched.different());
        }
    }
}
