//! POE (Chou 2020, chapter 4): results E1 to E6 of the specification, the average of the source's estimator (F), and the
//! headline of the engine's successor.
//!
//! The source has two sets of numbers that are not to be mixed: gem5 against gem5 (E1 to E3, half of E4), and a simulated
//! engine beside a real computer (E5).

use faults::estimate::{FaultTimes, formula};
use faults::timing::{Setting, engine_time, run};
use machine::Config;

use crate::kernels::{NAMES, Ran, all};
use crate::{Check, Evidence, Lab, Means, Row, Source, StudyError};

/// The source's computer: cycles of a nanosecond.
const GHZ: f64 = 3.4;
const KERNEL_AND_MODEL: &str = "a write or read fault of this computer's kernel over 100 pages, timed as in poe-E4, by a page's first use on \
                                the modelled machine `dram` with the engine, 100 pages that tables hold";
const GEM5: &str = "gem5 against gem5 in the source, this computer's kernel against the modelled engine here: the kernel in gem5 is 2.6 times \
                    as slow as on the source's real computer (poe-E4). Not to be mixed with poe-E5";
const HERE: &str = "measured on this computer: the first use of each page of fresh memory, one by one, without the slowest \
                    hundredth; median of 20 rounds behind a first one";
const VALUE: &str = "value: 50 %, since processor and kernel differ, and this may be a virtual machine";
const PROGRAMS: &str = "eleven kernels of the kinds that PARSEC and SPLASH-2X have, single-threaded: faults counted here by kind (as writes \
                        where this user may not trace), processor time the median of five runs";

const fn row(
    id: &'static str,
    claim: &'static str,
    expected: &'static str,
    tolerance: &'static str,
    method: &'static str,
    note: &'static str,
    means: Means,
) -> Row {
    Row {
        source: Source::Poe,
        id,
        claim,
        expected,
        tolerance,
        method,
        calibration: "",
        note,
        means,
        lacks: "",
    }
}

/// Results poe-E1 to poe-E6, and the successor's.
pub const ROWS: &[Row] = &[
    row(
        "poe-E1",
        "gem5, 100 pages: a write is 47.3 times as fast with the engine",
        "47.3",
        "shape: above 20",
        KERNEL_AND_MODEL,
        GEM5,
        Means::Here(writes),
    ),
    row(
        "poe-E2",
        "gem5, 100 pages: a read is 8.3 times as fast with the engine",
        "8.3",
        "shape: above 4, and below that of a write",
        KERNEL_AND_MODEL,
        GEM5,
        Means::Here(reads),
    ),
    row(
        "poe-E3",
        "With the engine, reads and writes differ by less than 100 cycles",
        "< 100",
        "value: as claimed",
        "a page's first use on the modelled machine `dram`, 2000 pages that tables hold: stores against loads",
        "Both have the same accesses to tables; they differ in what the core does with the line",
        Means::Model(reads_and_writes),
    ),
    row(
        "poe-E4",
        "A write fault by the kernel over 100 pages: 15024 cycles on a real computer, 39203 in gem5",
        "15024 cycles at 3.4 GHz: 4419 ns; 3678 cycles over 4096 pages: 1082 ns",
        "shape: more over 100 pages than over 4096; value: 50 %, since processor and kernel differ",
        HERE,
        "gem5's number is not judged. Reads are measured, too; the source has none for 100 pages",
        Means::Here(few_pages),
    ),
    row(
        "poe-E5",
        "4096 pages: the engine 431 cycles (gem5), a real write 3678, a real read 1158",
        "127, 1082, 341 ns",
        "shape: engine below read below write; value: 50 %, since processor and kernel differ",
        HERE,
        "The engine is the modelled machine `dram`, not gem5's in-order core; simulated engine beside real kernel, as in the source",
        Means::Here(many_pages),
    ),
    row(
        "poe-E6",
        "The estimator (F): 5.6 % of the run time of PARSEC and SPLASH-2X, single-threaded, on average",
        "5.6 %",
        VALUE,
        PROGRAMS,
        "By the source's formula and constants at 3.4 GHz. The source's per-benchmark values are lost, and its programs are others",
        Means::Here(average),
    ),
    row(
        "poe-MFOE",
        "The engine's successor MFOE: run time 6.6 % shorter on average",
        "6.6 %",
        VALUE,
        PROGRAMS,
        "The modelled engine at each kernel's rate of faults, with tables of 4096 entries: the successor's own mechanisms are not modelled",
        Means::Here(successor),
    ),
];

/// Nanoseconds per page, the median round's mean.
fn per_page(pages: usize, write: bool) -> Result<f64, StudyError> {
    let mut means = Vec::new();
    for _ in 0..=20 {
        let mut times = capture::time_first_uses(pages, write).unwrap_or_default();
        times.sort_by(f64::total_cmp);
        times.truncate((times.len() * 99).div_ceil(100));
        means.push(times.iter().sum::<f64>() / times.len().max(1) as f64);
    }
    means.remove(0);
    means.sort_by(f64::total_cmp);
    Ok(means[means.len() / 2])
}

