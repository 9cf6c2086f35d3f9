//! Elements that lie on two lines: nodes or entries that do not begin where lines do.

use advise::{Finding, Rule};

use super::case::{Case, MISSES, percent, ratio};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let options = &case.watcher.options;
    let of = |(site, state): (u32, &crate::sites::SiteState)| {
        let often = state.pairs * 5 >= state.visits && state.pairs * 4 >= options.lines_min;
        (often && state.walks < 4).then_some((site, state.pairs))
    };
    let (pairs, sites) = case.rank(case.states().filter_map(of).collect());
    let first = case.watcher.sites.0[sites.first()?.site.0 as usize];
    Some(Finding {
        rule: Rule::StraddledLines,
        title: "Elements lie on two lines where one would hold them".to_owned(),
        evidence: format!(
            "{} of the {} visits that begin with a miss in {} miss the line beside it, too, for bytes less than 64 B apart.",
            percent(ratio(first.pairs, first.visits)),
            first.visits,
            case.label(sites[0].site.0),
        ),
        remedy: "Let elements begin where lines do, or fill a power of two: aligned_alloc(64, ...), alignas(64), or padding to 16, 32 \
                 or 64 B; or keep what is looked at first (keys, tags) in an array of its own."
            .to_owned(),
        share: ratio(pairs, case.watcher.misses),
        share_of: MISSES.to_owned(),
        sites,
    })
}
