//! How to write new files to memory (Chou 2020, section 3.3.3.2): which instructions, and which calls.

use event::{FenceKind, FlushKind};
use report::{Axis, Unit};

use crate::pattern::{self, LINE, Pattern, fence, flush, store, store_nt};
use crate::{Check, Evidence, Lab, Means, Row, Series, Source, StudyError};

/// Results D1 and D2. The figures' points are not in the text that there is.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Vnvm,
        id: "D1",
        claim: "New files: ntstore takes slightly less time than the stores alone, and much less than stores and clflush",
        expected: "ntstore over store just below 1; with clflush the gap is large",
        tolerance: "shape: below 1 and 1.5 or more for every amount, since no number is given for either; slightly: 0.75 to 1",
        method: "pattern, not libpmem: amounts of 64 KiB, 1 MiB and 16 MiB written to new lines one after the other, by ntstore and sfence, by store, \
                 and by store followed by clflush of all lines and sfence; one thread, dram, as the source's memory is",
        calibration: "",
        note: "The source's processor is another, an i7-4770; page faults, which are the same either way, are left out",
        means: Means::Model(ways),
        lacks: "A thread's non-temporal stores have the pace of a Cascade Lake server's, 4.6 GB/s, and its stores to lines that follow each other are \
                prefetched. The source's is a desktop processor, of which the model has neither",
    },
    Row {
        source: Source::Vnvm,
        id: "D2",
        claim: "A file of 2 GB: write is 7 % faster than mmap and ntstore for calls of more than 512 KB, and slower below",
        expected: "crossing at 512 KB; 0.93; 9.05 for write with 1 KB",
        tolerance: "one step of the axis; 3 points; 15 %",
        method: "write and mmap + ntstore into new files, by bytes per call",
        calibration: "",
        note: "",
        means: Means::Hardware(
            "a kernel with a DAX file system on persistent memory: it is system calls against page faults, which no model here has",
        ),
        lacks: "",
    },
];

const AMOUNTS: [u32; 3] = [1 << 16, 1 << 20, 1 << 24];
/// Bytes that are written before time is taken, more than caches hold, and then.
const WARM: u64 = 48 << 20;
const BYTES: u64 = 64 << 20;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Ntstore,
    Store,
    Clflush,
}

fn ways(lab: &Lab) -> Result<Evidence, StudyError> {
    let time = |way: Way| -> Result<Series, StudyError> {
        Series::measure(&AMOUNTS, |amount| {
            let amount = u64::from(amount);
            let run = lab.pattern("new files", &[way as u64, amount], "dram", || {
                let mut end = pattern::PERSISTENT;
                let step = move |events: &mut Vec<event::Event>| {
                    let lines = (end..end + amount).step_by(LINE as usize);
                    end += amount;
                    if way == Way::Ntstore {
                        events.extend(lines.map(|line| store_nt(line, LINE)));
                        events.push(fence(FenceKind::Store));
                        return;
                    }
                    events.extend(lines.clone().map(|line| store(line, LINE)));
                    if way == Way::Clflush {
                        events.extend(lines.map(|line| flush(line, FlushKind::Clflush)));
                        events.push(fence(FenceKind::Store));
                    }
                };
                vec![Pattern::new(BYTES / amount, step).warm(WARM / amount)]
            })?;
            Ok(run.ns_per_iteration)
        })
    };
    let (nt, stores, flushed) = (time(Way::Ntstore)?, time(Way::Store)?, time(Way::Clflush)?);
    let ratios =
        |a: &Series, b: &Series| AMOUNTS.map(|amount| a.at(f64::from(amount)) / b.at(f64::from(amount)));
    let (to_stores, gap) = (ratios(&nt, &stores), ratios(&flushed, &nt));
    let (least, most) = (
        |ratios: [f64; 3]| ratios.into_iter().fold(f64::INFINITY, f64::min),
        |ratios: [f64; 3]| ratios.into_iter().fold(f64::NEG_INFINITY, f64::max),
    );
    let checks = vec![
        Check::at_most("ntstore over store, most", 1.0, most(to_stores)),
        Check::at_least("store and clflush over ntstore, least", 1.5, least(gap)),
        Check::within("ntstore over store, least", 0.75, 1.0, least(to_stores)),
    ];
    let (x, y) = (Axis::log("written", Unit::Bytes), Axis::log("time", Unit::Nanoseconds));
    let curves = vec![
        crate::curve("ntstore", &nt),
        crate::curve("store", &stores),
        crate::curve("store, clflush", &flushed),
    ];
    Ok(Evidence { checks, charts: vec![crate::chart("Writing a new file", x, y, curves)] })
}
