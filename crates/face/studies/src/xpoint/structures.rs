//! The guide's applications by the library's structures: a memtable in persistent memory against a log in
//! front of a volatile one, and data in a file's log against pages that are copied.

use std::sync::{Mutex, PoisonError};

use ::index::memtable::{FlexLog, Links, ListOptions, LogOptions, SkipList};
use ::index::paged::{Paged, PagedOptions};
use ::index::{Error, Whole};
use event::Event;
use space::sim::{Accesses, Schedule, run};
use space::{Env, Image, LINE, Observer, Recorded, Recording, Sim, Space};

use crate::pattern::{self, Draw, Pattern, Run, load};
use crate::steps::{Kept, Step};
use crate::{Check, Evidence, Lab, Means, Row, Source, StudyError};

/// How the stores are measured.
const METHOD: &str = "the library's skip list, its links flushed one after the other, against its FLEX \
                      log and the same list in ordinary memory, recorded; 20 B keys and 100 B values in \
                      random order, each SET durable, with half a memtable of 64 MiB there; one thread; \
                      a SET of RocksDB takes 4,000 cycles of software besides (an estimate)";

/// Rows 11 to 14.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Xpoint,
        id: "xpoint-11",
        claim: "RocksDB on DRAM that stands in for persistent memory: a persistent memtable beats the \
                FLEX log",
        expected: "+19 % (prior study), +13 % (released replication)",
        tolerance: "sign, then 5 points around the band",
        method: METHOD,
        calibration: "",
        note: "On dram, where persistent memory is DRAM",
        means: Means::Model(emulated),
        lacks: "What a log takes in RocksDB's own software, to make up a batch and a checksum under a \
                lock, is not in the recording; on DRAM the fences that a memtable has more of weigh as \
                much as what the log writes",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-12",
        claim: "RocksDB on 3D XPoint: the FLEX log beats the persistent memtable",
        expected: "+10 %",
        tolerance: "sign, then 5 points",
        method: METHOD,
        calibration: "",
        note: "On cascade-lake, which has both memories",
        means: Means::Model(real),
        lacks: "A SET's software is estimated: the more it takes, the less the memory decides",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-13-engine",
        claim: "RocksDB: the persistent memtable has an EWR of 0.434, the FLEX log of 0.999",
        expected: "0.434, 0.999, as xpoint-13",
        tolerance: "as xpoint-13: log 0.1, memtable 0.15",
        method: METHOD,
        calibration: "",
        note: "On cascade-lake; the log's records begin with a line each",
        means: Means::Model(written),
        lacks: "The library's nodes follow each other and are flushed whole, so that most of what a SET \
                writes is in order and combined; only the links are not. How RocksDB's persistent \
                memtable lays its nodes out is not published",
    },
    Row {
        source: Source::Xpoint,
        id: "xpoint-14",
        claim: "NOVA with data embedded in its log overwrites 7 times (64 B) and 6.5 times (256 B) as \
                fast as NOVA",
        expected: "7x, 6.5x",
        tolerance: "shape: 3 times or more, and less with 256 B; values 15 %",
        method: "the library's files in pages of 4 KiB, with writes embedded in the log and with pages \
                 that are copied, recorded; random overwrites of a file of 64 MiB by one thread, xpoint; \
                 mean time, with 500 cycles for the system call",
        calibration: "",
        note: "Both commit by one word behind the entries, as NOVA's log tail",
        means: Means::Model(embedded),
        lacks: "The kernel's way to the file is estimated as 500 cycles; what takes as long with either \
                way makes the ratio smaller",
    },
];

/// Pairs before: half a memtable.
const PAIRS: u64 = 200_000;
const KEY: usize = 20;
const VALUE: usize = 100;
/// Operations that are recorded, and those before time is taken, in which the caches get what they hold of
/// the list.
const OPERATIONS: u64 = 3000;
const WARM: u64 = 1000;
/// Instructions of a SET besides, four in a cycle; of a system call.
const PER_SET: u16 = 16_000;
const PER_CALL: u16 = 2_000;

/// One thread's operations and the bytes that they lie in.
struct Taken {
    operations: Vec<Vec<Step>>,
    bytes: u64,
}

type Simulated = Sim<Recorded<Image, Kept>>;

/// Records what a scenario does on a thread of its own.
fn record(
    bytes: u64,
    per_operation: u16,
    scenario: impl FnOnce(&Simulated) -> Result<(), Error>,
) -> Result<Taken, StudyError> {
    let kept = Kept::new(per_operation, &[]);
    let space = Recorded::new(Image::new(bytes), kept, &Recording::persistent("studies", "structure"))?;
    let ran = run(space, &Schedule::walk(1).at_accesses(Accesses::Never), scenario);
    ran.result.unwrap_or_else(|failure| panic!("{failure}"))?;
    let (_, mut kept) = ran.space.finish()?;
    Ok(Taken { operations: kept.threads.pop().unwrap_or_default(), bytes: kept.end })
}

