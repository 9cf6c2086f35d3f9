//! Blocks that are there at the end although others of their site were freed: what a program keeps on purpose, it keeps whole.

use advise::{Finding, Rule};

use super::case::{Case, percent, ratio};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let options = &case.watcher.options;
    let all: u64 = case.watcher.heap.sites.values().map(|of| of.bytes).sum();
    let of = |(&site, of): (&u32, &crate::Structure)| {
        let left = of.blocks - of.freed;
        if of.freed == 0 || of.blocks < options.blocks_min || left * 20 < of.blocks {
            return None;
        }
        // What lives on for a purpose is used again, or is no older than what was freed.
        let life = of.lived / of.freed;
        let (ages, count, used) = case.watcher.heap.left(site, case.watcher.accesses, life * 20 + 1000);
        (ages > life * 20 * count && used * 10 < count).then_some((site, of.live))
    };
    let (live, sites) = case.rank(case.watcher.heap.sites.iter().filter_map(of).collect());
    let first = &case.watcher.heap.sites[&sites.first()?.site.0];
    Some(Finding {
        rule: Rule::Leak,
        title: "Some blocks are never freed".to_owned(),
        evidence: format!(
            "Of the {} blocks that {} allocates, {} ({} of them) were freed; {} B were left at the end.",
            first.blocks,
            case.allocator(sites[0].site.0),
            first.freed,
            percent(ratio(first.freed, first.blocks)),
            first.live
        ),
        remedy: "Free them where their like are freed: a path that returns early leaves them out, as a rule."
            .to_owned(),
        share: ratio(live, all),
        share_of: "bytes allocated".to_owned(),
        sites,
    })
}
