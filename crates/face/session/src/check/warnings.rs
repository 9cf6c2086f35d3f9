//! What makes a check's answer worth less than it looks.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use crash::{Contents, History};
use report::human::{grouped, plural};

use super::doubt::{Doubt, Kind};
use super::pools::is_older;
use crate::play::CUT_SHORT;

/// If more than one store in so many changes nothing in a file that was not empty, the run mostly repeats
/// what was there.
const IDLE: u64 = 10;

/// Of a run that was recorded now and began at `started`; `contents` is what it began with.
pub fn of_run(history: &History, contents: &Contents, started: SystemTime) -> Vec<String> {
    let left = history.left(contents);
    let mut warnings = Vec::new();
    if !history.files().is_empty() && history.atoms().is_empty() {
        warnings.push(
            "the run stored nothing into its persistent files, so there is nothing that a crash could lose"
                .to_owned(),
        );
    }
    for (number, name) in history.files().iter().enumerate() {
        let before = contents.file(name);
        let (stored, changed) = left.stored(number);
        if before.is_none() && is_older(name, started) {
            warnings.push(format!(
                "{name} was there before the run, and what it held is not known: images have zeros where the run stored nothing. \
                 Name it as an argument of the program or with --pmem"
            ));
        }
        if (stored - changed) * IDLE > stored
            && before.is_some_and(|bytes| bytes.iter().any(|&byte| byte != 0))
        {
            warnings.push(format!(
                "{name} was there before the run, which did not make it anew: of {} that the run stored, {} changed something, and \
                 images differ only there. If it holds what a run before left, remove it first",
                plural(stored as usize, "word"),
                grouped(changed),
            ));
        }
    }
    warnings
}

/// Those of the run in a trace, as `check.json` beside it has them, and why the run has no verdict whatever
/// recovery says; none if it was never checked.
pub fn kept(trace: &Path) -> (Vec<String>, Vec<Doubt>) {
    let text = fs::read(trace.with_file_name("check.json")).unwrap_or_default();
    let mut answer: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let warnings = answer["warnings"].as_array().into_iter().flatten();
    let warnings = warnings.filter_map(|warning| Some(warning.as_str()?.to_owned()));
    // This is said of the trace that is read now, if it is so.
    let warnings = warnings.filter(|warning| !warning.starts_with(CUT_SHORT)).collect();
    let doubts: Vec<Doubt> = serde_json::from_value(answer["no_verdict"].take()).unwrap_or_default();
    // These are about an earlier search, not about the run.
    let of_search = |kind| matches!(kind, Kind::Rejected | Kind::NotCovered);
    (warnings, doubts.into_iter().filter(|doubt| !of_search(doubt.kind)).collect())
}