/// Does so many operations, each marked.
fn work(env: &Simulated, count: u64, one: impl Fn(u64) -> Result<(), Error> + Sync) -> Result<(), Error> {
    let result = Mutex::new(Ok(()));
    env.threads(1, |_| {
        let done = (0..count).try_for_each(|number| {
            env.space().observer().region_begin(number);
            one(number)
        });
        *result.lock().unwrap_or_else(PoisonError::into_inner) = done;
    });
    result.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn key(number: u64) -> [u8; KEY] {
    let mut key = [7; KEY];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17).to_be_bytes());
    key
}

/// How many pairs, and how many more are put in.
#[derive(Clone, Copy, Debug)]
struct Size {
    pairs: u64,
    operations: u64,
}

const FULL: Size = Size { pairs: PAIRS, operations: OPERATIONS };

fn list(size: Size, links: Links, per_operation: u16) -> Result<Taken, StudyError> {
    let bytes = (size.pairs + size.operations) * 256 + (4 << 20);
    record(bytes, per_operation, |env| {
        let extents = Whole::create(env.space(), bytes - (1 << 20))?;
        let list = SkipList::create(env, extents, ListOptions { links, ..ListOptions::default() })?;
        (0..size.pairs).try_for_each(|number| list.put(&key(number), &[1; VALUE]))?;
        work(env, size.operations, |number| list.put(&key(size.pairs + number), &[2; VALUE]))
    })
}

fn log(size: Size, per_operation: u16) -> Result<Taken, StudyError> {
    let bytes = size.operations * 256 + (4 << 20);
    record(bytes, per_operation, |env| {
        let extents = Whole::create(env.space(), bytes - (1 << 20))?;
        let log = FlexLog::create(env, &extents, LogOptions::default())?;
        work(env, size.operations, |number| {
            let key = key(size.pairs + number);
            log.append(&[&(KEY as u32).to_le_bytes(), &key, &[2; VALUE]])
        })
    })
}

/// A thread that carries operations out, those of several structures one after the other: each with where it
/// is.
fn carry_out(parts: Vec<(Taken, u64)>) -> Vec<Pattern> {
    let count = parts.first().map_or(0, |(taken, _)| taken.operations.len() as u64);
    let mut next = 0;
    let step = move |events: &mut Vec<Event>| {
        for (taken, base) in &parts {
            // The caches get what they hold of what is there.
            if next < WARM {
                let lines = taken.bytes / LINE;
                let part = next * lines / WARM..(next + 1) * lines / WARM;
                events.extend(part.map(|line| load(base + line * LINE, 8)));
            }
            let steps = &taken.operations[next as usize % taken.operations.len()];
            events.extend(steps.iter().map(|step| step.event(base + step.offset())));
        }
        next += 1;
    };
    let warm = WARM.min(count / 2);
    vec![Pattern::new(count - warm, step).warm(warm)]
}

/// A pointer to a node is known only when the node before has come; its key is in the line behind.
const DEPENDENT: &str = "l2.prefetch=stream cores.pipeline.dependent_loads=0.5";

/// How much faster SETs are with a persistent memtable than with a log.
fn gain(lab: &Lab, machine: &str, size: Size) -> Result<(f64, Run, Run), StudyError> {
    let machine = format!("{machine} {DEPENDENT}");
    let memtable = lab.try_pattern(&format!("a persistent list {size:?}"), &machine, || {
        Ok(carry_out(vec![(list(size, Links::All, PER_SET)?, pattern::PERSISTENT)]))
    })?;
    let logged = lab.try_pattern(&format!("a log and a list {size:?}"), &machine, || {
        let volatile = list(size, Links::None, 0)?;
        Ok(carry_out(vec![
            (log(size, PER_SET)?, pattern::PERSISTENT),
            (volatile, pattern::VOLATILE + (1 << 30)),
        ]))
    })?;
    Ok((logged.ns_per_iteration / memtable.ns_per_iteration, memtable, logged))
}

fn emulated(lab: &Lab) -> Result<Evidence, StudyError> {
    let (gain, ..) = gain(lab, "dram", FULL)?;
    Ok(Evidence::of(vec![
        Check::at_least("memtable over log, SETs", 1.0, gain),
        Check::within("memtable over log, SETs", 1.08, 1.24, gain),
    ]))
}

