//! Fences that order nothing.
//!
//! A store fence with no store, non-temporal store or flush of its thread since the fence before is useless.
//! A full fence orders loads as well, and not every load can be seen, so only one that stands right behind
//! another full fence is called useless.
//!
//! In doubt for the program: locked instructions are never accused, nor is a fence behind one; neither is a
//! thread's first fence, nor one behind a lock, an allocation or a mapping, which store where no event tells.

use super::case::Case;
use super::words::{count, percent, ratio};
use crate::{Finding, Rule};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let parts = case.evidence.orderings().map(|(site, counts)| (site, counts.useless)).collect();
    let ranked = case.rank(parts);
    if ranked.total < case.options.count_min.max(1) {
        return None;
    }
    let fences: u64 = case.evidence.orderings().map(|(_, counts)| counts.fences).sum();
    let share = ratio(ranked.total, fences).min(1.0);
    Some(Finding {
        rule: Rule::UselessFence,
        title: format!("Fences with nothing to order: {} of all fences", percent(share)),
        evidence: format!(
            "Before {} of {} fences, their thread had stored and flushed nothing since its fence before (as far as \
             its code was observed).",
            count(ranked.total),
            count(fences)
        ),
        remedy: format!(
            "At {}: fence only if something was flushed or stored non-temporally; in a helper that flushes and fences, \
             leave the fence to the caller, who knows when the update is complete.",
            case.place(&ranked.sites)
        ),
        share,
        share_of: "fences".to_owned(),
        sites: ranked.sites,
    })
}
