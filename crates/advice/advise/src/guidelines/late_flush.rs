//! Guideline 2, second half: control what leaves the cache, and when.
//!
//! A cache evicts lines in an order that has little to do with the one they were written in. A long
//! sequential write that is left to eviction arrives at the device scattered, and its units are written in
//! pieces. When within some megabytes a flush comes does not matter; that it comes before the eviction does.
//!
//! The rule asks the machine which bytes of persistent memory left by eviction, and counts those of sites
//! that write in runs of a unit or more: flushing short scattered runs sooner would not help (that is the
//! small-stores rule's). What is never flushed but stays cached to the end is not traffic, and whether it is
//! safe is not judged here.

use event::SiteId;
use machine::SiteMemory;

use super::case::{Case, MEDIA_BYTES};
use super::words::{bytes, count, part, percent, ratio};
use crate::{Finding, Rule};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    if !case.mapped() || !case.enough_traffic() {
        return None;
    }
    let (mut evicted, mut written, mut changed) = (0, 0, 0_u64);
    let mut parts = Vec::new();
    for (site, memory) in case.site_memories() {
        let caused = caused(case, site, memory);
        if caused > 0 {
            evicted += memory.evicted_bytes;
            written += case.evidence.sizes(site, true).temporal.total_bytes();
            changed += case.evidence.changed_bytes(site);
            parts.push((site, caused));
        }
    }
    let ranked = case.rank(parts);
    if ranked.total == 0 {
        return None;
    }
    let (late, flushes) =
        case.evidence.orderings().fold((0, 0), |sum, (_, site)| (sum.0 + site.late, sum.1 + site.flushes));
    let distance = bytes(case.options.late_flush_bytes);
    let how = match (flushes, late) {
        (0, _) => "The program flushed none of its lines.".to_owned(),
        (_, 0) => format!("Of {} flushes none came late, so these lines were not flushed.", count(flushes)),
        _ => format!(
            "{} of {} flushes came only after more than {distance} of other lines had been written.",
            count(late),
            count(flushes)
        ),
    };
    let what = if flushes > 0 && late > 0 { "flushed too late" } else { "left to eviction" };
    Some(Finding {
        rule: Rule::LateFlush,
        title: format!("Sequentially written lines are {what}"),
        evidence: format!(
            "{} of the {} that reached persistent memory ({}) left the cache by eviction, in the cache's order, \
             although written in runs of {} or more. {how}",
            bytes(evicted),
            bytes(case.figures.focus().total.controller_write_bytes),
            percent(ratio(evicted, case.figures.focus().total.controller_write_bytes)),
            bytes(case.unit()),
        ),
        remedy: remedy(case, &case.place(&ranked.sites), ratio(changed, written)),
        share: ratio(ranked.total, case.media_bytes()).min(1.0),
        share_of: MEDIA_BYTES.to_owned(),
        sites: ranked.sites,
    })
}

/// What to do at `place`, if the part `changed` of what is written there is changed soon by other code.
fn remedy(case: &Case<'_>, place: &str, changed: f64) -> String {
    let distance = bytes(case.options.late_flush_bytes);
    let (around, unless) = if changed > case.options.changed_share_max {
        let unless = format!(
            " Other code changes {} of it again soon: flush behind that change, and don't use non-temporal stores, for each \
             change would read its line back.",
            percent(changed)
        );
        ("", unless)
    } else {
        (", or write the run with non-temporal stores,", String::new())
    };
    format!(
        "At {place}: flush (`clwb`) each line right after its last store{around} and fence once behind the run; at the \
         latest after {distance}.{unless} If the file is made durable by `msync`, this still spares the media."
    )
}

/// Media bytes of a site that long runs caused by leaving through eviction.
fn caused(case: &Case<'_>, site: SiteId, memory: &SiteMemory) -> u64 {
    let sizes = case.sizes(site).temporal;
    let long = sizes.total_bytes() - sizes.below(case.unit()).total_bytes();
    let share = ratio(memory.evicted_bytes, memory.controller_write_bytes) * ratio(long, sizes.total_bytes());
    part(memory.media_write_bytes, share)
}
