//! What does not yet keep a rule, in `ratchet.txt`: a rule, a subject and how far it may go. Entries only
//! shrink.

use std::collections::{BTreeMap, BTreeSet};

/// The file's entries.
pub struct Ratchet {
    /// `width base/event 12`: the rule, the subject, the number.
    counts: BTreeMap<(String, String), usize>,
    /// `circle base/event a.rs b.rs`: the crate and the files.
    circles: BTreeSet<(String, Vec<String>)>,
}

impl Ratchet {
    /// Reads the entries; lines that begin with `#` are comments.
    pub fn read(text: &str) -> Ratchet {
        let mut ratchet = Ratchet { counts: BTreeMap::new(), circles: BTreeSet::new() };
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["circle", name, ref files @ ..] => {
                    let files = files.iter().map(|&file| file.to_owned()).collect();
                    ratchet.circles.insert((name.to_owned(), files));
                }
                [rule, ref subject @ .., number] => {
                    let number = number.parse().unwrap_or_else(|e| panic!("ratchet.txt: {line}: {e}"));
                    ratchet.counts.insert((rule.to_owned(), subject.join(" ")), number);
                }
                _ => panic!("ratchet.txt: {line}: not a rule, a subject and a number"),
            }
        }
        ratchet
    }

    /// Holds what a rule found, by subject, against the entries: more than allowed, or an entry that can
    /// shrink by a tenth or more.
    pub fn hold(&self, rule: &str, found: &BTreeMap<String, usize>) -> Vec<String> {
        let mut wrong = Vec::new();
        for (subject, &number) in found.iter().filter(|(_, number)| **number > 0) {
            let allowed = self.counts.get(&(rule.to_owned(), subject.clone())).copied().unwrap_or(0);
            if number > allowed {
                wrong.push(format!(
                    "{rule} {subject} {number}: at most {allowed}; if it can't be, put this line in \
                     tidy/ratchet.txt and its reason in the commit"
                ));
            }
        }
        for ((_, subject), &allowed) in self.counts.iter().filter(|((known, _), _)| known == rule) {
            let number = found.get(subject).copied().unwrap_or(0);
            if number * 10 <= allowed * 9 {
                wrong.push(format!(
                    "{rule} {subject} {number}: better than {allowed}, put it in tidy/ratchet.txt"
                ));
            }
        }
        wrong
    }

    /// Holds the circles of a crate against the entries: one that is not part of a known one, or one that is
    /// gone.
    pub fn hold_circles(&self, name: &str, found: &[Vec<String>]) -> Vec<String> {
        let within = |inner: &Vec<String>, outer: &Vec<String>| inner.iter().all(|file| outer.contains(file));
        let known: Vec<&Vec<String>> =
            self.circles.iter().filter(|(known, _)| known == name).map(|(_, files)| files).collect();
        let mut wrong = Vec::new();
        for circle in found {
            if !known.iter().any(|outer| within(circle, outer)) {
                wrong.push(format!("circle {name} {}", circle.join(" ")));
            }
        }
        for outer in known {
            if !found.iter().any(|circle| circle == outer) {
                wrong.push(format!(
                    "circle {name} {}: gone or smaller, change tidy/ratchet.txt",
                    outer.join(" ")
                ));
            }
        }
        wrong
    }

    /// The crates whose circles are listed.
    pub fn crates_with_circles(&self) -> impl Iterator<Item = &str> {
        self.circles.iter().map(|(name, _)| name.as_str())
    }
}
