//! Inserts, reads and ranges by number of threads, on persistent memory and in DRAM.

use report::{Axis, Unit};

use super::record::{Kind, Setup, Work};
use super::replay::{PAIRS, Variant, measure};
use super::table::{CORE, EVICTED, METHOD};
use crate::{Check, Evidence, Lab, Means, Row, Series, Source, StudyError};

/// A row of this group; what it lacks is added where it misses.
pub(super) const fn row(
    id: &'static str,
    claim: &'static str,
    expected: &'static str,
    tolerance: &'static str,
    measure: fn(&Lab) -> Result<Evidence, StudyError>,
    lacks: &'static str,
) -> Row {
    Row {
        source: Source::Index,
        id,
        claim,
        expected,
        tolerance,
        method: METHOD,
        calibration: "",
        note: "",
        means: Means::Model(measure),
        lacks,
    }
}

/// Results I1 to I9, I11 to I13, I15 and I16.
pub const ROWS: &[Row] = &[
    row(
        "I1",
        "Inserts into unsorted leaves are up to 1.40 times as fast as into sorted ones on 3D XPoint, \
         1.06 times in DRAM",
        "1.40; 1.06",
        "shape: 1.1 or more on 3D XPoint, and more than in DRAM; values 15 points",
        unsorted,
        EVICTED,
    ),
    row(
        "I2",
        "With one thread unsorted leaves gain about 6 %",
        "1.06",
        "shape: no more than a third of the most gain of I1 beyond 1; value 6 points",
        unsorted_alone,
        "",
    ),
    row(
        "I3",
        "Ranges of 1,600 pairs take up to 3 times as long with unsorted leaves in DRAM, 2 times on 3D \
         XPoint",
        "3; 2",
        "shape: 1.3 times or more, and more in DRAM; values 35 %: the source does not say with how many \
         threads",
        ranges,
        "The instructions of a sort are estimated",
    ),
    row("I4", "Reads of unsorted leaves take about as long as of sorted ones", "1", "15 %", reads, ""),
    row(
        "I5",
        "From 1 to 48 threads inserts on 3D XPoint fall behind DRAM: btree from 2.2 to 4.4 times, \
         unsorted leaves from 2.0 to 3.0",
        "2.2, 4.4; 2.0, 3.0",
        "shape: both grow by 1.2 times or more, with 48 threads unsorted leaves are less behind than \
         btree; values 30 %",
        behind,
        CORE,
    ),
    row(
        "I6",
        "With one thread inserts on 3D XPoint take 2 to 3 times as long as in DRAM",
        "2 to 3",
        "shape: 1.5 to 3.5 for btree, unsorted leaves and FAST/FAIR; value 2 to 3",
        alone,
        "",
    ),
    row(
        "I7",
        "Inserts take up to 1.77 times as long with btree-WAL as with btree, 1.56 times with persistent \
         unsorted as with unsorted leaves; neither reaches the throughput of its volatile twin, and \
         btree-WAL is the slowest of the persistent trees",
        "1.77; 1.56",
        "shape: both over 1 for all numbers of threads, btree-WAL the slowest with 1, 16 and 48 threads; \
         values 35 %",
        twins,
        EVICTED,
    ),
    row(
        "I8",
        "From few to 48 threads an insert of FAST/FAIR grows 2.40 times as long on 3D XPoint, 1.35 times \
         in DRAM",
        "2.40; 1.35",
        "shape: 1.5 or more on 3D XPoint, less in DRAM; values 30 %",
        grows,
        CORE,
    ),
    row(
        "I9",
        "FAST/FAIR inserts as many as btree on 3D XPoint, with 48 threads 3 % more",
        "1; 1.03",
        "shape: 0.8 to 1.25 with 48 threads; value 10 points",
        as_many,
        EVICTED,
    ),
    row(
        "I12",
        "An insert of FAST/FAIR takes 1.27 times as long as one of btree on 3D XPoint",
        "1.27",
        "shape: longer with 4 threads; value 20 %: the source does not say with how many threads",
        longer,
        EVICTED,
    ),
    row(
        "I13",
        "With selective persistence FAST/FAIR reads about 1.5 times as fast and inserts up to 1.4 times",
        "1.5; 1.4",
        "shape: 1.15 or more for both; values 25 %",
        selective,
        CORE,
    ),
    row(
        "I15",
        "From 20 % to 80 % inserts among reads, 48 threads do 2.3 times less on 3D XPoint, 1.3 times \
         less in DRAM",
        "2.3; 1.3",
        "shape: at least 1.3 times as much on 3D XPoint as in DRAM; values 30 %",
        mixes,
        CORE,
    ),
    row(
        "I16",
        "With 16 threads and 40 % inserts unsorted leaves gain 2 %",
        "1.02",
        "shape: 0.93 to 1.15; value 5 points",
        mixed,
        "",
    ),
];

