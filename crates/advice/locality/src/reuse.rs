//! How many lines are in use, and how far apart the uses of a line are.
//!
//! Distances are counted in other lines fetched in between, so that a cache that replaces the least recently used line has
//! what is less far apart than it is large (Mattson). One line of 64 is followed, by a hash, and stands for the others
//! (SHARDS).

use std::collections::HashMap;

/// One of so many lines is followed, as a power of two.
const SAMPLED: u32 = 6;
/// Lines that are followed at once.
const LINES_MAX: usize = 1 << 15;
/// Powers of two of a distance.
pub const DISTANCES: usize = 24;
const REGISTERS: usize = 64;

fn hash(line: u64) -> u64 {
    let mixed = (line ^ line >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    (mixed ^ mixed >> 27).wrapping_mul(0x81da_def4_bc2d_d44d)
}

/// How far apart a line's fetches are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reuse {
    /// Item i: less than 2^(i+1) lines in between, and not less than 2^i; of the lines that are followed, times 64.
    pub lines: Vec<u64>,
    /// Fetched for the first time.
    pub first: u64,
}

/// What is known of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distance {
    NotFollowed,
    First,
    Lines(u64),
}

impl Reuse {
    pub(crate) fn note(&mut self, distance: Distance) {
        match distance {
            Distance::NotFollowed => {}
            Distance::First => self.first += 1 << SAMPLED,
            Distance::Lines(lines) => {
                self.lines.resize(DISTANCES, 0);
                self.lines[(lines.max(1).ilog2() as usize).min(DISTANCES - 1)] += 1 << SAMPLED;
            }
        }
    }

    /// Part of the fetches that a cache of 2^i lines does not answer, i from 0 on; empty if too few were followed.
    #[must_use]
    pub fn miss_curve(&self) -> Vec<f64> {
        let all = self.first + self.lines.iter().sum::<u64>();
        if all < 64 << SAMPLED {
            return Vec::new();
        }
        let mut left = all;
        let mut curve = vec![1.0];
        for lines in &self.lines {
            left -= lines;
            curve.push(left as f64 / all as f64);
        }
        curve
    }
}

/// Positions of lines in the order of their last fetch: a Fenwick tree over moments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distances {
    at: HashMap<u64, usize>,
    tree: Vec<u32>,
    now: usize,
}

impl Distances {
    pub(crate) fn of(&mut self, line: u64) -> Distance {
        let hash = hash(line);
        if hash >> (64 - SAMPLED) != 0 {
            return Distance::NotFollowed;
        }
        if self.now + 1 >= self.tree.len() {
            self.again();
        }
        let before = self.at.insert(line, self.now);
        let distance = match before {
            Some(at) => {
                let between = self.at.len() as u64 - u64::from(self.sum(at));
                self.add(at, u32::MAX);
                Distance::Lines(between << SAMPLED)
            }
            None => Distance::First,
        };
        self.add(self.now, 1);
        self.now += 1;
        distance
    }

    /// Numbers moments anew; the lines that were not fetched for longest are forgotten if there are too many.
    fn again(&mut self) {
        let mut order: Vec<(usize, u64)> = self.at.iter().map(|(&line, &at)| (at, line)).collect();
        order.sort_unstable();
        let skip = order.len().saturating_sub(LINES_MAX / 2);
        self.at = order.iter().skip(skip).enumerate().map(|(at, &(_, line))| (line, at)).collect();
        self.now = self.at.len();
        self.tree = vec![0; LINES_MAX * 2];
        (0..self.now).for_each(|at| self.add(at, 1));
    }

    fn add(&mut self, at: usize, by: u32) {
        let mut at = at + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(by);
            at += at & at.wrapping_neg();
        }
    }

    /// Lines up to a moment.
    fn sum(&self, at: usize) -> u32 {
        let (mut at, mut sum) = (at + 1, 0u32);
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at]);
            at -= at & at.wrapping_neg();
        }
        sum
    }
}

/// Different lines per span of time, estimated from hashes (HyperLogLog): two spans together are the larger of their
/// registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkingSet(Vec<[u8; REGISTERS]>);

impl WorkingSet {
    pub(crate) fn touch(&mut self, line: u64, span: usize) {
        if self.0.len() <= span {
            self.0.resize(span + 1, [0; REGISTERS]);
        }
        let hash = hash(line);
        let register = &mut self.0[span][hash as usize % REGISTERS];
        *register = (*register).max(((hash >> 6 | 1 << 58).trailing_zeros() + 1) as u8);
    }

    /// Spans become twice as long.
    pub(crate) fn halve(&mut self) {
        let pair = |pair: &[[u8; REGISTERS]]| {
            std::array::from_fn(|at| pair.iter().map(|of| of[at]).max().unwrap_or(0))
        };
        self.0 = self.0.chunks(2).map(pair).collect();
    }

    pub(crate) fn lines(&self) -> Vec<u64> {
        self.0.iter().map(estimate).collect()
    }
}

fn estimate(registers: &[u8; REGISTERS]) -> u64 {
    let count = REGISTERS as f64;
    let empty = registers.iter().filter(|register| **register == 0).count();
    let sum: f64 = registers.iter().map(|register| 2f64.powi(-i32::from(*register))).sum();
    let raw = 0.709 * count * count / sum;
    let small = raw < 2.5 * count && empty > 0;
    (if small { count * (count / empty as f64).ln() } else { raw }).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cyclic_walk_misses_in_what_is_smaller_and_hits_in_what_is_larger() {
        let (mut distances, mut reuse) = (Distances::default(), Reuse::default());
        for _ in 0..10 {
            (0..100_000).for_each(|line| reuse.note(distances.of(line * 3)));
        }
        let curve = reuse.miss_curve();
        assert!(curve[14] > 0.99, "16384 lines hold nothing: {curve:?}");
        assert!(curve[18] < 0.15, "262144 lines hold all: {curve:?}");
    }

    #[test]
    fn a_long_run_forgets_what_is_old_and_goes_on() {
        let mut distances = Distances::default();
        for line in 0..6_000_000 {
            distances.of(line);
        }
        assert!(distances.at.len() <= LINES_MAX * 2);
        let line = (0..).find(|line| distances.of(*line) != Distance::NotFollowed).expect("one");
        assert_eq!(distances.of(line), Distance::Lines(0), "it was fetched just now");
    }

    #[test]
    fn a_working_set_is_estimated() {
        let mut set = WorkingSet::default();
        (0..10_000).for_each(|line| set.touch(line, 0));
        (0..10).for_each(|line| set.touch(line, 1));
        let lines = set.lines();
        assert!((7_000..13_000).contains(&lines[0]), "{lines:?}");
        assert!((8..13).contains(&lines[1]), "{lines:?}");
        set.halve();
        assert_eq!(set.lines().len(), 1);
    }
}
