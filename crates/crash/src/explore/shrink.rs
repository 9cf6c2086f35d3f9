//! From a failing image to the fewest missing stores, and to the moment from which on it fails.

use std::collections::HashSet;

use event::SiteId;

use super::cut::Cut;
use super::search::Search;
use super::window::Window;
use crate::finding::{Finding, Missing, Reason, Witness, is_like};
use crate::history::Item;
use crate::words::Words;
use crate::{Atom, MarkKind, Place, Platform, Token};

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
        self.tell(cut, window, &choices, message)
    }

    fn fails_like(&mut self, window: &mut Window, choices: &[u32], message: &str) -> bool {
        window.set(&mut self.walker, choices);
        self.examine(window).is_err_and(|other| is_like(&other, message))
    }

    /// Describes a failing image, which the oracle was shown last.
    pub(super) fn tell(
        &mut self,
        cut: &Cut,
        window: &mut Window,
        choices: &[u32],
        message: String,
    ) -> Finding {
        let history = self.checker.history;
        let lost: HashSet<u32> = window.lost(choices).collect();
        let items = self.items_of(cut);
        let end = self.first_failing(&items, &lost, &message);
        let witness = end.checked_sub(1).and_then(|at| match items[at].1 {
            Item::Atom(at) if !lost.contains(&at) => {
                let atom = &history.atoms[at as usize];
                Some(Witness::Store { site: atom.site, place: atom.place, thread: atom.thread })
            }
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
        Finding {
            token: Token::new(
                history,
                cut.clone(),
                chosen.map(|(at, &choice)| (at as u32, choice)).collect(),
            ),
            message,
            missing: if lost.is_empty() { self.next_store(crash) } else { self.missing(&lost, crash) },
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
    fn first_failing(&mut self, items: &[(usize, Item)], lost: &HashSet<u32>, message: &str) -> usize {
        let mut shown = self.walker.current.clone();
        let first_lost =
            items.iter().position(|(_, item)| matches!(item, Item::Atom(at) if lost.contains(at)));
        // Before the first loss the image is one without losses.
        let mut low = first_lost.unwrap_or(0);
        let mut high = items.len();
        while low < high {
            let middle = low.midpoint(high);
            if self.fails_after(&items[..middle], lost, message, &mut shown) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        // Back to what the walker thinks that the oracle has.
        self.walker.changes = shown.difference(&self.walker.current);
        high
    }

    fn fails_after(
        &mut self,
        items: &[(usize, Item)],
        lost: &HashSet<u32>,
        message: &str,
        shown: &mut Words<'_>,
    ) -> bool {
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
                _ => {}
            }
        }
        self.walker.changes = shown.difference(&words);
        let failed = self.examine_with(0, &marks, begun, ended).is_err_and(|other| is_like(&other, message));
        shown.become_like(&words);
        failed
    }

    /// What the lost atoms have in common, by code, and why nothing kept them.
    fn missing(&self, lost: &HashSet<u32>, crash: usize) -> Vec<Missing> {
        let history = self.checker.history;
        let mut lost: Vec<u32> = lost.iter().copied().collect();
        lost.sort_unstable();
        let mut missing: Vec<Missing> = Vec::new();
        for at in lost {
            let atom = &history.atoms[at as usize];
            let same =
                missing.iter_mut().find(|other| other.site == atom.site && other.thread == atom.thread);
            match same {
                Some(other) => other.bytes += u64::from(atom.mask.count_ones()),
                None => missing.push(Missing {
                    site: atom.site,
                    thread: atom.thread,
                    place: Place(atom.place.0 + u64::from(atom.mask.trailing_zeros())),
                    bytes: u64::from(atom.mask.count_ones()),
                    reason: self.reason(at, crash),
                }),
            }
        }
        missing
    }

    /// The store that the thread of the item `crash` made next.
    fn next_store(&self, crash: usize) -> Vec<Missing> {
        let history = self.checker.history;
        let thread = match history.items.get(crash) {
            Some(&Item::Atom(at)) => history.atoms[at as usize].thread,
            Some(&Item::Mark(at)) => history.marks[at as usize].thread,
            _ => return Vec::new(),
        };
        let next = history.items.iter().skip(crash + 1).find_map(|item| match item {
            Item::Atom(at) => Some(&history.atoms[*at as usize]).filter(|atom| atom.thread == thread),
            _ => None,
        });
        let missing = |atom: &Atom| Missing {
            site: atom.site,
            thread,
            place: Place(atom.place.0 + u64::from(atom.mask.trailing_zeros())),
            bytes: u64::from(atom.mask.count_ones()),
            reason: Reason::NotMade,
        };
        next.map(missing).into_iter().collect()
    }

    /// Which sync an atom of a file is still waiting for.
    fn synced(&self, atom: u32) -> Reason {
        let atoms = &self.checker.history.atoms;
        let cell = atoms[atom as usize].cell;
        let covers = |&&at: &&u32| at >= atom && atoms[at as usize].cell == cell;
        let mut barriers = self.checker.history.barriers.iter();
        let found = barriers.find(|barrier| barrier.demands.iter().find(covers).is_some());
        found.map_or(Reason::NeverFlushed, |barrier| Reason::FlushedLater(barrier.site))
    }

    /// Why an atom need not have survived a crash right after the item `crash`.
    fn reason(&self, atom: u32, crash: usize) -> Reason {
        let history = self.checker.history;
        let lost = &history.atoms[atom as usize];
        match history.platform {
            Platform::Epoch | Platform::Strand => return Reason::Unordered,
            Platform::Posix | Platform::Ext4 => return self.synced(atom),
            _ if lost.non_temporal => return Reason::NotFenced(SiteId::UNKNOWN),
            _ => {}
        }
        let stored = history.items.iter().position(|&item| item == Item::Atom(atom)).unwrap_or(0);
        let flush = history.items.iter().enumerate().skip(stored).find_map(|(at, item)| match item {
            Item::Flush(flush) if history.flushes[*flush as usize].line == lost.place.line() => {
                Some((at, history.flushes[*flush as usize].site))
            }
            _ => None,
        });
        match flush {
            None => Reason::NeverFlushed,
            Some((at, site)) if at < crash => Reason::NotFenced(site),
            Some((_, site)) => Reason::FlushedLater(site),
        }
    }
}