const COUNTS: [u32; 3] = [1, 16, 48];

pub(super) fn insert(kind: Kind) -> Setup {
    Setup { kind, ..Setup::default() }
}

pub(super) fn latency(lab: &Lab, setup: Setup, variant: Variant) -> Result<f64, StudyError> {
    Ok(measure(lab, &setup, variant)?.latency())
}

/// Nanoseconds of an insert by number of threads.
pub(super) fn inserts(lab: &Lab, kind: Kind, dram: bool) -> Result<Series, StudyError> {
    Series::measure(&COUNTS, |threads| latency(lab, insert(kind), Variant { dram, ..Variant::of(threads) }))
}

/// One series over another.
pub(super) fn over(above: &Series, below: &Series) -> Series {
    Series(above.0.iter().map(|(x, y)| (*x, y / below.at(*x))).collect())
}

fn by_threads(title: &str, y: Axis, series: &[(&str, &Series)]) -> report::Curves {
    let curves = series.iter().map(|(name, series)| crate::curve(name, series)).collect();
    crate::chart(title, Axis::linear("threads"), y, curves)
}

/// How much faster unsorted leaves are.
pub(super) fn gain(lab: &Lab, dram: bool) -> Result<Series, StudyError> {
    Ok(over(&inserts(lab, Kind::Plain, dram)?, &inserts(lab, Kind::UnsortedLeaf, dram)?))
}

fn unsorted(lab: &Lab) -> Result<Evidence, StudyError> {
    let (xpoint, dram) = (gain(lab, false)?, gain(lab, true)?);
    let checks = vec![
        Check::at_least("xpoint: most gain", 1.1, xpoint.max()),
        Check::at_least("most gain, xpoint over DRAM", 1.0, xpoint.max() / dram.max()),
        Check::within("xpoint: most gain", 1.25, 1.55, xpoint.max()),
        Check::within("DRAM: most gain", 0.91, 1.21, dram.max()),
    ];
    let series = [("xpoint", &xpoint), ("DRAM", &dram)];
    let chart =
        by_threads("Inserts into unsorted leaves", Axis::linear("btree over unsorted, time"), &series);
    Ok(Evidence { checks, charts: vec![chart] })
}

fn unsorted_alone(lab: &Lab) -> Result<Evidence, StudyError> {
    let gain = gain(lab, false)?;
    Ok(Evidence::of(vec![
        Check::at_most(
            "gain beyond 1, 1 thread over most",
            1.0 / 3.0,
            (gain.at(1.0) - 1.0) / (gain.max() - 1.0),
        ),
        Check::within("gain with 1 thread", 1.0, 1.12, gain.at(1.0)),
    ]))
}

fn ranges(lab: &Lab) -> Result<Evidence, StudyError> {
    let slower = |dram| -> Result<f64, StudyError> {
        let of = |kind| {
            let setup = Setup { work: Work::Range(PAIRS / 100_000), operations: 4, ..insert(kind) };
            latency(lab, setup, Variant { dram, ..Variant::of(16) })
        };
        Ok(of(Kind::UnsortedLeaf)? / of(Kind::Plain)?)
    };
    let (xpoint, dram) = (slower(false)?, slower(true)?);
    Ok(Evidence::of(vec![
        Check::at_least("xpoint: unsorted over sorted", 1.3, xpoint),
        Check::at_least("DRAM: unsorted over sorted", 1.3, dram),
        Check::at_least("DRAM over xpoint", 1.0, dram / xpoint),
        Check::near("xpoint: unsorted over sorted", 2.0, 0.35, xpoint),
        Check::near("DRAM: unsorted over sorted", 3.0, 0.35, dram),
    ]))
}

