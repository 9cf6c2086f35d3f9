//! Flushes that write nothing back.
//!
//! A flush occupies the core's line fill buffers and, with `clflushopt` and `clflush`, throws the line out,
//! changed or not. A **redundant** flush repeats one that the same thread has already made, with no store in
//! between. A **clean** flush is of a line that nobody stored to, or that was only written around the cache,
//! where a fence is enough.
//!
//! In doubt for the program: a line that another thread flushed may have to be flushed again by one that
//! depends on it; a line whose history was forgotten counts as changed; and the machine must have found as
//! many flushes without a dirty line. Neither sees stores by system calls and by code that was not observed,
//! and the evidence says so.

use event::SiteId;

use super::case::{Case, Ranked};
use super::words::{count, percent, ratio};
use crate::{Finding, Rule};

/// Lines flushed again although nothing was stored in between.
pub(super) fn redundant(case: &Case<'_>) -> Option<Finding> {
    let parts = case.evidence.orderings().map(|(site, counts)| (site, counts.redundant)).collect();
    let ranked = case.rank(parts);
    if ranked.total < case.options.count_min.max(1) {
        return None;
    }
    let place = case.place(&ranked.sites);
    let first = ranked.sites.first().map(|first| first.site);
    let before = case
        .evidence
        .orderings()
        .find(|&(site, _)| Some(site) == first)
        .and_then(|(_, counts)| counts.flushed_before);
    let whereabouts = match before {
        Some(site) if Some(site) == first => format!(" {place} flushes the same line repeatedly."),
        Some(site) => format!(" {place} flushes lines that {} has flushed.", case.sites.label(site)),
        None => String::new(),
    };
    Some(finding(
        case,
        Rule::RedundantFlush,
        "Lines are flushed twice",
        "were of a line that the same thread had flushed and nobody had stored to since",
        &whereabouts,
        format!(
            "At {place}: flush a line once, after its last field is written: collect the lines of an \
             update, drop duplicates, flush, then fence once."
        ),
        ranked,
    ))
}

/// Lines flushed that held no change.
pub(super) fn clean(case: &Case<'_>) -> Option<Finding> {
    let parts: Vec<(SiteId, u64)> = case
        .evidence
        .orderings()
        .map(|(site, counts)| {
            let machine = case.figures.sites.get(site.0 as usize).map_or(0, |figures| figures.clean_flushes);
            (site, counts.clean.min(machine.saturating_sub(counts.redundant)))
        })
        .collect();
    let ranked = case.rank(parts);
    if ranked.total < case.options.count_min.max(1) {
        return None;
    }
    let remedy = format!(
        "At {}: flush only lines that were stored to, and not those written with non-temporal stores: for these a \
         fence is enough. A flush of a whole object after changing one field is the usual cause.",
        case.place(&ranked.sites)
    );
    Some(finding(
        case,
        Rule::CleanFlush,
        "Flushed lines hold no change",
        "were of a line that no observed store had changed, or only a non-temporal one (stores by system calls and by \
         code that was not observed are not known)",
        "",
        remedy,
        ranked,
    ))
}

fn finding(
    case: &Case<'_>,
    rule: Rule,
    title: &str,
    fault: &str,
    more: &str,
    remedy: String,
    ranked: Ranked,
) -> Finding {
    let flushes: u64 = case.evidence.orderings().map(|(_, counts)| counts.flushes).sum();
    let share = ratio(ranked.total, flushes).min(1.0);
    Finding {
        rule,
        title: format!("{title}: {} of all flushes", percent(share)),
        evidence: format!(
            "{} of {} flushes of {} {fault}.{more}",
            count(ranked.total),
            count(flushes),
            case.memory()
        ),
        remedy,
        share,
        share_of: "flushes".to_owned(),
        sites: ranked.sites,
    }
}
