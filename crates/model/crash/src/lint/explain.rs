//! Which findings are the fault of a flush that a lint names.

use std::collections::HashMap;

use event::SiteId;

use super::{Kind, Lint};
use crate::{Finding, Place, Reason};

/// Gives missing stores that a flush was meant for, and which reached only a pointer to them, that flush as
/// the [`Reason`]. Of the findings that lack nothing else, one remains for each such flush, with the images
/// of all.
///
/// `lints` are those of the run, `files` the files by the numbers in their places; `own` are those by the
/// numbers in the findings'.
pub fn explain(findings: &mut Vec<Finding>, own: &[String], lints: &[Lint], files: &[String]) {
    let missed = missed(own, lints, files);
    if missed.is_empty() {
        return;
    }
    let mut known: HashMap<SiteId, usize> = HashMap::new();
    let mut kept: Vec<Finding> = Vec::new();
    for mut finding in findings.drain(..) {
        for missing in &mut finding.missing {
            let flush = missed.get(&(missing.site, missing.place.line()));
            if let (Reason::NeverFlushed, Some(&flush)) = (missing.reason, flush) {
                missing.reason = Reason::PointerFlushed(flush);
            }
        }
        let same = cause(&finding).map(|flush| *known.entry(flush).or_insert(kept.len()));
        match same.and_then(|at| kept.get_mut(at)) {
            Some(first) => first.images += finding.images,
            None => kept.push(finding),
        }
    }
    *findings = kept;
}

/// The flush that is at fault for all that is missing.
fn cause(finding: &Finding) -> Option<SiteId> {
    let flush = |reason| match reason {
        Reason::PointerFlushed(flush) => Some(flush),
        _ => None,
    };
    let first = flush(finding.missing.first()?.reason)?;
    finding.missing.iter().all(|missing| flush(missing.reason) == Some(first)).then_some(first)
}

/// Code and line of the stores that flushes were meant for, by the files' numbers in `own`.
fn missed(own: &[String], lints: &[Lint], files: &[String]) -> HashMap<(SiteId, Place), SiteId> {
    let numbers: HashMap<&String, u16> = own.iter().zip(0..).collect();
    let mut missed = HashMap::new();
    for lint in lints.iter().filter(|lint| lint.kind == Kind::FlushedPointer) {
        for &(site, place) in &lint.missed {
            let number = files.get(usize::from(place.file())).and_then(|file| numbers.get(file));
            if let Some(&number) = number {
                missed.insert((site, Place::new(number, place.offset()).line()), lint.site);
            }
        }
    }
    missed
}
