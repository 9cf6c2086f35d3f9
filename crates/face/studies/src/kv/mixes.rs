//! YCSB's mixes: logs against an allocator, and where the index is.

use kv::Engine;

use super::choose::Keys;
use super::engine::{Mix, Setup};
use super::replay::{Variant, measure};
use super::transactions;
use crate::{Check, Evidence, Lab, Means, Row, Source, StudyError};

/// How it is measured.
const METHOD: &str = "the library's engines, recorded on 28 simulated threads, with the source's B+-tree and \
                      allocator lists beside them as a pattern of \
                      accesses; 256 B values, zipfian with exponent 0.99 (the source does not name its own), \
                      cascade-lake with four DIMMs; logs of 64 KiB, \
                      half of them garbage and collected as fast as they fill; an index of 10 million keys, \
                      24,000 records. Transactions are those of A-R10";
/// What transactions lack, as A-R10 says.
const LOCK: &str = "Transactions: as A-R10, the lock of the size class is handed over at once in the \
                    model, where \
                    a mutex that puts threads to sleep takes microseconds";

/// Why a persistent index costs more than it did.
const COLD: &str =
    "The threads' runs are short, so that less of the index is in the caches than in the source's";

/// Results A-R13 to A-R16.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Kv,
        id: "A-R13",
        claim: "YCSB A: the allocator with its index in DRAM is best, logs fall back more under Zipf, a \
                persistent index halves throughput, transactions are up to 22 times slower",
        expected: "logs behind; more so under Zipf; 2; 22 (100 million keys, Zipf)",
        tolerance: "shape: logs take longer than the allocator, by more under Zipf; a persistent index and \
                    transactions cost at least 20 %; values 30 %, 40 % for transactions",
        method: METHOD,
        calibration: "",
        note: "",
        means: Means::Model(updates),
        lacks: LOCK,
    },
    Row {
        source: Source::Kv,
        id: "A-R14",
        claim: "YCSB B and D (5 % updates): logs as the allocator with uniform keys, garbage collection \
                shows \
                under Zipf; an index in DRAM is up to 1.5 times (uniform) and \
                1.8 times (Zipf) faster; transactions are up to 3.6 times slower",
        expected: "1; above 1; 1.5, 1.8; 3.6",
        tolerance: "shape: logs within 10 %, further behind under Zipf than with uniform keys; index in \
                    DRAM 10 % \
                    faster or more; values 25 %, 40 % for transactions",
        method: METHOD,
        calibration: "",
        note: "",
        means: Means::Model(mostly_reads),
        lacks: COLD,
    },
    Row {
        source: Source::Kv,
        id: "A-R15",
        claim: "YCSB C (reads): logs as the allocator; a persistent index is 1.6 times slower with \
                uniform keys, \
                1.3 times under Zipf",
        expected: "1; 1.6, 1.3",
        tolerance: "shape: within 5 %; a persistent index costs less under Zipf; values 20 %",
        method: METHOD,
        calibration: "",
        note: "",
        means: Means::Model(reads),
        lacks: COLD,
    },
    Row {
        source: Source::Kv,
        id: "A-R16",
        claim: "YCSB E (95 % scans, 5 % updates): as B, with a slightly smaller penalty of a persistent \
                index",
        expected: "below B's",
        tolerance: "shape: the penalty is at most B's and at least 1; logs within 10 % with uniform keys",
        method: "as A-R14; a scan goes along the leaves and reads 50 records (the source does not say how \
                 many), \
                 which lie at random places",
        calibration: "",
        note: "",
        means: Means::Model(scans),
        lacks: "",
    },
];

/// Keys of the index.
const KEYS: u64 = 10_000_000;
const A: Mix = Mix { update: 50, insert: 0, delete: 0, scan: 0 };
const B: Mix = Mix { update: 5, insert: 0, delete: 0, scan: 0 };
const C: Mix = Mix { update: 0, insert: 0, delete: 0, scan: 0 };
const E: Mix = Mix { update: 5, insert: 0, delete: 0, scan: 95 };

/// Nanoseconds of an operation.
fn time(lab: &Lab, engine: Engine, mix: Mix, keys: Keys, indexed: bool) -> Result<f64, StudyError> {
    let setup = Setup { engine, value: 256, keys, index: KEYS, mix, sustained: mix != C };
    Ok(measure(lab, &setup, Variant { indexed, ..Variant::default() })?.ns_per_iteration)
}

