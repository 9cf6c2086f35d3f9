//! Which record an operation touches.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;

use crate::rng::mix;

/// The exponent of YCSB's zipfian distributions (Gray et al., "Quickly generating billion-record synthetic
/// databases", 1994, name it theta).
const THETA: f64 = 0.99;

/// How often which record is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distribution {
    /// Each as often as any other.
    Uniform,
    /// The one of rank r about r^-0.99 times as often as the first; ranks are scattered over the records.
    Zipfian,
    /// The same, but the record that was inserted last has rank 1, the one before it rank 2.
    Latest,
}

impl Distribution {
    /// All of them.
    pub const ALL: [Distribution; 3] = [Self::Uniform, Self::Zipfian, Self::Latest];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian",
            Self::Latest => "latest",
        }
    }
}

/// Chooses records; one for each thread.
#[derive(Clone, Debug)]
pub struct Chooser {
    pub(super) rng: Xoshiro256PlusPlus,
    distribution: Distribution,
    /// Records that there may be at the end; ranks of `Zipfian` are scattered over them, so that a record's
    /// popularity does not change when others are inserted.
    keyspace: u64,
    /// Of how many records `zipf` is.
    ranked: u64,
    zipf: Option<Zipf<f64>>,
}

impl Chooser {
    /// Chooses among `keyspace` records.
    #[must_use]
    pub fn new(distribution: Distribution, keyspace: u64, seed: u64) -> Self {
        let keyspace = keyspace.max(1);
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut chooser = Chooser { rng, distribution, keyspace, ranked: 0, zipf: None };
        chooser.rank_over(keyspace);
        chooser
    }

    fn rank_over(&mut self, records: u64) {
        if self.ranked != records && self.distribution != Distribution::Uniform {
            self.ranked = records;
            // Fails for fewer than one record only.
            self.zipf = Zipf::new(records as f64, THETA).ok();
        }
    }

    /// A number below `records`, which is at least 1.
    pub fn below(&mut self, records: u64) -> u64 {
        match self.distribution {
            Distribution::Uniform => self.rng.random_range(0..records),
            Distribution::Zipfian => loop {
                // What is not inserted yet can't be chosen: the others keep their shares.
                let chosen = mix(self.rank(self.keyspace)) % self.keyspace.max(records);
                if chosen < records {
                    return chosen;
                }
            },
            Distribution::Latest => {
                self.rank_over(records);
                records - 1 - self.rank(records)
            }
        }
    }

    /// From 0; 0 is the most frequent.
    fn rank(&mut self, records: u64) -> u64 {
        let Some(zipf) = self.zipf else { return 0 };
        // The sample is a whole number from 1 to `records`, but for rounding.
        (self.rng.sample(zipf) as u64).clamp(1, records) - 1
    }

    /// A number from `low` to `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.rng.random_range(low..=high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 200_000;

    fn counts(distribution: Distribution, records: u64, seed: u64) -> Vec<u64> {
        let mut chooser = Chooser::new(distribution, records, seed);
        let mut counts = vec![0; usize::try_from(records).expect("few")];
        (0..DRAWS).for_each(|_| counts[chooser.below(records) as usize] += 1);
        counts
    }

    /// Chi-square per degree of freedom of counts against shares.
    fn misfit(counts: &[u64], shares: &[f64]) -> f64 {
        let whole: f64 = shares.iter().sum();
        let cells = counts.iter().zip(shares).map(|(count, share)| {
            let expected = DRAWS as f64 * share / whole;
            (*count as f64 - expected).powi(2) / expected
        });
        cells.sum::<f64>() / (counts.len() - 1) as f64
    }

    fn ranks(records: u32) -> Vec<f64> {
        (1..=records).map(|rank| f64::from(rank).powf(-THETA)).collect()
    }

    // With 100 cells, chi-square per degree of freedom is 1 +- 0.14; 1.7 is five deviations off.
    const MOST: f64 = 1.7;

    #[test]
    fn uniform_is_uniform() {
        for seed in [1, 2, 3] {
            let found = misfit(&counts(Distribution::Uniform, 100, seed), &[1.0; 100]);
            assert!(found < MOST, "seed {seed}: {found}");
        }
    }

    #[test]
    fn zipfian_follows_the_ranks_wherever_they_lie() {
        for seed in [1, 2, 3] {
            let counts = counts(Distribution::Zipfian, 100, seed);
            // Two ranks may share a record.
            let mut shares = [0.0; 100];
            for (rank, share) in ranks(100).into_iter().enumerate() {
                shares[(mix(rank as u64) % 100) as usize] += share;
            }
            let hit: Vec<usize> = (0..100).filter(|at| shares[*at] > 0.0).collect();
            let misses: u64 = (0..100).filter(|at| shares[*at] == 0.0).map(|at| counts[at]).sum();
            assert_eq!(misses, 0, "seed {seed}");
            let found = misfit(
                &hit.iter().map(|at| counts[*at]).collect::<Vec<_>>(),
                &hit.iter().map(|at| shares[*at]).collect::<Vec<_>>(),
            );
            assert!(found < MOST, "seed {seed}: {found}");
        }
    }

    #[test]
    fn latest_prefers_the_end_as_it_grows() {
        for seed in [1, 2, 3] {
            let mut counts = counts(Distribution::Latest, 100, seed);
            counts.reverse();
            let found = misfit(&counts, &ranks(100));
            assert!(found < MOST, "seed {seed}: {found}");
            let mut chooser = Chooser::new(Distribution::Latest, 10, seed);
            let last = (10..1000).filter(|records| chooser.below(*records) == records - 1).count();
            // The share of rank 1 falls from 0.34 to 0.13 meanwhile.
            assert!((110..240).contains(&last), "seed {seed}: {last} of 990");
        }
    }

    #[test]
    fn what_is_not_inserted_yet_is_not_chosen() {
        let mut chooser = Chooser::new(Distribution::Zipfian, 1000, 7);
        assert!((0..10_000).all(|_| chooser.below(10) < 10));
    }
}
