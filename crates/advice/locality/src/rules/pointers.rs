//! Dependent misses: a load goes from block to block, and no array of addresses is read in between.

use advise::{Finding, Rule};

use super::case::{Case, MISSES, ratio};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let options = &case.watcher.options;
    let of = |(site, state): (u32, &crate::sites::SiteState)| {
        // A lookup that ends at once is no chain.
        (state.hops >= options.lines_min && state.hops > state.chains * 4).then_some((site, state.hops))
    };
    let (hops, sites) = case.rank(case.states().filter_map(of).collect());
    let first = case.watcher.sites.0[sites.first()?.site.0 as usize];
    Some(Finding {
        rule: Rule::PointerChase,
        title: "Each miss waits for the one before: a chain of pointers".to_owned(),
        evidence: format!(
            "{} missed the first-level cache {} times in going from one block to another, at byte {} of blocks that {} allocates \
             one by one; only the block before has the address of the next one. Chains are some {} misses long.",
            case.label(sites[0].site.0),
            first.hops,
            first.offset,
            case.allocator(first.from),
            first.hops / first.chains.max(1)
        ),
        remedy: "Keep the elements in one array (a flat or sorted one, or nodes of many elements), allocate the nodes in the order \
                 in which they are visited, or walk several chains at once and prefetch each one's next node."
            .to_owned(),
        share: ratio(hops, case.watcher.misses),
        share_of: MISSES.to_owned(),
        sites,
    })
}
