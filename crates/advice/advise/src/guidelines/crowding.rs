//! Guideline 3: limit the number of threads that write to one DIMM.
//!
//! A DIMM's write buffer is shared: each writer's stream needs units of its own in it until they are whole,
//! and a controller's queue that waits for one slow DIMM holds up the rest. On interleaved DIMMs every 4 KiB
//! page of a stream lies on another one, so threads that know nothing of each other meet.
//!
//! In doubt for the program: many writers alone are no fault. They must also take turns on the DIMM, each
//! with another page, in a considerable part of its writes.

use event::SiteId;

use super::case::Case;
use super::words::{count, percent, ratio};
use crate::{Finding, Rule};

pub(super) fn check(case: &Case<'_>) -> Option<Finding> {
    if !case.unit_exceeds_line() || !case.enough_traffic() {
        return None;
    }
    let memory = case.figures.focus();
    let writers = memory.writers_per_dimm.iter().copied().max().unwrap_or(0);
    let writes = memory.total.controller_write_bytes / super::lines::LINE;
    let collisions = ratio(memory.page_collisions, writes).min(1.0);
    if writers <= case.options.writers_per_dimm || collisions < case.options.collision_share_min {
        return None;
    }
    let crowded =
        memory.writers_per_dimm.iter().filter(|&&writers| writers > case.options.writers_per_dimm).count();
    let parts: Vec<(SiteId, u64)> =
        case.site_memories().map(|(site, memory)| (site, memory.controller_write_bytes)).collect();
    Some(Finding {
        rule: Rule::CrowdedDimm,
        title: format!("{writers} threads write to one DIMM"),
        evidence: format!(
            "{}{crowded} of {} DIMMs had more than {} writers, one of them {writers}. {} of {} writes to the DIMMs ({}) \
             came from another thread and another 4 KiB page than the write before.",
            case.condition(),
            memory.writers_per_dimm.len(),
            case.options.writers_per_dimm,
            count(memory.page_collisions),
            count(writes),
            percent(collisions),
        ),
        remedy: format!(
            "Let fewer threads write at a time (hand writes to at most {0} writer threads per DIMM), or give each \
             thread memory on a DIMM of its own: a namespace per DIMM that is not interleaved, or \
             allocation in multiples of {1} KiB, a whole stripe.",
            case.options.writers_per_dimm,
            4 * case.figures.dimms.max(1)
        ),
        share: collisions,
        share_of: "writes to the DIMMs".to_owned(),
        sites: case.rank(parts).sites,
    })
}
