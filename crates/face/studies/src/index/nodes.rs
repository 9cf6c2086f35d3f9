//! Where an insert's time goes, sizes of nodes, several lookups at the same time, and group flushing.

use report::Axis;

use super::load::{insert, latency, row};
use super::record::{Kind, Setup, Work};
use super::replay::{PAIRS, Part, Variant, measure};
use super::table::{CORE, EVICTED};
use crate::{Check, Evidence, Lab, Row, Series, StudyError};

/// Results I10, I11 and I17 to I21.
pub const ROWS: &[Row] = &[
    row(
        "I10",
        "Of an insert by one of 4 threads, btree-WAL's log takes 0.9 us in software and 1.1 us to \
         persist, persistent unsorted's 0.3 us in software; both take about as long to flush, though \
         btree-WAL flushes twice as much",
        "0.9, 1.1; 0.3 us; 1",
        "shape: software takes at least 1.5 times as long with btree-WAL, to persist 0.6 to 1.6 times; \
         values 50 %",
        parts,
        "Instructions are estimated from accesses, four a word: the 2,500 that the source's btree-WAL \
         executes more than its btree are not explained by what it writes. Persistent unsorted logs only \
         splits, which is less than what else differs between two runs",
    ),
    row(
        "I11",
        "FAST/FAIR spends 1.7 times less on flushes than persistent unsorted, with 6 flushes against 5 \
         (4 threads, 3D XPoint)",
        "1.7",
        "shape: 1.1 or more; value 30 %",
        flushing,
        CORE,
    ),
    row(
        "I17",
        "With 32 threads that insert into btree, nodes of 512 B are 1.13 times better than of 256 B in \
         DRAM, 1.08 times worse on 3D XPoint",
        "1.13; 0.93",
        "shape: better in DRAM, worse on 3D XPoint; values 10 points",
        sizes,
        CORE,
    ),
    row(
        "I18",
        "Four lookups at the same time are 2.1 times as fast in DRAM with nodes of 256 B, 1.2 times with \
         1024 B",
        "2.1; 1.2",
        "shape: 1.2 or more with 256 B, less with 1024 B; values 25 %",
        batches,
        CORE,
    ),
    row(
        "I19",
        "Several lookups at the same time are up to 3.4 times as fast on 3D XPoint with small nodes, 2.5 \
         times in DRAM",
        "3.4; 2.5 (nodes of 128 B; the library's smallest for such pairs are of 256 B)",
        "shape: 1.5 or more for both, more on 3D XPoint; values 30 %",
        together,
        CORE,
    ),
    row(
        "I20",
        "Group flushing gives btree 24 % more inserts; unsorted leaves give slightly more, but ranges \
         that take up to 50 % longer",
        "1.24; slightly above; 1.5",
        "shape: 1.05 or more with 48 threads; unsorted leaves 0.95 to 1.25 of it, their ranges at least \
         1.3; value 10 points",
        group,
        EVICTED,
    ),
    row(
        "I21",
        "With fewer than 16 threads group flushing makes an insert take longer",
        "above 1",
        "shape: 1 or more with 1 and 4 threads",
        group_alone,
        CORE,
    ),
];

/// How much of an insert's time by one of four threads a log takes in software, and how long it stands at
/// fences. To leave flushes out and take the difference would not do: lines that nobody flushes are evicted,
/// at a cost of their own.
pub(super) fn shares(lab: &Lab, kind: Kind, dram: bool) -> Result<(f64, f64), StudyError> {
    let of = |part| measure(lab, &insert(kind), Variant { part, dram, ..Variant::of(4) });
    let software = of(Part::Unflushed)?.latency() - of(Part::Unlogged)?.latency();
    Ok((software, of(Part::All)?.run.fence_ns))
}

fn parts(lab: &Lab) -> Result<Evidence, StudyError> {
    let (wal, wal_persists) = shares(lab, Kind::Wal, false)?;
    let (unsorted, unsorted_persists) = shares(lab, Kind::PersistentUnsorted, false)?;
    Ok(Evidence::of(vec![
        Check::at_least("log in software, btree-WAL over persistent unsorted", 1.5, wal / unsorted),
        Check::between(
            "to persist, btree-WAL over persistent unsorted",
            0.6,
            1.6,
            wal_persists / unsorted_persists,
        ),
        Check::near("btree-WAL: log in software, ns", 900.0, 0.5, wal),
        Check::near("btree-WAL: to persist, ns", 1100.0, 0.5, wal_persists),
        Check::near("persistent unsorted: log in software, ns", 300.0, 0.5, unsorted),
    ]))
}

fn flushing(lab: &Lab) -> Result<Evidence, StudyError> {
    let (_, fair) = shares(lab, Kind::FastFair, false)?;
    let (_, unsorted) = shares(lab, Kind::PersistentUnsorted, false)?;
    Ok(Evidence::of(vec![
        Check::at_least("persistent unsorted over FAST/FAIR", 1.1, unsorted / fair),
        Check::near("persistent unsorted over FAST/FAIR", 1.7, 0.30, unsorted / fair),
    ]))
}

const SIZES: [u32; 3] = [256, 512, 1024];

