//! What an advisor says.

use event::SiteId;
use serde::{Deserialize, Serialize};

/// One problem, with its evidence and its remedy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Which rule it breaks.
    pub rule: Rule,
    /// The problem in one line, as a report's heading: `Stores of 24 B written back alone`.
    pub title: String,
    /// The code that causes it, the largest part first; empty if it is about the whole run.
    pub sites: Vec<SiteShare>,
    /// What was measured, in one or two sentences with numbers.
    pub evidence: String,
    /// What to change, concretely.
    pub remedy: String,
    /// Share of the run's traffic that it explains, 0 to 1; of which traffic, says `share_of`.
    pub share: f64,
    /// What `share` is a share of: `media bytes written`, `flushes`, `fences`.
    pub share_of: String,
}

/// A code site's part in a finding.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteShare {
    /// The site.
    pub site: SiteId,
    /// Its share of the finding, 0 to 1.
    pub share: f64,
}

/// The rules. The first four groups are the guidelines for 3D XPoint (spec section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Guideline 1: random stores smaller than the device's unit.
    SmallRandomStores,
    /// Guideline 2: a large transfer done with temporal stores.
    TemporalTransfer,
    /// Guideline 2: written lines left to natural eviction, or flushed long after.
    LateFlush,
    /// Guideline 3: too many writers on one DIMM, 4 KiB collisions.
    CrowdedDimm,
    /// Guideline 4: read-modify-writes of remote memory.
    RemoteReadModifyWrite,
    /// A line flushed again although nothing was stored in between.
    RedundantFlush,
    /// A line flushed that held no change.
    CleanFlush,
    /// A fence with nothing to order.
    UselessFence,
    /// Threads that write different bytes of one line.
    FalseSharing,
    /// Threads that write and read the same bytes in turn.
    TrueSharing,
    /// A lock or an atomic whose line goes from core to core.
    ContendedLock,
    /// Lines fetched for few of their bytes.
    UnusedBytes,
    /// A matrix walked against its rows.
    AgainstTheRows,
    /// Misses each of which waits for the one before.
    PointerChase,
    /// Data stored over before anyone read it.
    DeadStore,
    /// Data zeroed or copied and written again unread.
    OverwrittenUnread,
    /// Stores of the value that was there.
    SilentStore,
    /// Blocks that are allocated and freed at once, again and again.
    AllocationChurn,
    /// Blocks that are never freed although their like are.
    Leak,
    /// More pages in use than the TLB reaches.
    TlbReach,
    /// Lines that push each other out of few sets.
    ConflictMisses,
    /// Elements that lie on two lines where one would hold them.
    StraddledLines,
    /// Misses whose addresses are known long before.
    MissingPrefetch,
    /// Prefetches whose lines are asked for so late that the load waits nevertheless.
    LatePrefetch,
    /// Blocks that are kept long after their last use, at the time when most memory is in use.
    LivesTooLong,
    /// Phases in which memory gives as much as it can.
    BandwidthBound,
    /// Pages on the node of the thread that touched them first, used from another.
    WrongNode,
    /// Small and busy data on a slow tier.
    WrongTier,
}

impl Rule {
    /// The name by which reports and `report.json` call the rule.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Rule::SmallRandomStores => "small-random-stores",
            Rule::TemporalTransfer => "temporal-transfer",
            Rule::LateFlush => "late-flush",
            Rule::CrowdedDimm => "crowded-dimm",
            Rule::RemoteReadModifyWrite => "remote-read-modify-write",
            Rule::RedundantFlush => "redundant-flush",
            Rule::CleanFlush => "clean-flush",
            Rule::UselessFence => "useless-fence",
            Rule::FalseSharing => "false-sharing",
            Rule::TrueSharing => "true-sharing",
            Rule::ContendedLock => "contended-lock",
            Rule::UnusedBytes => "unused-bytes",
            Rule::AgainstTheRows => "against-the-rows",
            Rule::PointerChase => "pointer-chase",
            Rule::DeadStore => "dead-store",
            Rule::OverwrittenUnread => "overwritten-unread",
            Rule::SilentStore => "silent-store",
            Rule::AllocationChurn => "allocation-churn",
            Rule::Leak => "leak",
            Rule::TlbReach => "tlb-reach",
            Rule::ConflictMisses => "conflict-misses",
            Rule::StraddledLines => "straddled-lines",
            Rule::MissingPrefetch => "missing-prefetch",
            Rule::LatePrefetch => "late-prefetch",
            Rule::LivesTooLong => "lives-too-long",
            Rule::BandwidthBound => "bandwidth-bound",
            Rule::WrongNode => "wrong-node",
            Rule::WrongTier => "wrong-tier",
        }
    }
}
