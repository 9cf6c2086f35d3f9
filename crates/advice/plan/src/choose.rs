//! Candidates, their costs, and which one to take (Algorithm 1 of the source).

use serde::Serialize;

use crate::model::{Model, Prediction};
use crate::placement::Placement;
use crate::prices::{Prices, Provider};

const GIB: f64 = (1u64 << 30) as f64;

/// A configuration that can be rented.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// Parts of the working set by tier, the fast one first; they add up to 1.
    pub parts: Vec<f64>,
    /// Ways of the last-level cache.
    pub ways: u32,
    /// The ways' place in the profile.
    #[serde(skip)]
    pub at: usize,
}

/// A candidate and what is expected of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The configuration.
    #[serde(flatten)]
    pub candidate: Candidate,
    /// The run's time.
    pub prediction: Prediction,
    /// Time by that of all data on the fast tier with the most ways, less 1.
    pub slowdown: f64,
    /// GiB by tier.
    pub gib: Vec<f64>,
    /// Price per hour.
    pub hour: f64,
    /// Price of the run: price per hour times time (eq. 4.1), in millionths of the currency.
    pub cost: f64,
    /// What the provider's round adds up; lower packs better. `None` without a provider.
    pub penalty: Option<f64>,
}

/// All parts of the working set in steps of a tenth for two tiers, of a fifth for three, of a quarter for more.
#[must_use]
pub fn mixes(tiers: usize) -> Vec<Vec<f64>> {
    let steps: u32 = match tiers {
        0..=2 => 10,
        3 => 5,
        _ => 4,
    };
    let mut found = Vec::new();
    divide(steps, tiers.max(1), &mut Vec::new(), &mut found);
    let mixes =
        found.into_iter().map(|mix| mix.into_iter().map(|part| f64::from(part) / f64::from(steps)).collect());
    let mut mixes: Vec<Vec<f64>> = mixes.collect();
    mixes.sort_by(|one, two| two[0].total_cmp(&one[0]));
    mixes
}

fn divide(left: u32, tiers: usize, before: &mut Vec<u32>, found: &mut Vec<Vec<u32>>) {
    if tiers == 1 {
        found.push(before.iter().copied().chain([left]).collect());
        return;
    }
    for here in 0..=left {
        before.push(here);
        divide(left - here, tiers - 1, before, found);
        before.pop();
    }
}

/// The source's ways (1, 2, 3, 4, 12, 20, 28), as far as the cache has them; of one with fewer than 28, the last two are its
/// own two thirds and all.
#[must_use]
pub fn candidate_ways(ways: u32) -> Vec<u32> {
    let mut all: Vec<u32> = match ways {
        28.. => vec![1, 2, 3, 4, 12, 20, 28],
        _ => vec![1, 2, 3, 4, ways / 2, ways * 2 / 3, ways],
    };
    all.retain(|&one| one >= 1 && one <= ways);
    all.sort_unstable();
    all.dedup();
    all
}

/// All candidates of a model.
#[must_use]
pub fn candidates(model: &Model) -> Vec<Candidate> {
    let ways = model.profile().ways.clone();
    let with = |parts: Vec<f64>| {
        let each = ways.iter().enumerate();
        each.map(move |(at, &ways)| Candidate { parts: parts.clone(), ways, at }).collect::<Vec<_>>()
    };
    mixes(model.tiers().len()).into_iter().flat_map(with).collect()
}

/// Predicts and prices a candidate. `footprint` is the working set in bytes that is rented; the profile's if not given.
#[must_use]
pub fn rate(model: &Model, prices: &Prices, footprint: Option<u64>, candidate: Candidate) -> Choice {
    let placement = Placement::coldest_first(model.profile(), &candidate.parts);
    let prediction = model.predict(candidate.at, &placement);
    let fastest = model.references().iter().filter(|one| one.tier == 0).map(|one| one.elapsed_ns);
    let fastest = fastest.fold(f64::INFINITY, f64::min).max(1.0);
    let bytes = footprint.unwrap_or_else(|| model.profile().bytes()) as f64;
    let gib: Vec<f64> = candidate.parts.iter().map(|part| part * bytes / GIB).collect();
    let hour = prices.hour(&gib, candidate.ways.into());
    Choice {
        slowdown: prediction.ns / fastest - 1.0,
        cost: hour * prediction.ns / 3.6e12 * 1e6,
        penalty: prices
            .provider
            .map(|provider| penalty(&provider, prices.vcpus, &gib, candidate.ways.into())),
        candidate,
        prediction,
        gib,
        hour,
    }
}

