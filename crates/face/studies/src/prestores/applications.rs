//! What cleaning and skipping gain in applications on 3D XPoint.

use report::{Axis, Unit};

use super::kernels::{self, Kernel};
use super::programs::Program;
use super::stores::{Index, ycsb_a};
use super::{After, MACHINE_A, MACHINES_B};
use crate::pattern::Run;
use crate::{Check, Evidence, Lab, Means, Row, Series, Source, StudyError};

/// Results B-R6 to B-R10.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Prestores,
        id: "B-R6",
        claim: "TensorFlow: cleaning what the evaluator writes gains 47 % with small batches and 20 % with large ones, skipping loses \
                20 %; write amplification falls from 3.7 to 2.7",
        expected: "1.47, 1.20; 0.80; 3.7, 2.7",
        tolerance: "30 %: of the network only the parts of the writes are published; amplification 20 %",
        method: "tensors of 240 B computed in packets of 16 B, one allocated behind the other, and big ones, and as many (small batches) or \
                 twice as many (large) random lines that are not patched, 10 threads on cascade-lake with four DIMMs and prefetcher",
        calibration: "",
        note: "The kernel's shares are the published ones: how much of the writes is patched decides how much can be gained. Tensors had 256 B at random places, in whole lines, when the row was first looked at; that the machine prefetches was added after this row was looked at (docs/calibration.md)",
        means: Means::Model(tensors),
        lacks: "",
    },
    Row {
        source: Source::Prestores,
        id: "B-R7",
        claim: "NAS: cleaning the matrices is up to 40 % faster",
        expected: "up to 1.4",
        tolerance: "30 %: class and threads are not published; no kernel slower than 3 %",
        method: "an iteration of MG, FT and SP with all its passes, of which resid and psinv, cffts1, and the last of compute_rhs are patched, \
                 matrices far beyond the caches, 10 threads on cascade-lake with four DIMMs and prefetcher; time without over with clwb, the largest",
        calibration: "",
        note: "Only the patched loops were there when the row was first looked at, and gained 4.4 times; that the machine prefetches was added after this row was looked at (docs/calibration.md)",
        means: Means::Model(nas),
        lacks: "",
    },
    Row {
        source: Source::Prestores,
        id: "B-R8",
        claim: "CLHT under YCSB A: skipping the cache is 2.9 times faster, cleaning 2.3 times",
        expected: "2.9, 2.3",
        tolerance: "30 %: the best of the value sizes, at a size that is not named",
        method: "puts and gets of values of 256 B to 4 KiB, a lock in the bucket's line, 10 threads on cascade-lake with four DIMMs and prefetcher; the largest gain",
        calibration: "",
        note: "That the machine prefetches was added after this row was looked at (docs/calibration.md)",
        means: Means::Model(clht),
        lacks: "",
    },
    Row {
        source: Source::Prestores,
        id: "B-R9",
        claim: "Masstree under YCSB A: skipping the cache is 2.5 times faster, cleaning 1.9 times; less than CLHT",
        expected: "2.5, 1.9",
        tolerance: "30 %: as B-R8",
        method: "the same with the way through a tree of three levels that are not cached",
        calibration: "",
        note: "That the machine prefetches was added after this row was looked at (docs/calibration.md)",
        means: Means::Model(masstree),
        lacks: "",
    },
    Row {
        source: Source::Prestores,
        id: "B-R10",
        claim: "CLHT's write amplification is 3.8 for values over 256 B and none with pre-stores; at 128 B it halves and the gain is \
                21.4 % (CLHT) and 7.0 % (Masstree)",
        expected: "3.8; 1.0; half; 1.214, 1.07",
        tolerance: "15 % of amplification, at most 1.15 with pre-stores; a tenth of the time",
        method: "as B-R8 and B-R9, values of 64 B to 4 KiB",
        calibration: "",
        note: "That the machine prefetches was added after this row was looked at (docs/calibration.md)",
        means: Means::Model(values),
        lacks: "The prefetcher reads on behind each value, so that more of the units that are being written have to leave the DIMM's buffer in part: with pre-stores values of 1 KiB are written 1.15 and 1.16 times, without it they would be 1.13 and 1.10 times. The source has no such traffic, or a device that minds it less.",
    },
];