/// Nanoseconds of an insert by one of 32 threads, by size of a node.
pub(super) fn by_size(lab: &Lab, dram: bool) -> Result<Series, StudyError> {
    Series::measure(&SIZES, |node| {
        let setup = Setup { node: node.into(), ..insert(Kind::Plain) };
        latency(lab, setup, Variant { dram, ..Variant::of(32) })
    })
}

fn sizes(lab: &Lab) -> Result<Evidence, StudyError> {
    let (xpoint, dram) = (by_size(lab, false)?, by_size(lab, true)?);
    let gain = |series: &Series| series.at(256.0) / series.at(512.0);
    let checks = vec![
        Check::at_least("DRAM: 256 B over 512 B, time", 1.0, gain(&dram)),
        Check::at_most("xpoint: 256 B over 512 B, time", 1.0, gain(&xpoint)),
        Check::within("DRAM: 256 B over 512 B, time", 1.03, 1.23, gain(&dram)),
        Check::within("xpoint: 256 B over 512 B, time", 0.83, 1.03, gain(&xpoint)),
    ];
    let curves = vec![crate::curve("xpoint", &xpoint), crate::curve("DRAM", &dram)];
    let (x, y) = (Axis::log("node", report::Unit::Bytes), Axis::log("insert", report::Unit::Nanoseconds));
    Ok(Evidence {
        checks,
        charts: vec![crate::chart("Inserts by 32 threads by size of a node", x, y, curves)],
    })
}

/// How much faster so many lookups at the same time are, with 16 threads.
fn batch(lab: &Lab, node: u64, batch: usize, dram: bool) -> Result<f64, StudyError> {
    let setup = Setup { node, work: Work::Read, ..insert(Kind::Plain) };
    let one = latency(lab, setup, Variant { dram, ..Variant::of(16) })?;
    let many = latency(lab, setup, Variant { dram, batch, ..Variant::of(16) })?;
    #[allow(clippy::cast_precision_loss)]
    let lookups = batch as f64;
    Ok(one * lookups / many)
}

fn batches(lab: &Lab) -> Result<Evidence, StudyError> {
    let (small, large) = (batch(lab, 256, 4, true)?, batch(lab, 1024, 4, true)?);
    Ok(Evidence::of(vec![
        Check::at_least("256 B: gain", 1.2, small),
        Check::at_most("1024 B over 256 B", 1.0, large / small),
        Check::near("256 B: gain", 2.1, 0.25, small),
        Check::near("1024 B: gain", 1.2, 0.25, large),
    ]))
}

fn together(lab: &Lab) -> Result<Evidence, StudyError> {
    let most = |dram| -> Result<f64, StudyError> {
        let gains = [4, 8].map(|lookups| batch(lab, 256, lookups, dram));
        gains.into_iter().try_fold(0.0, |most: f64, gain| Ok(most.max(gain?)))
    };
    let (xpoint, dram) = (most(false)?, most(true)?);
    Ok(Evidence::of(vec![
        Check::at_least("xpoint: most gain", 1.5, xpoint),
        Check::at_least("DRAM: most gain", 1.5, dram),
        Check::at_least("xpoint over DRAM", 1.0, xpoint / dram),
        Check::near("xpoint: most gain", 3.4, 0.30, xpoint),
        Check::near("DRAM: most gain", 2.5, 0.30, dram),
    ]))
}

/// Time of an insert into btree over that with group flushing.
fn gain(lab: &Lab, threads: u32) -> Result<f64, StudyError> {
    let grouped = Setup { group_flush: true, ..insert(Kind::Plain) };
    let plain = latency(lab, insert(Kind::Plain), Variant::of(threads))?;
    Ok(plain / latency(lab, grouped, Variant::of(threads))?)
}

fn group(lab: &Lab) -> Result<Evidence, StudyError> {
    let grouped = gain(lab, 48)?;
    let of = |kind| latency(lab, insert(kind), Variant::of(48));
    let unsorted = of(Kind::Plain)? / of(Kind::UnsortedLeaf)?;
    let range = |kind| {
        let setup = Setup { work: Work::Range(PAIRS / 100_000), operations: 4, ..insert(kind) };
        latency(lab, setup, Variant::of(16))
    };
    let ranges = range(Kind::UnsortedLeaf)? / range(Kind::Plain)?;
    Ok(Evidence::of(vec![
        Check::at_least("48 threads: gain", 1.05, grouped),
        Check::between("unsorted leaves over group flushing, throughput", 0.95, 1.25, unsorted / grouped),
        Check::at_least("ranges of unsorted leaves over sorted ones, time", 1.3, ranges),
        Check::within("48 threads: gain", 1.14, 1.34, grouped),
    ]))
}

fn group_alone(lab: &Lab) -> Result<Evidence, StudyError> {
    let longer = |threads| Ok::<_, StudyError>(1.0 / gain(lab, threads)?);
    Ok(Evidence::of(vec![
        Check::at_least("1 thread: time over that without", 1.0, longer(1)?),
        Check::at_least("4 threads: time over that without", 1.0, longer(4)?),
    ]))
}