/// How much longer logs take than the allocator, both with their index in DRAM.
fn logs(lab: &Lab, mix: Mix, keys: Keys) -> Result<f64, StudyError> {
    Ok(time(lab, Engine::Log, mix, keys, false)? / time(lab, Engine::Slab, mix, keys, false)?)
}

/// How much longer it takes with a persistent index, with the allocator.
fn indexed(lab: &Lab, mix: Mix, keys: Keys) -> Result<f64, StudyError> {
    Ok(time(lab, Engine::Slab, mix, keys, true)? / time(lab, Engine::Slab, mix, keys, false)?)
}

fn updates(lab: &Lab) -> Result<Evidence, StudyError> {
    let (uniform, zipf) = (logs(lab, A, Keys::Uniform)?, logs(lab, A, Keys::Zipf)?);
    let persistent = indexed(lab, A, Keys::Uniform)?;
    let full = transactions::slower(lab, 50, Keys::Zipf, 100_000_000)?;
    Ok(Evidence::of(vec![
        Check::at_least("uniform: logs over allocator", 1.0, uniform),
        Check::at_least("logs over allocator, Zipf over uniform", 1.0, zipf / uniform),
        Check::at_least("persistent index over DRAM, uniform", 1.2, persistent),
        Check::at_least("transactions over minimal, Zipf, 100 million keys", 1.2, full),
        Check::near("persistent index over DRAM, uniform", 2.0, 0.30, persistent),
        Check::near("transactions over minimal, Zipf, 100 million keys", 22.0, 0.40, full),
    ]))
}

fn mostly_reads(lab: &Lab) -> Result<Evidence, StudyError> {
    let (uniform, zipf) = (logs(lab, B, Keys::Uniform)?, logs(lab, B, Keys::Zipf)?);
    let penalty = [indexed(lab, B, Keys::Uniform)?, indexed(lab, B, Keys::Zipf)?];
    let full = transactions::slower(lab, 5, Keys::Zipf, 100_000_000)?;
    Ok(Evidence::of(vec![
        Check::between("uniform: logs over allocator", 0.9, 1.1, uniform),
        Check::at_least("logs over allocator, Zipf over uniform", 1.0, zipf / uniform),
        Check::at_least("uniform: persistent index over DRAM", 1.1, penalty[0]),
        Check::at_least("Zipf: persistent index over DRAM", 1.1, penalty[1]),
        Check::near("uniform: persistent index over DRAM", 1.5, 0.25, penalty[0]),
        Check::near("Zipf: persistent index over DRAM", 1.8, 0.25, penalty[1]),
        Check::near("transactions over minimal, Zipf, 100 million keys", 3.6, 0.40, full),
    ]))
}

fn reads(lab: &Lab) -> Result<Evidence, StudyError> {
    let (uniform, zipf) = (indexed(lab, C, Keys::Uniform)?, indexed(lab, C, Keys::Zipf)?);
    Ok(Evidence::of(vec![
        Check::between("uniform: logs over allocator", 0.95, 1.05, logs(lab, C, Keys::Uniform)?),
        Check::between("Zipf: logs over allocator", 0.95, 1.05, logs(lab, C, Keys::Zipf)?),
        Check::at_most("persistent index over DRAM, Zipf over uniform", 1.0, zipf / uniform),
        Check::near("uniform: persistent index over DRAM", 1.6, 0.20, uniform),
        Check::near("Zipf: persistent index over DRAM", 1.3, 0.20, zipf),
    ]))
}

fn scans(lab: &Lab) -> Result<Evidence, StudyError> {
    let (scans, mostly) = (indexed(lab, E, Keys::Uniform)?, indexed(lab, B, Keys::Uniform)?);
    Ok(Evidence::of(vec![
        Check::between("uniform: logs over allocator", 0.9, 1.1, logs(lab, E, Keys::Uniform)?),
        Check::at_least("uniform: persistent index over DRAM", 1.0, scans),
        Check::at_most("uniform: persistent index over DRAM, E over B", 1.0, scans / mostly),
    ]))
}
