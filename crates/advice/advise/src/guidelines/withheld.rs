//! Rules that can't be applied, and why.

use event::{Capabilities, Source};

use super::ranges::Ranges;
use crate::Rule;

/// What each rule must see in the events. A rule that is not here is never applied.
const NEEDS: [(Rule, Capabilities); 7] = [
    (Rule::SmallRandomStores, Capabilities::STORES),
    (Rule::TemporalTransfer, Capabilities::STORES.union(Capabilities::NON_TEMPORAL)),
    (Rule::LateFlush, Capabilities::STORES.union(Capabilities::FLUSHES).union(Capabilities::MAPPINGS)),
    (Rule::CrowdedDimm, Capabilities::STORES.union(Capabilities::SYNC)),
    (Rule::RedundantFlush, Capabilities::STORES.union(Capabilities::FLUSHES)),
    (Rule::CleanFlush, Capabilities::STORES.union(Capabilities::FLUSHES).union(Capabilities::NON_TEMPORAL)),
    (Rule::UselessFence, Capabilities::STORES.union(Capabilities::FLUSHES).union(Capabilities::FENCES)),
];

/// Rules whose evidence is the absence of an event: in a sample, absence means nothing.
const NEED_ALL_EVENTS: [Rule; 4] =
    [Rule::LateFlush, Rule::RedundantFlush, Rule::CleanFlush, Rule::UselessFence];

/// Why remote read-modify-writes are not looked for.
const SOCKETS_UNKNOWN: &str = "the machine that counts bytes does not tell near memory from far memory";

/// Every rule that is not applied to a stream from `source` with these persistent ranges.
pub(super) fn withheld(source: Option<&Source>, ranges: &Ranges) -> Vec<(Rule, String)> {
    let mut withheld: Vec<(Rule, String)> = NEEDS
        .iter()
        .filter_map(|&(rule, needs)| Some((rule, reason(rule, needs, source, ranges)?)))
        .collect();
    // The rule is about which socket a thread and its memory are on; of a machine's sockets only the one with
    // time knows.
    withheld.push((Rule::RemoteReadModifyWrite, SOCKETS_UNKNOWN.to_owned()));
    withheld.sort_by_key(|&(rule, _)| rule);
    withheld
}

fn reason(rule: Rule, needs: Capabilities, source: Option<&Source>, ranges: &Ranges) -> Option<String> {
    let Some(source) = source else { return Some("no events were seen".to_owned()) };
    let missing = needs - source.capabilities;
    if !missing.is_empty() {
        return Some(format!("the source ({}) does not record {}", source.producer, missing.words()));
    }
    if source.sampling.is_some() && NEED_ALL_EVENTS.contains(&rule) {
        return Some("only a sample of the events was recorded".to_owned());
    }
    if rule == Rule::LateFlush && !ranges.seen() {
        return Some("no persistent memory was mapped, so nothing had to be flushed".to_owned());
    }
    (rule == Rule::LateFlush && ranges.refused() > 0)
        .then(|| format!("{} persistent ranges were too many to follow", ranges.refused()))
}
