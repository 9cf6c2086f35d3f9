//! What to rent, what lies where, and what breaks first.

use serde::Serialize;

use crate::choose::{Choice, candidates, choose, rate};
use crate::model::Model;
use crate::placement::Placement;
use crate::prices::Prices;
use crate::profile::Owner;

/// Slowdown of the slowest mix below which tiers do not matter.
const SAME: f64 = 0.02;

/// A data structure in the recommended configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StructureAnswer {
    /// Who made it.
    pub owner: Owner,
    /// Its number in the profile.
    pub number: usize,
    /// Bytes.
    pub bytes: u64,
    /// Share of the misses with the recommended ways.
    pub misses: f64,
    /// Misses per KiB, by that of the working set as a whole.
    pub density: f64,
    /// Of its misses, the share by stores.
    pub stores: f64,
    /// Its share on each tier.
    pub shares: Vec<f64>,
    /// What the run takes longer if all of it, and nothing else, is on the slowest tier.
    pub alone: f64,
}

/// What happens first if the fast memory shrinks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Breaks {
    /// The structure that has to go next.
    pub number: usize,
    /// Its bytes that are on the fast tier.
    pub bytes: u64,
    /// What the run takes longer then, by the recommended configuration.
    pub slowdown: f64,
}

/// The plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Every configuration.
    pub choices: Vec<Choice>,
    /// The recommended one, if any prediction holds.
    pub best: Option<usize>,
    /// All whose cost is within the tolerance.
    pub within: Vec<usize>,
    /// Structures, hottest first.
    pub structures: Vec<StructureAnswer>,
    /// What breaks first.
    pub breaks: Option<Breaks>,
    /// Whether it matters where data lies: the slowest mix by the fastest, less 1, with the recommended ways.
    pub spread: f64,
    /// Weights for interleaving pages over tiers, by their bandwidth, that add up to at most 20.
    pub weights: Vec<u32>,
    /// What a reader has to know.
    pub cautions: Vec<String>,
}

impl Plan {
    /// Whether it does not matter where data lies.
    #[must_use]
    pub fn indifferent(&self) -> bool {
        self.spread.abs() < SAME
    }
}

/// Makes a plan.
#[must_use]
pub fn answer(model: &Model, prices: &Prices, tolerance: f64, footprint: Option<u64>) -> Plan {
    let choices: Vec<Choice> =
        candidates(model).into_iter().map(|candidate| rate(model, prices, footprint, candidate)).collect();
    let (best, within) = choose(&choices, tolerance);
    let profile = model.profile();
    let last = profile.ways.len() - 1;
    let (at, parts) = best.map_or_else(
        || (last, choices.first().map(|one| one.candidate.parts.clone()).unwrap_or_default()),
        |best| (choices[best].candidate.at, choices[best].candidate.parts.clone()),
    );
    let placement = Placement::coldest_first(profile, &parts);
    let tiers = model.tiers().len();
    let alike = choices.iter().filter(|one| one.candidate.at == at).map(|one| one.prediction.ns);
    let (low, high) = alike.fold((f64::INFINITY, 0.0f64), |(low, high), ns| (low.min(ns), high.max(ns)));
    let mut cautions = model.cautions();
    let refused = choices.iter().filter(|one| one.prediction.refused.is_some()).count();
    if refused > 0 {
        cautions.push(format!(
            "{refused} of {} configurations need more than 80 % of a tier's bandwidth: not recommended",
            choices.len()
        ));
    }
    Plan {
        structures: structures(model, at, &placement),
        breaks: breaks(model, at, &placement),
        spread: if low > 0.0 && low.is_finite() { high / low - 1.0 } else { 0.0 },
        weights: weights(model.tiers().iter().map(|tier| tier.read_gbps)),
        cautions,
        choices,
        best,
        within,
    }
    .checked(tiers)
}

impl Plan {
    fn checked(self, tiers: usize) -> Plan {
        debug_assert!(self.choices.iter().all(|one| one.candidate.parts.len() == tiers));
        self
    }
}

fn structures(model: &Model, at: usize, placement: &Placement) -> Vec<StructureAnswer> {
    let profile = model.profile();
    let tiers = model.tiers().len();
    let fast = Placement::all_on(0, tiers, profile.structures.len());
    let base = model.predict(at, &fast).ns.max(1.0);
    let all = profile.misses(at).max(1) as f64;
    let bytes = profile.bytes().max(1) as f64;
    let mut order: Vec<usize> = profile.coldest_first();
    order.sort_by_key(|&number| std::cmp::Reverse(profile.structures[number].misses[at]));
    let each = order.into_iter().map(|number| {
        let one = &profile.structures[number];
        let mut moved = fast.clone();
        moved.put(number, tiers - 1);
        let share = one.misses[at] as f64 / all;
        StructureAnswer {
            owner: one.owner,
            number,
            bytes: one.bytes,
            misses: share,
            density: share / (one.bytes.max(1) as f64 / bytes),
            stores: one.store_misses[at] as f64 / one.misses[at].max(1) as f64,
            shares: (0..tiers).map(|tier| placement.share(number, tier)).collect(),
            alone: if tiers > 1 { model.predict(at, &moved).ns / base - 1.0 } else { 0.0 },
        }
    });
    each.collect()
}

fn breaks(model: &Model, at: usize, placement: &Placement) -> Option<Breaks> {
    let profile = model.profile();
    let tiers = model.tiers().len();
    let next = profile.coldest_first().into_iter().find(|&number| placement.share(number, 0) > 1e-9);
    let number = next.filter(|_| tiers > 1)?;
    let mut moved = placement.clone();
    moved.put(number, tiers - 1);
    let before = model.predict(at, placement).ns.max(1.0);
    let bytes = (profile.structures[number].bytes as f64 * placement.share(number, 0)) as u64;
    Some(Breaks { number, bytes, slowdown: model.predict(at, &moved).ns / before - 1.0 })
}

/// Small whole numbers in the proportion of bandwidths: each weight from 1, the sum at most 20, the error least.
#[must_use]
pub fn weights(bandwidths: impl Iterator<Item = f64>) -> Vec<u32> {
    let bandwidths: Vec<f64> = bandwidths.map(|one| one.max(1e-9)).collect();
    let total: f64 = bandwidths.iter().sum();
    let candidate = |sum: u32| {
        let weights: Vec<u32> =
            bandwidths.iter().map(|one| ((one / total * f64::from(sum)).round() as u32).max(1)).collect();
        let real = f64::from(weights.iter().sum::<u32>());
        let off = weights
            .iter()
            .zip(&bandwidths)
            .map(|(&weight, one)| (f64::from(weight) / real - one / total).abs());
        (off.sum::<f64>(), weights)
    };
    let tried = (bandwidths.len() as u32..=20)
        .map(candidate)
        .filter(|(_, weights)| weights.iter().sum::<u32>() <= 20);
    tried.min_by(|one, two| one.0.total_cmp(&two.0)).map(|(_, weights)| weights).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_small_numbers_in_proportion() {
        assert_eq!(weights([90.0, 10.0].into_iter()), [9, 1]);
        assert_eq!(weights([50.0, 50.0].into_iter()), [1, 1]);
        assert_eq!(weights([200.9, 22.2].into_iter()), [9, 1]);
        assert_eq!(weights([300.0, 1.0].into_iter()), [19, 1]);
    }
}
