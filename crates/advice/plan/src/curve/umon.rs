//! UMON (Qureshi and Patt, MICRO '06): per way, the hits of a few sampled sets of a cache with least-recently-used replacement.
//!
//! A stack of as many lines as the cache has ways stands for each sampled set. A hit in position `i` is a hit in every cache
//! with more than `i` ways.

/// The monitor of one cache.
#[derive(Clone, Debug)]
pub struct Umon {
    sets: u64,
    every: u64,
    ways: usize,
    /// Per sampled set, its lines, used last first.
    stacks: Vec<Vec<u64>>,
    hits: Vec<u64>,
    accesses: u64,
}

impl Umon {
    /// For a cache of so many sets and ways, of which every `every`-th set is sampled.
    #[must_use]
    pub fn new(sets: u64, ways: usize, every: u64) -> Umon {
        let (sets, every) = (sets.max(1), every.max(1));
        let sampled = sets.div_ceil(every) as usize;
        Umon { sets, every, ways, stacks: vec![Vec::new(); sampled], hits: vec![0; ways], accesses: 0 }
    }

    /// One access of the cache.
    pub fn access(&mut self, line: u64) {
        let set = line % self.sets;
        if !set.is_multiple_of(self.every) {
            return;
        }
        self.accesses += 1;
        let stack = &mut self.stacks[(set / self.every) as usize];
        match stack.iter().position(|&held| held == line) {
            Some(at) => {
                self.hits[at] += 1;
                stack[..=at].rotate_right(1);
            }
            None => {
                if stack.len() == self.ways {
                    stack.pop();
                }
                stack.insert(0, line);
            }
        }
    }

    /// Share of the accesses that miss in a cache with so many ways and the same sets. 1 if nothing was sampled.
    #[must_use]
    pub fn miss_ratio(&self, ways: usize) -> f64 {
        if self.accesses == 0 {
            return 1.0;
        }
        let hits: u64 = self.hits.iter().take(ways).sum();
        1.0 - hits as f64 / self.accesses as f64
    }

    /// Accesses of sampled sets.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.accesses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::shards::hash;

    #[test]
    fn a_loop_hits_once_all_of_it_fits() {
        let mut umon = Umon::new(16, 8, 4);
        for _ in 0..100 {
            (0..64).for_each(|line| umon.access(line));
        }
        assert!((umon.miss_ratio(3) - 1.0).abs() < 1e-9, "four lines per set do not fit into three ways");
        assert!(umon.miss_ratio(4) < 0.02, "they fit into four");
        assert_eq!(umon.accesses(), 1_600, "a quarter");
    }

    #[test]
    fn a_part_of_the_sets_stands_for_all() {
        let (mut all, mut part) = (Umon::new(256, 8, 1), Umon::new(256, 8, 16));
        for access in 0..200_000u64 {
            let line = hash(access) % 3_000;
            all.access(line);
            part.access(line);
        }
        for ways in 1..=8 {
            assert!((all.miss_ratio(ways) - part.miss_ratio(ways)).abs() < 0.02);
        }
    }
}
