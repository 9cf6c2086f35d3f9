//! Data that is zeroed or copied and written again unread.

use advise::{Finding, Rule};

use super::case::{Case, percent, ratio};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let options = &case.watcher.options;
    let of = |(site, state): (u32, &crate::sites::SiteState)| {
        (ratio(state.dead_large, state.stored) >= options.dead_min).then_some((site, state.dead_large))
    };
    let (dead, sites) = case.rank(case.states().filter_map(of).collect());
    let first = case.watcher.sites.0[sites.first()?.site.0 as usize];
    Some(Finding {
        rule: Rule::OverwrittenUnread,
        title: "Data is zeroed or copied and overwritten unread".to_owned(),
        evidence: format!(
            "{} of the bytes that {} zeroes or copies are written again, unread, by {}.",
            percent(ratio(first.dead_large, first.stored)),
            case.label(sites[0].site.0),
            case.label(first.over)
        ),
        remedy: "Leave out the zeroing or the copy (malloc instead of calloc, resize without values), or do it once.".to_owned(),
        share: ratio(dead, case.watcher.stored),
        share_of: "bytes stored".to_owned(),
        sites,
    })
}