/// Results B-R13 to B-R15: what does no good, and the sum of it all.
pub const LAST_ROWS: &[Row] = &[
    Row {
        source: Source::Prestores,
        id: "B-R13",
        claim: "Pre-stores that fit the pattern but not the machine cost at most 0.3 % (NAS, TensorFlow on the FPGA's memory)",
        expected: "at most 1.003",
        tolerance: "shape: at most 3 %; value: at most 1 %, for the source's runs are longer than their noise and ours are short",
        method: "the kernels of B-R6 and B-R7 with clean on enzian-fast and enzian-slow; time with over without, the largest. With one thread, \
                 because the source says that they use only a fraction of the bandwidth: at most half of the slow one's here",
        calibration: "",
        note: "the row had ten threads, which the slow FPGA's bandwidth holds up, when it was looked at and missed; with ten it would be still, for cleaning costs 6 % then (docs/calibration.md)",
        means: Means::Model(useless),
        lacks: "",
    },
    Row {
        source: Source::Prestores,
        id: "B-R14",
        claim: "Pre-stores in the wrong place: 3 times slower in FT's fftz2, no effect in IS's rank",
        expected: "3; 1",
        tolerance: "30 %; 5 %",
        method: "FT with clean after each line of the stages between two cached buffers; keys to random places with clean after each; \
                 cascade-lake with four DIMMs and prefetcher, 10 threads",
        calibration: "",
        note: "That the machine prefetches was added after this row was looked at (docs/calibration.md)",
        means: Means::Model(misplaced),
        lacks: "A key's line that is cleaned is on the media soon and one that is evicted late, and ten threads wait for the media in the model; the source's keys may have been fewer",
    },
    Row {
        source: Source::Prestores,
        id: "B-R15",
        claim: "The headline: cleaning gains up to 2.3 times in an application, skipping up to 2.9 times, listing 2 up to 3 times",
        expected: "2.3, 2.9; skipping over cleaning",
        tolerance: "30 %",
        method: "the largest of B-R6 to B-R9; listing 2 is B-R1",
        calibration: "",
        note: "That the machine prefetches was added after this row was looked at (docs/calibration.md)",
        means: Means::Model(headline),
        lacks: "",
    },
];

/// Sizes of values in bytes.
const VALUES: [u32; 4] = [64, 128, 256, 1024];
/// Those that the largest gain is sought among.
const LARGE: [u64; 2] = [256, 1024];

fn amplification(run: &Run) -> f64 {
    run.traffic.ewr().map_or(f64::NAN, |ewr| 1.0 / ewr)
}

/// Time without over time with.
fn gain(lab: &Lab, kernel: Kernel, done: After) -> Result<f64, StudyError> {
    let time = |done| Ok::<f64, StudyError>(kernels::run(lab, MACHINE_A, kernel, done)?.ns_per_iteration);
    Ok(time(After::Nothing)? / time(done)?)
}

fn tensors(lab: &Lab) -> Result<Evidence, StudyError> {
    let small = gain(lab, Kernel::TensorsSmall, After::Clean)?;
    let large = gain(lab, Kernel::TensorsLarge, After::Clean)?;
    let skip = gain(lab, Kernel::TensorsSmall, After::Skip)?;
    let written = |done| {
        Ok::<f64, StudyError>(amplification(&kernels::run(lab, MACHINE_A, Kernel::TensorsSmall, done)?))
    };
    let (without, with) = (written(After::Nothing)?, written(After::Clean)?);
    Ok(Evidence::of(vec![
        Check::at_least("clean, small batches", 1.1, small),
        Check::at_least("small batches over large", 1.03, small / large),
        Check::at_most("skip", 0.97, skip),
        Check::between("amplification with over without", 0.5, 0.9, with / without),
        Check::near("clean, small batches", 1.47, 0.30, small),
        Check::near("clean, large batches", 1.20, 0.30, large),
        Check::near("skip", 0.80, 0.30, skip),
        Check::near("amplification without", 3.7, 0.20, without),
        Check::near("amplification with clean", 2.7, 0.20, with),
    ]))
}

/// The programs of NAS in which a matrix is cleaned.
const NAS: [(&str, Kernel); 3] = [
    ("MG", Kernel::Program(Program::Mg)),
    ("FT", Kernel::Program(Program::Ft)),
    ("SP", Kernel::Program(Program::Sp)),
];

fn nas(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut checks = Vec::new();
    let mut best = 0.0f64;
    for (name, kernel) in NAS {
        let gain = gain(lab, kernel, After::Clean)?;
        checks.push(Check::at_least(&format!("{name}: gain"), 0.97, gain));
        best = best.max(gain);
    }
    checks.push(Check::at_least("largest gain", 1.1, best));
    checks.push(Check::near("largest gain", 1.4, 0.30, best));
    Ok(Evidence::of(checks))
}

/// The largest gain among the sizes of values.
fn best(lab: &Lab, index: Index, done: After) -> Result<f64, StudyError> {
    let mut best = 0.0f64;
    for value in LARGE {
        best = best.max(faster(lab, index, value, done)?);
    }
    Ok(best)
}

fn faster(lab: &Lab, index: Index, value: u64, done: After) -> Result<f64, StudyError> {
    let plain = ycsb_a(lab, MACHINE_A, index, value, After::Nothing)?;
    Ok(plain.ns_per_iteration / ycsb_a(lab, MACHINE_A, index, value, done)?.ns_per_iteration)
}