/// The packing penalty: the shares of a machine that a configuration takes, each weighed by how much of it is in use.
#[must_use]
pub fn penalty(provider: &Provider, vcpus: f64, gib: &[f64], ways: f64) -> f64 {
    let fast = gib.first().copied().unwrap_or(0.0);
    let slow: f64 = gib.iter().skip(1).sum();
    let demand = [vcpus, fast, slow, ways];
    let each = demand.iter().zip(&provider.capacity).zip(&provider.used);
    each.map(
        |((demand, capacity), used)| if *demand > 0.0 { demand / capacity.max(1e-9) * used } else { 0.0 },
    )
    .sum()
}

/// Algorithm 1: of all whose cost is within `tolerance` of the least, the one that packs best. Without a provider, the
/// cheapest. The second answer is all that are within.
#[must_use]
pub fn choose(choices: &[Choice], tolerance: f64) -> (Option<usize>, Vec<usize>) {
    let accepted = |choice: &&Choice| choice.prediction.refused.is_none();
    let least = choices.iter().filter(accepted).map(|choice| choice.cost).fold(f64::INFINITY, f64::min);
    let within: Vec<usize> = (0..choices.len())
        .filter(|&at| {
            accepted(&&choices[at]) && choices[at].cost <= least * (1.0 + tolerance) * (1.0 + 1e-12)
        })
        .collect();
    let order = |at: &usize| (choices[*at].penalty.unwrap_or(0.0), choices[*at].cost);
    let best = within.iter().copied().min_by(|one, two| {
        let (one, two) = (order(one), order(two));
        one.0.total_cmp(&two.0).then(one.1.total_cmp(&two.1))
    });
    (best, within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_has_77_candidates() {
        assert_eq!(mixes(2).len() * candidate_ways(48).len(), 77);
        assert_eq!(candidate_ways(11), [1, 2, 3, 4, 5, 7, 11]);
        assert_eq!(mixes(3).len(), 21);
        assert!(mixes(3).iter().all(|mix| (mix.iter().sum::<f64>() - 1.0).abs() < 1e-9));
        assert_eq!(mixes(2)[0], [1.0, 0.0]);
    }

    fn choice(cost: f64, penalty: f64) -> Choice {
        let prediction = Prediction {
            ns: 1.0,
            low_ns: 1.0,
            high_ns: 1.0,
            source_ns: 1.0,
            bandwidth: vec![0.0, 0.0],
            refused: None,
        };
        let candidate = Candidate { parts: vec![1.0, 0.0], ways: 1, at: 0 };
        Choice { candidate, prediction, slowdown: 0.0, gib: vec![], hour: 0.0, cost, penalty: Some(penalty) }
    }

    #[test]
    fn within_the_tolerance_the_one_that_packs_best_is_taken() {
        let choices = [choice(100.0, 0.9), choice(102.0, 0.2), choice(104.0, 0.1)];
        assert_eq!(choose(&choices, 0.0), (Some(0), vec![0]));
        assert_eq!(choose(&choices, 0.025), (Some(1), vec![0, 1]));
        assert_eq!(choose(&choices, 0.075), (Some(2), vec![0, 1, 2]));
    }

    #[test]
    fn a_refused_prediction_is_never_taken() {
        let mut choices = [choice(1.0, 0.0), choice(2.0, 0.0)];
        choices[0].prediction.refused = Some("too much".to_owned());
        assert_eq!(choose(&choices, 0.0).0, Some(1));
    }
}
