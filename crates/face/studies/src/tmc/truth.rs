//! Every configuration of a program simulated in full, beside what is predicted from three runs.

use std::sync::Arc;

use machine::{Config, Time};
use plan::choose::{Choice, candidate_ways, candidates, rate};
use plan::placed::{Placed, Where};
use plan::prices::Prices;
use plan::profile::Profiler;
use plan::tiers::{measure, with_two_memories, with_ways};
use plan::{Model, Placement, Reference};

use super::programs;
use crate::{Lab, StudyError};

/// The source's workloads are the first of all programs.
pub(super) const SIX: &[&str] = programs::ALL.split_at(6).0;
/// Loads and stores of a program.
const ACCESSES: u64 = 60_000;
/// The working set that is rented; the programs' own are small.
const FOOTPRINT: u64 = 16 << 30;

/// One program on one machine.
#[derive(Clone, Debug)]
pub(crate) struct Truth {
    /// Predictions.
    pub(crate) choices: Vec<Choice>,
    /// Times, in ns, in the same order.
    pub(crate) ns: Vec<f64>,
    /// Costs that follow from them.
    pub(crate) costs: Vec<f64>,
}

/// The source's machine in small: caches an eighth of its size and DRAM, and slow memory of `times` the latency of DRAM at a price of
/// `price` by DRAM's.
pub(super) fn machine(base: &Config, times: f64) -> Result<Config, StudyError> {
    let set = [
        ("l1.size", "16KiB"),
        ("l2.size", "64KiB"),
        ("l2.ways", "8"),
        ("llc.size", "1536KiB"),
        ("llc.ways", "48"),
        ("llc.replacement", "lru"),
    ];
    let mut config = with_two_memories(&base.with_timed_overrides(&set)?)?;
    let fast = measure(&config).map_err(|error| StudyError::Plan(error.to_string()))?[0].latency_ns;
    if let Some(timing) = &mut config.memory.timing {
        timing.read_return += Time((fast * 1e3 * (times - 1.0)) as u64);
    }
    Ok(config)
}

/// The machine with slow memory so many nanoseconds further away.
pub(super) fn further(mut config: Config, ns: f64) -> Config {
    if let Some(timing) = &mut config.memory.timing {
        timing.read_return += Time((ns * 1e3) as u64);
    }
    config
}

pub(super) fn prices(slow_by_fast: f64) -> Prices {
    let default = Prices::default();
    Prices { gib: vec![default.gib[0], default.gib[0] * slow_by_fast], ..default }
}

impl Truth {
    /// Simulates all configurations.
    pub(super) fn of(config: &Config, prices: &Prices, name: &str) -> Result<Truth, StudyError> {
        let wrong = |error: String| StudyError::Plan(error);
        let simulate = |ways: u32, placement: Where| -> Result<machine::TimedFigures, StudyError> {
            let mut placed = Placed::new(&with_ways(config, ways), placement)?;
            programs::run(name, ACCESSES, 1, &mut placed).map_err(|error| wrong(error.to_string()))?;
            Ok(placed.figures())
        };
        let ways = candidate_ways(config.llc.ways);
        let mut profiler = Profiler::new(config, &ways)?;
        programs::run(name, ACCESSES, 1, &mut profiler).map_err(|error| wrong(error.to_string()))?;
        let (fewest, most) = (ways[0], ways[ways.len() - 1]);
        let references = vec![
            Reference::of(&simulate(fewest, Where::Fast)?, fewest, 0),
            Reference::of(&simulate(most, Where::Fast)?, most, 0),
            Reference::of(&simulate(most, Where::Slow)?, most, 1),
        ];
        let tiers = measure(config).map_err(|error| wrong(error.to_string()))?;
        let model = Model::fit(profiler.profile(), tiers.into(), references)
            .map_err(|error| wrong(error.to_string()))?;
        let all = candidates(&model).into_iter();
        let choices: Vec<Choice> = all.map(|one| rate(&model, prices, Some(FOOTPRINT), one)).collect();
        let mut ns = Vec::new();
        for choice in &choices {
            let placement = Placement::coldest_first(model.profile(), &choice.candidate.parts);
            ns.push(simulate(choice.candidate.ways, Where::By(placement))?.elapsed.ns());
        }
        let costs = choices.iter().zip(&ns).map(|(choice, ns)| choice.hour * ns / 3.6e12 * 1e6).collect();
        Ok(Truth { choices, ns, costs })
    }

    /// The least of the simulated costs.
    pub(super) fn least(&self) -> f64 {
        self.costs.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The configuration whose predicted cost is least.
    pub(super) fn predicted_best(&self) -> usize {
        let order = |&one: &usize, &two: &usize| self.choices[one].cost.total_cmp(&self.choices[two].cost);
        (0..self.choices.len()).min_by(order).unwrap_or(0)
    }
}

/// On a machine whose slow memory has three times DRAM's latency, once per program.
pub(super) fn truth(lab: &Lab, name: &str) -> Result<Arc<Truth>, StudyError> {
    lab.truth(name.to_owned(), || {
        let config = machine(&lab.config("dram", None)?, 3.0)?;
        Truth::of(&config, &prices(0.4), name)
    })
}

/// The same with slow memory in a pool, 85 ns further away.
pub(super) fn pooled(lab: &Lab, name: &str) -> Result<Arc<Truth>, StudyError> {
    lab.truth(format!("{name}, pooled"), || {
        let config = further(machine(&lab.config("dram", None)?, 3.0)?, 85.0);
        Truth::of(&config, &prices(0.4), name)
    })
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
