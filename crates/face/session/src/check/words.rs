//! Sentences that the text and the page of a check share.

use std::collections::BTreeSet;

use crash::files::is_contents;
use crash::{Finding, History};
use reboot::Rebooted;
use report::human::{grouped, plural};

use super::{Checked, Sharing};
use crate::sources::Sources;

/// What was examined, in a line.
pub fn examined(Checked { run, outcome, elapsed, .. }: &Checked) -> String {
    format!(
        "{}: {} in {}, {}; {} examined in {:.1} s",
        run.history.platform(),
        plural(run.history.atoms().len(), "stored word"),
        plural(stored_to(&run.history), "file"),
        plural(outcome.points_done as usize, "crash point"),
        plural(outcome.images as usize, "image"),
        elapsed.as_secs_f64(),
    )
}

/// That not all was examined, or not as after a crash, if so.
pub fn partly(checked: &Checked) -> Vec<String> {
    let Checked { outcome, check, rebooted, .. } = checked;
    let mut lines = Vec::new();
    if let Rebooted::Refused(why) = rebooted {
        lines.push(format!(
            "recovery ran without a reboot, which this system does not allow ({why}): boot id, /dev/shm, \
             /run and processes were those of the run"
        ));
    }
    lines.extend(checked.uncovered.iter().map(|reason| reason.text.clone()));
    if outcome.expected > 0 {
        lines.push(format!(
            "{} not tried: they have in them what recovery hung on again and again",
            plural(outcome.expected as usize, "image")
        ));
    }
    if checked.equivalent > 0 {
        lines.push(format!(
            "{} of recovery; {} equivalent to these in all that it read",
            plural(checked.ran as usize, "run"),
            match checked.equivalent {
                1 => "1 image was".to_owned(),
                count => format!("{} images were", grouped(count)),
            }
        ));
    }
    if let Some((sharing, Some(place))) = &checked.laid {
        lines.push(format!(
            "images were not in memory but in {}; files as they were before the run were {}",
            place.display(),
            match sharing {
                Sharing::Reflink => "clones of one copy",
                Sharing::Written => "written for each job",
            }
        ));
    }
    let points = match outcome.cut_short {
        0 => return lines,
        1 => "1 crash point has".to_owned(),
        points => format!("{} crash points have", grouped(points)),
    };
    lines.push(format!(
        "{points} more images than --images {} allows: a choice of them was examined",
        check.images
    ));
    lines
}

/// How many images fail as this one.
pub fn failing(finding: &Finding) -> String {
    match finding.images {
        1 => "1 image fails like this".to_owned(),
        images => format!("{} images fail like this", grouped(images)),
    }
}

/// How many files the run stored to.
fn stored_to(history: &History) -> usize {
    if !history.platform().is_files() {
        return history.files().len();
    }
    let places = history.atoms().iter().map(|atom| atom.place);
    let files: BTreeSet<u16> = places.filter(|&place| is_contents(place)).map(crash::Place::file).collect();
    files.len()
}

/// The line of source of a place; empty if it can't be read.
pub fn quoted(frame: &event::Frame, sources: &Sources) -> String {
    let source = sources.text(&frame.file);
    let line = source.as_deref().and_then(|source| source.lines().nth((frame.line as usize).wrapping_sub(1)));
    line.map_or_else(String::new, |line| format!("   {:>6} | {}\n", frame.line, line.trim()))
}
