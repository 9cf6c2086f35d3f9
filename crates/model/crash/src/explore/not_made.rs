//! What was missing where nothing was lost: a store that another thread had not made yet.
//!
//! A thread relied on something that it did not wait for. The other threads are run on, each alone, and not further than it takes: the
//! store that mends the failure is what was missing. The thread that went too far comes last; its own next stores may mend a failure, too, by
//! undoing what it did.

use std::collections::{BTreeMap, HashSet};

use super::search::Search;
use crate::finding::{Missing, Reason};
use crate::history::Item;
use crate::words::Words;

/// Threads that are run on.
const THREADS: usize = 16;
/// Stores of a thread that are tried.
const STORES: usize = 1 << 12;

/// A store's atoms, with their positions in the stream.
type Pieces = Vec<(usize, Item)>;

impl Search<'_, '_, '_> {
    /// The store that would have mended the failure of an image that has all that was `made`; if there is none, the one that whoever came
    /// last makes next, unless the program `relied` on what it had made: then nothing that it makes later
    /// need have to do with it. The oracle was shown `shown` last.
    pub(super) fn not_made(
        &mut self,
        made: &[(usize, Item)],
        relied: bool,
        shown: &mut Words<'_>,
    ) -> Vec<Missing> {
        let mut threads: Vec<(u32, Vec<Pieces>)> = self.stores_to_come(made).into_iter().collect();
        let last = made.iter().rev().find(|(_, item)| !matches!(item, Item::Bulk(_)));
        let last = last.map(|&(_, item)| self.checker.history.stamp(item).agent);
        threads.sort_by_key(|&(agent, _)| (Some(agent) == last, agent));
        threads.truncate(THREADS);
        let alone = threads.len() == 1 && !relied;
        let mended = threads
            .iter()
            .filter(|_| !alone)
            .find_map(|(_, stores)| Some(&stores[self.mends(made, stores, shown)? - 1]));
        let next = threads.last().filter(|_| !relied).and_then(|(_, stores)| stores.first());
        let Some(pieces) = mended.or(next) else { return Vec::new() };
        let Some(&(_, Item::Atom(first))) = pieces.first() else { return Vec::new() };
        let (_, atoms) = self.checker.history.operation(first);
        let reason = if relied { Reason::NotStored } else { Reason::NotMade };
        vec![self.missed(&(first..atoms.end).collect::<Vec<u32>>(), reason)]
    }

    /// By agent, the stores that it makes after those `made`.
    fn stores_to_come(&self, made: &[(usize, Item)]) -> BTreeMap<u32, Vec<Pieces>> {
        let history = self.checker.history;
        let is_made = |at: usize| made.binary_search_by_key(&at, |&(at, _)| at).is_ok();
        let from = made.iter().enumerate().find(|&(number, &(at, _))| number != at);
        let from = from.map_or(made.len(), |(number, _)| number);
        let store = |item: Item| match item {
            Item::Atom(at) => Some(history.atoms[at as usize].store),
            _ => None,
        };
        let mut stores: BTreeMap<u32, Vec<Pieces>> = BTreeMap::new();
        for (at, &item) in history.items.iter().enumerate().skip(from).filter(|&(at, _)| !is_made(at)) {
            if store(item).is_none() {
                continue;
            }
            let of_agent = stores.entry(history.stamp(item).agent).or_default();
            let count = of_agent.len();
            match of_agent.last_mut() {
                Some(pieces) if store(pieces[0].1) == store(item) => pieces.push((at, item)),
                _ if count < STORES => of_agent.push(vec![(at, item)]),
                _ => {}
            }
        }
        stores
    }

    /// The least number of `stores` with which the image no longer fails, as far as doubling finds one.
    fn mends(&mut self, made: &[(usize, Item)], stores: &[Pieces], shown: &mut Words<'_>) -> Option<usize> {
        let mut is_right = |count: usize| {
            let further = stores[..count].iter().flatten();
            let items: Vec<(usize, Item)> = made.iter().chain(further).copied().collect();
            self.examine_after(&items, &HashSet::new(), shown).is_ok()
        };
        let (mut low, mut high) = (0, 1);
        while !is_right(high) {
            if high == stores.len() {
                return None;
            }
            (low, high) = (high, (2 * high).min(stores.len()));
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            if is_right(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }
}
