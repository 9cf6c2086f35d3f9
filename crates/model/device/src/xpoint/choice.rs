//! Who of those that can leave now makes room.

use crate::{Replacement, Rng};

/// A replacement policy over whatever may leave at the moment.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    policy: Replacement,
    rng: Rng,
    clock: u64,
    /// Kept between calls for its memory only.
    candidates: Vec<(u64, usize)>,
}

impl Choice {
    pub(super) fn new(policy: Replacement, rng: Rng) -> Self {
        Choice { policy, rng, clock: 0, candidates: Vec::new() }
    }

    /// The stamp of a use: later ones are larger.
    pub(super) fn stamp(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// One of `candidates`, given by the stamp of their last use and a number; `None` if there are none.
    pub(super) fn choose(&mut self, candidates: impl Iterator<Item = (u64, usize)>) -> Option<usize> {
        if self.policy == Replacement::Lru {
            return candidates.min().map(|(_, number)| number);
        }
        self.candidates.clear();
        self.candidates.extend(candidates);
        let count = self.candidates.len();
        if count == 0 {
            return None;
        }
        if self.policy == Replacement::Random {
            return Some(self.candidates[self.rng.below(count)].1);
        }
        let rank = self.rng.below(Replacement::not_recent(count));
        let (_, (_, number), _) = self.candidates.select_nth_unstable(rank);
        Some(*number)
    }
}
