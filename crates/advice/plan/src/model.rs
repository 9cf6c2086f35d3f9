//! The prediction: how long a run takes with a number of ways and a placement.
//!
//! Two models share the reference runs. The *source's* (Y. Ni, Santa Cruz 2022, eq. 4.2 to 4.6) takes every miss to be alike:
//! memory-level parallelism is the application's. *Overlap* counts clusters of misses that a window holds together, by the structures that
//! they are of. Answers are those of overlap; the difference of the two is what
//! an interval is made of.

use serde::Serialize;

use crate::placement::Placement;
use crate::profile::Profile;
use crate::reference::Reference;
use crate::tiers::Tier;

/// Share of a tier's bandwidth above which the source's model does not hold (section 3.4).
const BANDWIDTH_MAX: f64 = 0.8;
/// Misses below which figures are chance.
const MISSES_MIN: u64 = 1_000;
/// Change of the structures' shares between the halves of a run above which it has no steady profile.
const DRIFT_MAX: f64 = 0.5;
/// Standard error of a prediction without any disagreement, and by the disagreement of both models. Chosen on six training
/// programs; `docs/lab` has the figures.
const ERROR: f64 = 0.06;
const ERROR_BY_DIFFERENCE: f64 = 0.6;
/// How much of the time of a cluster that fills the miss registers is divided over its misses. Chosen on the training programs.
const DIVIDED: f64 = 0.7;
/// 90 % of a normal distribution lie within so many standard errors.
const Z90: f64 = 1.645;
/// Rounds in which load and time are made to agree.
const ROUNDS: usize = 12;

/// Why no model can be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A reference run is missing.
    #[error("the reference run with all data on tier {tier} and {ways} ways is missing")]
    Missing {
        /// The tier.
        tier: usize,
        /// Ways of the last level.
        ways: u32,
    },
    /// Nothing ran.
    #[error("the run has no loads and stores: it ended too soon, or nothing of it was observed")]
    Empty,
}

/// The model of one program on one machine.
#[derive(Clone, Debug)]
pub struct Model {
    profile: Profile,
    tiers: Vec<Tier>,
    references: Vec<Reference>,
    /// Time without misses.
    base_ns: f64,
    /// By tier: time that a cluster takes without load.
    cluster_ns: Vec<f64>,
    /// Time that the fewest ways take beyond what clusters explain.
    residual_ns: f64,
    /// Lines read and written by the profile's.
    read_scale: f64,
    write_scale: f64,
    /// By tier: bandwidth by the measured one, if a reference run had more.
    widened: Vec<f64>,
}

/// A prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// How long the run takes, in ns.
    pub ns: f64,
    /// 90 % interval.
    pub low_ns: f64,
    /// Its upper end.
    pub high_ns: f64,
    /// What the source's model says.
    pub source_ns: f64,
    /// Share of each tier's bandwidth that is used.
    pub bandwidth: Vec<f64>,
    /// Why the model does not hold here, if it does not.
    pub refused: Option<String>,
}