fn real(lab: &Lab) -> Result<Evidence, StudyError> {
    let (gain, ..) = gain(lab, "cascade-lake", FULL)?;
    Ok(Evidence::of(vec![
        Check::at_least("log over memtable, SETs", 1.0, 1.0 / gain),
        Check::within("log over memtable, SETs", 1.05, 1.15, 1.0 / gain),
    ]))
}

fn written(lab: &Lab) -> Result<Evidence, StudyError> {
    let (_, memtable, log) = gain(lab, "cascade-lake", FULL)?;
    let ewr = |run: &Run| run.traffic.ewr().unwrap_or(f64::NAN);
    Ok(Evidence::of(vec![
        Check::at_most("memtable over log", 0.7, ewr(&memtable) / ewr(&log)),
        Check::within("memtable", 0.284, 0.584, ewr(&memtable)),
        Check::within("log", 0.899, 1.099, ewr(&log)),
    ]))
}

/// Bytes of the file.
const FILE: u64 = 64 << 20;

/// Random overwrites of so many bytes.
fn overwrites(bytes: u64, embed: u64, file: u64, operations: u64) -> Result<Taken, StudyError> {
    let room = file + operations * 8192 + file / 16 + (4 << 20);
    record(room, PER_CALL, |env| {
        let extents = Whole::create(env.space(), room - (1 << 20))?;
        let options = PagedOptions { files: 1, embed, ..PagedOptions::default() };
        let paged = Paged::create(env, &extents, options)?;
        let page = vec![3; 4096];
        (0..file / 4096).try_for_each(|number| paged.write(0, number * 4096, &page))?;
        let data = vec![4; bytes as usize];
        work(env, operations, |number| {
            let at = Draw::new(number).below(file / bytes) * bytes;
            paged.write(0, at, &data)
        })
    })
}

fn faster(lab: &Lab, bytes: u64) -> Result<f64, StudyError> {
    let of = |embed| -> Result<f64, StudyError> {
        let run = lab.try_pattern(&format!("overwrites {bytes} {embed}"), "xpoint", || {
            Ok(carry_out(vec![(overwrites(bytes, embed, FILE, OPERATIONS)?, pattern::PERSISTENT)]))
        })?;
        Ok(run.ns_per_iteration)
    };
    Ok(of(0)? / of(1024)?)
}

fn embedded(lab: &Lab) -> Result<Evidence, StudyError> {
    let (small, large) = (faster(lab, 64)?, faster(lab, 256)?);
    Ok(Evidence::of(vec![
        Check::at_least("64 B: copied over embedded, time", 3.0, small),
        Check::at_least("256 B: copied over embedded, time", 3.0, large),
        Check::at_most("256 B over 64 B", 1.0, large / small),
        Check::near("64 B: copied over embedded, time", 7.0, 0.15, small),
        Check::near("256 B: copied over embedded, time", 6.5, 0.15, large),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::What;

    const SMALL: Size = Size { pairs: 300, operations: 100 };

    fn count(taken: &Taken, what: What) -> usize {
        taken.operations.iter().flatten().filter(|step| step.what == what).count()
    }

    #[test]
    fn a_set_is_durable_where_it_must_be() {
        let (persistent, volatile) =
            (list(SMALL, Links::All, 0).unwrap(), list(SMALL, Links::None, 0).unwrap());
        let log = log(SMALL, 0).unwrap();
        assert!([&persistent, &volatile, &log].iter().all(|taken| taken.operations.len() == 100));
        // The node, its link, and a further link for a third of the nodes.
        assert!((200..300).contains(&count(&persistent, What::Fence)));
        assert_eq!((count(&volatile, What::Fence), count(&volatile, What::Flush)), (0, 0));
        assert_eq!(count(&log, What::Fence), 100);
    }

    #[test]
    fn an_embedded_write_is_short() {
        let bytes = |embed| {
            let taken = overwrites(64, embed, 64 << 10, 50).unwrap();
            let stores = taken
                .operations
                .iter()
                .flatten()
                .filter(|step| matches!(step.what, What::Store | What::StoreNt));
            stores.map(|step| u64::from(step.bytes)).sum::<u64>() / 50
        };
        assert!(bytes(0) >= 4096 && bytes(1024) < 512, "{} {}", bytes(0), bytes(1024));
    }

    #[test]
    fn the_memory_decides_between_list_and_log() {
        let lab = Lab::new(None);
        let (on_dram, ..) = gain(&lab, "dram", SMALL).unwrap();
        let (on_xpoint, ..) = gain(&lab, "cascade-lake", SMALL).unwrap();
        assert!(on_dram > on_xpoint, "{on_dram} {on_xpoint}");
    }
}
