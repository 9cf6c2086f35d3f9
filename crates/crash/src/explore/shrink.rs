//! From a failing image to the fewest missing stores, and to the moment from which on it fails.

use std::collections::HashSet;

use super::cut::Cut;
use super::search::Search;
use super::why;
use super::window::Window;
use crate::files::is_contents;
use crate::finding::{Finding, Missing, Reason, Witness, is_like};
use crate::history::Item;
use crate::words::Words;
use crate::{Atom, MarkKind, Place, Token};

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
        // What the oracle has, however many other images it is shown on the way.
        let mut shown = self.walker.current.clone();
        debug_assert!(self.walker.changes.is_empty(), "the oracle has the image");
        let end = self.first_failing(&items, &lost, &message, &mut shown);
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
        let missing = match lost.is_empty() {
            true => self.not_made(&items[..end], &mut shown),
            false => self.missing(&lost, &items[..end]),
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

    /// See [`super::Checker::whole_images`].
    pub(super) fn whole_images(&mut self, moments: usize, each: &mut dyn FnMut(Result<(), String>) -> bool) {
        let items: Vec<(usize, Item)> = self.checker.history.items.iter().copied().enumerate().collect();
        let mut shown = self.walker.current.clone();
        for moment in (0..moments).rev() {
            let made = items.len() * moment / (moments - 1).max(1);
            let judged = self.examine_after(&items[..made], &HashSet::new(), &mut shown);
            if !each(judged) {
                break;
            }
        }
        self.walker.changes = shown.difference(&self.walker.current);
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
        let mut missing: Vec<Missing> = Vec::new();
        for at in lost {
            let atom = &history.atoms[at as usize];
            let same =
                missing.iter_mut().find(|other| other.site == atom.site && other.thread == atom.thread);
            match same {
                Some(other) => self.join(other, missed(atom, other.reason)),
                None => missing.push(missed(atom, why::reason(history, made, at))),
            }
        }
        missing
    }

    /// Takes another piece of a store into account. A write's piece may be the file's new length: that is no byte of it, and is told
    /// only if all else is durable.
    pub(super) fn join(&self, whole: &mut Missing, piece: Missing) {
        let of_files = self.checker.history.platform().is_files();
        let is_length = |missing: &Missing| of_files && !is_contents(missing.place);
        match (is_length(whole), is_length(&piece)) {
            (true, false) => *whole = piece,
            (false, true) => {}
            _ => whole.bytes += piece.bytes,
        }
    }
}

/// What is missing with an atom.
pub(super) fn missed(atom: &Atom, reason: Reason) -> Missing {
    Missing {
        site: atom.site,
        thread: atom.thread,
        place: Place(atom.place.0 + u64::from(atom.mask.trailing_zeros())),
        bytes: u64::from(atom.mask.count_ones()),
        reason,
    }
}