impl Model {
    /// From the profile and the reference runs: all data on the fast tier with the fewest and the most ways, and all on
    /// each other tier with the most.
    ///
    /// # Errors
    /// If one is missing, or the run has no accesses.
    pub fn fit(profile: Profile, tiers: Vec<Tier>, references: Vec<Reference>) -> Result<Model, ModelError> {
        let (Some(&fewest), Some(&most)) = (profile.ways.first(), profile.ways.last()) else {
            return Err(ModelError::Empty);
        };
        if profile.accesses == 0 {
            return Err(ModelError::Empty);
        }
        let find = |tier: usize, ways: u32| {
            let found = references.iter().find(|one| one.tier == tier && one.ways == ways);
            found.copied().ok_or(ModelError::Missing { tier, ways })
        };
        let (min, max) = (find(0, fewest)?, find(0, most)?);
        let last = profile.ways.len() - 1;
        let (n_min, n_max) = (profile.clusters[0].count() as f64, profile.clusters[last].count() as f64);
        let mut model = Model {
            base_ns: 0.0,
            cluster_ns: vec![0.0; tiers.len()],
            residual_ns: 0.0,
            read_scale: max.reads / (profile.misses(last) as f64).max(1.0),
            write_scale: 1.0,
            widened: vec![1.0; tiers.len()],
            profile,
            tiers,
            references: references.clone(),
        };
        let written = model.profile.structures.iter().map(|one| one.writes[last]).sum::<u64>() as f64;
        if written > 0.0 && max.writes > 0.0 {
            model.write_scale = max.writes / written;
        }
        for tier in 0..model.tiers.len() {
            let reference = find(tier, most)?;
            model.widened[tier] = model.share_of(tier, &reference).max(1.0);
        }
        let fast = model.fast_cluster(&min, &max, n_min, n_max, &references);
        model.cluster_ns[0] = fast / model.tiers[0].slower_at(model.share_of(0, &max));
        model.base_ns = (max.elapsed_ns - fast * n_max).max(0.0);
        for tier in 1..model.tiers.len() {
            let reference = find(tier, most)?;
            let share = model.share_of(tier, &reference);
            let by_latency =
                model.cluster_ns[0] * model.tiers[tier].latency_ns / model.tiers[0].latency_ns.max(1.0);
            let measured = fast + (reference.elapsed_ns - max.elapsed_ns) / n_max.max(1.0);
            // At full load the run says what the bandwidth is, not the latency.
            let idle = if share > 0.9 { by_latency } else { measured / model.tiers[tier].slower_at(share) };
            model.cluster_ns[tier] = idle.max(0.0);
        }
        model.residual_ns = min.elapsed_ns - model.time(0, &model.all_fast()).0;
        Ok(model)
    }

    /// Time of a cluster on the fast tier, under the load of the reference run.
    fn fast_cluster(
        &self,
        min: &Reference,
        max: &Reference,
        n_min: f64,
        n_max: f64,
        references: &[Reference],
    ) -> f64 {
        let limit = max.elapsed_ns / n_max.max(1.0);
        let (longer, more) = (min.elapsed_ns - max.elapsed_ns, n_min - n_max);
        let by_ways = (more > 0.1 * n_max && longer > 0.01 * max.elapsed_ns).then(|| longer / more);
        let slow = references.iter().find(|one| one.tier > 0 && one.ways == max.ways);
        let by_tier = slow.and_then(|slow| {
            let extra = slow.latency_ns - max.latency_ns;
            let each = (slow.elapsed_ns - max.elapsed_ns) / n_max.max(1.0);
            (extra > 0.1 * max.latency_ns && each > 0.0).then(|| each * max.latency_ns / extra)
        });
        // Both are estimates of the same; the one from the tiers rests on a larger difference of latencies.
        let estimate = match (by_ways, by_tier) {
            (Some(one), Some(two)) => (one + two) / 2.0,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => max.latency_ns.min(limit),
        };
        estimate.clamp(0.0, limit)
    }

    /// Share of a tier's bandwidth that a reference run took.
    fn share_of(&self, tier: usize, reference: &Reference) -> f64 {
        let line = device::LINE_BYTES as f64 / reference.elapsed_ns.max(1.0);
        self.tiers[tier].used(reference.reads * line, reference.writes * line) / self.widened[tier]
    }

    fn all_fast(&self) -> Placement {
        Placement::all_on(0, self.tiers.len(), self.profile.structures.len())
    }

    /// The profile.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The tiers, the fast one first.
    #[must_use]
    pub fn tiers(&self) -> &[Tier] {
        &self.tiers
    }