fn reads(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut checks = Vec::new();
    for threads in [1, 48] {
        for (name, dram) in [("xpoint", false), ("DRAM", true)] {
            let of = |kind| {
                let variant = Variant { dram, ..Variant::of(threads) };
                latency(lab, Setup { work: Work::Read, ..insert(kind) }, variant)
            };
            let ratio = of(Kind::UnsortedLeaf)? / of(Kind::Plain)?;
            let what = format!("{name}, {threads} threads: unsorted over sorted");
            checks.push(Check::between(&what, 0.85, 1.15, ratio));
        }
    }
    Ok(Evidence::of(checks))
}

fn behind(lab: &Lab) -> Result<Evidence, StudyError> {
    let of = |kind| -> Result<Series, StudyError> {
        Ok(over(&inserts(lab, kind, false)?, &inserts(lab, kind, true)?))
    };
    let (btree, unsorted) = (of(Kind::Plain)?, of(Kind::UnsortedLeaf)?);
    let growth = |series: &Series| series.at(48.0) / series.at(1.0);
    let checks = vec![
        Check::at_least("btree: 48 threads over 1", 1.2, growth(&btree)),
        Check::at_least("unsorted: 48 threads over 1", 1.2, growth(&unsorted)),
        Check::at_most("48 threads: unsorted over btree", 1.0, unsorted.at(48.0) / btree.at(48.0)),
        Check::near("btree, 1 thread", 2.2, 0.30, btree.at(1.0)),
        Check::near("btree, 48 threads", 4.4, 0.30, btree.at(48.0)),
        Check::near("unsorted, 1 thread", 2.0, 0.30, unsorted.at(1.0)),
        Check::near("unsorted, 48 threads", 3.0, 0.30, unsorted.at(48.0)),
    ];
    let chart = by_threads(
        "Inserts on 3D XPoint against DRAM",
        Axis::linear("xpoint over DRAM, time"),
        &[("btree", &btree), ("unsorted", &unsorted)],
    );
    Ok(Evidence { checks, charts: vec![chart] })
}

fn alone(lab: &Lab) -> Result<Evidence, StudyError> {
    let (mut shapes, mut values) = (Vec::new(), Vec::new());
    for (kind, name) in
        [(Kind::Plain, "btree"), (Kind::UnsortedLeaf, "unsorted"), (Kind::FastFair, "FAST/FAIR")]
    {
        let gap = latency(lab, insert(kind), Variant::of(1))? / latency(lab, insert(kind), Variant::dram(1))?;
        shapes.push(Check::between(&format!("{name}: xpoint over DRAM"), 1.5, 3.5, gap));
        values.push(Check::within(&format!("{name}: xpoint over DRAM"), 2.0, 3.0, gap));
    }
    shapes.extend(values);
    Ok(Evidence::of(shapes))
}

fn twins(lab: &Lab) -> Result<Evidence, StudyError> {
    let of = |kind| inserts(lab, kind, false);
    let (wal, unsorted, fair) = (of(Kind::Wal)?, of(Kind::PersistentUnsorted)?, of(Kind::FastFair)?);
    let (plain, volatile) = (of(Kind::Plain)?, of(Kind::UnsortedLeaf)?);
    let (by_log, by_order) = (over(&wal, &plain), over(&unsorted, &volatile));
    let checks = vec![
        Check::at_least("btree-WAL over btree, least", 1.0, by_log.min()),
        Check::at_least("persistent unsorted over unsorted, least", 1.0, by_order.min()),
        Check::at_least("btree-WAL over persistent unsorted, least", 1.0, over(&wal, &unsorted).min()),
        Check::at_least("btree-WAL over FAST/FAIR, least", 1.0, over(&wal, &fair).min()),
        Check::near("btree-WAL over btree, most", 1.77, 0.35, by_log.max()),
        Check::near("persistent unsorted over unsorted, most", 1.56, 0.35, by_order.max()),
    ];
    let chart = by_threads(
        "Inserts into persistent trees",
        Axis::log("insert", Unit::Nanoseconds),
        &[
            ("btree", &plain),
            ("unsorted", &volatile),
            ("btree-WAL", &wal),
            ("FAST/FAIR", &fair),
            ("persistent unsorted", &unsorted),
        ],
    );
    Ok(Evidence { checks, charts: vec![chart] })
}