fn machine(lab: &Lab) -> Result<Config, StudyError> {
    lab.config("dram", None)
}

/// A page's first use with the engine, in a run of 100 pages.
fn engine_of_100(lab: &Lab, write: bool) -> Result<f64, StudyError> {
    let setting = Setting { ring: 128, pages: 100, write, start: 1e6, ..Setting::new(1000.0, 1.0) };
    Ok(run(&machine(lab)?, &setting)?.page)
}

fn writes(lab: &Lab) -> Result<Evidence, StudyError> {
    let gain = per_page(100, true)? / engine_of_100(lab, true)?;
    Ok(Evidence::of(vec![Check::at_least("times as fast", 20.0, gain)]))
}

fn reads(lab: &Lab) -> Result<Evidence, StudyError> {
    let gain = per_page(100, false)? / engine_of_100(lab, false)?;
    let write = per_page(100, true)? / engine_of_100(lab, true)?;
    Ok(Evidence::of(vec![
        Check::at_least("times as fast", 4.0, gain),
        Check::at_least("a write's gain by a read's", 1.0, write / gain),
    ]))
}

fn reads_and_writes(lab: &Lab) -> Result<Evidence, StudyError> {
    let machine = machine(lab)?;
    let apart = (engine_time(&machine, true)? - engine_time(&machine, false)?).abs() * GHZ;
    Ok(Evidence::of(vec![Check::within("cycles at 3.4 GHz apart", 0.0, 100.0, apart)]))
}

fn few_pages(_: &Lab) -> Result<Evidence, StudyError> {
    let (few, many, read) = (per_page(100, true)?, per_page(4096, true)?, per_page(100, false)?);
    Ok(Evidence::of(vec![
        Check::at_least("100 pages by 4096 pages", 1.0, few / many),
        Check::near("ns of a write, 100 pages", 15_024.0 / GHZ, 0.5, few),
        Check::at_least("write by read, 100 pages", 1.0, few / read),
    ]))
}

fn many_pages(lab: &Lab) -> Result<Evidence, StudyError> {
    let engine = engine_time(&machine(lab)?, true)?;
    let (write, read) = (per_page(4096, true)?, per_page(4096, false)?);
    Ok(Evidence::of(vec![
        Check::at_least("write by read", 1.0, write / read),
        Check::at_least("read by engine", 1.0, read / engine),
        Check::near("ns of a write", 3678.0 / GHZ, 0.5, write),
        Check::near("ns of a read", 1158.0 / GHZ, 0.5, read),
        Check::near("ns of the engine", 431.0 / GHZ, 0.5, engine),
    ]))
}

/// The source's constants: its row, and no input of a model.
const SOURCE: FaultTimes = FaultTimes { write: 3678.0 / GHZ, read: 1158.0 / GHZ, engine: 431.0 / GHZ };

fn mean(shares: &[f64]) -> f64 {
    100.0 * shares.iter().sum::<f64>() / shares.len().max(1) as f64
}

fn range(shares: &[f64]) -> [Check; 2] {
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let most = shares.iter().copied().fold(0.0, f64::max);
    [
        Check::at_least("% of the kernel that gains least", 0.0, 100.0 * least),
        Check::at_least("% of the kernel that gains most", 0.0, 100.0 * most),
    ]
}

fn average(_: &Lab) -> Result<Evidence, StudyError> {
    let saved = |ran: &Ran| formula(ran.writes, ran.reads, SOURCE) / ran.nanoseconds;
    let shares: Vec<f64> = all()?.iter().map(saved).collect();
    let mut checks = vec![Check::near("% of the run time, mean", 5.6, 0.5, mean(&shares))];
    checks.extend(range(&shares));
    Ok(Evidence::of(checks))
}

fn successor(lab: &Lab) -> Result<Evidence, StudyError> {
    let machine = machine(lab)?;
    let (write, read) = (per_page(4096, true)?, per_page(4096, false)?);
    let mut shares = Vec::new();
    for ran in all()? {
        let faults = (ran.writes + ran.reads).max(1);
        let gap = (ran.nanoseconds / faults as f64 - write).max(100.0);
        let base =
            Setting { pages: faults.min(10_000), gap, kernel_read: read, ..Setting::new(write, 0.5 * write) };
        let time = |ring| Ok::<f64, StudyError>(run(&machine, &Setting { ring, ..base })?.time);
        shares.push(1.0 - time(4096)? / time(0)?);
    }
    let mut checks = vec![Check::near("% of the run time, mean", 6.6, 0.5, mean(&shares))];
    checks.extend(range(&shares));
    debug_assert_eq!(shares.len(), NAMES.len());
    Ok(Evidence::of(checks))
}
