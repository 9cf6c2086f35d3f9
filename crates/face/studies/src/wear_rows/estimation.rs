//! Estimates from sampled stores beside exact write-backs (section 3.2.2).

use super::lifetime::mean;
use super::programs::Program;
use crate::{Check, Evidence, Lab, Means, Row, Source, StudyError};

const METHOD: &str = "the runs of K1: every store, or every 17th, through two Bloom filters as large as the scaled cache, beside the write-backs of the modelled caches";
const PEBS: &str = "a processor whose performance unit samples stores with their addresses (PEBS): the cost is that of its records";

/// Results K8 to K11, K16.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Kevlar,
        id: "K8",
        claim: "The hottest 10 % of the pages are found: 80.1 % of them on average, 96.3 % for Echo",
        expected: "0.801; 0.963 for Echo, the most",
        tolerance: "shape: well above the 0.1 of chance, 0.5; values 15 %",
        method: METHOD,
        calibration: "",
        note: "Sampling every 17th store. Pages as hot as the last of the tenth count as found, else Echo's pages, all alike, could not be ranked",
        means: Means::Model(hottest),
        lacks: "A scaled run has so few samples of a page that its hottest tenth is partly noise",
    },
    Row {
        source: Source::Kevlar,
        id: "K9",
        claim: "With the model of the cache the RMS error is 21.6 times lower; Memcached 100 times, Redis 106.8 times, at every store",
        expected: "21.6 (21.7 in section 3.1, 20 in a caption); 100.0; 106.8; standard deviation of the errors 2.85 times their mean",
        tolerance: "shape: lower for every program; values a factor of 2",
        method: METHOD,
        calibration: "",
        note: "",
        means: Means::Model(errors),
        lacks: "How much a cache absorbs is the program's: an allocator, a stack and a network buffer take most stores of a real server and are never written \
                back; our runs have the stores of the engine alone. Where each store is flushed (Echo) every one is a write-back, and the filters take \
                repeated ones for hits",
    },
    Row {
        source: Source::Kevlar,
        id: "K10",
        claim: "Sampling every store costs up to 112.9 % (Aerospike), 13.2 % on average",
        expected: "1.129; 0.132, evidently a geometric mean",
        tolerance: "30 %",
        method: "a program with and without sampling",
        calibration: "",
        note: "",
        means: Means::Hardware(PEBS),
        lacks: "",
    },
    Row {
        source: Source::Kevlar,
        id: "K11",
        claim: "Sampling every 17th store costs less than 1 % on average, at most 1.3 % (Aerospike)",
        expected: "below 0.01; 0.013",
        tolerance: "half a point",
        method: "a program with and without sampling",
        calibration: "",
        note: "",
        means: Means::Hardware(PEBS),
        lacks: "",
    },
    Row {
        source: Source::Kevlar,
        id: "K16",
        claim: "Echo flushes after each store: about 64 write-backs per page on nearly all pages",
        expected: "64; nearly all",
        tolerance: "value: 15 %; shape: nine of ten pages within 15 % of the median",
        method: "the Echo-like run: versions of 480 B appended to a log, each flushed before the next",
        calibration: "",
        note: "",
        means: Means::Model(appended),
        lacks: "Records do not end at lines: a line that two records share is flushed for each",
    },
];

fn hottest(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut found = Vec::new();
    for program in Program::ALL {
        let observed = program.observe(lab)?;
        found.push((program, observed.estimates[1][0].hottest));
    }
    let average = mean(found.iter().map(|one| one.1));
    let echo = found.iter().find(|one| one.0 == Program::Echo).map_or(f64::NAN, |one| one.1);
    let most = found.iter().map(|one| one.1).fold(0.0, f64::max);
    Ok(Evidence::of(vec![
        Check::at_least("average", 0.5, average),
        Check::at_least("Echo by the most", 1.0, echo / most),
        Check::near("average", 0.801, 0.15, average),
        Check::near("Echo", 0.963, 0.15, echo),
    ]))
}

fn errors(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut ratios = Vec::new();
    let mut spreads = Vec::new();
    for program in Program::ALL {
        let observed = program.observe(lab)?;
        let [filtered, naive] = observed.estimates[0];
        ratios.push((program, naive.rms / filtered.rms.max(1e-9)));
        spreads.push(observed.error_spread);
    }
    let of = |program: Program| ratios.iter().find(|one| one.0 == program).map_or(f64::NAN, |one| one.1);
    let factor =
        |what: &str, published: f64, got: f64| Check::within(what, published / 2.0, published * 2.0, got);
    Ok(Evidence::of(vec![
        Check::at_least(
            "least of the programs",
            1.0,
            ratios.iter().map(|one| one.1).fold(f64::INFINITY, f64::min),
        ),
        factor("average", 21.6, mean(ratios.iter().map(|one| one.1))),
        factor("Memcached", 100.0, of(Program::Memcached)),
        factor("Redis", 106.8, of(Program::Redis)),
        factor("deviation of the errors by their mean", 2.85, mean(spreads)),
    ]))
}

fn appended(lab: &Lab) -> Result<Evidence, StudyError> {
    let observed = Program::Echo.observe(lab)?;
    let counts = &observed.counts;
    let median = counts.get(counts.len() / 2).copied().unwrap_or(0) as f64;
    let near = counts.iter().filter(|count| (**count as f64 / median - 1.0).abs() <= 0.15).count();
    Ok(Evidence::of(vec![
        Check::at_least("pages within 15 % of the median", 0.9, near as f64 / counts.len().max(1) as f64),
        Check::near("median write-backs of a page", 64.0, 0.15, median),
    ]))
}
