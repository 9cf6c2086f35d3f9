//! Applications of the guide that are run as patterns of events; `structures.rs` has those that the library's
//! structures are run for.

use event::{Event, FenceKind, FlushKind};
use report::{Axis, Unit};

use crate::pattern::{self, Draw, LINE, Pattern, flush, load, store, store_nt};
use crate::{Check, Evidence, Lab, Means, Row, Series, Source, StudyError};

/// Rows 13 and 18.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Xpoint,
        id: "xpoint-13",
        claim: "RocksDB: the persistent memtable has an EWR of 0.434, the FLEX log of 0.999",
        expected: "0.434, 0.999",
        tolerance: "log 0.1: appended lines are rewritten while they fill; memtable 0.15: node layout and allocator are not \
                    published",
        method: "pattern, not RocksDB: 20 B keys and 100 B values, one thread, xpoint; log = appended records and a fence; \
                 memtable = a node and 1.33 pointers in earlier nodes, each flushed and fenced",
        calibration: "",
        note: "",
        means: Means::Model(memtable_and_log),
        lacks: "Records are appended back to back, so a line that two records share is sent twice and merged in the DIMM: EWR above 1. How FLEX lays out its records is not published",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-18",
        claim: "Micro-buffering: writing an object back with clwb is faster up to 1 KB, with ntstore above",
        expected: "crossing at 1 KB; also the study of object sizes, 64 B to 8 KB",
        tolerance: "one step of the axis: ntstore is first faster at 1 to 4 KiB",
        method: "pattern, not the library: copy a random object from persistent memory to a buffer, write all of it back, sfence; \
                 one thread, xpoint; mean time",
        calibration: "",
        note: "",
        means: Means::Model(micro_buffering),
        lacks: "In the model a store waits for the flush before it, at the pace that one thread has on DRAM, so that ntstore is ahead from 512 B on already",
    },
];

/// A record of 20 B key and 100 B value with header and sequence number.
const RECORD: u64 = 139;
/// A node of the skip list: the record and, on average, room for 1.33 pointers and a length.
const NODE: u64 = 160;
const OPERATIONS: u64 = 60_000;

fn memtable_and_log(lab: &Lab) -> Result<Evidence, StudyError> {
    let log = lab.pattern("log", &[], "xpoint", || {
        let mut end = pattern::PERSISTENT;
        vec![Pattern::new(OPERATIONS, move |events| {
            append(events, end);
            events.push(pattern::fence(FenceKind::Store));
            end += RECORD;
        })]
    })?;
    let memtable = lab.pattern("memtable", &[], "xpoint", || {
        let (mut end, mut draw) = (pattern::PERSISTENT, Draw::new(1));
        vec![Pattern::new(OPERATIONS, move |events| {
            insert(events, end, &mut draw);
            end += NODE;
        })]
    })?;
    let ewr = |run: &pattern::Run| run.traffic.ewr().unwrap_or(f64::NAN);
    Ok(Evidence::of(vec![
        Check::at_most("memtable over log", 0.7, ewr(&memtable) / ewr(&log)),
        Check::within("memtable", 0.284, 0.584, ewr(&memtable)),
        Check::within("log", 0.899, 1.099, ewr(&log)),
    ]))
}

/// A record at `at`, line by line with non-temporal stores.
fn append(events: &mut Vec<Event>, at: u64) {
    let mut next = at;
    while next < at + RECORD {
        let end = (next / LINE + 1) * LINE;
        let len = end.min(at + RECORD) - next;
        events.push(store_nt(next, len));
        next += len;
    }
}

/// A node at the arena's end, then the pointers to it.
fn insert(events: &mut Vec<Event>, node: u64, draw: &mut Draw) {
    let mut next = node;
    while next < node + NODE {
        let end = ((next / LINE + 1) * LINE).min(node + NODE);
        events.push(store(next, end - next));
        events.push(flush(next, FlushKind::Clwb));
        next = end;
    }
    events.push(pattern::fence(FenceKind::Store));
    // One pointer always, a second in one of three insertions: levels are drawn with probability 1/4.
    let pointers = 1 + u64::from(draw.below(3) == 0);
    let nodes = (node - pattern::PERSISTENT) / NODE;
    for _ in 0..pointers.min(nodes) {
        let pointer = pattern::PERSISTENT + NODE * draw.below(nodes);
        let pointer = pointer.next_multiple_of(8);
        events.push(store(pointer, 8));
        events.push(flush(pointer, FlushKind::Clwb));
        events.push(pattern::fence(FenceKind::Store));
    }
}

const OBJECTS: [u32; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// Bytes from which objects are drawn: far beyond the caches.
const POOL: u64 = 1 << 30;
const TRANSACTIONS: u64 = 3000;

fn micro_buffering(lab: &Lab) -> Result<Evidence, StudyError> {
    let mean = |size: u32, nt: bool| -> Result<f64, StudyError> {
        let size = u64::from(size);
        let run = lab.pattern("micro-buffering", &[size, u64::from(nt)], "xpoint", || {
            let mut draw = Draw::new(2);
            vec![Pattern::new(TRANSACTIONS, move |events| {
                let object = pattern::PERSISTENT + draw.below(POOL / size) * size;
                transaction(events, object, size, nt);
            })]
        })?;
        Ok(run.ns_per_iteration)
    };
    let clwb = Series::measure(&OBJECTS, |size| mean(size, false))?;
    let nt = Series::measure(&OBJECTS, |size| mean(size, true))?;
    let checks = vec![
        Check::at_least("64 B: ntstore over clwb", 1.0, nt.at(64.0) / clwb.at(64.0)),
        Check::between("ntstore is faster from, bytes", 1024.0, 4096.0, clwb.overtakes(&nt)),
    ];
    let (x, y) = (Axis::log("object", Unit::Bytes), Axis::log("transaction", Unit::Nanoseconds));
    let curves = vec![crate::curve("clwb", &clwb), crate::curve("ntstore", &nt)];
    Ok(Evidence { checks, charts: vec![crate::chart("No-op transaction by object size", x, y, curves)] })
}

/// Copies an object out and writes it back as it was.
fn transaction(events: &mut Vec<Event>, object: u64, size: u64, nt: bool) {
    let lines = (0..size / LINE).map(|line| line * LINE);
    for at in lines.clone() {
        events.push(load(object + at, LINE));
        events.push(store(pattern::VOLATILE + at, LINE));
    }
    for at in lines {
        events.push(load(pattern::VOLATILE + at, LINE));
        if nt {
            events.push(store_nt(object + at, LINE));
        } else {
            events.push(store(object + at, LINE));
            events.push(flush(object + at, FlushKind::Clwb));
        }
    }
    events.push(pattern::fence(FenceKind::Store));
}
