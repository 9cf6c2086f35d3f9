//! The study's seven findings, each by what shows it.

use super::load::{gain, insert, inserts, mix, over, row};
use super::nodes::{by_size, shares};
use super::record::{Kind, Setup};
use super::replay::{Variant, measure};
use super::table::{CORE, EVICTED, amplification};
use crate::{Check, Evidence, Lab, Row, StudyError};

/// Findings F1 to F7: signs, and orders of size.
pub const ROWS: &[Row] = &[
    row(
        "F1",
        "Inserts fall further behind DRAM with more threads: bandwidth limits them",
        "from about 2 to 3 to 4.4 times",
        "shape: 1.2 times as far or more, with 48 threads 3 to 6 times for btree",
        widens,
        "",
    ),
    row(
        "F2",
        "What a structure that writes less gains depends on how much is written: with few inserts plain \
         btree does as well",
        "1.02 with 40 % inserts by 16 threads; up to 1.40 with inserts alone",
        "shape: gain at most 1.06 with the former, more with the latter",
        depends,
        EVICTED,
    ),
    row(
        "F3",
        "Bandwidth limits persistent trees while random access leaves much of it unused; a log makes use \
         of it",
        "btree-LS: 41 % more inserts, WA 1.4 to 1.7 against 3.2 of btree",
        "shape: more inserts than FAST/FAIR with 48 threads; WA at most 0.7 of btree's",
        unused,
        "",
    ),
    row(
        "F4",
        "Caches evict lines that were modified in sequence out of order; flushed together they reach the \
         DIMM together",
        "group flushing: 24 % more inserts",
        "shape: WA with group flushing at most 0.9 of that without; 48 threads insert more",
        evicts,
        EVICTED,
    ),
    row(
        "F5",
        "A write-ahead log is simple, but costs much in software",
        "0.9 us in software, 1.1 us to persist",
        "shape: software is at least a quarter of what the log costs, and at least 200 ns",
        software,
        "Instructions are estimated from accesses, four a word: the 2,500 that the source's btree-WAL \
         executes more than its btree are not explained by what it writes. Persistent unsorted logs only \
         splits, which is less than what else differs between two runs",
    ),
    row(
        "F6",
        "FAST/FAIR gains from flushes that follow each other",
        "1.7 times less time on 6 flushes than persistent unsorted on 5",
        "shape: a flush takes less time, 1.3 times or more",
        follows,
        "The library's persistent unsorted tree flushes 9.3 lines an insert, not 5: nodes that are \
         split, and those above, are flushed whole. Taken together they hold an insert up for 1.7 times \
         as long as FAST/FAIR's (I11)",
    ),
    row(
        "F7",
        "Nodes of another size are best on 3D XPoint than in DRAM: smaller ones with many inserts",
        "256 B; 512 B (32 threads)",
        "shape: the best of 256, 512 and 1024 B is smaller on 3D XPoint",
        tunes,
        CORE,
    ),
];

fn widens(lab: &Lab) -> Result<Evidence, StudyError> {
    let behind = over(&inserts(lab, Kind::Plain, false)?, &inserts(lab, Kind::Plain, true)?);
    Ok(Evidence::of(vec![
        Check::at_least("xpoint over DRAM, 48 threads over 1", 1.2, behind.at(48.0) / behind.at(1.0)),
        Check::between("48 threads: xpoint over DRAM, time", 3.0, 6.0, behind.at(48.0)),
    ]))
}

fn depends(lab: &Lab) -> Result<Evidence, StudyError> {
    let of = |kind| mix(lab, kind, 40, Variant::of(16));
    let few = of(Kind::Plain)? / of(Kind::UnsortedLeaf)?;
    let most = gain(lab, false)?.max();
    Ok(Evidence::of(vec![
        Check::at_most("40 % inserts by 16 threads: unsorted over btree", 1.06, few),
        Check::at_least("most gain with inserts alone over that", 1.03, most / few),
    ]))
}

fn unused(lab: &Lab) -> Result<Evidence, StudyError> {
    let of = |kind| measure(lab, &insert(kind), Variant::of(48));
    let (logs, fair, plain) = (of(Kind::Logs)?, of(Kind::FastFair)?, of(Kind::Plain)?);
    let amplified = amplification(&logs).1 / amplification(&plain).1;
    Ok(Evidence::of(vec![
        Check::at_least(
            "48 threads: btree-LS over FAST/FAIR, throughput",
            1.0,
            logs.throughput() / fair.throughput(),
        ),
        Check::at_most("WA, btree-LS over btree", 0.7, amplified),
    ]))
}

fn evicts(lab: &Lab) -> Result<Evidence, StudyError> {
    let of = |group_flush| measure(lab, &Setup { group_flush, ..insert(Kind::Plain) }, Variant::of(48));
    let (plain, grouped) = (of(false)?, of(true)?);
    let amplified = amplification(&grouped).1 / amplification(&plain).1;
    Ok(Evidence::of(vec![
        Check::at_most("WA, with group flushing over without", 0.9, amplified),
        Check::at_least("throughput, with over without", 1.0, plain.latency() / grouped.latency()),
    ]))
}

fn software(lab: &Lab) -> Result<Evidence, StudyError> {
    let (software, persists) = shares(lab, Kind::Wal, false)?;
    Ok(Evidence::of(vec![
        Check::at_least(
            "share of software in the cost of btree-WAL's log",
            0.25,
            software / (software + persists),
        ),
        Check::at_least("in software, ns", 200.0, software),
    ]))
}

fn follows(lab: &Lab) -> Result<Evidence, StudyError> {
    let each = |kind| -> Result<f64, StudyError> {
        let flushes = measure(lab, &insert(kind), Variant::of(4))?.flushes;
        Ok(shares(lab, kind, false)?.1 / flushes)
    };
    let ratio = each(Kind::PersistentUnsorted)? / each(Kind::FastFair)?;
    Ok(Evidence::of(vec![Check::at_least("time of a flush, persistent unsorted over FAST/FAIR", 1.3, ratio)]))
}

fn tunes(lab: &Lab) -> Result<Evidence, StudyError> {
    let best = |dram| Ok::<_, StudyError>(by_size(lab, dram)?.lowest());
    Ok(Evidence::of(vec![Check::at_most(
        "best size on xpoint over that in DRAM",
        0.75,
        best(false)? / best(true)?,
    )]))
}
