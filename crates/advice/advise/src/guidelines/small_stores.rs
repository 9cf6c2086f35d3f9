//! Guideline 1: avoid random stores smaller than the device's unit.
//!
//! The media is written in whole units (256 B on 3D XPoint): a smaller write becomes a read and a rewrite of
//! its unit unless the device's buffer merges it with its neighbours. The effective write ratio says how much
//! of what the media wrote was asked for. Media bytes in partly new units are this rule's, as far as their
//! site wrote in short runs; a site that writes long runs and still fills units in part lost its order
//! elsewhere (see the late-flush rule).
//!
//! In doubt for the program: a site whose own ratio is good is left alone, however short its runs are.

use event::SiteId;
use machine::SiteMemory;

use super::case::{Case, MEDIA_BYTES};
use super::sizes::SizeHistogram;
use super::words::{bytes, count, part, percent, ratio};
use crate::{Finding, Rule};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    if !case.unit_exceeds_line() || !case.enough_traffic() {
        return None;
    }
    let mut small = SizeHistogram::default();
    let mut parts = Vec::new();
    for (site, memory) in case.site_memories() {
        let caused = part(memory.partial_media_bytes, short_share(case, site));
        if caused > 0 && !writes_well(case, memory) {
            small = small.plus(&short_runs(case, site));
            parts.push((site, caused));
        }
    }
    let ranked = case.rank(parts);
    if ranked.total == 0 {
        return None;
    }
    let unit = bytes(case.unit());
    let typical = bytes(small.typical().unwrap_or(1));
    Some(Finding {
        rule: Rule::SmallRandomStores,
        title: format!("Scattered writes of {typical}, each costing a {unit} media write"),
        evidence: evidence(case, &unit),
        remedy: format!(
            "At {}: gather what belongs together and write it in aligned blocks of {unit} or more (append to a log, \
             batch updates, place fields that change together in one {unit} unit). Where writes must stay small, keep \
             the lines written at a time within 16 KiB per DIMM, so that the DIMM's buffer can merge them.",
            case.place(&ranked.sites)
        ),
        share: ratio(ranked.total, case.media_bytes()).min(1.0),
        share_of: MEDIA_BYTES.to_owned(),
        sites: ranked.sites,
    })
}

fn evidence(case: &Case<'_>, unit: &str) -> String {
    let all = case.totals.temporal.plus(&case.totals.non_temporal);
    let short = all.below(case.unit());
    let traffic = &case.figures.focus().total;
    let ewr = traffic.ewr().map_or_else(|| "unknown".to_owned(), |ewr| format!("{ewr:.2}"));
    format!(
        "{}{} of {} writes to {} ({}) were shorter than {unit}, and {} written by the controller became {} on the \
         media: an effective write ratio (EWR) of {ewr}, with {} units read before they could be rewritten.",
        case.condition(),
        count(short.total_writes()),
        count(all.total_writes()),
        case.memory(),
        percent(ratio(short.total_writes(), all.total_writes())),
        bytes(traffic.controller_write_bytes),
        bytes(traffic.media_write_bytes),
        count(traffic.read_modify_writes),
    )
}

/// Whether what the site wrote was merged well enough all the same.
fn writes_well(case: &Case<'_>, memory: &SiteMemory) -> bool {
    ratio(memory.controller_write_bytes, memory.media_write_bytes) >= case.options.ewr_good
}

fn short_runs(case: &Case<'_>, site: SiteId) -> SizeHistogram {
    let sizes = case.sizes(site);
    sizes.temporal.plus(&sizes.non_temporal).below(case.unit())
}

/// Share of short runs in the units that the site wrote, if each short run takes one unit.
fn short_share(case: &Case<'_>, site: SiteId) -> f64 {
    let sizes = case.sizes(site);
    let all = sizes.temporal.plus(&sizes.non_temporal);
    let short = all.below(case.unit());
    let long_units = (all.total_bytes() - short.total_bytes()) / case.unit().max(1);
    ratio(short.total_writes(), short.total_writes().saturating_add(long_units))
}
