//! Locks and atomics whose line goes from core to core.

use advise::{Finding, Rule};

use super::case::Case;

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let remedy = "Take the lock or atomic less often: one per thread or per part of the data (shards), or work done in \
                  batches under one acquisition.";
    let title = "A lock or an atomic moves its line from core to core";
    case.on_lines(&case.contests(true, Some(true)), Rule::ContendedLock, title, remedy)
}
