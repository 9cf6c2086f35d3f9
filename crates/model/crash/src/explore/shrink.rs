//! From a failing image to the fewest missing stores, and to the moment from which on it fails.

use std::collections::HashSet;

use super::cut::Cut;
use super::search::Search;
use super::why;
use super::window::Window;
use crate::finding::{Finding, Missing, Reason, Witness, is_like};
use crate::history::Item;
use crate::words::Words;
use crate::{Atom, MarkKind, Operation, Token};

impl Search<'_, '_, '_> {
    /// The finding of a failing image, with as little missing as the same failure needs.
    pub(super) fn shrink(
        &mut self,
        cut: &Cut,
        window: &mut Window,
        choices: &[u32],
        message: String,
    ) -> Finding {
        let mut choices = choices.to_vec();
        let mut poor: Vec<usize> = (0..choices.len()).filter(|&at| choices[at] > 0).collect();
        // Many cells at once as long as that works, then each.
        let mut chunk = poor.len().div_ceil(2).max(1);
        loop {
            for part in poor.chunks(chunk) {
                let mut fewer = choices.clone();
                part.iter().for_each(|&at| fewer[at] = 0);
                if fewer != choices && self.fails_like(window, &fewer, &message) {
                    choices = fewer;
                }
            }
            poor.retain(|&at| choices[at] > 0);
            if chunk == 1 {
                break;
            }
            chunk = chunk.div_ceil(2);
        }
        for at in poor {
            for choice in 1..choices[at] {
                let mut fewer = choices.clone();
                fewer[at] = choice;
                if self.fails_like(window, &fewer, &message) {
                    choices = fewer;
                    break;
                }
            }
        }
        window.set(&mut self.walker, &choices);
        // What was examined last decides what recovery is said to have seen.
        let message = self.examine(window).err().unwrap_or(message);
        self.describe(cut, window, &choices, message)
    }

    fn fails_like(&mut self, window: &mut Window, choices: &[u32], message: &str) -> bool {
        window.set(&mut self.walker, choices);
        self.examine(window).is_err_and(|other| is_like(&other, message))
    }

    /// Describes a failing image, which the oracle was shown last.
    pub(super) fn describe(
        &mut self,
        cut: &Cut,
        window: &mut Window,
        choices: &[u32],
        message: String,
    ) -> Finding {
        let history = self.checker.history;
        let lost: HashSet<u32> = window.lost(choices).collect();
        let items = self.items_of(cut);
        let ending = self.oracle.ending();
        // What the oracle has, however many other images it is shown on the way.
        let mut shown = self.walker.current.clone();
        debug_assert!(self.walker.changes.is_empty(), "the oracle has the image");
        let mut end = self.first_failing(&items, &lost, &message, &mut shown);
        if lost.is_empty() {
            // Half of a call that no crash tears: all of it fails in the same way, if this is what does.
            let whole = self.whole_operation(&items, end);
            let judged = self.examine_after(&items[..whole], &lost, &mut shown);
            if judged.is_err_and(|other| is_like(&other, &message)) {
                end = whole;
            }
        }
        let witness = end.checked_sub(1).and_then(|at| match items[at].1 {
            Item::Atom(at) if !lost.contains(&at) => Some(self.survivor(at, &lost)),
            Item::Mark(at) => match history.marks[at as usize].kind {
                MarkKind::End(region) => Some(Witness::Ended { region }),
                MarkKind::Begin(region) => Some(Witness::Begun { region }),
                MarkKind::Phase(_) => None,
            },
            _ => None,
        });
        let crash = end.checked_sub(1).map_or(0, |at| items[at].0);
        let next = match history.items.get(cut.point) {
            Some(&Item::Barrier(at)) => Some(history.barriers[at as usize].site),
            _ => None,
        };
        let chosen = choices.iter().enumerate().filter(|&(_, &choice)| choice > 0);
        let missing = match lost.is_empty() {
            true => {
                let relied = matches!(witness, Some(Witness::Ended { .. }));
                self.not_made(&items[..end], relied, &mut shown)
            }
            false => self.missing(&lost, &items[..self.whole_operation(&items, end)]),
        };
        // Back to what the walker thinks that the oracle has.
        self.walker.changes = shown.difference(&self.walker.current);
        Finding {
            token: Token::new(
                history,
                cut.clone(),
                chosen.map(|(at, &choice)| (at as u32, choice)).collect(),
            ),
            message,
            ending,
            missing,
            witness,
            next,
            images: 1,
            crash,
        }
    }

    /// The items of a cut with their positions, in the order of the stream.
    fn items_of(&self, cut: &Cut) -> Vec<(usize, Item)> {
        let history = self.checker.history;
        let before = history.items[..cut.point].iter().copied().enumerate();
        before.chain(cut.items_ahead(history)).collect()
    }

    /// The least number of items after which the image without `lost` fails in this way: the last of them is what makes it fail.
    fn first_failing(
        &mut self,
        items: &[(usize, Item)],
        lost: &HashSet<u32>,
        message: &str,
        shown: &mut Words<'_>,
    ) -> usize {
        let first_lost =
            items.iter().position(|(_, item)| matches!(item, Item::Atom(at) if lost.contains(at)));
        // Before the first loss the image is one without losses.
        let mut low = first_lost.unwrap_or(0);
        let mut high = items.len();
        while low < high {
            let middle = low.midpoint(high);
            let judged = self.examine_after(&items[..middle], lost, shown);
            if judged.is_err_and(|other| is_like(&other, message)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        high
    }

    /// What the oracle says of the image that has these items without `lost`; it was shown `shown` last.
    pub(super) fn examine_after(
        &mut self,
        items: &[(usize, Item)],
        lost: &HashSet<u32>,
        shown: &mut Words<'_>,
    ) -> Result<(), String> {
        let history = self.checker.history;
        let mut words = self.walker.durable.initial_again();
        let mut marks = Vec::new();
        let (mut begun, mut ended) = (0, 0);
        for &(_, item) in items {
            match item {
                Item::Atom(at) if !lost.contains(&at) => {
                    let atom = &history.atoms[at as usize];
                    words.put(atom.place, atom.value, atom.mask);
                }
                Item::Mark(at) => {
                    marks.push(at);
                    match history.marks[at as usize].kind {
                        MarkKind::Begin(_) => begun += 1,
                        MarkKind::End(_) => ended += 1,
                        MarkKind::Phase(_) => {}
                    }
                }
                Item::Bulk(at) => words.pass(at, |_, _, _| {}),
                _ => {}
            }
        }
        self.walker.changes = shown.difference(&words);
        let judged = self.examine_with(0, &marks, begun, ended);
        shown.become_like(&words);
        judged
    }

    /// What the lost atoms have in common, by code, and why nothing kept them; `made` is what happened before the crash. What came behind
    /// that in the same cells, and is lost with it, is not needed for the failure.
    fn missing(&self, lost: &HashSet<u32>, made: &[(usize, Item)]) -> Vec<Missing> {
        let history = self.checker.history;
        let made_and_lost = made.iter().filter_map(|&(_, item)| match item {
            Item::Atom(at) if lost.contains(&at) => Some(at),
            _ => None,
        });
        let mut made_and_lost: Vec<u32> = made_and_lost.collect();
        if made_and_lost.is_empty() {
            made_and_lost.extend(lost);
        }
        let mut lost = made_and_lost;
        lost.sort_unstable();
        let mut groups: Vec<Vec<u32>> = Vec::new();
        for at in lost {
            let code = |at: u32| (history.atoms[at as usize].site, history.atoms[at as usize].thread);
            match groups.iter_mut().find(|group| code(group[0]) == code(at)) {
                Some(group) => group.push(at),
                None => groups.push(vec![at]),
            }
        }
        groups.iter().map(|group| self.missed(group, why::reason(history, made, group[0]))).collect()
    }

    /// What is missing with atoms of one piece of code, in their order. A write's atom may be the file's new
    /// length: that is no byte of it, and is reported only if all else is durable. Of a change of
    /// the length it comes first.
    pub(super) fn missed(&self, atoms: &[u32], reason: Reason) -> Missing {
        let history = self.checker.history;
        let (operation, all) = history.operation(atoms[0]);
        let (mut count, mut end) = (1, all.end);
        for &at in atoms {
            if at >= end {
                count += 1;
                end = history.operation(at).1.end;
            }
        }
        let is_bytes = matches!(operation, Operation::Bytes { .. });
        let atom = history.main_atom(&operation, atoms).unwrap_or(atoms[0]);
        Missing {
            site: history.atoms[atom as usize].site,
            thread: history.atoms[atom as usize].thread,
            atom,
            place: history.first_byte(atom),
            bytes: if is_bytes { history.bytes_of(atoms.iter().copied()) } else { 0 },
            count,
            part: if count == 1 { history.part(&operation, atoms) } else { None },
            reason,
        }
    }

    /// So many items, and those behind them of the store or call that they end in: who made some of it made
    /// all.
    fn whole_operation(&self, items: &[(usize, Item)], end: usize) -> usize {
        let Some(&(_, Item::Atom(last))) = end.checked_sub(1).and_then(|at| items.get(at)) else {
            return end;
        };
        let (_, atoms) = self.checker.history.operation(last);
        let of_it = |&&(_, item): &&(usize, Item)| matches!(item, Item::Atom(at) if atoms.contains(&at));
        end + items[end..].iter().take_while(of_it).count()
    }

    /// The store of an atom that survived.
    fn survivor(&self, atom: u32, lost: &HashSet<u32>) -> Witness {
        let history = self.checker.history;
        let (operation, all) = history.operation(atom);
        let kept: Vec<u32> = all.filter(|at| !lost.contains(at)).collect();
        let first = history.main_atom(&operation, &kept);
        let Atom { site, thread, .. } = history.atoms[atom as usize];
        let place = history.first_byte(first.unwrap_or(atom));
        Witness::Store { site, atom, place, part: history.part(&operation, &kept), thread }
    }
}