fn grows(lab: &Lab) -> Result<Evidence, StudyError> {
    let growth = |dram| -> Result<f64, StudyError> {
        let series = inserts(lab, Kind::FastFair, dram)?;
        Ok(series.at(48.0) / series.at(1.0))
    };
    let (xpoint, dram) = (growth(false)?, growth(true)?);
    Ok(Evidence::of(vec![
        Check::at_least("xpoint: 48 threads over 1", 1.5, xpoint),
        Check::at_most("DRAM over xpoint", 1.0, dram / xpoint),
        Check::near("xpoint: 48 threads over 1", 2.40, 0.30, xpoint),
        Check::near("DRAM: 48 threads over 1", 1.35, 0.30, dram),
    ]))
}

fn as_many(lab: &Lab) -> Result<Evidence, StudyError> {
    let ratio = over(&inserts(lab, Kind::Plain, false)?, &inserts(lab, Kind::FastFair, false)?);
    Ok(Evidence::of(vec![
        Check::between("48 threads: FAST/FAIR over btree, throughput", 0.8, 1.25, ratio.at(48.0)),
        Check::within("48 threads: FAST/FAIR over btree, throughput", 0.93, 1.13, ratio.at(48.0)),
    ]))
}

fn longer(lab: &Lab) -> Result<Evidence, StudyError> {
    let of = |kind| latency(lab, insert(kind), Variant::of(4));
    let ratio = of(Kind::FastFair)? / of(Kind::Plain)?;
    Ok(Evidence::of(vec![
        Check::at_least("4 threads: FAST/FAIR over btree, time", 1.0, ratio),
        Check::near("4 threads: FAST/FAIR over btree, time", 1.27, 0.20, ratio),
    ]))
}

fn selective(lab: &Lab) -> Result<Evidence, StudyError> {
    let gain = |work, threads| -> Result<f64, StudyError> {
        let of = |kind| latency(lab, Setup { work, ..insert(kind) }, Variant::of(threads));
        Ok(of(Kind::FastFair)? / of(Kind::FastFairSp)?)
    };
    let read = gain(Work::Read, 48)?;
    let insert = gain(Work::Insert, 16)?.max(gain(Work::Insert, 48)?);
    Ok(Evidence::of(vec![
        Check::at_least("reads, 48 threads: gain", 1.15, read),
        Check::at_least("inserts: most gain", 1.15, insert),
        Check::near("reads, 48 threads: gain", 1.5, 0.25, read),
        Check::near("inserts: most gain", 1.4, 0.25, insert),
    ]))
}

pub(super) fn mix(lab: &Lab, kind: Kind, puts: u64, variant: Variant) -> Result<f64, StudyError> {
    latency(lab, Setup { work: Work::Mixed(puts), ..insert(kind) }, variant)
}

fn mixes(lab: &Lab) -> Result<Evidence, StudyError> {
    let fall = |dram| -> Result<f64, StudyError> {
        let variant = Variant { dram, ..Variant::of(48) };
        Ok(mix(lab, Kind::Plain, 80, variant)? / mix(lab, Kind::Plain, 20, variant)?)
    };
    let (xpoint, dram) = (fall(false)?, fall(true)?);
    Ok(Evidence::of(vec![
        Check::at_least("fall on xpoint over fall in DRAM", 1.3, xpoint / dram),
        Check::near("xpoint: 20 % over 80 %, throughput", 2.3, 0.30, xpoint),
        Check::near("DRAM: 20 % over 80 %, throughput", 1.3, 0.30, dram),
    ]))
}

fn mixed(lab: &Lab) -> Result<Evidence, StudyError> {
    let of = |kind| mix(lab, kind, 40, Variant::of(16));
    let gain = of(Kind::Plain)? / of(Kind::UnsortedLeaf)?;
    Ok(Evidence::of(vec![
        Check::between("unsorted over btree, throughput", 0.93, 1.15, gain),
        Check::within("unsorted over btree, throughput", 0.97, 1.07, gain),
    ]))
}
