//! Guideline 2, first half: use non-temporal stores for large transfers.
//!
//! An ordinary store reads its line before it changes it, holds a place in every cache level, and leaves at a
//! time and in an order of the cache's choosing. A transfer that is going to the device anyway is better
//! written around the cache: no fill, and whole units in order.
//!
//! A transfer is a run, or the piece of it between two points of durability: a log of small records that are
//! made durable one by one is none, and for those flushes are right. Nor is one what is stored over again and
//! again.
//!
//! In doubt for the program: where caches absorb most of what a site stores (a buffer used again and again),
//! they do useful work and nothing is said.

use event::SiteId;
use machine::SiteMemory;

use super::case::Case;
use super::evidence::Transfers;
use super::words::{bytes, count, part, percent, ratio};
use crate::{Finding, Rule};

/// What the share of this rule is a share of.
const STORED_BYTES: &str = "bytes stored";

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    if !case.enough_traffic() {
        return None;
    }
    let mut large = Transfers::default();
    let mut parts = Vec::new();
    for (site, memory) in case.site_memories() {
        let transfers = case.evidence.temporal_transfers(site, case.mapped());
        if let Some(caused) = caused(case, site, memory, transfers) {
            large.writes += transfers.writes;
            large.bytes = large.bytes.saturating_add(transfers.bytes);
            parts.push((site, caused));
        }
    }
    let ranked = case.rank(parts);
    if ranked.total == 0 {
        return None;
    }
    let threshold = bytes(case.options.transfer_bytes);
    let typical = bytes(large.bytes / large.writes.max(1));
    let reads = case.figures.focus().total.controller_read_bytes;
    Some(Finding {
        rule: Rule::TemporalTransfer,
        title: format!("Transfers of {typical} on average are written through the cache"),
        evidence: format!(
            "{}Writes of {threshold} or more in a row ({} of them, {} together) went to {} with ordinary stores: {} of \
             all bytes written there. {} were read from it during the run, the fills of lines that were then \
             overwritten among them.",
            case.condition(),
            count(large.writes),
            bytes(large.bytes),
            case.memory(),
            percent(ratio(large.bytes, stored(case))),
            bytes(reads),
        ),
        remedy: remedy(case, &ranked.sites, &threshold),
        // Of what was stored, not of the media's bytes: a transfer that is flushed well amplifies nothing,
        // and costs its fills all the same.
        share: ratio(large.bytes, stored(case)).min(1.0),
        share_of: STORED_BYTES.to_owned(),
        sites: ranked.sites,
    })
}

fn remedy(case: &Case<'_>, sites: &[crate::SiteShare], threshold: &str) -> String {
    let place = case.place(sites);
    let words = sites.first().and_then(|first| case.figures.sites.get(first.site.0 as usize));
    let single =
        words.is_some_and(|site| site.stores > 0 && site.store_bytes / site.stores < super::lines::LINE);
    let what = if single {
        format!(
            "At {place}: build the block in a buffer that stays cached, then copy it out with non-temporal stores"
        )
    } else {
        format!("At {place}: from {threshold} on, copy or fill with non-temporal stores")
    };
    format!(
        "{what} (`_mm_stream_si128` or wider, or libpmem's `pmem_memcpy` with `PMEM_F_MEM_NONTEMPORAL`) and end with one \
         `sfence`. Keep ordinary stores for data that is read or changed again soon."
    )
}

/// Media bytes that a site's transfers caused, if it should do them differently.
fn caused(case: &Case<'_>, site: SiteId, memory: &SiteMemory, transfers: Transfers) -> Option<u64> {
    let sizes = case.sizes(site);
    let stored = sizes.temporal.total_bytes().saturating_add(sizes.non_temporal.total_bytes());
    let absorbed = ratio(memory.controller_write_bytes, stored) < case.options.reach_min;
    let caused = part(memory.media_write_bytes, ratio(transfers.bytes, stored));
    (caused > 0 && !absorbed).then_some(caused)
}

fn stored(case: &Case<'_>) -> u64 {
    case.totals.temporal.total_bytes().saturating_add(case.totals.non_temporal.total_bytes())
}
