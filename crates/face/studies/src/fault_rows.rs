//! POE (Chou 2020, chapter 4): results E1 to E6 of the specification, the average of the source's estimator (F), and the
//! headline of the engine's successor.
//!
//! The source has two sets of numbers that are not to be mixed: gem5 against gem5 (E1 to E3, half of E4), and a simulated
//! engine beside a real computer (E5).

use faults::timing::{Latencies, engine_time};

use crate::{Check, Evidence, Lab, Means, Row, Source, StudyError};

/// The source's computer: cycles of a nanosecond.
const GHZ: f64 = 3.4;
const GEM5: &str = "gem5's full-system mode with a changed page walker, and a changed kernel in it";
const HERE: &str = "measured on this computer: the first use of each page of fresh memory, one by one, without the slowest \
                    hundredth; median of 20 rounds behind a first one";
const VALUE: &str = "value: 50 %, since processor and kernel differ, and this may be a virtual machine";
const PROGRAMS: &str =
    "the benchmarks themselves under `strandline faults`, which says the same of any one program";

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
        "gem5 with the engine against gem5 without",
        "gem5 against gem5: not to be mixed with poe-E5",
        Means::Hardware(GEM5),
    ),
    row(
        "poe-E2",
        "gem5, 100 pages: a read is 8.3 times as fast with the engine",
        "8.3",
        "shape: above 4, and below that of a write",
        "gem5 with the engine against gem5 without",
        "gem5 against gem5: not to be mixed with poe-E5",
        Means::Hardware(GEM5),
    ),
    row(
        "poe-E3",
        "With the engine, reads and writes differ by less than 100 cycles",
        "< 100",
        "value: as claimed",
        "gem5 with the engine against gem5 without",
        "The model of the engine's time has the same accesses for both, so it says nothing of this",
        Means::Hardware(GEM5),
    ),
    row(
        "poe-E4",
        "A write fault by the kernel over 100 pages: 15024 cycles on a real computer, 39203 in gem5",
        "15024 cycles at 3.4 GHz: 4419 ns; 3678 cycles over 4096 pages: 1082 ns",
        "shape: more over 100 pages than over 4096; value: 50 %, since processor and kernel differ",
        HERE,
        "gem5's number is not judged",
        Means::Here(few_pages),
    ),
    row(
        "poe-E5",
        "4096 pages: the engine 431 cycles (gem5), a real write 3678, a real read 1158",
        "127, 1082, 341 ns",
        "shape: engine below read below write; value: 50 %, since processor and kernel differ",
        HERE,
        "The engine's time is that of its accesses to the caches of a current processor, not of gem5's in-order core",
        Means::Here(many_pages),
    ),
    row(
        "poe-E6",
        "The estimator (F): 5.6 % of the run time of PARSEC and SPLASH-2X, single-threaded, on average",
        "5.6 %",
        VALUE,
        "formula F over the faults of each program",
        "The source's per-benchmark values are lost",
        Means::Later(PROGRAMS),
    ),
    row(
        "poe-MFOE",
        "The engine's successor MFOE: run time 6.6 % shorter on average",
        "6.6 %",
        VALUE,
        "formula F over the faults of each program",
        "Another engine, other programs",
        Means::Later(PROGRAMS),
    ),
];

/// A hit in the first cache, and a line that another core wrote, of current processors.
const LATENCIES: Latencies = Latencies { first: 1.5, last: 40.0 };

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

fn few_pages(_: &Lab) -> Result<Evidence, StudyError> {
    let (few, many) = (per_page(100, true)?, per_page(4096, true)?);
    Ok(Evidence::of(vec![
        Check::at_least("100 pages by 4096 pages", 1.0, few / many),
        Check::near("ns of a write, 100 pages", 15_024.0 / GHZ, 0.5, few),
    ]))
}

fn many_pages(_: &Lab) -> Result<Evidence, StudyError> {
    let (write, read, engine) = (per_page(4096, true)?, per_page(4096, false)?, engine_time(LATENCIES));
    Ok(Evidence::of(vec![
        Check::at_least("write by read", 1.0, write / read),
        Check::at_least("read by engine", 1.0, read / engine),
        Check::near("ns of a write", 3678.0 / GHZ, 0.5, write),
        Check::near("ns of a read", 1158.0 / GHZ, 0.5, read),
        Check::near("ns of the engine", 431.0 / GHZ, 0.5, engine),
    ]))
}
