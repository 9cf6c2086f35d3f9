//! True sharing: threads write and read the same bytes in turn.

use advise::{Finding, Rule};

use super::case::{Case, Kind};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    let remedy = "Let each thread keep its own copy and merge them at the end, or hand data over in batches.";
    let title = "Threads take turns at the same data";
    case.on_lines(&case.contests(Kind::Data), Rule::TrueSharing, title, remedy)
}
