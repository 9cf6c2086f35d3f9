//! How long it takes to open a tree.

use super::load::row;
use super::record::{Kind, Setup, Work};
use super::replay::{PAIRS, Variant, measure, ratio};
use crate::{Check, Evidence, Lab, Row, StudyError};

/// Results I14 and I25.
pub const ROWS: &[Row] = &[
    row(
        "I14",
        "To rebuild the upper levels of selective persistence takes 10 ms with 10^4 pairs, 10 s with \
         10^8, almost in proportion",
        "10 ms; 10 s (a factor of 1,000 for 10,000 times as many pairs)",
        "shape: 5 to 12 times as long with 10^5 as with 10^4 pairs; values a factor of 2",
        rebuild,
        "What does not grow with the tree, such as to start a process and to map files, is not in the \
         model: the source's 10 ms for 10,000 pairs are 1 us a pair, ten times what it takes with many. \
         And the model's core reads the lines of a node at the same time",
    ),
    row(
        "I25",
        "48 threads recover 160 million pairs from 48 logs of btree-LS in 0.89 s, 21 times as fast as one",
        "0.89 s; 21",
        "shape: 8 times as fast or more; values: a factor of 2, 35 %",
        replayed,
        "The library checks each record, makes it durable once more, since a process that was killed may \
         have left it in a cache, and enters it into a mapping table of 192 B a leaf; its threads are \
         held up by bandwidth",
    ),
];

/// Nanoseconds of a pair, where a tree with so many is opened.
fn per_pair(lab: &Lab, setup: &Setup, threads: u32) -> Result<f64, StudyError> {
    Ok(measure(lab, setup, Variant::of(threads))?.latency() / ratio(setup.records, 1))
}

fn rebuild(lab: &Lab) -> Result<Evidence, StudyError> {
    let of = |records| {
        let setup = Setup { kind: Kind::FastFairSp, work: Work::Open(1), records, ..Setup::default() };
        per_pair(lab, &setup, 1)
    };
    let (small, large) = (of(10_000)?, of(100_000)?);
    Ok(Evidence::of(vec![
        Check::between("10^5 pairs over 10^4, time", 5.0, 12.0, 10.0 * large / small),
        Check::within("10^4 pairs, ms", 5.0, 20.0, small * 1e4 / 1e6),
        Check::within("10^8 pairs, s", 5.0, 20.0, large * 1e8 / 1e9),
    ]))
}

fn replayed(lab: &Lab) -> Result<Evidence, StudyError> {
    let of = |threads| {
        let setup = Setup { kind: Kind::Logs, work: Work::Open(threads), ..Setup::default() };
        // Each thread has its share of the pairs.
        Ok::<_, StudyError>(per_pair(lab, &setup, threads)? * ratio(PAIRS, 1) / 1e9)
    };
    let (one, many) = (of(1)?, of(48)?);
    Ok(Evidence::of(vec![
        Check::at_least("48 threads over 1", 8.0, one / many),
        Check::within("48 threads, s", 0.45, 1.78, many),
        Check::near("48 threads over 1", 21.0, 0.35, one / many),
    ]))
}
