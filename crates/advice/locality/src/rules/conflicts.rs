//! Conflict misses: those of the first-level cache that go away when its sets are chosen by a hash. Both were tried.

use advise::{Finding, Rule};

use super::case::{ACCESSES, Case, percent, ratio};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let of = |(site, state): (u32, &crate::sites::SiteState)| {
        let more = state.conflicts.saturating_sub(state.hash_misses);
        (more * 2 >= state.misses_l1 && more > 0 && !state.walks_columns()).then_some((site, more))
    };
    let (conflicts, sites) = case.rank(case.states().filter_map(of).collect());
    let first = case.watcher.sites.0[sites.first()?.site.0 as usize];
    let options = &case.watcher.options;
    Some(Finding {
        rule: Rule::ConflictMisses,
        title: "Lines push each other out of few sets of the cache".to_owned(),
        evidence: format!(
            "{} of the misses of {} in a cache of {} B and {} ways are none in the same cache with its sets chosen by a hash: \
             the lines meet in few sets, as addresses do that are a power of two apart.",
            percent(ratio(first.conflicts.saturating_sub(first.hash_misses), first.misses_l1)),
            case.label(sites[0].site.0),
            options.l1_bytes,
            options.l1_ways,
        ),
        remedy: "Make rows or arrays a line longer than the power of two (64 B of padding), so that they begin in different sets."
            .to_owned(),
        share: ratio(conflicts, case.watcher.accesses),
        share_of: ACCESSES.to_owned(),
        sites,
    })
}
