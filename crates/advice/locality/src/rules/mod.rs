//! What was seen, judged: a file per rule.

mod case;
mod churn;
mod conflicts;
mod dead;
mod leaks;
mod locks;
mod long;
mod node;
mod pages;
mod pointers;
mod prefetch;
mod rows;
mod shared;
mod silent;
mod split;
mod straddled;
pub(crate) mod tier;
mod unread;
mod unused;

use advise::Finding;
use event::{Capabilities, SiteTable};

use crate::watcher::Watcher;
use case::Case;

/// All rules that can be applied.
pub(crate) fn all(watcher: &Watcher, sites: &SiteTable) -> Vec<Finding> {
    let case = Case { watcher, sites, uses: watcher.uses() };
    let sees = watcher.source.as_ref().map_or(Capabilities::all(), |source| source.capabilities);
    if watcher.accesses < watcher.options.accesses_min || !sees.contains(Capabilities::STORES) {
        return Vec::new();
    }
    let mut found = vec![
        split::check(&case),
        shared::check(&case),
        locks::check(&case),
        locks::beside_data(&case),
        node::check(&case),
    ];
    // Bursts lack some blocks, and the ends of others.
    if watcher.source.as_ref().is_none_or(|source| source.sampling.is_none()) {
        found.extend([churn::check(&case), leaks::check(&case), long::check(&case)]);
    }
    if sees.contains(Capabilities::LOADS) {
        found.extend([rows::check(&case), unused::check(&case), pointers::check(&case), pages::check(&case)]);
        found.extend([dead::check(&case), unread::check(&case), conflicts::check(&case)]);
        found.extend([
            straddled::check(&case),
            prefetch::check(&case),
            prefetch::late(&case),
            tier::check(&case),
        ]);
    }
    found.push(silent::check(&case));
    let mut found: Vec<Finding> =
        found.into_iter().flatten().filter(|finding| finding.share >= watcher.options.share_min).collect();
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found
}
