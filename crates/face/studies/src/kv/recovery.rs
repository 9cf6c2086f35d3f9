//! Recovery: what a store reads when it is opened after a crash.

use std::collections::VecDeque;

use event::Event;
use kv::{Engine, Options, Placement, Store};
use space::sim::{Accesses, Schedule, run};
use space::{Env, Image, Recorded, Recording};

use super::choose::Keys;
use super::engine::{Mix, Setup, Step, Taken, key, recovery};
use super::index::Index;
use super::replay::{MACHINE, Variant, add};
use crate::pattern::Pattern;
use crate::{Check, Evidence, Lab, Means, Row, Source, StudyError};

/// How it is measured.
const METHOD: &str = "the library's engines: 40,000 records of 256 B, a third of them updated since, \
                      opened by \
                      one thread without an orderly end before; recorded and run on \
                      cascade-lake with four DIMMs; each record that is found goes into a B+-tree in DRAM \
                      (volatile index) or onto a list of what is reached (persistent index), \
                      as a pattern of accesses";

/// Results A-R11 and A-R12.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Kv,
        id: "A-R11",
        claim: "Recovery: logs recover faster than the allocator with a volatile and with a persistent \
                index; \
                with the allocator 95 % of it goes to what is reachable, \
                transactions recover at once",
        expected: "logs ahead; 0.95; a few cycles",
        tolerance: "shape: logs 5 % ahead or more; the share within 10 points: what is not spent on reading \
                    superblocks",
        method: METHOD,
        calibration: "",
        note: "The library has no transactional allocator to recover",
        means: Means::Model(engines),
        lacks: "The library checks each record by its checksum before it counts it, and so reads all of a \
                superblock; the source's allocator seems to look at a word of each slot",
    },
    Row {
        source: Source::Kv,
        id: "A-R12",
        claim: "Recovery is faster with a volatile index than with a persistent one, with logs and with the \
                allocator",
        expected: "above 1",
        tolerance: "shape: 5 % or more",
        method: METHOD,
        calibration: "",
        note: "",
        means: Means::Model(indexes),
        lacks: "The library's persistent index has its inner nodes in DRAM and leads to records whose \
                heads alone \
                are read, without their checksums: less than the source's \
                search from the root, which visits every node and value",
    },
];

const RECORDS: u64 = 40_000;
const UPDATED: u64 = RECORDS / 3;
const VALUE: u64 = 256;

/// Nanoseconds per record to open a store, and without the index and the list of what is reached.
fn opened(lab: &Lab, engine: Engine, placement: Placement) -> Result<[f64; 2], StudyError> {
    let setup = Setup {
        engine,
        value: VALUE,
        keys: Keys::Uniform,
        index: RECORDS,
        mix: Mix::default(),
        sustained: false,
    };
    let time = |listed: bool| -> Result<f64, StudyError> {
        let name = format!("recovery {engine:?} {placement:?} {listed}");
        let run = lab.try_pattern(&name, MACHINE, || {
            let steps = lab.store(format!("recovery {engine:?} {placement:?}"), || {
                Ok(vec![vec![record(engine, placement)?]])
            })?;
            let index = Index { keys: RECORDS, persistent: false };
            let mut left: VecDeque<Step> = steps.iter().flatten().flatten().copied().collect();
            let step = move |events: &mut Vec<Event>| {
                let is_list = |step: &Step| !matches!(step, Step::Access(_));
                for step in left.drain(..).filter(|step| listed || !is_list(step)) {
                    add(&setup, Variant::default(), index, step, events);
                }
            };
            Ok(vec![Pattern::new(1, step).warm(0)])
        })?;
        Ok(run.ns_per_iteration / RECORDS as f64)
    };
    Ok([time(true)?, time(false)?])
}

/// What opening does to a store's memory.
fn record(engine: Engine, index: Placement) -> Result<Vec<Step>, StudyError> {
    let options = Options { engine, index, chunk: 1 << 20, ..Options::default() };
    let bytes = 6 * RECORDS * VALUE + (64 << 20);
    let schedule = Schedule::walk(1).at_accesses(Accesses::Never);
    let filled = run(Image::new(bytes), &schedule, |env| {
        let store = Store::create_on(env, &options)?;
        let value = [7; VALUE as usize];
        (0..RECORDS).try_for_each(|number| store.put(&key(number), &value).map(drop))?;
        (0..UPDATED).try_for_each(|number| store.put(&key(number * 7919 % RECORDS), &value).map(drop))
    });
    let image = filled.space;
    filled.result.unwrap_or_else(|failure| panic!("{failure}"))?;
    let space = Recorded::new(image, Taken::default(), &Recording::persistent("studies", "store"))?;
    let opened = run(space, &schedule, |env| {
        let result = std::sync::Mutex::new(Ok(()));
        // The first thread is not kept, so another one opens it.
        env.threads(1, |_| {
            if let (Err(error), Ok(mut result)) = (Store::open_on(env, &options).map(drop), result.lock()) {
                *result = Err(error);
            }
        });
        result.into_inner().unwrap_or(Ok(()))
    });
    opened.result.unwrap_or_else(|failure| panic!("{failure}"))?;
    let (_, taken) = opened.space.finish()?;
    Ok(recovery(index, &taken))
}

fn engines(lab: &Lab) -> Result<Evidence, StudyError> {
    let of = |engine, placement| opened(lab, engine, placement);
    let volatile = [of(Engine::Slab, Placement::Volatile)?, of(Engine::Log, Placement::Volatile)?];
    let persistent = [of(Engine::Slab, Placement::Persistent)?, of(Engine::Log, Placement::Persistent)?];
    let lists = 1.0 - persistent[0][1] / persistent[0][0];
    Ok(Evidence::of(vec![
        Check::at_least("volatile index: allocator over logs", 1.05, volatile[0][0] / volatile[1][0]),
        Check::at_least("persistent index: allocator over logs", 1.05, persistent[0][0] / persistent[1][0]),
        Check::within("persistent index, allocator: share of the lists", 0.85, 1.0, lists),
    ]))
}

fn indexes(lab: &Lab) -> Result<Evidence, StudyError> {
    let ratio = |engine| -> Result<f64, StudyError> {
        Ok(opened(lab, engine, Placement::Persistent)?[0] / opened(lab, engine, Placement::Volatile)?[0])
    };
    Ok(Evidence::of(vec![
        Check::at_least("allocator: persistent index over volatile", 1.05, ratio(Engine::Slab)?),
        Check::at_least("logs: persistent index over volatile", 1.05, ratio(Engine::Log)?),
    ]))
}
