//! Images on which recovery will hang, as far as one can know: they cost the most, and say nothing new.
//!
//! A finding of a recovery that hangs comes with words of the image: the lost ones and what had survived.
//! An image that has the same in all of these, or in which what the same code stored last was lost or had
//! survived in the same way, is *expected* to hang as well. It is given little time, so that
//! what does not hang is judged like any other image. After [`SURE_AFTER`] such images that all hung, one of
//! [`SAMPLED`] is examined; as soon as one does not hang, all are again.

use super::expected::{Expected, Hang};
use super::search::Search;
use super::window::Window;
use crate::finding::{Finding, Missing, Reason, Witness};
use crate::history::Item;
use crate::words::merge;
use crate::{Checker, Ending, Patience, Place};
use event::SiteId;

/// Expected images that have to hang before not all are examined.
const SURE_AFTER: u64 = 64;
/// Then one of so many is.
const SAMPLED: u64 = 8;

/// Items among which the last store of a piece of code is looked for.
const LOOKED_BACK: usize = 4096;

impl Search<'_, '_, '_> {
    /// Whether the image that the walker has hangs like a known one.
    pub(super) fn expected(&mut self) -> Expected {
        let current = &self.walker.current;
        let alike = |hang: &Hang| {
            hang.words.iter().all(|&(place, word)| current.get(place) == word) || self.is_alike(hang)
        };
        let Some(at) = self.hangs.iter().position(alike) else { return Expected::No };
        let hang = &mut self.hangs[at];
        hang.met += 1;
        match hang.met <= SURE_AFTER || hang.met.is_multiple_of(SAMPLED) {
            true => Expected::Examined(at),
            false => Expected::Skipped,
        }
    }

    /// Whether the code that a finding blames stored last what is lost here, or has survived, as there.
    fn is_alike(&self, hang: &Hang) -> bool {
        let Checker { history, .. } = self.checker;
        let current = &self.walker.current;
        let survived = |site: SiteId| {
            let passed = history.items[..self.walker.at].iter().rev().take(LOOKED_BACK);
            let mut atoms = passed.filter_map(|item| match *item {
                Item::Atom(at) => Some(&history.atoms[at as usize]),
                _ => None,
            });
            let atom = atoms.find(|atom| atom.site == site)?;
            let word = current.get(atom.place);
            Some(merge(word, atom.value, atom.mask) == word)
        };
        let lost = |missing: &Missing| survived(missing.site) == Some(false);
        let as_there = match hang.finding.witness {
            Some(Witness::Store { site, .. }) => survived(site) == Some(true),
            _ => true,
        };
        as_there && lost_ones(&hang.finding).all(lost)
    }

    /// Examines an image that is expected to hang like this one. If it does, too: the finding that it is
    /// counted with.
    pub(super) fn examine_expected(
        &mut self,
        window: &Window,
        at: usize,
    ) -> (Result<(), String>, Option<usize>) {
        self.patience = Patience::Little;
        let judged = self.examine(window);
        self.patience = Patience::Full;
        let hung = judged.is_err() && self.oracle.ending() == Ending::Hung;
        let hang = &mut self.hangs[at];
        if !hung {
            hang.met = 0;
            return (judged, None);
        }
        let known = self.outcome.findings.iter().position(|known| known.is_same(&hang.finding));
        if let Some(known) = known {
            self.outcome.findings[known].images += 1;
        }
        (judged, known)
    }

    /// Learns from a finding of a recovery that hangs, which the walker has the image of.
    pub(super) fn learn(&mut self, finding: &Finding) {
        if finding.ending != Ending::Hung {
            return;
        }
        let survived = match finding.witness {
            Some(Witness::Store { place, .. }) => Some(place),
            _ => None,
        };
        let places = lost_ones(finding).map(|missing| missing.place).chain(survived);
        let words: Vec<(Place, u64)> =
            places.map(Place::word).map(|place| (place, self.walker.current.get(place))).collect();
        if !words.is_empty() {
            self.hangs.push(Hang { finding: finding.clone(), words, met: 0 });
        }
    }

    /// Shrinks a failing image; of one that hangs, with less patience than the first time.
    pub(super) fn shrink_failing(
        &mut self,
        cut: &super::Cut,
        window: &mut Window,
        choices: &[u32],
        message: String,
    ) -> Finding {
        if self.oracle.ending() == Ending::Hung {
            self.patience = Patience::Usual;
        }
        let finding = self.shrink(cut, window, choices, message);
        self.patience = Patience::Full;
        finding
    }
}

/// What was lost. What was never made is missing from other images, too.
fn lost_ones(finding: &Finding) -> impl Iterator<Item = &Missing> {
    finding.missing.iter().filter(|missing| missing.reason != Reason::NotMade)
}
