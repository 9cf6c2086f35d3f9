//! How many lines a program touched: the clock by which caches lose what was written.
//!
//! Instructions would not do. Code without optimisation takes several times as many for the same lines, and a copy next to
//! none. So this counts lines that come anew into a table of 4 MiB with one place for each line: a line that is used again at once
//! does not count, one that comes back after a while does, as it does in a cache.

use super::lines::split;

/// Lines that the table holds.
const HELD: usize = 1 << 16;
/// What stands where there was none.
const NONE: u64 = u64::MAX;

/// The count, of all threads together: they share the last cache.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// Empty until the first access.
    lines: Vec<u64>,
    last: u64,
    count: u32,
}

impl Touched {
    /// An access.
    #[inline]
    pub(super) fn access(&mut self, addr: u64, len: u32) {
        if self.lines.is_empty() {
            (self.lines, self.last) = (vec![NONE; HELD], NONE);
        }
        for (line, _) in split(addr, len) {
            if line == self.last {
                continue;
            }
            self.last = line;
            let held = &mut self.lines[(line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize];
            if *held != line {
                *held = line;
                self.count = self.count.wrapping_add(1);
            }
        }
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
}
