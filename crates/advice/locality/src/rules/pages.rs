//! More pages in use than the TLB reaches, where large pages would help: both were tried on the same accesses.

use advise::{Finding, Rule};

use super::case::{ACCESSES, Case, percent, ratio};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let options = &case.watcher.options;
    if options.huge_pages {
        return None;
    }
    let small: u64 = case.states().map(|(_, state)| state.tlb_misses).sum();
    let large = case.watcher.large_tlb_misses();
    if ratio(small, case.watcher.accesses) < options.tlb_misses_min || large * 4 > small {
        return None;
    }
    let (_, sites) = case.rank(
        case.states().map(|(site, state)| (site, state.tlb_misses)).filter(|part| part.1 > 0).collect(),
    );
    Some(Finding {
        rule: Rule::TlbReach,
        title: "More pages are in use than the TLB reaches".to_owned(),
        evidence: format!(
            "{small} accesses ({}) miss a TLB of {} pages of 4 KiB; tried with pages of 2 MiB, {large} do. Most are in {}.",
            percent(ratio(small, case.watcher.accesses)),
            options.tlb_entries,
            case.label(sites.first()?.site.0)
        ),
        remedy: "Put the data on pages of 2 MiB: madvise(MADV_HUGEPAGE) on memory aligned to 2 MiB, or mmap with MAP_HUGETLB."
            .to_owned(),
        share: ratio(small - large, case.watcher.accesses),
        share_of: ACCESSES.to_owned(),
        sites,
    })
}
