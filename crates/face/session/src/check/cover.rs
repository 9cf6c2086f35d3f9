//! What a check has not looked at, though it was to: to have found nothing is no verdict then.

use std::time::Duration;

use crash::{Outcome, Strategy};
use report::human::{grouped, plural};

use super::Check;
use super::doubt::{Doubt, Kind};
use super::run::Run;

/// Why not all was examined that was to be. A choice of `--images` at each crash point is all that was to be
/// examined, unless the strategy is an exhaustive one.
pub fn uncovered(
    check: &Check,
    run: &Run,
    outcome: &Outcome,
    interrupted: bool,
    contradicted: usize,
) -> Vec<Doubt> {
    if !run.doubts.is_empty() {
        return Vec::new();
    }
    let mut reasons = Vec::new();
    if outcome.points_done < outcome.points || outcome.unfinished > 0 {
        let all_built = outcome.points_done + run.history.left_out() >= outcome.points;
        let (why, remedy) = match check.time {
            _ if all_built && outcome.unfinished == 0 && !interrupted => (
                "the run wrote so much that crash points all over it were chosen".to_owned(),
                "check a shorter run for the others",
            ),
            _ if interrupted => ("interrupted".to_owned(), "let it go on to its end"),
            Some(time) if outcome.findings.len() < check.findings as usize => (
                format!("stopped after --time {}", humantime::format_duration(time)),
                "give it more --time, or fewer --images for each crash point",
            ),
            _ => (
                format!("stopped after --findings {} of a job", check.findings),
                "look at these first, or allow more --findings",
            ),
        };
        reasons.push(reason(format!("{why}: {}", share(outcome)), remedy));
    }
    if let Some(text) = contradicted_text(contradicted) {
        reasons.push(reason(
            text,
            "let recovery depend on the image alone: not on time, chance or an earlier recovery",
        ));
    }
    if check.strategy == Strategy::Exhaustive && outcome.cut_short > 0 {
        let text = format!(
            "--strategy exhaustive: {} more images than --images {} allows",
            match outcome.cut_short {
                1 => "1 crash point has".to_owned(),
                points => format!("{} crash points have", grouped(points)),
            },
            check.images
        );
        reasons.push(reason(text, "allow more --images, or leave the strategy to the checker"));
    }
    if let Some(cut) = &run.cut_short {
        reasons.push(reason(cut.clone(), "record the run again, with room for all of it"));
    }
    reasons
}

/// The share of crash points that were examined, in words.
pub fn share(outcome: &Outcome) -> String {
    let few = match outcome.unfinished {
        0 => String::new(),
        unfinished => format!("; {} of them in few images", grouped(unfinished)),
    };
    format!(
        "{} of {} examined ({:.1} %), spread over the run{few}",
        grouped(outcome.points_done),
        plural(outcome.points as usize, "crash point"),
        // Rounded down: only all of them are all.
        (fraction(outcome) * 1000.0).floor() / 10.0
    )
}

/// The share of crash points that were examined.
pub fn fraction(outcome: &Outcome) -> f64 {
    match outcome.points {
        0 => 1.0,
        points => outcome.points_done as f64 / points as f64,
    }
}

/// A warning that recovery contradicted itself, if it did.
pub fn contradicted(images: usize) -> Option<String> {
    contradicted_text(images).map(|text| format!("{text}; not among the findings"))
}

fn contradicted_text(images: usize) -> Option<String> {
    (images > 0).then(|| {
        format!(
            "recovery does not say the same of one image each time: it called {} wrong and, asked again, right",
            plural(images, "image")
        )
    })
}

/// That the time was over before there was a crash point.
pub fn too_late(time: Duration) -> Doubt {
    reason(
        format!(
            "stopped after --time {}, while the recorded run was read and its crash points were found: none of \
             them examined (0.0 %)",
            humantime::format_duration(time)
        ),
        "give it more --time: it counts from the end of the program on",
    )
}

fn reason(text: String, remedy: &str) -> Doubt {
    Doubt {
        kind: Kind::NotCovered,
        call: None,
        file: None,
        offset: None,
        code: None,
        text,
        remedy: remedy.to_owned(),
    }
}

/// Of lints, which look at all that was recorded: that this is not all of the run.
pub fn of_trace(cut_short: Option<String>) -> Option<Doubt> {
    cut_short.map(|text| reason(text, "record the run again, with room for all of it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_points_are_all_of_them() {
        let outcome = |points_done, points| {
            let mut outcome = Outcome::default();
            (outcome.points_done, outcome.points) = (points_done, points);
            outcome
        };
        assert!(share(&outcome(9_999, 10_000)).contains("(99.9 %)"), "{}", share(&outcome(9_999, 10_000)));
        assert!(share(&outcome(0, 3)).contains("0 of 3 crash points examined (0.0 %)"));
        assert!((fraction(&outcome(0, 0)) - 1.0).abs() < 1e-9 && fraction(&outcome(1, 2)) < 0.6);
    }
}
