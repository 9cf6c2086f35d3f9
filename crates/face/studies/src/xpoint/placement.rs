//! Where data and threads are: on which DIMM, and on which socket.

use std::collections::VecDeque;

use event::{Batch, Event, FenceKind, FlushKind, Op, Sink, SinkError};
use index::hash::{HashTable, Options};
use index::{Map, Whole};
use report::Axis;
use space::sim::{Accesses, Schedule, run};
use space::{Env, Image, Observer, Recorded, Recording, Space};

use crate::pattern::{self, Draw, LINE, Pattern, after, fence, flush, load, store, store_nt};
use crate::{Check, Evidence, Lab, Means, Row, Series, Source, StudyError};

/// Rows 21 and 26.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Xpoint,
        id: "xpoint-21",
        claim: "NOVA over several DIMMs that are not interleaved, with writers pinned to DIMMs, gains 3 \
                to 34 %",
        expected: "+3 % to +34 %",
        tolerance: "shape: no load loses; values: the range, for sequential and random reads and writes",
        method: "pattern, not NOVA: 24 threads, each with a file of its own, read 4 KiB, or write them to \
                 a new \
                 page by ntstore with a log entry of 64 B and the log's end behind \
                 them, each flushed and waited for; all of a file on one DIMM, four files to each, \
                 against files \
                 that go over all six; xpoint; rate of operations",
        calibration: "",
        note: "FIO's way through the kernel, and its engine libaio, are not in it. Measured on DIMMs it \
               takes a \
               kernel with NOVA",
        means: Means::Model(pinned),
        lacks: "Kernel and file system, which take longer than a page does on the device, are 1,500 \
                instructions here: so the gain of writes, which is that threads do not meet at one DIMM, \
                shows in full. A pinned thread that reads in order has one DIMM's bandwidth instead of six",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-26",
        claim: "PMemKV on the other socket loses 75 % on 3D XPoint (and declines beyond 2 threads), 8 % \
                on DRAM",
        expected: "0.25, 0.92 of local",
        tolerance: "shape: it loses more on 3D XPoint than on DRAM, and its rate on the far 3D XPoint falls \
                    beyond 2 threads; values 15 %",
        method: "the library's hash table (cmap's role): threads read and then update random keys of 16 B \
                 with \
                 values of 16 B, recorded on simulated threads and run on \
                 xpoint-remote over xpoint, dram-remote over dram; 1 to 12 threads, the loss at the best \
                 thread \
                 count of each",
        calibration: "",
        note: "What the table keeps in ordinary memory (fingerprints, directory) is not in a recording, \
               nor are \
               instructions: 400 stand for an operation",
        means: Means::Model(far),
        lacks: "As xpoint-25: the link passes reads and writes in turns at no cost and the memory keeps \
                no directory, so mixed traffic does not collapse. On DRAM each access is as much longer, \
                and there is little else in an operation",
    },
];

const FILES: u32 = 24;
const DIMMS: u64 = 6;
const PAGE: u64 = 4096;
/// Pages of a file.
const PAGES: u64 = 4096;
/// Operations of a thread.
const CALLS: u64 = 400;
/// Instructions of a call.
const PER_CALL: u32 = 1500;

/// Where page number `page` of a thread's file, or of its log, is: pages are on the DIMMs in turns.
fn place(thread: u64, page: u64, pinned: bool) -> u64 {
    let per_thread = PAGES * 2;
    let page = if pinned {
        // Four files share a DIMM.
        let (dimm, file) = (thread % DIMMS, thread / DIMMS);
        (file * per_thread + page) * DIMMS + dimm
    } else {
        thread * per_thread + page
    };
    pattern::PERSISTENT + page * PAGE
}

/// What threads do to their files.
#[derive(Clone, Copy, Debug)]
struct Load {
    write: bool,
    random: bool,
}

const LOADS: [(&str, Load); 4] = [
    ("sequential reads", Load { write: false, random: false }),
    ("random reads", Load { write: false, random: true }),
    ("sequential writes", Load { write: true, random: false }),
    ("random writes", Load { write: true, random: true }),
];

