//! Several parts of one search, put together.

use std::collections::hash_map::Entry;

use super::Outcome;
use super::fate::Fate;
use crate::Finding;

impl Outcome {
    /// Adds what another part of the same search did. An image that both met counts once.
    pub fn merge(&mut self, mut other: Outcome) {
        self.meet(&mut other);
        self.points += other.points;
        self.points_done += other.points_done;
        self.unfinished += other.unfinished;
        self.cuts += other.cuts;
        self.cut_short += other.cut_short;
        self.images += other.images;
        self.repeated += other.repeated;
        self.expected += other.expected;
        self.failing += other.failing;
        for finding in other.findings {
            match self.findings.iter_mut().find(|known| known.is_same(&finding)) {
                Some(known) => {
                    known.images += finding.images;
                    if finding.token.cut.point < known.token.cut.point {
                        *known = Finding { images: known.images, ..finding };
                    }
                }
                None => self.findings.push(Finding { images: finding.images.max(1), ..finding }),
            }
        }
        self.findings.sort_by_key(|finding| finding.token.cut.point);
    }

    /// Takes over the images that another part met; what this one met, too, the other has only repeated.
    fn meet(&mut self, other: &mut Outcome) {
        for (key, fate) in std::mem::take(&mut other.met) {
            match self.met.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(fate);
                }
                Entry::Occupied(mut entry) => {
                    let examined = *entry.get() != Fate::Expected;
                    if !examined && fate != Fate::Expected {
                        // The other part knows more.
                        entry.insert(fate);
                        self.expected -= 1;
                    } else {
                        other.forget(fate);
                    }
                    self.repeated += 1;
                }
            }
        }
    }

    /// Another part has counted the image.
    fn forget(&mut self, fate: Fate) {
        match fate {
            Fate::Expected => self.expected -= 1,
            Fate::Right => self.images -= 1,
            Fate::Wrong(finding) => {
                self.images -= 1;
                self.failing -= 1;
                if let Some(finding) = finding.and_then(|at| self.findings.get_mut(at)) {
                    finding.images -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_two_parts_met_counts_once() {
        let part = |met: &[(u128, Fate)]| {
            let count = |which: fn(Fate) -> bool| met.iter().filter(|(_, fate)| which(*fate)).count() as u64;
            Outcome {
                images: count(|fate| fate != Fate::Expected),
                failing: count(|fate| matches!(fate, Fate::Wrong(_))),
                expected: count(|fate| fate == Fate::Expected),
                met: met.iter().copied().collect(),
                ..Outcome::default()
            }
        };
        let (right, wrong, expected) = (Fate::Right, Fate::Wrong(None), Fate::Expected);
        let mut whole = Outcome::default();
        whole.merge(part(&[(1, right), (2, wrong), (3, expected), (4, expected), (5, wrong)]));
        whole.merge(part(&[(1, right), (2, wrong), (3, expected), (4, wrong), (5, expected), (6, right)]));
        // 1, 2, 4, 5 and 6 were examined, of which 2, 4 and 5 fail; 3 was not.
        assert_eq!((whole.images, whole.failing, whole.expected, whole.repeated), (5, 3, 1, 5));
    }
}
