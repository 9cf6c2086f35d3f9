//! Bayesian optimisation, as CherryPick has it: a Gaussian process over the configurations, the next measurement where
//! the expected improvement is largest, an end when that is below a share of the best.
//!
//! The process is small (a few dozen points), so it is written out here: a kernel of Matérn type 5/2, a Cholesky decomposition.

use device::Rng;

/// Measurements to begin with, and the least expected improvement, by the best so far (section 3.5 of the source).
const FIRST: usize = 3;
const IMPROVEMENT_MIN: f64 = 0.05;
/// Measurements before it may stop; CherryPick asks for six.
const LEAST: usize = 6;
/// Length over which costs are alike, of axes from 0 to 1, and the variance of a measurement by the costs' own.
const LENGTH: f64 = 0.4;
const NOISE: f64 = 1e-4;

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The configuration that it takes.
    pub best: usize,
    /// Those that it measured, in order.
    pub measured: Vec<usize>,
}

/// Searches among points with axes from 0 to 1. `measure` gives the cost of one.
pub fn bayesian(points: &[Vec<f64>], seed: u64, mut measure: impl FnMut(usize) -> f64) -> Search {
    let mut draw = Rng::new(seed);
    let mut measured: Vec<usize> = Vec::new();
    let mut costs: Vec<f64> = Vec::new();
    while measured.len() < FIRST.min(points.len()) {
        let at = draw.below(points.len());
        if !measured.contains(&at) {
            measured.push(at);
            costs.push(measure(at));
        }
    }
    while measured.len() < points.len() {
        let best = costs.iter().copied().fold(f64::INFINITY, f64::min);
        let process = Process::fit(points, &measured, &costs);
        let open = (0..points.len()).filter(|at| !measured.contains(at));
        let gains = open.map(|at| (process.improvement(&points[at], best), at));
        let Some((gain, at)) = gains.max_by(|one, two| one.0.total_cmp(&two.0)) else { break };
        if measured.len() >= LEAST && gain < IMPROVEMENT_MIN * best.abs() {
            break;
        }
        measured.push(at);
        costs.push(measure(at));
    }
    let best = (0..measured.len()).min_by(|&one, &two| costs[one].total_cmp(&costs[two]));
    Search { best: best.map_or(0, |at| measured[at]), measured }
}

/// A Gaussian process through measurements.
struct Process<'a> {
    at: Vec<&'a [f64]>,
    mean: f64,
    deviation: f64,
    /// Lower triangle of the covariances' root.
    root: Vec<Vec<f64>>,
    /// Covariances' inverse times the measurements.
    weights: Vec<f64>,
}

impl<'a> Process<'a> {
    fn fit(points: &'a [Vec<f64>], measured: &[usize], costs: &[f64]) -> Process<'a> {
        let count = costs.len() as f64;
        let mean = costs.iter().sum::<f64>() / count;
        let variance = costs.iter().map(|cost| (cost - mean).powi(2)).sum::<f64>() / count;
        let deviation = variance.sqrt().max(1e-12);
        let at: Vec<&[f64]> = measured.iter().map(|&number| &*points[number]).collect();
        let root = cholesky(&at);
        let scaled: Vec<f64> = costs.iter().map(|cost| (cost - mean) / deviation).collect();
        let weights = backward(&root, forward(&root, &scaled));
        Process { at, mean, deviation, root, weights }
    }

    /// Expected improvement on `best`.
    fn improvement(&self, point: &[f64], best: f64) -> f64 {
        let covariances: Vec<f64> = self.at.iter().map(|at| kernel(at, point)).collect();
        let expected: f64 = covariances.iter().zip(&self.weights).map(|(one, two)| one * two).sum();
        let explained = forward(&self.root, &covariances);
        let variance = (1.0 - explained.iter().map(|one| one * one).sum::<f64>()).max(1e-12);
        let (mean, deviation) = (self.mean + expected * self.deviation, variance.sqrt() * self.deviation);
        let z = (best - mean) / deviation;
        (best - mean) * below(z) + deviation * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
    }
}

fn kernel(one: &[f64], two: &[f64]) -> f64 {
    let distance = one.iter().zip(two).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt() / LENGTH;
    let scaled = 5f64.sqrt() * distance;
    (1.0 + scaled + scaled * scaled / 3.0) * (-scaled).exp()
}

fn cholesky(at: &[&[f64]]) -> Vec<Vec<f64>> {
    let mut root: Vec<Vec<f64>> = Vec::new();
    for (row, point) in at.iter().enumerate() {
        let mut line: Vec<f64> = Vec::new();
        for column in 0..=row {
            let noise = if row == column { NOISE } else { 0.0 };
            let before: f64 =
                (0..column).map(|k| line[k] * if column == row { line[k] } else { root[column][k] }).sum();
            let rest = kernel(point, at[column]) + noise - before;
            line.push(if row == column { rest.max(1e-12).sqrt() } else { rest / root[column][column] });
        }
        root.push(line);
    }
    root
}

fn forward(root: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let mut found: Vec<f64> = Vec::new();
    for (row, line) in root.iter().enumerate() {
        let before: f64 = (0..row).map(|k| line[k] * found[k]).sum();
        found.push((right[row] - before) / line[row]);
    }
    found
}

fn backward(root: &[Vec<f64>], mut right: Vec<f64>) -> Vec<f64> {
    for row in (0..root.len()).rev() {
        let after: f64 = (row + 1..root.len()).map(|k| root[k][row] * right[k]).sum();
        right[row] = (right[row] - after) / root[row][row];
    }
    right
}

/// Probability that a standard normal number is below `z` (Abramowitz and Stegun 7.1.26; error below 2e-7).
fn below(z: f64) -> f64 {
    let x = z.abs() / 2f64.sqrt();
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let terms = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let polynomial = terms.iter().fold(0.0, |sum, term| (sum + term) * t);
    let tail = polynomial * (-x * x).exp() / 2.0;
    if z < 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_is_that_of_the_tables() {
        for (z, p) in [(0.0, 0.5), (1.0, 0.841_344_7), (-1.644_854, 0.05), (2.326_348, 0.99)] {
            assert!((below(z) - p).abs() < 1e-6, "{z}");
        }
    }

    #[test]
    fn a_smooth_bowl_takes_a_fraction_of_the_measurements() {
        let points: Vec<Vec<f64>> = (0..11)
            .flat_map(|x| (0..7).map(move |y| vec![f64::from(x) / 10.0, f64::from(y) / 6.0]))
            .collect();
        let cost = |at: usize| 1.0 + (points[at][0] - 0.6).powi(2) + (points[at][1] - 0.5).powi(2);
        let (mut total, mut costs) = (0, 0.0);
        for seed in 0..20 {
            let search = bayesian(&points, seed, cost);
            total += search.measured.len();
            costs += cost(search.best) / 20.0;
        }
        assert!(costs < 1.06, "{costs}");
        assert!((120..=240).contains(&total), "6 to 12 each: {total}");
    }
}
