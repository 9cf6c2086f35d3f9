//! Sources that were not used, and why.

use std::fs;

use crate::input::Program;
use crate::samples;

/// A line for each.
pub(super) fn others(program: &Program) -> Vec<String> {
    let mut why = Vec::new();
    if samples::only(&program.command).unwrap_or(false) {
        why.push("events: the program was not built with `strandline cc`".to_owned());
    }
    if let Err(reason) = capture::memory_sampling() {
        why.push(format!("PEBS or IBS: {reason}"));
    }
    why.push(damon());
    why
}

fn damon() -> String {
    match fs::read_to_string("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds") {
        Err(_) => "DAMON: the kernel has none, or does not show it".to_owned(),
        Ok(count) if count.trim() != "0" => {
            format!("DAMON: somebody uses it already ({} contexts), which is left alone", count.trim())
        }
        Ok(_) => "DAMON: not used; it samples regions, and the referenced bits here are by site".to_owned(),
    }
}
