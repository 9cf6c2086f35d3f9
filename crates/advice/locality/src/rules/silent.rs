//! Silent stores: the value that was there already. Only where values were recorded.

use advise::{Finding, Rule};

use super::case::{Case, percent, ratio};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let options = &case.watcher.options;
    let of = |(site, state): (u32, &crate::sites::SiteState)| {
        (ratio(state.silent, state.stored) >= options.dead_min).then_some((site, state.silent))
    };
    let (silent, sites) = case.rank(case.states().filter_map(of).collect());
    let first = case.watcher.sites.0[sites.first()?.site.0 as usize];
    Some(Finding {
        rule: Rule::SilentStore,
        title: "Stores change nothing".to_owned(),
        evidence: format!(
            "{} of the bytes that {} stores were there already.",
            percent(ratio(first.silent, first.stored)),
            case.label(sites[0].site.0)
        ),
        remedy: "Compare before storing: a line that is not stored to stays clean and with the threads that read it.".to_owned(),
        share: ratio(silent, case.watcher.stored),
        share_of: "bytes stored".to_owned(),
        sites,
    })
}
