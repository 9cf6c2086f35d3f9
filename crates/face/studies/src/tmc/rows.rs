//! The rows.

use std::sync::Arc;

use plan::fleet::{Guest, Host, Packing, Policy, Shape, pack};
use plan::search::bayesian;

use super::clusters::{architectures, compact, gains, pool, upper_bound};
use super::truth::{SIX, Truth, mean, truth};
use crate::{Check, Evidence, Lab, Means, Row, Source, StudyError};

const METHOD: &str = "six small programs with the habits of the source's workloads, caches an eighth of its machine's, slow memory of 3 times DRAM's \
                      latency at 0.4 of its price; all 77 configurations simulated in full";
const PRICES: &str = "The source gives no prices: DRAM 0.005, a processor 0.03, a way 0.002 an hour, 16 GiB; the programs are not the source's";

const fn row(
    id: &'static str,
    claim: &'static str,
    expected: &'static str,
    tolerance: &'static str,
    means: Means,
) -> Row {
    Row {
        source: Source::Tmc,
        id,
        claim,
        expected,
        tolerance,
        method: METHOD,
        calibration: "",
        note: PRICES,
        means,
        lacks: "The programs and prices are not the source's, which gives neither traces nor prices",
    }
}

/// Results T1 to T17.
pub const ROWS: &[Row] = &[
    row(
        "T1",
        "The best configuration costs less than the average one and much less than the worst",
        "1.2 to 1.5 by the average, 1.4 to 2.6 by the worst",
        "the ranges themselves, for the mean over the programs; shape: best below average below worst",
        Means::Model(spread),
    ),
    row(
        "T2",
        "What each customer's own optimum costs the provider",
        "up to 2.2 times as many machines as with memory in the machines' own proportion, over 15 mixes of four programs",
        "1.7 to 2.7; shape: never fewer",
        Means::Model(upper_bound),
    ),
    row(
        "T3",
        "Cost of what is chosen from three runs, by the best",
        "2 % above exhaustive search; random 1.3 times as much; Bayesian optimisation 1.05 times",
        "at most 2 points more; random 1.1 to 1.6; shape: below both",
        Means::Model(cost),
    ),
    row(
        "T4",
        "Runs that a search takes",
        "26 times fewer than exhaustive, 3 times fewer than Bayesian optimisation",
        "2 % (77 / 3); 2 to 4 times",
        Means::Model(runs),
    ),
    row(
        "T5",
        "A random configuration's cost",
        "33 % more than the best as a mean",
        "20 to 50 %",
        Means::Model(random),
    ),
    row(
        "T6",
        "A tolerance of 2.5 % makes clusters smaller than exhaustive search does",
        "17 % fewer machines at 1.5 % more cost",
        "10 points; 2 points",
        Means::Model(compact),
    ),
    row(
        "T7",
        "A tolerance makes clusters smaller",
        "25 % fewer machines with 2.5 %, 32 % with 7.5 %, by a tolerance of 0",
        "8 points each; shape: fewer with more tolerance",
        Means::Model(cluster),
    ),
    row(
        "T8",
        "What a tolerance costs",
        "1.1, 2.6 and 7.9 % above the best with 0, 2.5 and 7.5 %",
        "2 points each; shape: rising",
        Means::Model(tolerance_cost),
    ),
    Row {
        calibration: "constants of the model were chosen on two of the six programs, cactus and xsbench",
        ..row(
            "T15",
            "Run times are predicted accurately from three runs",
            "largest error published: 7 %",
            "10 % on 95 % of the configurations",
            Means::Model(accuracy),
        )
    },
    row(
        "T9",
        "Clusters over tier architectures",
        "30 % smaller than by exhaustive search with 48 GiB of DRAM, 13 % with 24 GiB",
        "10 points",
        Means::Model(architectures),
    ),
    row(
        "T10",
        "Gain of packing with a tolerance of 7.5 %, 24 GiB of DRAM",
        "10 % with a pool of 640 GiB for 8 machines, 28 % with 128 GiB of each one's own",
        "10 points each; shape: more with memory of its own",
        Means::Model(gains),
    ),
    row(
        "T11",
        "A pool needs less slow memory and packs a little worse",
        "37.5 % less slow memory, 14 % lower efficiency with a tolerance of 7.5 %",
        "10 points of efficiency; the memory is arithmetic",
        Means::Model(pool),
    ),
    row(
        "T12",
        "Sampling every second miss slows programs down, every 10,007th hardly",
        "41 % as a mean with 2 (T12); below 1 % with 10,007 (T13)",
        "value: 20 %",
        Means::Hardware("a processor with PEBS, and permission to use it"),
    ),
    row(
        "T14",
        "Slow accesses are estimated accurately from samples",
        "high accuracy; off for one program, by the shadow effect",
        "shape: one program is off",
        Means::Hardware("a processor with PEBS, and two kinds of memory"),
    ),
    Row {
        note: "Our clusters of misses have a parallelism each, the source's equations one for all: the models differ \
               in that, and in what follows from it. The programs have one thread each. That profiling by X-Mem \
               takes 40 times as long is not measured: our profiles are of modelled accesses",
        ..row(
            "T16",
            "One memory-level parallelism per program is enough",
            "with one per structure, predictions are less than 1 % better",
            "value: 1 point of the mean error",
            Means::Model(parallelism),
        )
    },
    row(
        "T17",
        "Memory's share of costs, and how much of it is idle",
        "DRAM on the way to 33 % of a server's cost (Meta); half of virtual machines' memory untouched (Microsoft)",
        "none: figures of others that the source quotes",
        Means::Hardware("the fleets of two companies, whose figures these are"),
    ),
];

