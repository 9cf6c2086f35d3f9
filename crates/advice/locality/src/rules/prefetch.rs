//! Misses whose addresses an array holds that is read in order: they could be asked for long before. And
//! those that are asked for, but only a moment before.

use advise::{Finding, Rule};

use super::case::{Case, MISSES, percent, ratio};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let options = &case.watcher.options;
    let of = |(site, state): (u32, &crate::sites::SiteState)| {
        // A program that prefetches most of them knows what it does.
        let asked = state.prefetched >= state.indexed;
        let known = state.indexed >= options.lines_min && state.indexed >= state.unindexed * 3 && !asked;
        // What follows a stride, hardware fetches by itself; what is read from the block before can't be known.
        let other = state.walks >= 4 || state.hops * 4 >= state.indexed || state.steady * 2 >= state.jumps;
        (known && !other).then_some((site, state.indexed))
    };
    let (misses, sites) = case.rank(case.states().filter_map(of).collect());
    let first = case.watcher.sites.0[sites.first()?.site.0 as usize];
    Some(Finding {
        rule: Rule::MissingPrefetch,
        title: "Misses wait although their addresses are known long before".to_owned(),
        evidence: format!(
            "{} missed the first-level cache {} times at addresses without a stride, {} of them right after an array was read in \
             order: its next elements say where the next misses are.",
            case.label(sites[0].site.0),
            first.indexed + first.unindexed,
            percent(ratio(first.indexed, first.indexed + first.unindexed)),
        ),
        remedy: format!(
            "Prefetch {} elements ahead: __builtin_prefetch(&table[index[i + {}]]); sooner, if it still waits.",
            crate::trial::AHEAD,
            crate::trial::AHEAD
        ),
        share: ratio(misses, case.watcher.misses),
        share_of: MISSES.to_owned(),
        sites,
    })
}

/// Accesses between a prefetch and its load that may be too few: what they take together is less than a miss
/// does.
const SHORT: u64 = 32;

/// Lines that are asked for too late. Whether the load still waits, the trial says.
pub(super) fn late(case: &Case<'_>) -> Option<Finding> {
    let options = &case.watcher.options;
    let of = |(site, state): (u32, &crate::sites::SiteState)| {
        let short = state.ahead < state.prefetched * SHORT;
        (state.prefetched >= options.lines_min && short).then_some((site, state.prefetched))
    };
    let (misses, sites) = case.rank(case.states().filter_map(of).collect());
    let first = case.watcher.sites.0[sites.first()?.site.0 as usize];
    Some(Finding {
        rule: Rule::LatePrefetch,
        title: "Prefetches come too late".to_owned(),
        evidence: format!(
            "{} misses {} times lines that {} asked for only {} accesses before, on average.",
            case.label(sites[0].site.0),
            first.prefetched,
            case.label(first.prefetcher),
            first.ahead / first.prefetched.max(1),
        ),
        remedy: format!("Prefetch more elements ahead: {} or more.", crate::trial::AHEAD),
        share: ratio(misses, case.watcher.misses),
        share_of: MISSES.to_owned(),
        sites,
    })
}
