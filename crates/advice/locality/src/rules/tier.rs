//! Few bytes that have most misses, on memory slower than DRAM.

use advise::{Finding, Rule, SiteShare};
use event::SiteId;

use super::case::{Case, MISSES, percent, ratio};

/// Allocation sites whose blocks have four fifths of the misses and at most half of the bytes, busiest first.
pub(crate) fn busy(watcher: &crate::Watcher) -> Vec<(u32, u64)> {
    let heap = &watcher.heap.sites;
    let mut all: Vec<(u32, u64, u64)> = heap
        .iter()
        .filter(|of| of.1.fetches > 0)
        .map(|(&site, of)| (site, of.fetches, of.peak.max(64)))
        .collect();
    all.sort_by(|a, b| {
        (u128::from(b.1) * u128::from(a.2)).cmp(&(u128::from(a.1) * u128::from(b.2))).then(a.0.cmp(&b.0))
    });
    let fetches: u64 = all.iter().map(|of| of.1).sum();
    let bytes: u64 = all.iter().map(|of| of.2).sum();
    let (mut found, mut taken, mut size) = (Vec::new(), 0, 0);
    for (site, own, peak) in all {
        if taken * 5 >= fetches * 4 {
            break;
        }
        (taken, size) = (taken + own, size + peak);
        found.push((site, own));
    }
    if size * 2 <= bytes && bytes >= watcher.options.peak_min { found } else { Vec::new() }
}

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    if !case.watcher.options.slow_memory {
        return None;
    }
    let found = busy(case.watcher);
    let heap = &case.watcher.heap.sites;
    let fetches: u64 = found.iter().map(|of| of.1).sum();
    let size: u64 = found.iter().map(|of| heap[&of.0].peak).sum();
    let share = |&(site, own): &(u32, u64)| SiteShare { site: SiteId(site), share: ratio(own, fetches) };
    let sites: Vec<SiteShare> = found.iter().take(case.watcher.options.sites_max).map(share).collect();
    Some(Finding {
        rule: Rule::WrongTier,
        title: "Small and busy data lies on a slow tier".to_owned(),
        evidence: format!(
            "{} of the misses go to {size} B, blocks that {} and others like it allocate; all memory of this machine is slower \
             than DRAM.",
            percent(ratio(fetches, case.watcher.misses)),
            case.label(sites.first()?.site.0),
        ),
        remedy: "Allocate these on a DRAM node (numactl --membind, mbind, memkind) and leave the rest where it is; strandline plan \
                 says how much DRAM pays."
            .to_owned(),
        share: ratio(fetches, case.watcher.misses).min(1.0),
        share_of: MISSES.to_owned(),
        sites,
    })
}
