//! The profile: plain numbers.

use super::locate::{Owner, PAGE};
use super::overlap::Clusters;

/// What one structure does at each candidate's number of ways.
#[derive(Clone, Debug)]
pub struct StructureProfile {
    /// Who made it.
    pub owner: Owner,
    /// Bytes that it needs: most that lived at once, or the pages that were touched, whichever is less.
    pub bytes: u64,
    /// Loads and stores that missed the second-level cache.
    pub beyond_l2: u64,
    /// Misses of the last level, by candidate.
    pub misses: Vec<u64>,
    /// Of these, by stores.
    pub store_misses: Vec<u64>,
    /// Lines written to memory, by candidate.
    pub writes: Vec<u64>,
    /// Misses in each of [`Profile::SLICES`] equal parts of the run, with the most ways.
    pub over_time: Vec<u64>,
}

/// A run's profile.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The candidates' numbers of ways of the last level, rising.
    pub ways: Vec<u32>,
    /// All structures; number 0 is what nobody allocated.
    pub structures: Vec<StructureProfile>,
    /// Misses that a core keeps under way, at most.
    pub registers: u32,
    /// By candidate: which misses overlap.
    pub clusters: Vec<Clusters>,
    /// Share of the last level's accesses that miss by the sampled monitor, by candidate.
    pub monitor: Vec<f64>,
    /// Events, loads and stores, instructions and threads.
    pub events: u64,
    /// Loads and stores, by lines.
    pub accesses: u64,
    /// Instructions of all threads.
    pub instructions: u64,
    /// Threads that ran.
    pub threads: u32,
    /// Estimated misses of a fully associative cache of so many bytes, from a sample of the lines.
    pub curve: Vec<(u64, f64)>,
    /// Whether only a part of the events was recorded.
    pub sampled: bool,
    /// Whether the source reports allocations.
    pub saw_allocations: bool,
}

impl Profile {
    /// Parts of the run in [`StructureProfile::over_time`].
    pub const SLICES: usize = 16;

    /// Bytes of all structures: the working set.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.structures.iter().map(|structure| structure.bytes).sum()
    }

    /// Misses of the last level with a candidate's ways.
    #[must_use]
    pub fn misses(&self, candidate: usize) -> u64 {
        self.structures.iter().map(|structure| structure.misses[candidate]).sum()
    }

    /// Structures by hotness, coldest first: misses per byte with the most ways, then with the fewest.
    #[must_use]
    pub fn coldest_first(&self) -> Vec<usize> {
        let last = self.ways.len() - 1;
        let heat = |number: usize| {
            let structure = &self.structures[number];
            let bytes = structure.bytes.max(PAGE) as f64;
            (structure.misses[last] as f64 / bytes, structure.misses[0] as f64 / bytes)
        };
        let mut order: Vec<usize> =
            (0..self.structures.len()).filter(|&at| self.structures[at].bytes > 0).collect();
        order.sort_by(|&one, &two| {
            let (one, two) = (heat(one), heat(two));
            one.0.total_cmp(&two.0).then(one.1.total_cmp(&two.1))
        });
        order
    }

    /// How much the structures' shares of the misses change between the halves of the run, 0 to 1.
    #[must_use]
    pub fn drift(&self) -> f64 {
        let half = Profile::SLICES / 2;
        let part = |from: usize, to: usize| -> Vec<f64> {
            let sums: Vec<f64> = self
                .structures
                .iter()
                .map(|one| one.over_time[from..to].iter().sum::<u64>() as f64)
                .collect();
            let all: f64 = sums.iter().sum::<f64>().max(1.0);
            sums.into_iter().map(|sum| sum / all).collect()
        };
        let (first, second) = (part(0, half), part(half, Profile::SLICES));
        first.iter().zip(&second).map(|(one, two)| (one - two).abs()).sum::<f64>() / 2.0
    }
}
