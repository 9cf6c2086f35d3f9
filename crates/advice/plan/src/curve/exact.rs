//! Exact stack distances: how many different lines were used since the last use of this one.

use std::collections::HashMap;

use super::MissCurve;

/// Counts distances of every access, in memory that grows with the lines and time that grows with their logarithm.
#[derive(Debug, Default)]
pub struct Exact {
    /// Last use of each line, as a position in `marks`.
    last: HashMap<u64, usize>,
    /// A Fenwick tree over positions; 1 where a line was used last.
    marks: Vec<u32>,
    position: usize,
    distances: Vec<u64>,
    cold: u64,
    accesses: u64,
}

impl Exact {
    /// Without accesses.
    #[must_use]
    pub fn new() -> Exact {
        Exact { marks: vec![0; 1025], ..Exact::default() }
    }

    /// One access. Returns its distance, 0 for the line used last, and none for a line that is new.
    pub fn access(&mut self, line: u64) -> Option<u64> {
        if self.position + 1 >= self.marks.len() {
            self.compact();
        }
        self.accesses += 1;
        self.position += 1;
        let here = self.position;
        let distance = self.last.insert(line, here).map(|before| {
            let between = self.last.len() as u64 - self.sum(before);
            self.add(before, -1);
            between
        });
        self.add(here, 1);
        match distance {
            Some(distance) => count(&mut self.distances, distance),
            None => self.cold += 1,
        }
        distance
    }

    /// Misses of fully associative caches with least-recently-used replacement.
    #[must_use]
    pub fn curve(&self) -> MissCurve {
        MissCurve::of_distances(&self.distances, 1.0, self.cold as f64, self.accesses as f64)
    }

    pub(super) fn distances(&self) -> &[u64] {
        &self.distances
    }

    pub(super) fn cold(&self) -> u64 {
        self.cold
    }

    fn sum(&self, mut at: usize) -> u64 {
        let mut sum = 0u64;
        while at > 0 {
            sum += u64::from(self.marks[at]);
            at &= at - 1;
        }
        sum
    }

    fn add(&mut self, mut at: usize, change: i32) {
        while at < self.marks.len() {
            self.marks[at] = self.marks[at].wrapping_add_signed(change);
            at += at & at.wrapping_neg();
        }
    }

    /// Positions become consecutive again; the tree is twice as large as the lines need.
    fn compact(&mut self) {
        let mut order: Vec<(usize, u64)> = self.last.iter().map(|(&line, &at)| (at, line)).collect();
        order.sort_unstable();
        self.marks = vec![0; (2 * order.len()).max(1024) + 1];
        for (at, &(_, line)) in (1..).zip(&order) {
            self.last.insert(line, at);
            self.add(at, 1);
        }
        self.position = order.len();
    }
}

fn count(distances: &mut Vec<u64>, distance: u64) {
    let at = distance as usize;
    if distances.len() <= at {
        distances.resize(at + 1, 0);
    }
    distances[at] += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_a_list_that_moves_to_the_front() {
        let mut exact = Exact::new();
        let mut list: Vec<u64> = Vec::new();
        let mut state = 1u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let line = (state >> 33) % 300;
            let expected = list.iter().position(|&held| held == line);
            if let Some(at) = expected {
                list.remove(at);
            }
            list.insert(0, line);
            assert_eq!(exact.access(line), expected.map(|at| at as u64));
        }
        let curve = exact.curve();
        assert!((curve.misses(300.0) - 300.0).abs() < 1e-9, "only the first use of each line");
        assert!((curve.misses(0.0) - 20_000.0).abs() < 1e-9);
    }
}