fn calls(lab: &Lab, what: Load, pinned: bool) -> Result<f64, StudyError> {
    let parameters = [what.write.into(), what.random.into(), pinned.into()];
    let run = lab.pattern("pinned", &parameters, "xpoint", || {
        let thread = |thread: u32| {
            let (mut draw, mut number, thread) = (Draw::new(thread.into()), 0, u64::from(thread));
            Pattern::new(CALLS, move |events| {
                number += 1;
                let page = if what.random && !what.write { draw.below(PAGES) } else { number % PAGES };
                let at = place(thread, page, pinned);
                let lines = (at..at + PAGE).step_by(LINE as usize);
                if !what.write {
                    events.push(after(PER_CALL, load(at, 8)));
                    events.extend(lines.map(|line| load(line, LINE)));
                    return;
                }
                // A page is written anew wherever there is a free one: in order, or where others were freed.
                let page = if what.random { draw.below(PAGES) } else { page };
                let at = place(thread, page, pinned);
                events.push(after(PER_CALL, load(pattern::VOLATILE + thread * PAGE, 8)));
                let lines = (at..at + PAGE).step_by(LINE as usize);
                events.extend(lines.map(|line| store_nt(line, LINE)));
                events.push(fence(FenceKind::Store));
                let entry =
                    place(thread, PAGES + number / (PAGE / LINE), pinned) + number % (PAGE / LINE) * LINE;
                persist(events, entry, LINE);
                persist(events, place(thread, 2 * PAGES - 1, pinned), 8);
            })
        };
        (0..FILES).map(thread).collect()
    })?;
    Ok(run.ns_per_iteration)
}

fn persist(events: &mut Vec<Event>, at: u64, bytes: u64) {
    events.extend([store(at, bytes), flush(at, FlushKind::Clwb), fence(FenceKind::Store)]);
}

fn pinned(lab: &Lab) -> Result<Evidence, StudyError> {
    let mut gains = Vec::new();
    for (name, load) in LOADS {
        gains.push((name, calls(lab, load, false)? / calls(lab, load, true)?));
    }
    let shapes =
        gains.iter().map(|(name, gain)| Check::at_least(&format!("{name}: pinned over spread"), 1.0, *gain));
    let values = gains
        .iter()
        .map(|(name, gain)| Check::within(&format!("{name}: pinned over spread"), 1.03, 1.34, *gain));
    Ok(Evidence::of(shapes.chain(values).collect()))
}

const THREADS: [u32; 8] = [1, 2, 3, 4, 6, 8, 10, 12];
/// Pairs of the table, and operations of a thread.
const PAIRS: u64 = 400_000;
const WARM: u64 = 100;
const OPERATIONS: u64 = 500;
/// Instructions of an operation that are not accesses of the table.
const PER_OPERATION: u32 = 400;

/// Keeps the operations of all threads but the first, which fills the table.
#[derive(Default)]
struct Taken(Vec<Vec<Vec<Op>>>);

impl Sink for Taken {
    fn name(&self) -> &'static str {
        "studies"
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        let Some(thread) = (batch.thread.0 as usize).checked_sub(1) else { return Ok(()) };
        self.0.resize_with(self.0.len().max(thread + 1), Vec::new);
        let operations = &mut self.0[thread];
        for event in batch.events {
            match (event.op, operations.last_mut()) {
                (Op::RegionBegin { .. }, _) => operations.push(Vec::new()),
                (
                    Op::Load { .. }
                    | Op::Store { .. }
                    | Op::StoreNt { .. }
                    | Op::Flush { .. }
                    | Op::Fence(_)
                    | Op::Lock { .. }
                    | Op::Unlock { .. },
                    Some(operation),
                ) => operation.push(event.op),
                _ => {}
            }
        }
        Ok(())
    }
}

/// A key of two words.
fn key(number: u64) -> [u64; 2] {
    [number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number]
}

