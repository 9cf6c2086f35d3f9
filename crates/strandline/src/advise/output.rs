//! The advice as text and as JSON.

use std::fmt::Write;

use ::advise::prestores::{Advice, Choice, Cost, PlaceAdvice, Trial, Watcher};
use event::Frame;
use serde_json::json;

use super::loops::{self, Loop};
use super::trials::Trials;
use crate::sources::Sources;

/// Calls that store all at once.
const COPIES: [&str; 6] = ["memcpy(", "memmove(", "memset(", "mempcpy(", "strcpy(", "strncpy("];
/// Bytes after which a pre-store inside a loop is worth it: a unit of 3D XPoint.
const ACCUMULATED: u32 = 256;

/// For people.
pub fn text(watcher: &Watcher, advice: &Advice, trials: Option<&Trials>) -> String {
    let mut text = advice.to_string();
    let sources = Sources::default();
    let frames_of = |place: &PlaceAdvice| watcher.frames(place);
    for (at, place) in advice.places().enumerate().filter(|(_, place)| place.choice != Choice::Nothing) {
        let verdict = match trials {
            Some(trials) => match trials.best(at) {
                Some(best) => change(&sources, frames_of(place), place, best.choice),
                None => "Withdrawn: it gains nothing on this machine.\n".to_owned(),
            },
            None => change(&sources, frames_of(place), place, place.choice),
        };
        let _ = write!(text, "\n{} ({}:{})\n", place.function, short(&place.file), place.line);
        if let Some(trials) = trials {
            for trial in &trials.places[at] {
                let _ = writeln!(text, "  Tried on {}: {}", trials.machine, tried(trial, &trials.without));
            }
        }
        verdict.lines().for_each(|line| {
            let _ = writeln!(text, "  {line}");
        });
    }
    if let Some((trials, together)) = trials.and_then(|trials| trials.together.map(|cost| (trials, cost))) {
        let _ = writeln!(text, "\nAll that gain, together: {}", compared(&together, &trials.without));
    }
    text
}

fn short(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

fn tried(trial: &Trial, without: &Cost) -> String {
    format!("{}: {}", trial.choice.name(), compared(&trial.cost, without))
}

/// `time -32.1%, write amplification 3.71 -> 1.02`.
#[allow(clippy::cast_precision_loss)]
fn compared(cost: &Cost, without: &Cost) -> String {
    let time = 100.0 * (cost.time_ns / without.time_ns.max(1.0) - 1.0);
    let media = 100.0 * (cost.media_write_bytes as f64 / without.media_write_bytes.max(1) as f64 - 1.0);
    let mut text = format!("time {time:+.1}%, media writes {media:+.1}%");
    if let (Some(with), Some(before)) = (cost.write_amplification(), without.write_amplification()) {
        let _ = write!(text, ", write amplification {before:.2} -> {with:.2}");
    }
    text
}

/// What to change in the source.
fn change(sources: &Sources, frames: &[Frame], place: &PlaceAdvice, choice: Choice) -> String {
    let text = sources.text(&place.file);
    let line = text.as_deref().and_then(|text| text.lines().nth((place.line as usize).checked_sub(1)?));
    let excerpt = line.map(|line| format!("{:>6} | {}\n", place.line, line.trim())).unwrap_or_default();
    let advice = match choice {
        Choice::Skip => {
            "Write these bytes with non-temporal stores, or build them in a small buffer and sl_copy_skip() it out."
                .to_owned()
        }
        Choice::Clean => insertion(sources, frames, "SL_CLEAN"),
        Choice::Demote => insertion(sources, frames, "SL_DEMOTE"),
        Choice::Nothing => String::new(),
    };
    format!("{excerpt}{advice}\n")
}

/// Where the call goes: behind the innermost loop around the stores, which may be in a caller that they were inlined into.
fn insertion(sources: &Sources, frames: &[Frame], op: &str) -> String {
    let call = format!("sl_prestore(FIRST_BYTE_WRITTEN, BYTES_WRITTEN, {op});");
    let around = |frame: &Frame| {
        let found = loops::innermost(&sources.text(&frame.file)?, frame.line)?;
        Some((short(&frame.file).to_owned(), found))
    };
    let copies = |frame: &Frame| {
        let text = sources.text(&frame.file)?;
        let line = text.lines().nth((frame.line as usize).checked_sub(1)?)?;
        COPIES.iter().any(|name| line.contains(name)).then(|| (short(&frame.file).to_owned(), frame.line))
    };
    if let Some((file, line)) = frames.first().and_then(copies) {
        return format!("Insert after line {line} of {file}, the call that copies:\n  {call}");
    }
    match frames.iter().find_map(around) {
        Some((file, Loop { first, last })) => format!(
            "Insert after line {last} of {file}, where the loop of line {first} ends:\n  {call}\nWhere one run of that loop \
             writes more than some KiB: inside it, each time that {ACCUMULATED} bytes have come together, never after each store."
        ),
        None => format!(
            "Insert behind the stores, or the call that copies, once a whole cache line is written:\n  {call}"
        ),
    }
}

/// For programs.
pub fn json(advice: &Advice, trials: Option<&Trials>) -> anyhow::Result<String> {
    let mut answer = json!({ "advice": advice });
    if let Some(trials) = trials {
        let places: Vec<_> = (0..trials.places.len())
            .map(|at| json!({ "tried": trials.places[at], "best": trials.best(at) }))
            .collect();
        answer["trials"] = json!({
            "machine": trials.machine, "without": trials.without, "places": places, "together": trials.together,
        });
    }
    Ok(format!("{}\n", serde_json::to_string_pretty(&answer)?))
}
