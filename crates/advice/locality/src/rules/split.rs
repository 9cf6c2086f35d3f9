//! False sharing: threads use different bytes of one line, and at least one writes.

use advise::{Finding, Rule};

use super::case::Case;

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let lines = case.contests(false, None);
    let lock = lines.first().is_some_and(|(_, contest)| contest.sync);
    let remedy = if lock {
        "Give the lock or atomic a cache line of its own: alignas(64), or pad it to 64 B, away from the data beside it."
    } else {
        "Give each thread's part a cache line of its own: alignas(64) or padding to 64 B, or count in a local variable and \
         store once at the end."
    };
    case.on_lines(&lines, Rule::FalseSharing, "Threads write different bytes of one cache line", remedy)
}