    /// The reference runs.
    #[must_use]
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// Time and shares of bandwidth with the candidate's ways.
    fn time(&self, candidate: usize, placement: &Placement) -> (f64, Vec<f64>) {
        let kinds = self.by_tier(candidate, placement);
        let lines = self.lines(candidate, placement);
        let spread = self.spread(candidate);
        let mut ns = self.base_ns.max(1.0);
        let mut shares = vec![0.0; self.tiers.len()];
        for round in 0..ROUNDS {
            let mut next = self.base_ns + self.residual_ns * spread;
            for (tier, &clusters) in kinds.iter().enumerate() {
                next += clusters * self.cluster_ns[tier] * self.tiers[tier].slower_at(shares[tier]);
            }
            let mut bound = 0.0f64;
            for (tier, &(read, written)) in lines.iter().enumerate() {
                let line = device::LINE_BYTES as f64;
                bound = bound.max(self.tiers[tier].used(read * line, written * line) / self.widened[tier]);
            }
            next = next.max(bound);
            // Half way, so that it does not swing.
            ns = if round == 0 { next } else { (ns + next) / 2.0 };
            for tier in 0..shares.len() {
                let per_ns = device::LINE_BYTES as f64 / ns.max(1.0);
                let (read, written) = lines[tier];
                shares[tier] = self.tiers[tier].used(read * per_ns, written * per_ns) / self.widened[tier];
            }
        }
        (ns, shares)
    }

    /// 1 with the fewest ways and 0 with the most, by their misses.
    fn spread(&self, candidate: usize) -> f64 {
        let last = self.profile.ways.len() - 1;
        let misses = |at: usize| self.profile.misses(at) as f64;
        let all = misses(0) - misses(last);
        if all.abs() < 1.0 {
            return f64::from(u8::from(candidate == 0 && last > 0));
        }
        ((misses(candidate) - misses(last)) / all).clamp(0.0, 1.0)
    }

    /// Clusters by the tier that their time is spent on. A cluster of few misses takes as long as its slowest; one that fills the miss
    /// registers is followed by the next without a pause, so its time is divided over its misses. In between, both in
    /// proportion.
    fn by_tier(&self, candidate: usize, placement: &Placement) -> Vec<f64> {
        let mut found = vec![0.0; self.tiers.len()];
        for (members, count) in self.profile.clusters[candidate].each() {
            let all: u32 = members.iter().map(|(_, misses, _)| misses).sum();
            let full = f64::from(all.max(1) - 1) / f64::from(self.profile.registers.max(2) - 1);
            let divided = DIVIDED * full.clamp(0.0, 1.0);
            let mut before = 0.0;
            for (tier, found) in found.iter_mut().enumerate() {
                let (mut within, mut part) = (1.0, 0.0);
                for &(structure, misses, pages) in members.iter().take_while(|(_, misses, _)| *misses > 0) {
                    let share = |tier| placement.share(structure as usize, tier);
                    let faster: f64 = (0..=tier).map(share).sum();
                    within *= faster.min(1.0).powi(pages.min(64) as i32);
                    part += f64::from(misses) / f64::from(all.max(1)) * share(tier);
                }
                if tier + 1 == self.tiers.len() {
                    within = 1.0;
                }
                *found += count as f64 * (divided * part + (1.0 - divided) * (within - before));
                before = within;
            }
        }
        found
    }

    /// Lines read and written by tier.
    fn lines(&self, candidate: usize, placement: &Placement) -> Vec<(f64, f64)> {
        let tier = |tier: usize| {
            let sum = |of: fn(&crate::profile::StructureProfile, usize) -> u64| -> f64 {
                let each = self.profile.structures.iter().enumerate();
                each.map(|(at, one)| of(one, candidate) as f64 * placement.share(at, tier)).sum()
            };
            (
                sum(|one, at| one.misses[at]) * self.read_scale,
                sum(|one, at| one.writes[at]) * self.write_scale,
            )
        };
        (0..self.tiers.len()).map(tier).collect()
    }