fn clht(lab: &Lab) -> Result<Evidence, StudyError> {
    let (skip, clean) = (best(lab, Index::Hash, After::Skip)?, best(lab, Index::Hash, After::Clean)?);
    Ok(Evidence::of(vec![
        Check::at_least("clean", 1.2, clean),
        Check::at_least("skip over clean", 1.05, skip / clean),
        Check::near("skip", 2.9, 0.30, skip),
        Check::near("clean", 2.3, 0.30, clean),
    ]))
}

fn masstree(lab: &Lab) -> Result<Evidence, StudyError> {
    let (skip, clean) = (best(lab, Index::Tree, After::Skip)?, best(lab, Index::Tree, After::Clean)?);
    let hash = best(lab, Index::Hash, After::Clean)?;
    Ok(Evidence::of(vec![
        Check::at_least("clean", 1.15, clean),
        Check::at_least("skip over clean", 1.05, skip / clean),
        Check::at_most("clean, over CLHT's", 0.98, clean / hash),
        Check::near("skip", 2.5, 0.30, skip),
        Check::near("clean", 1.9, 0.30, clean),
    ]))
}

fn values(lab: &Lab) -> Result<Evidence, StudyError> {
    let series = |done| {
        Series::measure(&VALUES, |value| {
            Ok::<f64, StudyError>(amplification(&ycsb_a(lab, MACHINE_A, Index::Hash, value.into(), done)?))
        })
    };
    let (plain, clean, skip) = (series(After::Nothing)?, series(After::Clean)?, series(After::Skip)?);
    let gains = (faster(lab, Index::Hash, 128, After::Clean)?, faster(lab, Index::Tree, 128, After::Clean)?);
    let checks = vec![
        Check::at_most("clean, 1 KiB", 1.15, clean.at(1024.0)),
        Check::at_most("skip, 1 KiB", 1.15, skip.at(1024.0)),
        Check::between("clean over none, 128 B", 0.4, 0.7, clean.at(128.0) / plain.at(128.0)),
        Check::at_least("clean over none, 64 B", 0.8, clean.at(64.0) / plain.at(64.0)),
        Check::near("none, 1 KiB", 3.8, 0.15, plain.at(1024.0)),
        Check::near("CLHT, 128 B: gain", 1.214, 0.10, gains.0),
        Check::near("Masstree, 128 B: gain", 1.07, 0.10, gains.1),
    ];
    let curves =
        vec![crate::curve("none", &plain), crate::curve("clean", &clean), crate::curve("skip", &skip)];
    let (x, y) = (Axis::log("value", Unit::Bytes), Axis::linear("bytes on media over bytes written"));
    Ok(Evidence { checks, charts: vec![crate::chart("CLHT: write amplification", x, y, curves)] })
}

fn useless(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut checks = Vec::new();
    let mut worst = 0.0f64;
    for machine in MACHINES_B {
        let mut most = 0.0f64;
        for kernel in NAS.map(|(_, kernel)| kernel).into_iter().chain([Kernel::TensorsSmall]) {
            let time =
                |done| Ok::<f64, StudyError>(kernels::run(lab, machine, kernel, done)?.ns_per_iteration);
            most = most.max(time(After::Clean)? / time(After::Nothing)?);
        }
        checks.push(Check::at_most(&format!("{machine}: with over without"), 1.03, most));
        worst = worst.max(most);
    }
    checks.push(Check::within("with over without", 0.0, 1.01, worst));
    Ok(Evidence::of(checks))
}

fn misplaced(lab: &Lab) -> Result<Evidence, StudyError> {
    let passes = 1.0 / gain(lab, Kernel::Program(Program::FtMisused), After::Clean)?;
    let keys = 1.0 / gain(lab, Kernel::IsRank, After::Clean)?;
    Ok(Evidence::of(vec![
        Check::at_least("fftz2: with over without", 1.5, passes),
        Check::between("rank: with over without", 0.95, 1.05, keys),
        Check::near("fftz2: with over without", 3.0, 0.30, passes),
    ]))
}

fn headline(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut clean = gain(lab, Kernel::TensorsSmall, After::Clean)?;
    for (_, kernel) in NAS {
        clean = clean.max(gain(lab, kernel, After::Clean)?);
    }
    clean = clean.max(best(lab, Index::Hash, After::Clean)?).max(best(lab, Index::Tree, After::Clean)?);
    let skip = best(lab, Index::Hash, After::Skip)?.max(best(lab, Index::Tree, After::Skip)?);
    Ok(Evidence::of(vec![
        Check::at_least("skip over clean", 1.05, skip / clean),
        Check::near("clean", 2.3, 0.30, clean),
        Check::near("skip", 2.9, 0.30, skip),
    ]))
}
