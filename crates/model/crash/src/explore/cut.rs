//! How far each thread has come when the crash falls.

use std::collections::{BTreeMap, HashMap, HashSet};

use persistency::Model;

use super::{Bounds, Strategy};
use crate::History;
use crate::history::{Item, Stamp};

/// Sets of late barriers that an exhaustive search tries at a point.
const LATE_SETS: usize = 1 << 10;
/// Other agents with a late barrier that the other strategies try, one at a time.
const LATE_AGENTS: usize = 3;

/// A cut: everything before the item `point`, and of the `ahead` items from there on those that need not come after any of the barriers `avoid`.
/// The first of these is the barrier at `point`, unless that is the end of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    pub point: usize,
    pub ahead: usize,
    pub avoid: Vec<u32>,
}

impl Cut {
    /// The items behind `point` that belong to the cut, with their positions.
    pub fn items_ahead(&self, history: &History) -> Vec<(usize, Item)> {
        let end = self.point.saturating_add(self.ahead).min(history.items.len());
        let mut avoid: Vec<Stamp> =
            self.avoid.iter().map(|&at| history.barriers[at as usize].stamp).collect();
        let mut items = Vec::new();
        // Synchronisation does not order strands, but the stores to a word persist in the order in which they were made: behind
        // one that is not in the cut none is, nor a barrier that demands one. By word, the first that is not.
        let mut absent: HashMap<u64, u32> = HashMap::new();
        let is_absent = |absent: &HashMap<u64, u32>, at: u32| {
            absent.get(&history.atoms[at as usize].cell).is_some_and(|&first| first <= at)
        };
        for (position, &item) in history.items.iter().enumerate().take(end).skip(self.point) {
            // What stays whole is in no image that lacks it: a cut does not reach over it.
            if matches!(item, Item::Bulk(_)) {
                break;
            }
            let stamp = history.stamp(item);
            let behind = avoid.iter().any(|&barrier| barrier == stamp || history.precedes(barrier, stamp));
            let is_in = match item {
                _ if history.platform().model() != Model::Strand => !behind,
                Item::Atom(at) => {
                    let is_in = !behind && !is_absent(&absent, at);
                    if !is_in {
                        absent.entry(history.atoms[at as usize].cell).or_insert(at);
                    }
                    is_in
                }
                Item::Barrier(at) if !behind => {
                    let demands = &history.barriers[at as usize].demands;
                    let is_in = !demands.iter().any(|&demand| is_absent(&absent, demand));
                    if !is_in {
                        avoid.push(stamp);
                    }
                    is_in
                }
                _ => !behind,
            };
            if is_in {
                items.push((position, item));
            }
        }
        items
    }
}

/// The cuts at a point, and whether these are all that the strategy wants.
pub(super) fn cuts(history: &History, point: usize, bounds: Bounds, strategy: Strategy) -> (Vec<Cut>, bool) {
    let own = match history.items.get(point) {
        Some(&Item::Barrier(at)) => at,
        _ => return (vec![Cut { point, ahead: 0, avoid: Vec::new() }], true),
    };
    let mut cuts = vec![Cut { point, ahead: 0, avoid: vec![own] }];
    if history.agents <= 1 {
        return (cuts, true);
    }
    let mut complete = true;
    let mut ahead = bounds.ahead;
    while ahead >= 16 {
        let end = (point + ahead).min(history.items.len());
        let sets = if strategy == Strategy::Exhaustive && ahead == bounds.ahead {
            let (sets, all) = every_late(history, own, &history.items[point..end]);
            complete = all;
            sets
        } else {
            one_late(history, own, &history.items[point..end])
        };
        cuts.extend(sets.into_iter().map(|avoid| Cut { point, ahead, avoid }));
        ahead /= 16;
    }
    (cuts, complete)
}

/// The barrier alone, and with the next barrier of one other agent.
fn one_late(history: &History, own: u32, items: &[Item]) -> Vec<Vec<u32>> {
    let mut agents = HashSet::from([history.barriers[own as usize].stamp.agent]);
    let mut sets = vec![vec![own]];
    for item in items {
        if let Item::Barrier(at) = *item
            && agents.insert(history.barriers[at as usize].stamp.agent)
            && sets.len() <= LATE_AGENTS
        {
            sets.push(vec![own, at]);
        }
    }
    sets
}

/// The barrier with each set of others that has at most one of each agent, and whether these are not too many.
fn every_late(history: &History, own: u32, items: &[Item]) -> (Vec<Vec<u32>>, bool) {
    let stamp = history.barriers[own as usize].stamp;
    let mut by_agent: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for item in items {
        if let Item::Barrier(at) = *item {
            let other = history.barriers[at as usize].stamp;
            if other != stamp && !history.precedes(stamp, other) {
                by_agent.entry(other.agent).or_default().push(at);
            }
        }
    }
    let mut sets = vec![vec![own]];
    for barriers in by_agent.values() {
        if sets.len() * (barriers.len() + 1) > LATE_SETS {
            return (sets, false);
        }
        let with = |set: &Vec<u32>| -> Vec<Vec<u32>> {
            barriers.iter().map(|&at| set.iter().copied().chain([at]).collect()).collect()
        };
        let more: Vec<Vec<u32>> = sets.iter().flat_map(with).collect();
        sets.extend(more);
    }
    (sets, true)
}