fn all(lab: &Lab) -> Result<Vec<Arc<Truth>>, StudyError> {
    SIX.iter().map(|name| truth(lab, name)).collect()
}

fn spread(lab: &Lab) -> Result<Evidence, StudyError> {
    let truths = all(lab)?;
    let average = mean(truths.iter().map(|one| mean(one.costs.iter().copied()) / one.least()));
    let worst = mean(truths.iter().map(|one| one.costs.iter().copied().fold(0.0, f64::max) / one.least()));
    Ok(Evidence::of(vec![
        Check::between("average by best", 1.2, 1.5, average),
        Check::between("worst by best", 1.4, 2.6, worst),
        Check::at_least("worst by average", 1.0, worst / average),
    ]))
}

/// Cost of what Bayesian optimisation finds by the best, and its runs; over ten seeds.
fn bayes(truth: &Truth) -> (f64, f64) {
    let most = truth.choices.iter().map(|one| one.candidate.at).max().unwrap_or(1).max(1) as f64;
    let points: Vec<Vec<f64>> = truth
        .choices
        .iter()
        .map(|one| vec![one.candidate.parts[1], one.candidate.at as f64 / most])
        .collect();
    let searches: Vec<_> = (0..10).map(|seed| bayesian(&points, seed, |at| truth.costs[at])).collect();
    let cost = mean(searches.iter().map(|one| truth.costs[one.best] / truth.least()));
    (cost, mean(searches.iter().map(|one| one.measured.len() as f64)))
}

fn random_cost(truth: &Truth) -> f64 {
    mean(truth.costs.iter().copied()) / truth.least()
}

fn cost(lab: &Lab) -> Result<Evidence, StudyError> {
    let truths = all(lab)?;
    let chosen = mean(truths.iter().map(|one| one.costs[one.predicted_best()] / one.least()));
    let random = mean(truths.iter().map(|one| random_cost(one))) / chosen;
    let bayes = mean(truths.iter().map(|one| bayes(one).0)) / chosen;
    Ok(Evidence::of(vec![
        Check::at_most("chosen by best", 1.04, chosen),
        Check::between("random by chosen", 1.1, 1.6, random),
        Check::at_least("Bayesian optimisation by chosen", 1.0, bayes),
    ]))
}

fn runs(lab: &Lab) -> Result<Evidence, StudyError> {
    let truths = all(lab)?;
    let configurations = mean(truths.iter().map(|one| one.costs.len() as f64));
    let bayes = mean(truths.iter().map(|one| bayes(one).1));
    Ok(Evidence::of(vec![
        Check::near("exhaustive by three runs", 25.7, 0.02, configurations / 3.0),
        Check::between("Bayesian optimisation by three runs", 2.0, 4.0, bayes / 3.0),
    ]))
}

fn random(lab: &Lab) -> Result<Evidence, StudyError> {
    let share = mean(all(lab)?.iter().map(|one| random_cost(one))) - 1.0;
    Ok(Evidence::of(vec![Check::between("random by best, less 1", 0.2, 0.5, share)]))
}

