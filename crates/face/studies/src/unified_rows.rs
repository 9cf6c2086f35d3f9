//! Memory that CPU and GPU share (Wu 2026, chapter 4): table, sort, query, on a modelled unified memory and
//! on this computer.

use std::time::Duration;

use device::Time;
use unified::model::{Load, Machine, Transfers};
use unified::{Approach, Batch, BatchOptions, CoExecution, Shape, Table, micro};

use crate::{Check, Evidence, Lab, Means, Row, Source, StudyError};

const MODEL: &str = "A modelled machine: a wide low-power memory with one cache for all, ordinary cores; C-R4 to C-R6 and C-R14 are formulas over data sheets' bandwidths";
const CHOSEN: &str =
    "the machine's numbers were chosen with the claims known: a match says that the mechanism suffices";
const M2: &str =
    "an M2 Ultra and a Xeon Gold 6230; `strandline measure --on gpu` measures the machine at hand";

/// A row, for what most have in common.
const fn row(
    id: &'static str,
    claim: &'static str,
    expected: &'static str,
    tolerance: &'static str,
    means: Means,
) -> Row {
    Row {
        source: Source::Unified,
        id,
        claim,
        expected,
        tolerance,
        method: "virtual time, device::UnifiedMemory; docs/unified.md",
        calibration: match &means {
            Means::Model(_) => CHOSEN,
            _ => "",
        },
        note: MODEL,
        means,
        lacks: "",
    }
}

/// Results C-R1 to C-R14.
pub const ROWS: &[Row] = &[
    row(
        "C-R1",
        "Sequential bandwidth of unified memory is twice a server's",
        "2",
        "25 %",
        Means::Hardware(M2),
    ),
    row(
        "C-R2",
        "A pointer chase takes 150 ns on both, 20 ns more at many threads",
        "150; +20",
        "25 %",
        Means::Hardware(M2),
    ),
    row("C-R3", "memcpy: 114 against 38 GB/s", "3", "25 %", Means::Hardware(M2)),
    row(
        "C-R4",
        "Discrete GPU: data movement is more than 80 % of a sort",
        "above 0.8",
        "shape: above one half; value: above 0.8",
        Means::Model(movement),
    ),
    row(
        "C-R5",
        "Beyond the device's memory a sort takes four times as long per key",
        "4",
        "shape: at least twice; value: 2.5 to 6",
        Means::Model(beyond),
    ),
    row(
        "C-R6",
        "Unified memory: the sort itself is slower than the discrete GPU's, all of it is faster",
        "both",
        "shape",
        Means::Model(unified_sort),
    ),
    row(
        "C-R7",
        "CPU lookups scale with 16 threads (22 to 352 per us)",
        "16",
        "shape: at least 12; value: 20 %",
        Means::Model(threads),
    ),
    row(
        "C-R8",
        "GPU lookups rise with the size of a batch, then level off",
        "rising, then flat",
        "shape: ten times the batch gives at least twice the rate at first, at most 1.3 times at last",
        Means::Model(batches),
    ),
    row("C-R9", "A launch takes 166 us on the M2, 9 us with CUDA", "166; 9", "25 %", Means::Hardware(M2)),
    row(
        "C-R10",
        "A batch of 100,000 takes 0.4 ms from one submitter, over 1 ms from each of 16",
        "rising, more than 2.5 times",
        "shape: at least twice",
        Means::Model(waits),
    ),
    Row {
        method: "this computer, one thread, a table of 512 MiB, medians of five; `strandline bench unified --only prefetch`",
        note: "Times of this computer: only with nothing else running",
        ..row(
            "C-R11",
            "Prefetching 13 buckets ahead makes CPU lookups nearly three times as fast; further ahead is no worse",
            "3 at d = 13",
            "shape: at least 1.5, and 64 ahead within 25 % of 13; value: 2.5 to 4",
            Means::Here(prefetch),
        )
    },
    row(
        "C-R12",
        "Approach 2 with copies and d = 20: more than 70 % at small batches, less with larger ones, never a loss",
        "above 0.7; falling; at least 0",
        "shape: falls, never below 0; value: above 0.7",
        Means::Model(together),
    ),
    row(
        "C-R13",
        "All combined: several thousand lookups per us",
        "above 2000",
        "value",
        Means::Hardware("an M2 Ultra, 76 GPU cores; `strandline bench unified` measures the machine at hand"),
    ),
    row(
        "C-R14",
        "TPC-H Q1: unified memory beats a discrete GPU by avoiding transfers",
        "faster",
        "shape",
        Means::Model(query),
    ),
];

/// A discrete GPU of the source's class by its data sheet: 504 GB/s, PCIe 4.0 x16 of which pageable copies,
/// which a core stages, reach some 10 GB/s; 12 GB; pages of 64 KiB that take 3 us of faults when sixteen
/// move together.
const DISCRETE: Transfers =
    Transfers { memory: 350.0, link: 10.0, capacity: 12 << 30, page: (64 << 10, 3000.0) };
/// Unified memory of 819 GB/s by its data sheet, of which an untuned sort reaches a quarter.
const UNIFIED: Transfers =
    Transfers { memory: 200.0, link: f64::INFINITY, capacity: 128 << 30, page: (64 << 10, 0.0) };

/// A radix sort of `keys` words: four passes, each read for the histogram, read and written.
fn sort_traffic(keys: u64) -> u64 {
    4 * 3 * 4 * keys
}

fn movement(_: &Lab) -> Result<Evidence, StudyError> {
    let keys = 500_000_000;
    let cost = DISCRETE.copied(4 * keys, sort_traffic(keys), 4 * keys);
    let share = cost.moved / cost.total();
    Ok(Evidence::of(vec![
        Check::at_least("share of movement, shape", 0.5, share),
        Check::within("share of movement", 0.8, 1.0, share),
    ]))
}

