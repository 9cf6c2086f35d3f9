//! btree-LS: inserts and reads, number of logs, garbage collection, and records that are asked for at the
//! same time.

use report::Axis;

use super::load::{insert, latency, row};
use super::record::{Kind, Setup, Work};
use super::replay::{Variant, measure};
use super::table::{CORE, amplification};
use crate::{Check, Evidence, Lab, Row, Series, StudyError};

/// Results I22 to I24, I26 and I27.
pub const ROWS: &[Row] = &[
    row(
        "I22",
        "Without garbage collection btree-LS inserts 41 % more than FAST/FAIR with 48 threads",
        "1.41",
        "shape: 1.1 or more; value 25 points",
        inserts,
        "The library keeps the upper levels of btree-LS in DRAM, where the source does not say; against \
         FAST/FAIR SP, which does so too, it is as the second figure says",
    ),
    row(
        "I23",
        "btree-LS reads 37 % less than FAST/FAIR",
        "0.63",
        "shape: 0.9 or less; value 15 points",
        reads,
        "The library keeps the upper levels of btree-LS in DRAM, where the source does not say; against \
         FAST/FAIR SP, which does so too, it is as the second figure says",
    ),
    row(
        "I24",
        "Of 48 threads that insert, throughput is highest with 48 logs; write amplification grows from \
         1.4 to 1.7 with their number",
        "48; 1.4, 1.7",
        "shape: with 8 logs 0.95 or less of that with 48, peak at 24 to 96; more amplification with 192 \
         logs than with 8; values 25 %",
        numbers,
        "In the model an append holds its log for some 0.1 us of the 4 us of an insert, so that few logs \
         are enough; records that do not begin with a line send it twice",
    ),
    row(
        "I26",
        "A garbage threshold of 100 instead of 1000 MB costs up to 7 % of the updates and gives 20 % \
         more reads",
        "0.93 to 1; 1.20",
        "shape: updates 0.85 to 1.02, reads 1.05 or more; values: the range, 10 points",
        garbage,
        CORE,
    ),
    row(
        "I27",
        "To ask for 8 records of a chain at the same time instead of one gives 26 % more reads; beyond 4 \
         nothing",
        "1.26; 1",
        "shape: 1.1 or more; 8 over 4 at most 1.05; value 15 points",
        cached,
        CORE,
    ),
];

fn inserts(lab: &Lab) -> Result<Evidence, StudyError> {
    let of = |kind| latency(lab, insert(kind), Variant::of(48));
    let (gain, like) = (of(Kind::FastFair)? / of(Kind::Logs)?, of(Kind::FastFairSp)? / of(Kind::Logs)?);
    Ok(Evidence::of(vec![
        Check::at_least("48 threads: btree-LS over FAST/FAIR, throughput", 1.1, gain),
        Check::within("48 threads: btree-LS over FAST/FAIR, throughput", 1.16, 1.66, gain),
        Check::within("48 threads: btree-LS over FAST/FAIR SP, throughput", 1.16, 1.66, like),
    ]))
}

fn reads(lab: &Lab) -> Result<Evidence, StudyError> {
    let of = |kind| latency(lab, Setup { work: Work::Read, ..insert(kind) }, Variant::of(48));
    let (gain, like) = (of(Kind::FastFair)? / of(Kind::Logs)?, of(Kind::FastFairSp)? / of(Kind::Logs)?);
    Ok(Evidence::of(vec![
        Check::at_most("48 threads: btree-LS over FAST/FAIR, throughput", 0.9, gain),
        Check::within("48 threads: btree-LS over FAST/FAIR, throughput", 0.48, 0.78, gain),
        Check::within("48 threads: btree-LS over FAST/FAIR SP, throughput", 0.48, 0.78, like),
    ]))
}

fn numbers(lab: &Lab) -> Result<Evidence, StudyError> {
    let of = |logs: u32| {
        let setup = Setup { logs: logs as usize, ..insert(Kind::Logs) };
        measure(lab, &setup, Variant::of(48))
    };
    let counts = [8u32, 24, 48, 96, 192];
    let rates = Series::measure(&counts, |logs| Ok::<_, StudyError>(of(logs)?.throughput()))?;
    let written = Series::measure(&counts, |logs| Ok::<_, StudyError>(amplification(&of(logs)?).1))?;
    let checks = vec![
        Check::at_most("throughput, 8 logs over 48", 0.95, rates.at(8.0) / rates.at(48.0)),
        Check::between("peak, logs", 24.0, 96.0, rates.peak()),
        Check::at_least("WA, 192 logs over 8", 1.0, written.at(192.0) / written.at(8.0)),
        Check::near("WA with 8 logs", 1.4, 0.25, written.at(8.0)),
        Check::near("WA with 192 logs", 1.7, 0.25, written.at(192.0)),
    ];
    let charts = vec![
        crate::chart(
            "Inserts into btree-LS by 48 threads",
            Axis::linear("logs"),
            Axis::linear("million inserts/s"),
            vec![crate::curve("btree-LS", &rates)],
        ),
        crate::chart(
            "Write amplification of btree-LS",
            Axis::linear("logs"),
            Axis::linear("media over controller, bytes"),
            vec![crate::curve("btree-LS", &written)],
        ),
    ];
    Ok(Evidence { checks, charts })
}

/// The source's thresholds in hundredths of a log's live bytes: 160 million records of 64 B in 48 logs are
/// 213 MB.
const LATE: u64 = 470;
const EARLY: u64 = 47;

fn garbage(lab: &Lab) -> Result<Evidence, StudyError> {
    let of = |garbage, work| {
        let setup = Setup { garbage, work, records: 50_000, aged: 500, ..insert(Kind::Logs) };
        latency(lab, setup, Variant::of(48))
    };
    let gain = |work| Ok::<_, StudyError>(of(LATE, work)? / of(EARLY, work)?);
    let (updates, reads) = (gain(Work::Update)?, gain(Work::Read)?);
    Ok(Evidence::of(vec![
        Check::between("updates, early over late, throughput", 0.85, 1.02, updates),
        Check::at_least("reads, early over late, throughput", 1.05, reads),
        Check::within("updates, early over late, throughput", 0.93, 1.0, updates),
        Check::within("reads, early over late, throughput", 1.1, 1.3, reads),
    ]))
}

fn cached(lab: &Lab) -> Result<Evidence, StudyError> {
    let rates = Series::measure(&[1u32, 4, 8], |cached| {
        let setup = Setup { cached: cached as usize, work: Work::Read, ..insert(Kind::Logs) };
        Ok::<_, StudyError>(measure(lab, &setup, Variant::of(48))?.throughput())
    })?;
    let gain = rates.at(8.0) / rates.at(1.0);
    Ok(Evidence::of(vec![
        Check::at_least("8 records over 1, throughput", 1.1, gain),
        Check::at_most("8 records over 4, throughput", 1.05, rates.at(8.0) / rates.at(4.0)),
        Check::within("8 records over 1, throughput", 1.11, 1.41, gain),
    ]))
}
