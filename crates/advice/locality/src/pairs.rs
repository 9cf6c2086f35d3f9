//! Elements that lie on two lines: two misses on neighbouring lines, less than a line apart, and neither before nor after them
//! another neighbour, as in a walk.

use std::collections::HashMap;

const KEPT_MAX: usize = 1 << 16;
/// Accesses between the two misses of an element.
const SOON: u64 = 64;

/// One thread's last misses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pairs {
    line: u64,
    from: u64,
    to: u64,
    now: u64,
    site: u32,
    /// Whether the last miss was beside the one before it.
    beside: bool,
    /// Lower line, first and last byte of an element that is one unless the next line is missed, too.
    pending: Option<(u64, u64, u64)>,
}

/// What a miss says of the misses before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Visit {
    /// The site whose visit of an element is over.
    pub(crate) site: u32,
    /// Whether there was one.
    pub(crate) over: bool,
    /// Lower line, first byte and end of an element on two lines.
    pub(crate) pair: Option<(u64, u64, u64)>,
}

impl Pairs {
    /// A miss of `line` by an access to bytes `from` to `to`.
    pub(crate) fn missed(&mut self, line: u64, (from, to): (u64, u64), now: u64, site: u32) -> Visit {
        let beside = line.abs_diff(self.line) == 1 && now.saturating_sub(self.now) < SOON;
        let mut visit = Visit::default();
        if beside {
            let (start, end) = (from.min(self.from), to.max(self.to));
            let whole = !self.beside && end - start <= 64;
            self.pending = whole.then_some((line.min(self.line), start, end));
        } else {
            visit = Visit { site: self.site, over: self.line != 0, pair: self.pending.take() };
            self.site = site;
        }
        (self.line, self.from, self.to, self.now, self.beside) = (line, from, to, now, beside);
        visit
    }
}

/// Elements on two lines, by their lower line: first byte and end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Straddled(HashMap<u64, (u64, u64)>);

impl Straddled {
    pub(crate) fn note(&mut self, (line, start, end): (u64, u64, u64)) {
        if self.0.len() < KEPT_MAX || self.0.contains_key(&line) {
            let of = self.0.entry(line).or_insert((start, end));
            let (low, high) = (of.0.min(start), of.1.max(end));
            if high - low <= 64 {
                *of = (low, high);
            }
        }
    }

    /// The element that a byte belongs to, if it lies on two lines: its lower line and its first byte.
    pub(crate) fn of(&self, addr: u64) -> Option<(u64, u64)> {
        let line = addr >> 6;
        let within = |line: u64| {
            let &(start, end) = self.0.get(&line)?;
            (start..end).contains(&addr).then_some((line, start))
        };
        within(line).or_else(|| within(line.checked_sub(1)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_neighbours_are_an_element_and_three_are_a_walk() {
        let mut pairs = Pairs::default();
        let mut found = Vec::new();
        for (now, line) in [10, 11, 50, 51, 52, 90, 130].into_iter().enumerate() {
            let visit = pairs.missed(line, (line * 64 + 20, line * 64 + 28), now as u64, 3);
            found.extend(visit.pair);
        }
        assert!(found.is_empty(), "the bytes are a line apart: {found:?}");
        let mut pairs = Pairs::default();
        for (now, (line, from)) in [(10, 700), (11, 704), (50, 3200), (90, 5800)].into_iter().enumerate() {
            found.extend(pairs.missed(line, (from, from + 8), now as u64, 3).pair);
        }
        assert_eq!(found, [(10, 700, 712)]);
    }
}