/// What so many threads do to the table.
fn record(threads: u32) -> Result<Vec<Vec<Vec<Op>>>, StudyError> {
    let space =
        Recorded::new(Image::new(PAIRS * 128), Taken::default(), &Recording::persistent("studies", "map"))?;
    let schedule = Schedule::walk(1).at_accesses(Accesses::Never);
    let ran = run(space, &schedule, |env| {
        let extents = Whole::create(env.space(), PAIRS * 64)?;
        let options = Options { seed: Some(1), ..Options::default() };
        let table = HashTable::<_, _, [u64; 2], [u64; 2]>::create(env, extents, &options)?;
        (0..PAIRS).try_for_each(|number| table.insert(key(number), [number; 2]).map(drop))?;
        env.threads(threads, |thread| {
            let mut draw = Draw::new(thread.into());
            for number in 0..WARM + OPERATIONS {
                let key = key(draw.below(PAIRS));
                env.space().observer().region_begin(number);
                let value = table.get(key).unwrap_or_default();
                // There is room for a pair more in its bucket, or its segment is split.
                let _ = table.update(key, [value[0] + 1, number]);
            }
        });
        Ok::<_, index::Error>(())
    });
    ran.result.unwrap_or_else(|failure| panic!("{failure}"))?;
    Ok(ran.space.finish()?.1.0)
}

/// Operations in a microsecond, by threads.
fn rate(lab: &Lab, machine: &'static str) -> Result<Series, StudyError> {
    Series::measure(&THREADS, |threads| {
        let run = lab.try_pattern(&format!("map {threads}"), machine, || {
            let recorded = record(threads)?;
            Ok(recorded.into_iter().map(replay).collect())
        })?;
        Ok(f64::from(threads) * 1e3 / run.ns_per_iteration)
    })
}

fn replay(operations: Vec<Vec<Op>>) -> Pattern {
    const BASE: u64 = Recorded::<Image, Taken>::BASE;
    let mut left = VecDeque::from(operations);
    let step = move |events: &mut Vec<Event>| {
        events.push(after(PER_OPERATION, load(pattern::VOLATILE, 8)));
        let at = |addr: u64| addr - BASE + pattern::PERSISTENT;
        events.extend(left.pop_front().unwrap_or_default().into_iter().map(|op| match op {
            Op::Load { addr, len } => load(at(addr), len.into()),
            Op::Store { addr, len } => store(at(addr), len.into()),
            Op::StoreNt { addr, len } => store_nt(at(addr), len.into()),
            Op::Flush { addr, kind } => flush(at(addr), kind),
            other => pattern::event(other, 2),
        }));
    };
    Pattern::new(OPERATIONS, step).warm(WARM)
}

fn far(lab: &Lab) -> Result<Evidence, StudyError> {
    let machines = ["xpoint", "xpoint-remote", "dram", "dram-remote"];
    let mut rates = Vec::new();
    for machine in machines {
        rates.push(rate(lab, machine)?);
    }
    let kept = |far: &Series, near: &Series| far.max() / near.max();
    let (xpoint, dram) = (kept(&rates[1], &rates[0]), kept(&rates[3], &rates[2]));
    let beyond = rates[1].part(3.0, 12.0).max() / rates[1].at(2.0);
    let checks = vec![
        Check::at_most("far over near, xpoint over dram", 0.9, xpoint / dram),
        Check::at_most("far xpoint: best beyond 2 threads over 2 threads", 1.0, beyond),
        Check::near("far over near, xpoint", 0.25, 0.15, xpoint),
        Check::near("far over near, dram", 0.92, 0.15, dram),
    ];
    let curves = machines.iter().zip(&rates).map(|(name, rate)| crate::curve(name, rate)).collect();
    let (x, y) = (Axis::linear("threads"), Axis::linear("operations in a microsecond"));
    Ok(Evidence { checks, charts: vec![crate::chart("Read-modify-writes of a hash table", x, y, curves)] })
}