    /// What the source's equations say: every miss alike, slow ones by the frequency tables of the fewest and the most ways, between
    /// them by the miss curve.
    #[must_use]
    pub fn source(&self, candidate: usize, placement: &Placement) -> f64 {
        let last = self.profile.ways.len() - 1;
        let run = |tier: usize, at: usize| {
            self.references.iter().find(|one| one.tier == tier && one.ways == self.profile.ways[at])
        };
        let (Some(min), Some(max)) = (run(0, 0), run(0, last)) else { return f64::NAN };
        // The monitor's curve, translated and scaled to go through both reference runs (Fig. 4.5).
        let bend = translated(&self.profile.monitor, candidate);
        let mut ns = max.elapsed_ns + (min.elapsed_ns - max.elapsed_ns) * bend;
        for tier in 1..self.tiers.len() {
            let Some(slow) = run(tier, last) else { continue };
            let penalty = (slow.elapsed_ns - max.elapsed_ns) / (self.profile.misses(last) as f64).max(1.0);
            let moved = |at: usize| -> f64 {
                let each = self.profile.structures.iter().enumerate();
                each.map(|(number, one)| one.misses[at] as f64 * placement.share(number, tier)).sum()
            };
            ns += penalty * (moved(last) + (moved(0) - moved(last)) * bend);
        }
        ns
    }

    /// Predicts a run with a candidate's ways.
    #[must_use]
    pub fn predict(&self, candidate: usize, placement: &Placement) -> Prediction {
        let (ns, bandwidth) = self.time(candidate, placement);
        let source_ns = self.source(candidate, placement);
        let difference = if source_ns.is_finite() { (source_ns - ns).abs() / ns.max(1.0) } else { 0.0 };
        let misses = self.profile.misses(candidate).max(1) as f64;
        let sampling = if self.profile.sampled { 1.0 / misses.sqrt() } else { 0.0 };
        let error = (ERROR * ERROR + (ERROR_BY_DIFFERENCE * difference).powi(2) + sampling * sampling).sqrt();
        let refused = bandwidth.iter().zip(&self.tiers).find(|(share, _)| **share > BANDWIDTH_MAX).map(
            |(share, tier)| {
                format!(
                    "takes {:.0} % of the bandwidth of {}; from 80 % on times are bounds",
                    share * 100.0,
                    tier.name
                )
            },
        );
        Prediction {
            ns,
            low_ns: ns * (1.0 - Z90 * error).max(0.0),
            high_ns: ns * (1.0 + Z90 * error),
            source_ns,
            bandwidth,
            refused,
        }
    }

    /// What a reader has to know before believing any prediction.
    #[must_use]
    pub fn cautions(&self) -> Vec<String> {
        let mut cautions = Vec::new();
        let last = self.profile.ways.len() - 1;
        let misses = self.profile.misses(last);
        if misses < MISSES_MIN {
            cautions.push(format!(
                "only {misses} accesses missed the last-level cache: the run is too short, or its data fits into the caches; \
                 a longer run says more"
            ));
        }
        let drift = self.profile.drift();
        if drift > DRIFT_MAX && misses >= MISSES_MIN {
            cautions.push(format!(
                "the program changes: {:.0} % of its misses go to other structures in the second half of the run; \
                 the plan is for the run as a whole, and one per phase needs one trace per phase",
                drift * 100.0
            ));
        }
        if self.profile.sampled {
            cautions
                .push("only a part of the events was recorded: misses of caches are estimates".to_owned());
        }
        if !self.profile.saw_allocations {
            cautions.push(
                "no allocation was recorded: structures are mappings, in equal parts, and all other memory together; a program with \
                 an allocator of its own looks like this"
                    .to_owned(),
            );
        }
        cautions
    }
}

/// How far a miss curve at a candidate is from its end towards its beginning: 1 with the fewest ways, 0 with the most. A flat
/// curve has no shape to translate; all in between is then as with the most ways.
#[must_use]
pub fn translated(curve: &[f64], candidate: usize) -> f64 {
    let (Some(first), Some(last)) = (curve.first(), curve.last()) else { return 0.0 };
    if candidate == 0 {
        return 1.0;
    }
    let all = first - last;
    if all.abs() < 1e-9 { 0.0 } else { ((curve[candidate] - last) / all).clamp(0.0, 1.0) }
}