/// All six programs on the source's machines: 12 processors, 24 GiB of DRAM, 128 GiB of slow memory. Configurations are chosen by
/// predicted cost, and paid by the simulated one.
fn packed(lab: &Lab, tolerance: f64) -> Result<(Packing, f64), StudyError> {
    let truths = all(lab)?;
    let host = Host { vcpus: 12.0, fast_gib: 24.0, slow_gib: 128.0, ways: 48.0, pool: 1 };
    let guests = SIX.iter().zip(&truths).map(|(name, truth)| {
        let shape = |choice: &plan::choose::Choice| Shape {
            fast_gib: choice.gib[0],
            slow_gib: choice.gib[1],
            ways: choice.candidate.ways.into(),
            cost: choice.cost / truth.choices[truth.predicted_best()].cost,
        };
        let shapes = truth.choices.iter().map(shape).collect();
        Guest { name: (*name).to_owned(), count: 40, vcpus: 1.0, shapes }
    });
    let packing = pack(&host, &guests.collect::<Vec<_>>(), Policy::Tolerant(tolerance), 1);
    let simulated = mean(truths.iter().map(|one| one.costs[one.predicted_best()] / one.least()));
    let over = (1.0 + packing.cost_over_least) * simulated - 1.0;
    Ok((packing, over))
}

fn cluster(lab: &Lab) -> Result<Evidence, StudyError> {
    let machines = |tolerance| Ok::<_, StudyError>(packed(lab, tolerance)?.0.machines as f64);
    let (none, some, more) = (machines(0.0)?, machines(0.025)?, machines(0.075)?);
    Ok(Evidence::of(vec![
        Check::within("fewer machines with 2.5 %", 0.17, 0.33, 1.0 - some / none),
        Check::within("fewer machines with 7.5 %", 0.24, 0.40, 1.0 - more / none),
        Check::at_most("machines with 7.5 % by those with 2.5 %", 1.0, more / some),
    ]))
}

fn tolerance_cost(lab: &Lab) -> Result<Evidence, StudyError> {
    let over = |tolerance| Ok::<_, StudyError>(packed(lab, tolerance)?.1);
    let (none, some, more) = (over(0.0)?, over(0.025)?, over(0.075)?);
    Ok(Evidence::of(vec![
        Check::within("over the best with 0", 0.0, 0.031, none),
        Check::within("with 2.5 %", 0.006, 0.046, some),
        Check::within("with 7.5 %", 0.059, 0.099, more),
        Check::at_least("7.5 % by 0", 1.0, (1.0 + more) / (1.0 + none)),
    ]))
}

fn accuracy(lab: &Lab) -> Result<Evidence, StudyError> {
    let truths = all(lab)?;
    let errors: Vec<f64> = truths
        .iter()
        .flat_map(|one| {
            one.choices.iter().zip(&one.ns).map(|(choice, ns)| (choice.prediction.ns / ns - 1.0).abs())
        })
        .collect();
    let good = errors.iter().filter(|error| **error <= 0.1).count() as f64 / errors.len().max(1) as f64;
    let held = truths.iter().flat_map(|one| {
        one.choices.iter().zip(&one.ns).map(|(choice, ns)| {
            f64::from(u8::from((choice.prediction.low_ns..=choice.prediction.high_ns).contains(ns)))
        })
    });
    Ok(Evidence::of(vec![
        Check::at_least("configurations within 10 %", 0.95, good),
        Check::within("in their 90 % interval", 0.85, 0.95, mean(held)),
    ]))
}

/// Mean errors with one parallelism for all misses, and with that of each structure's clusters.
fn parallelism(lab: &Lab) -> Result<Evidence, StudyError> {
    let truths = all(lab)?;
    let error = |of: fn(&plan::Prediction) -> f64| {
        mean(truths.iter().flat_map(|one| {
            one.choices.iter().zip(&one.ns).map(move |(choice, ns)| (of(&choice.prediction) / ns - 1.0).abs())
        }))
    };
    let better = error(|one| one.source_ns) - error(|one| one.ns);
    Ok(Evidence::of(vec![Check::within("smaller mean error with one per structure", -0.01, 0.01, better)]))
}
