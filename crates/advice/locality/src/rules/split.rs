//! False sharing: threads use different bytes of one line, and at least one writes.

use advise::{Finding, Rule};

use super::case::{Case, Kind};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let remedy = "Give each thread's part a cache line of its own: alignas(64) or padding to 64 B, or count in a local \
                  variable and store once at the end.";
    let title = "Threads write different bytes of one cache line";
    case.on_lines(&case.contests(Kind::False), Rule::FalseSharing, title, remedy)
}