fn beyond(_: &Lab) -> Result<Evidence, StudyError> {
    let per_key = |keys: u64| {
        // Two buffers.
        DISCRETE.managed(8 * keys, sort_traffic(keys), 16 * keys).total() / keys as f64
    };
    let ratio = per_key(2_000_000_000) / per_key(1_000_000_000);
    Ok(Evidence::of(vec![
        Check::at_least("time per key beyond over within, shape", 2.0, ratio),
        Check::within("time per key beyond over within", 2.5, 6.0, ratio),
    ]))
}

fn unified_sort(_: &Lab) -> Result<Evidence, StudyError> {
    let keys = 500_000_000;
    let discrete = DISCRETE.copied(4 * keys, sort_traffic(keys), 4 * keys);
    let unified = UNIFIED.copied(4 * keys, sort_traffic(keys), 4 * keys);
    Ok(Evidence::of(vec![
        Check::at_least("sort phase, unified over discrete", 1.0, unified.worked / discrete.worked),
        Check::at_most("total, unified over discrete", 1.0, unified.total() / discrete.total()),
    ]))
}

/// A table of 1 GiB; half a millisecond.
const LOAD: Load = Load {
    lines: 1 << 24,
    cores: 0,
    ahead: 0,
    submitters: 0,
    batch: 100_000,
    copies: false,
    runtime: Time::from_ns(500_000),
};

fn threads(_: &Lab) -> Result<Evidence, StudyError> {
    let machine = Machine::default();
    let rate = |cores| machine.run(&Load { cores, ..LOAD }, 1).cpu;
    let ratio = rate(16) / rate(1);
    Ok(Evidence::of(vec![
        Check::at_least("16 threads over one, shape", 12.0, ratio),
        Check::near("16 threads over one", 16.0, 0.2, ratio),
    ]))
}

fn batches(_: &Lab) -> Result<Evidence, StudyError> {
    let machine = Machine::default();
    let rate = |batch| {
        let runtime = Time::from_ns(4_000_000);
        machine.run(&Load { submitters: 1, batch, runtime, ..LOAD }, 1).accelerator
    };
    let rates = [rate(1000), rate(10_000), rate(100_000), rate(1_000_000)];
    Ok(Evidence::of(vec![
        Check::at_least("10,000 over 1,000", 2.0, rates[1] / rates[0]),
        Check::at_most("1,000,000 over 100,000", 1.3, rates[3] / rates[2]),
    ]))
}

fn waits(_: &Lab) -> Result<Evidence, StudyError> {
    let machine = Machine::default();
    let wait =
        |submitters| machine.run(&Load { submitters, runtime: Time::from_ns(8_000_000), ..LOAD }, 1).batch_us;
    Ok(Evidence::of(vec![Check::at_least("16 submitters over one", 2.0, wait(16) / wait(1))]))
}

fn together(_: &Lab) -> Result<Evidence, StudyError> {
    let machine = Machine::default();
    let gain = |batch| {
        let load =
            Load { cores: 8, submitters: 1, batch, copies: true, runtime: Time::from_ns(2_000_000), ..LOAD };
        machine.run(&Load { ahead: 20, ..load }, 1).total() / machine.run(&load, 1).total() - 1.0
    };
    let gains = [gain(1000), gain(10_000), gain(100_000)];
    Ok(Evidence::of(vec![
        Check::at_least("gain falls with the batch: 1,000 less 100,000", 0.0, gains[0] - gains[2]),
        Check::at_least("least gain", 0.0, gains[0].min(gains[1]).min(gains[2])),
        Check::within("gain at a batch of 1,000", 0.7, f64::INFINITY, gains[0]),
    ]))
}

fn query(_: &Lab) -> Result<Evidence, StudyError> {
    // Six columns of four bytes, read once.
    let bytes = 1_000_000_000 * 24;
    let ratio = UNIFIED.copied(bytes, bytes, 0).total() / DISCRETE.copied(bytes, bytes, 0).total();
    Ok(Evidence::of(vec![Check::at_most("time, unified over discrete", 1.0, ratio)]))
}

fn prefetch(_: &Lab) -> Result<Evidence, StudyError> {
    let device = std::sync::Arc::new(Batch::new(BatchOptions::default()));
    // 2^23 buckets of 64 bytes, half full.
    let table = Table::new(device, Shape::for_keys(50_000_000)?)?;
    let keys = micro::filled(&table, 32_000_000)?;
    let rate = |ahead| -> Result<f64, StudyError> {
        let run = CoExecution {
            approach: Approach::Two,
            workers: 1,
            submitters: 0,
            batch: 1,
            ahead,
            duration: Duration::from_millis(400),
            seed: 1,
        };
        let mut rates = Vec::new();
        for _ in 0..5 {
            rates.push(run.run(&table, None, &keys)?.cpu);
        }
        rates.sort_by(f64::total_cmp);
        Ok(rates[2])
    };
    let (none, near, far) = (rate(0)?, rate(13)?, rate(64)?);
    Ok(Evidence::of(vec![
        Check::at_least("13 ahead over none, shape", 1.5, near / none),
        Check::at_least("64 ahead over 13", 0.75, far / near),
        Check::within("13 ahead over none", 2.5, 4.0, near / none),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn modelled_rows_are_judged() {
        let lab = Lab::new(None);
        for row in ROWS {
            let Means::Model(measure) = row.means else { continue };
            let evidence = measure(&lab).expect("nothing can fail");
            let verdict = Verdict::of(&evidence.checks);
            println!("{} {verdict}: {:?}", row.id, evidence.checks);
            assert!(!evidence.checks.is_empty());
        }
    }
}
