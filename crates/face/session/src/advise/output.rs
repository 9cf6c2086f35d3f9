//! The advice as text and as JSON.

use std::fmt::Write;

use advise::prestores::{Choice, Cost, PlaceAdvice, Trial};
use serde_json::{Value, json};

use super::Advised;
use super::patch::{Patch, short};
use crate::error::Error;
use crate::sources::Sources;

/// What the JSON calls itself.
const SCHEMA: &str = "strandline-advise-1";

impl Advised {
    /// The advice for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        text(self)
    }

    /// The advice as `docs/advise-json.md` describes it.
    ///
    /// # Errors
    /// [`Error::Json`] if a number has no form in JSON.
    pub fn json(&self) -> Result<String, Error> {
        json(self)
    }

    /// What is left to do at the place of that number, after the trial.
    fn choice(&self, at: usize, place: &PlaceAdvice) -> Choice {
        self.trials
            .as_ref()
            .map_or(place.choice, |trials| trials.best(at).map_or(Choice::Nothing, |best| best.choice))
    }

    fn patch(&self, sources: &Sources, at: usize, place: &PlaceAdvice) -> Option<Patch> {
        let (frames, body) = (self.watcher.frames(place), self.watcher.body(place));
        Patch::new(sources, frames, &body, place, self.choice(at, place))
    }
}

fn text(advised: &Advised) -> String {
    let Advised { advice, watcher, .. } = advised;
    let trials = advised.trials.as_ref();
    let mut text = advice.to_string();
    let sources = Sources::default();
    for (at, place) in advice.places().enumerate().filter(|(_, place)| place.choice != Choice::Nothing) {
        let _ = write!(text, "\n{} ({}:{})\n", place.function, short(&place.file), place.line);
        if let Some(trials) = trials {
            for trial in &trials.places[at] {
                let _ = writeln!(text, "  Tried on {}: {}", trials.machine, tried(trial, &trials.without));
            }
        }
        if let Some(best) =
            trials.and_then(|trials| trials.best(at)).filter(|best| best.choice != place.choice)
        {
            let _ = writeln!(text, "  So here: {}", best.choice.name());
        }
        let patch = advised.patch(&sources, at, place);
        let verdict = patch.map_or_else(
            || "Withdrawn: it gains nothing on this machine.".to_owned(),
            |patch| patch.to_string(),
        );
        verdict.lines().for_each(|line| {
            let _ = writeln!(text, "  {line}");
        });
    }
    if let Some((trials, together)) = trials.and_then(|trials| trials.together.map(|cost| (trials, cost))) {
        let _ = writeln!(text, "\nAll that gain, together: {}", compared(&together, &trials.without));
    }
    if advised.machine.is_none() && advice.places().any(|place| place.choice != Choice::Nothing) {
        text += &cached(watcher.touched_bytes(), watcher.cache_bytes());
    }
    text
}

/// What to know of a program whose data are small.
fn cached(touched: Option<u64>, cache: u64) -> String {
    let Some(touched) = touched.filter(|touched| *touched <= cache) else { return String::new() };
    format!(
        "\nAll that the program touched, {} KiB, fits into {} KiB of caches. Where they are that big nothing is evicted, and only what a fence \
         waits for can gain; the rest does with more data.\n",
        touched >> 10,
        cache >> 10
    )
}

fn tried(trial: &Trial, without: &Cost) -> String {
    format!("{}: {}", trial.choice.name(), compared(&trial.cost, without))
}

/// `time -32.1%, write amplification 3.71 -> 1.02`, and of the other phases if they feel it.
#[allow(clippy::cast_precision_loss)]
fn compared(cost: &Cost, without: &Cost) -> String {
    let time = 100.0 * (cost.time_ns / without.time_ns.max(1.0) - 1.0);
    let mut text = format!("time {time:+.1}%");
    if let Some(longer) = cost.longer_elsewhere_than(without) {
        let _ = write!(text, " (other phases {:+.1}%)", 100.0 * longer / without.elsewhere_ns);
    }
    let (with, before) = (cost.media_write_bytes, without.media_write_bytes);
    let _ = match before {
        // What a cache still has at the end was not written to memory.
        0 => write!(text, ", media writes {with} B instead of none"),
        _ => write!(text, ", media writes {:+.1}%", 100.0 * (with as f64 / before as f64 - 1.0)),
    };
    if let (Some(with), Some(before)) = (cost.write_amplification(), without.write_amplification()) {
        let _ = write!(text, ", write amplification {before:.2} -> {with:.2}");
    }
    text
}

fn json(advised: &Advised) -> Result<String, Error> {
    let advice = &advised.advice;
    let trials = advised.trials.as_ref();
    let sources = Sources::default();
    let mut all = json!(advice);
    let places = places_of(&mut all);
    for ((at, place), entry) in advice.places().enumerate().zip(places) {
        entry["patch"] = json!(advised.patch(&sources, at, place));
        if let Some(trials) = trials {
            entry["tried"] = json!(trials.places[at]);
            entry["best"] = json!(trials.best(at));
        }
    }
    let trials = trials.map(|trials| json!({ "without": trials.without, "together": trials.together }));
    let machine = advised.machine.as_ref().map(|machine| &machine.name);
    let touched = advised.watcher.touched_bytes();
    let all = json!({ "schema": SCHEMA, "machine": machine, "touched_bytes": touched, "advice": all, "trials": trials });
    Ok(format!("{}\n", serde_json::to_string_pretty(&all)?))
}

/// The places in the JSON, in the order of [`Advice::places`].
fn places_of(advice: &mut Value) -> impl Iterator<Item = &mut Value> {
    let phases = advice["phases"].as_array_mut().into_iter().flatten();
    phases.flat_map(|phase| phase["places"].as_array_mut().into_iter().flatten())
}
