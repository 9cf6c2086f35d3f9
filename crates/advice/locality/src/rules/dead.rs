//! Dead stores: what is stored over before anyone read it.

use advise::{Finding, Rule};

use super::case::{Case, percent, ratio};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let options = &case.watcher.options;
    let of = |(site, state): (u32, &crate::sites::SiteState)| {
        (ratio(state.dead, state.stored) >= options.dead_min).then_some((site, state.dead))
    };
    let (dead, sites) = case.rank(case.states().filter_map(of).collect());
    let first = case.watcher.sites.0[sites.first()?.site.0 as usize];
    Some(Finding {
        rule: Rule::DeadStore,
        title: "Data is stored over before anyone read it".to_owned(),
        evidence: format!(
            "{} of the bytes that {} stores are stored again, unread, by {}.",
            percent(ratio(first.dead, first.stored)),
            case.label(sites[0].site.0),
            case.label(first.over)
        ),
        remedy: "Leave out the first store, or keep the value in a local variable until it is final."
            .to_owned(),
        share: ratio(dead, case.watcher.stored),
        share_of: "bytes stored".to_owned(),
        sites,
    })
}
