//! Which slot of a full set makes room: LRU, tree-PLRU, random, any that was not used recently, the oldest
//! that can leave at once.
//!
//! A policy learns of every use ([`Policy::touch`]) and is asked for a victim ([`Policy::victim`]) only
//! when a set has no empty slot. Its state is as small as the policy allows, because `touch` runs once
//! per memory access: LRU moves a way to the front of a list that is one word (with more ways than fit it
//! stores a time stamp), tree-PLRU changes a few bits of one word, random does nothing.

use serde::{Deserialize, Serialize};

use crate::order::Order;
use crate::{Rng, Time};

/// Which line of a full set makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The one that was not used for the longest time.
    Lru,
    /// The one to which a binary tree of last directions points; needs a power of two of ways.
    TreePlru,
    /// Any, drawn from the seed.
    Random,
    /// Any but the quarter that was used last, drawn from the seed.
    NotRecent,
    /// LLC only: of the lines that can leave at once the one that was not used for the longest time. A dirty
    /// line can't while its DIMM's write queue is full; if none can, the one that could first leaves. The
    /// counting machine has no queues and takes them for full: there it is any, drawn from the seed.
    QueueAware,
}

/// The bits of a tree that change when a way is used: its ancestors, and where they then point.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Path {
    ancestors: u64,
    away: u64,
}

/// The replacement state of all sets of one cache.
#[derive(Clone, Debug)]
pub(crate) enum Policy {
    /// LRU of at most [`Order::WAYS`] ways: an order per set.
    Order(Box<[Order]>),
    /// LRU of more.
    Lru {
        /// Time of the last use, per slot.
        stamps: Box<[u64]>,
        clock: u64,
    },
    TreePlru {
        /// Per set a binary tree: node `n`'s children are `2n` and `2n + 1`, the root is 1, and bit `n`
        /// says which child leads to the victim.
        trees: Box<[u64]>,
        /// Per way.
        paths: Box<[Path; 64]>,
    },
    Random(Rng),
    NotRecent {
        /// Time of the last use, per slot.
        stamps: Box<[u64]>,
        clock: u64,
        rng: Rng,
    },
}

impl Replacement {
    /// How many of `count` are not the recently used ones among which [`Replacement::NotRecent`] does not
    /// choose.
    pub(crate) fn not_recent(count: usize) -> usize {
        count - count / 4
    }
}

impl Policy {
    pub(crate) fn new(kind: Replacement, sets: usize, ways: usize, rng: Rng) -> Self {
        match kind {
            Replacement::Lru | Replacement::QueueAware if ways <= Order::WAYS => {
                Policy::Order(vec![Order::unused(ways); sets].into())
            }
            Replacement::Lru | Replacement::QueueAware => {
                Policy::Lru { stamps: vec![0; sets * ways].into(), clock: 0 }
            }
            Replacement::TreePlru => {
                assert!(ways.is_power_of_two() && ways <= 64, "checked with the description");
                let mut paths = Box::new([Path::default(); 64]);
                (0..ways).for_each(|way| paths[way] = path(way, ways));
                Policy::TreePlru { trees: vec![0; sets].into(), paths }
            }
            Replacement::Random => Policy::Random(rng),
            Replacement::NotRecent => {
                Policy::NotRecent { stamps: vec![0; sets * ways].into(), clock: 0, rng }
            }
        }
    }

    /// `way` of `set` was used; `slot` is its index among all.
    #[inline(always)]
    pub(crate) fn touch(&mut self, set: usize, way: usize, slot: usize) {
        match self {
            Policy::Order(orders) => orders[set].touch(way),
            Policy::Lru { stamps, clock } | Policy::NotRecent { stamps, clock, .. } => {
                *clock += 1;
                stamps[slot] = *clock;
            }
            Policy::TreePlru { trees, paths } => {
                let Path { ancestors, away } = paths[way & 63];
                let tree = &mut trees[set];
                *tree = *tree & !ancestors | away;
            }
            Policy::Random(_) => {}
        }
    }

    /// The way of the full set `set` that makes room.
    pub(crate) fn victim(&mut self, set: usize, ways: usize) -> usize {
        match self {
            Policy::Random(rng) => rng.below(ways),
            Policy::NotRecent { stamps, rng, .. } => not_recent(&stamps[set * ways..][..ways], rng),
            _ => self.candidate(set, ways, &mut Rng::new(0)),
        }
    }

    /// The way of the full set `set` that would `wait` for the shortest time if it left, and of several the
    /// one that was not used for the longest. That is the oldest unless it has to wait, so a wait is mostly
    /// asked for once.
    pub(crate) fn shortest_wait(
        &self,
        set: usize,
        ways: usize,
        mut wait: impl FnMut(usize) -> Time,
    ) -> usize {
        match self {
            Policy::Order(orders) => {
                let mut best = None;
                for way in orders[set].oldest_first(ways) {
                    let wait = wait(way);
                    if wait == Time::ZERO {
                        return way;
                    }
                    // Of those that wait as long, the oldest came first.
                    if best.is_none_or(|(shortest, _)| wait < shortest) {
                        best = Some((wait, way));
                    }
                }
                best.map_or(0, |(_, way)| way)
            }
            Policy::Lru { stamps, .. } => {
                let stamps = &stamps[set * ways..][..ways];
                let oldest = (0..ways).min_by_key(|&way| stamps[way]).unwrap_or(0);
                if wait(oldest) == Time::ZERO {
                    return oldest;
                }
                (0..ways).min_by_key(|&way| (wait(way), stamps[way])).unwrap_or(0)
            }
            _ => unreachable!("queue-aware sets are kept as those of LRU"),
        }
    }

