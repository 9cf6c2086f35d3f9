//! Blocks that are allocated and freed at once, again and again.

use advise::{Finding, Rule};

use super::case::{Case, percent, ratio};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let options = &case.watcher.options;
    let all: u64 = case.watcher.heap.sites.values().map(|of| of.blocks).sum();
    let of = |(&site, of): (&u32, &crate::Structure)| {
        (of.short >= options.blocks_min && of.short * 10 >= of.blocks * 9).then_some((site, of.short))
    };
    let (short, sites) = case.rank(case.watcher.heap.sites.iter().filter_map(of).collect());
    let first = &case.watcher.heap.sites[&sites.first()?.site.0];
    // Few allocations among many accesses cost nothing, whatever their part of all allocations.
    if ratio(short, case.watcher.accesses) < options.share_min / 4.0 {
        return None;
    }
    Some(Finding {
        rule: Rule::AllocationChurn,
        title: "Blocks are allocated and freed again at once".to_owned(),
        evidence: format!(
            "{} of the {} blocks ({} B on average) that {} allocates are freed within {} accesses; no more than {} B of them were \
             in use at once.",
            percent(ratio(first.short, first.blocks)),
            first.blocks,
            first.bytes / first.blocks.max(1),
            case.allocator(sites[0].site.0),
            options.short_life,
            first.peak
        ),
        remedy: "Allocate once outside the loop and use the block again, or put it on the stack.".to_owned(),
        share: ratio(short, all),
        share_of: "blocks allocated".to_owned(),
        sites,
    })
}
