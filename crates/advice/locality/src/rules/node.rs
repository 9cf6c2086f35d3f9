//! Data on the node of another thread: systems put a page where it is touched first.

use advise::{Finding, Rule};

use super::case::{Case, MISSES, percent, ratio};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let pages = &case.watcher.pages;
    let options = &case.watcher.options;
    if pages.remote < options.lines_min || pages.remote * 5 < pages.misses {
        return None;
    }
    let (_, sites) = case
        .rank(case.states().map(|(site, state)| (site, state.remote)).filter(|part| part.1 > 0).collect());
    let mut pairs: Vec<_> = pages.pairs.iter().collect();
    pairs.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let &(&(first, user), _) = pairs.first()?;
    Some(Finding {
        rule: Rule::WrongNode,
        title: "Data lies on the node of another thread".to_owned(),
        evidence: format!(
            "{} of the misses go to pages that a thread of another of the {} nodes touched first, if threads go round the {} cores; \
             most often thread {user} uses what thread {first} touched. Most are in {}.",
            percent(ratio(pages.remote, pages.misses)),
            options.nodes,
            options.cores,
            case.label(sites.first()?.site.0),
        ),
        remedy: "Let each thread initialise the part that it uses, and bind threads to cores; where all use all, spread the pages \
                 (numactl --interleave, mbind). strandline plan weighs what goes where."
            .to_owned(),
        share: ratio(pages.remote, case.watcher.misses),
        share_of: MISSES.to_owned(),
        sites,
    })
}