    /// A copy of the source of chance, for [`Policy::candidate`].
    pub(crate) fn foresight(&self) -> Rng {
        match self {
            Policy::Random(rng) | Policy::NotRecent { rng, .. } => rng.clone(),
            _ => Rng::new(0),
        }
    }

    /// As [`Policy::victim`], with another source of chance.
    #[inline(always)]
    pub(crate) fn candidate(&self, set: usize, ways: usize, chance: &mut Rng) -> usize {
        match self {
            Policy::Order(orders) => orders[set].oldest(ways),
            Policy::Lru { stamps, .. } => {
                let stamps = &stamps[set * ways..][..ways];
                (0..ways).min_by_key(|&way| stamps[way]).unwrap_or(0)
            }
            Policy::TreePlru { trees, .. } => {
                let tree = trees[set];
                let mut node = 1;
                while node < ways {
                    node = 2 * node + (tree >> node & 1) as usize;
                }
                node - ways
            }
            Policy::Random(_) => chance.below(ways),
            Policy::NotRecent { stamps, .. } => not_recent(&stamps[set * ways..][..ways], chance),
        }
    }
}

/// Any way that is not among the quarter that was used last.
fn not_recent(stamps: &[u64], chance: &mut Rng) -> usize {
    let rank = chance.below(Replacement::not_recent(stamps.len()));
    let older = |way: &usize| stamps.iter().filter(|&&stamp| stamp < stamps[*way]).count();
    // No two stamps are equal in a full set.
    (0..stamps.len()).find(|way| older(way) == rank).unwrap_or(0)
}

fn path(way: usize, ways: usize) -> Path {
    let mut path = Path::default();
    let mut node = ways + way;
    while node > 1 {
        let parent = node / 2;
        path.ancestors |= 1 << parent;
        path.away |= u64::from(node.is_multiple_of(2)) << parent;
        node = parent;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn victims(kind: Replacement, ways: usize, uses: &[usize]) -> usize {
        let mut policy = Policy::new(kind, 3, ways, Rng::new(7));
        for &way in uses {
            policy.touch(1, way, ways + way);
        }
        policy.victim(1, ways)
    }

    #[test]
    fn lru_gives_up_what_was_used_longest_ago() {
        assert_eq!(victims(Replacement::Lru, 4, &[0, 1, 2, 3]), 0);
        assert_eq!(victims(Replacement::Lru, 4, &[0, 1, 2, 3, 0, 1]), 2);
        assert_eq!(victims(Replacement::Lru, 3, &[2, 1, 0, 2]), 1);
    }

    #[test]
    fn a_tree_points_away_from_recent_uses() {
        assert_eq!(victims(Replacement::TreePlru, 4, &[0, 1, 2, 3]), 0);
        // After 0 1 2 3 0 true LRU would give up 1; the root points away from 0's half, to 2.
        assert_eq!(victims(Replacement::TreePlru, 4, &[0, 1, 2, 3, 0]), 2);
        assert_eq!(victims(Replacement::TreePlru, 4, &[2, 0, 3]), 1);
        assert_eq!(victims(Replacement::TreePlru, 1, &[0]), 0);
    }

    #[test]
    fn a_tree_of_two_ways_is_lru() {
        let mut rng = Rng::new(3);
        let uses: Vec<usize> = [0, 1].into_iter().chain((0..100).map(|_| rng.below(2))).collect();
        for end in 2..uses.len() {
            assert_eq!(
                victims(Replacement::TreePlru, 2, &uses[..end]),
                victims(Replacement::Lru, 2, &uses[..end])
            );
        }
    }

    #[test]
    fn what_was_used_recently_stays_and_any_other_may_go() {
        let uses: Vec<usize> = (0..8).collect();
        let mut policy = Policy::new(Replacement::NotRecent, 1, 8, Rng::new(5));
        uses.iter().chain(&[2]).for_each(|&way| policy.touch(0, way, way));
        let mut seen: Vec<usize> = (0..200).map(|_| policy.victim(0, 8)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [0, 1, 3, 4, 5, 6], "2 and 7 are the last two of eight");
    }

    #[test]
    fn who_has_to_wait_is_passed_over_and_the_shortest_wait_is_taken() {
        let mut policy = Policy::new(Replacement::QueueAware, 1, 4, Rng::new(1));
        [2, 0, 3, 1].iter().for_each(|&way| policy.touch(0, way, way));
        let leaves = |waits: [u64; 4]| policy.shortest_wait(0, 4, |way| Time(waits[way]));
        assert_eq!(leaves([0, 0, 0, 0]), 2, "the oldest");
        assert_eq!(leaves([0, 0, 9, 0]), 0, "the next");
        assert_eq!(leaves([7, 7, 9, 7]), 0, "the oldest of those that wait least");
        assert_eq!(leaves([9, 9, 9, 9]), 2);
    }

    #[test]
    fn random_victims_are_even_and_repeat_with_the_seed() {
        let draw = |seed| {
            let mut policy = Policy::new(Replacement::Random, 1, 11, Rng::new(seed));
            (0..11_000).map(|_| policy.victim(0, 11)).collect::<Vec<_>>()
        };
        let (first, again, other) = (draw(1), draw(1), draw(2));
        assert_eq!(first, again);
        assert_ne!(first, other);
        for way in 0..11 {
            let times = first.iter().filter(|&&victim| victim == way).count();
            assert!((800..1200).contains(&times), "way {way}: {times} of about 1000");
        }
    }
}
