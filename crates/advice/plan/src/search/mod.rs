//! Other ways to find a configuration, to compare with: all of them measured, one at random, Bayesian optimisation.

mod bayes;

pub use bayes::{Search, bayesian};

use device::Rng;

/// Measures every one. Returns the cheapest and the number of measurements.
#[must_use]
pub fn exhaustive(points: usize, mut measure: impl FnMut(usize) -> f64) -> Search {
    let costs: Vec<f64> = (0..points).map(&mut measure).collect();
    let best = (0..points).min_by(|&one, &two| costs[one].total_cmp(&costs[two])).unwrap_or(0);
    Search { best, measured: (0..points).collect() }
}

/// Takes one without a measurement.
#[must_use]
pub fn random(points: usize, seed: u64) -> Search {
    Search { best: Rng::new(seed).below(points.max(1)), measured: Vec::new() }
}
