//! Sources that were not used, and why.

use std::path::Path;

use crate::input::Program;
use crate::samples;

use super::{PlanSource, damon};

/// A line for each.
pub(super) fn others(program: &Program, source: PlanSource) -> Vec<String> {
    let mut why = Vec::new();
    if samples::only(&program.command).unwrap_or(false) {
        why.push("events: the program was not built with `strandline cc`".to_owned());
    }
    if source != PlanSource::Sampled {
        let reason = capture::memory_sampling().err();
        let reason =
            reason.unwrap_or_else(|| "not asked for; --source sampled counts misses by site".to_owned());
        why.push(format!("PEBS or IBS: {reason}"));
    }
    if source != PlanSource::Damon {
        let reason = damon::free(Path::new(damon::ADMIN), Path::new(damon::THREADS)).err();
        let reason = reason.unwrap_or_else(|| {
            "not asked for (--source damon); it samples regions, and other sources see by site".to_owned()
        });
        why.push(format!("DAMON: {reason}"));
    }
    why
}
