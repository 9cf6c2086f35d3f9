//! Walks against the rows of a matrix: a constant stride of lines, then the next column.

use advise::{Finding, Rule};

use super::case::{ACCESSES, Case, percent, ratio};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let of = |(site, state): (u32, &crate::sites::SiteState)| {
        // What stays in the caches costs little.
        (state.walks_columns() && state.misses_l1 * 3 >= state.accesses).then_some((site, state.walked))
    };
    let (walked, sites) = case.rank(case.states().filter_map(of).collect());
    let first = case.watcher.sites.0[sites.first()?.site.0 as usize];
    let length = first.walked / first.walks.max(1);
    let block = (case.watcher.options.l1_bytes / 2 / 64).min(length.max(1));
    Some(Finding {
        rule: Rule::AgainstTheRows,
        title: "A matrix is walked against its rows".to_owned(),
        evidence: format!(
            "{} goes {} B per step, {length} steps, and then begins again {} B further: {} walks, {} of whose accesses miss \
             the first-level cache.",
            case.label(sites[0].site.0),
            first.walk_stride,
            first.walk_step,
            first.walks,
            percent(ratio(first.misses_l1, first.accesses))
        ),
        remedy: format!(
            "Exchange the two loops, so that the inner one goes along the row; where that can't be, go through blocks of {block} \
             rows, which stay in the first-level cache."
        ),
        share: ratio(walked, case.watcher.accesses),
        share_of: ACCESSES.to_owned(),
        sites,
    })
}
