//! Blocks that are kept when they are not needed any more, at the time when most memory is in use.

use advise::{Finding, Rule};

use super::case::{Case, percent, ratio};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let options = &case.watcher.options;
    let peak = case.watcher.heap.peak;
    if peak < options.peak_min {
        return None;
    }
    let peaks = case.watcher.heap.at_peak(case.watcher.accesses);
    let idle = peaks.iter().map(|(&site, of)| (site, of.1)).filter(|of| of.1 * 20 >= peak).collect();
    let (idle, sites) = case.rank(idle);
    if idle * 5 < peak {
        return None;
    }
    let first = &case.watcher.heap.sites[&sites.first()?.site.0];
    let end = match first.live {
        0 => "freed later".to_owned(),
        live => format!("{live} B never freed"),
    };
    let (at_peak, own) = peaks[&sites[0].site.0];
    Some(Finding {
        rule: Rule::LivesTooLong,
        title: "Blocks are kept long after their last use".to_owned(),
        evidence: format!(
            "When most memory was in use, {peak} B, blocks that {} allocates had {at_peak} B of it, and {} of these had been used \
             for the last time; {end}.",
            case.allocator(sites[0].site.0),
            percent(ratio(own, at_peak)),
        ),
        remedy:
            "Free them after their last use, before more is allocated, or use them again for what comes next."
                .to_owned(),
        share: ratio(idle, peak),
        share_of: "bytes live at most".to_owned(),
        sites,
    })
}
