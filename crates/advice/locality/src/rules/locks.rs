//! Locks and atomics whose line goes from core to core.

use advise::{Finding, Rule};

use super::case::{Case, Kind};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let remedy = "Take the lock or atomic less often: one per thread or per part of the data (shards), or work done in \
                  batches under one acquisition.";
    let title = "A lock or an atomic moves its line from core to core";
    case.on_lines(&case.contests(Kind::Sync), Rule::ContendedLock, title, remedy)
}

/// A lock whose line holds data, too: who waits for the lock takes the line from who works on the data.
pub(super) fn beside_data(case: &Case<'_>) -> Option<Finding> {
    let remedy = "Give the lock or atomic a cache line of its own: alignas(64), or pad it to 64 B, away from the data beside it.";
    let title = "A lock or an atomic shares its line with other data";
    case.on_lines(&case.contests(Kind::LockAndData), Rule::FalseSharing, title, remedy)
}
