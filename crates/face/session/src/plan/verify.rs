//! Predictions held against simulations of the whole run.

use ::plan::answer::Plan;
use ::plan::placed::{Placed, Where};
use ::plan::tiers::with_ways;
use ::plan::{Model, Namer, Placement};
use event::{Discard, Sink};
use machine::Config;
use serde::Serialize;

use crate::error::Error;
use crate::input::Input;
use crate::observer::Observer;

/// Simulations that read one pass over the input.
const AT_A_TIME: usize = 6;

/// A configuration that was simulated in full.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// Its number among the plan's configurations.
    pub choice: usize,
    /// Time predicted, in ns.
    pub predicted_ns: f64,
    /// Time simulated, in ns.
    pub simulated_ns: f64,
    /// Predicted by simulated, less 1.
    pub error: f64,
    /// Whether the simulated time is in the interval.
    pub within: bool,
}

/// Simulates the recommended configuration and others, evenly spread over all. Only mixes of the fast tier and the first slow one:
/// a simulated machine has two memories.
pub(super) fn verify(
    input: &Input,
    configs: &[Config],
    model: &Model,
    plan: &Plan,
    count: usize,
    namer: Option<Namer>,
    observer: &dyn Observer,
) -> Result<Vec<Verified>, Error> {
    let two = |at: &usize| plan.choices[*at].candidate.parts.iter().skip(2).all(|&part| part == 0.0);
    let all: Vec<usize> = (0..plan.choices.len()).filter(two).collect();
    let count = count.min(all.len());
    let mut chosen: Vec<usize> = plan.best.into_iter().filter(two).take(count).collect();
    // An odd stride, so that all ways and mixes come.
    let stride = (all.len() / count.max(1)).max(1) | 1;
    let mut at = 0;
    while chosen.len() < count {
        let next = all[(at * stride + at / all.len().max(1)) % all.len()];
        if !chosen.contains(&next) {
            chosen.push(next);
        }
        at += 1;
    }
    let mut verified = Vec::new();
    for part in chosen.chunks(AT_A_TIME) {
        let mut runs = Vec::new();
        for &number in part {
            let candidate = &plan.choices[number].candidate;
            let placement = Placement::coldest_first(model.profile(), &candidate.parts);
            runs.push(
                Placed::new(&with_ways(&configs[0], candidate.ways), Where::By(placement))?.joined_by(namer),
            );
        }
        let mut sinks: Vec<&mut (dyn Sink + Send)> =
            runs.iter_mut().map(|run| run as &mut (dyn Sink + Send)).collect();
        input.play("simulating", observer, &mut Discard, &mut sinks)?;
        for (&number, run) in part.iter().zip(&runs) {
            let predicted = &plan.choices[number].prediction;
            let simulated_ns = run.figures().elapsed.ns();
            verified.push(Verified {
                choice: number,
                predicted_ns: predicted.ns,
                simulated_ns,
                error: predicted.ns / simulated_ns.max(1.0) - 1.0,
                within: (predicted.low_ns..=predicted.high_ns).contains(&simulated_ns),
            });
        }
    }
    Ok(verified)
}
