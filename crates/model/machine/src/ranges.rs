//! Which lines are persistent.

use crate::LINE_BYTES;
use crate::interleave::PERSISTENT;

/// The persistent ranges of the program, in whole lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    lines: event::Ranges,
}

impl Ranges {
    /// The line's number in the machine: with [`PERSISTENT`] if it is.
    #[inline(always)]
    pub(crate) fn place(&mut self, line: u64) -> u64 {
        line | if self.lines.contains(line) { PERSISTENT } else { 0 }
    }

    /// `len` bytes at `addr`, and the rest of their lines, become persistent.
    pub(crate) fn map(&mut self, addr: u64, len: u64) {
        let (first, count) = lines_of(addr, len);
        self.lines.map(first, count, ());
    }

    /// They are no longer.
    pub(crate) fn unmap(&mut self, addr: u64, len: u64) {
        let (first, count) = lines_of(addr, len);
        self.lines.unmap(first, count);
    }
}

fn lines_of(addr: u64, len: u64) -> (u64, u64) {
    let first = addr / LINE_BYTES;
    (first, addr.saturating_add(len).div_ceil(LINE_BYTES).saturating_sub(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_persistent_if_any_of_its_bytes_is_mapped() {
        let mut ranges = Ranges::default();
        ranges.map(100, 64);
        let persistent = |ranges: &mut Ranges| {
            (0..5).filter(|&line| ranges.place(line) & PERSISTENT != 0).collect::<Vec<_>>()
        };
        assert_eq!(persistent(&mut ranges), [1, 2]);
        ranges.unmap(64, 1);
        assert_eq!(persistent(&mut ranges), [2]);
        ranges.map(0, 0);
        assert_eq!(persistent(&mut ranges), [2], "no bytes, no lines");
    }
}
