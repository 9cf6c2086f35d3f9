//! The source's six programs, as runs of the library's own engines and of tables in place, at 1/256 of the
//! source's size: records, operations per record and the last cache are scaled alike.

use std::sync::Arc;

use kv::{Engine, Options, Placement, Store};
use space::sim::{Accesses, Schedule, Sim, run};
use space::{Env, Image, Recorded, Recording, Space};

use super::observe::{Observed, Observing};
use super::tables;
use crate::pattern::Draw;
use crate::{Lab, StudyError};

/// The source's last cache of 45 MB over 256, the others as small as keeps their shape.
const MACHINE: &str = "xpoint l1.size=4KiB l2.size=16KiB llc.size=176KiB";
/// Exponent of the choice of keys: YCSB's.
const THETA: f64 = 0.99;

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// 16 Ki records of 2 KB in slots that are replaced as a whole; half of the operations update.
    Aerospike,
    /// 4 Ki records of 2 KB in place, fields of 100 B, in lists by their last use.
    Memcached,
    /// Tables in place, a redo and an undo log: warehouses.
    Tpcc,
    /// The same: subscribers.
    Tatp,
    /// 4 Ki records of 1 KB in persistent slots, one thread.
    Redis,
    /// Versions appended to a persistent log, two threads.
    Echo,
}

impl Program {
    /// All of them.
    pub const ALL: [Program; 6] =
        [Program::Aerospike, Program::Memcached, Program::Tpcc, Program::Tatp, Program::Redis, Program::Echo];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Program::Aerospike => "Aerospike-like",
            Program::Memcached => "Memcached-like",
            Program::Tpcc => "TPCC",
            Program::Tatp => "TATP",
            Program::Redis => "Redis-like",
            Program::Echo => "Echo-like",
        }
    }

    /// Whether its data must survive: then it flushes.
    pub fn is_persistent(self) -> bool {
        matches!(self, Program::Redis | Program::Echo)
    }

    /// What it does to its pages; run once per laboratory.
    pub fn observe(self, lab: &Lab) -> Result<Arc<Observed>, StudyError> {
        lab.wear(self.name(), || self.run(lab))
    }

    fn run(self, lab: &Lab) -> Result<Observed, StudyError> {
        let config = lab.config(MACHINE, None)?;
        let sink = Observing::new(&config, !self.is_persistent())?;
        let recording = Recording {
            persistent: self.is_persistent().then(|| self.name().to_owned()),
            ..Recording::persistent("studies", self.name())
        };
        let bytes = self.bytes();
        let space = Recorded::new(Image::new(bytes), sink, &recording)?;
        let schedule = Schedule::walk(1).at_accesses(Accesses::Never);
        let ran = run(space, &schedule, |env| self.play(env));
        let used = ran.result.unwrap_or_else(|failure| panic!("{self:?}: {failure}"))?;
        let (_, sink) = ran.space.finish()?;
        Ok(sink.into_observed(used))
    }

    /// Bytes of the space.
    fn bytes(self) -> u64 {
        match self {
            Program::Aerospike => 80 << 20,
            Program::Memcached => 10 << 20,
            Program::Tpcc | Program::Tatp => tables::BYTES,
            Program::Redis => 24 << 20,
            Program::Echo => 96 << 20,
        }
    }

    /// Plays the program, and returns the bytes of its footprint.
    fn play(self, env: &Sim<Recorded<Image, Observing>>) -> Result<u64, StudyError> {
        match self {
            Program::Aerospike => slots(env, 16 << 10, 2000, 400_000),
            Program::Redis => slots(env, 4 << 10, 1000, 156_000),
            Program::Memcached => Ok(lists(env.space(), 4 << 10, 390_000)),
            Program::Tpcc => Ok(tables::tpcc(env.space(), 60_000)),
            Program::Tatp => Ok(tables::tatp(env.space(), 900_000)),
            Program::Echo => appended(env, 80_000),
        }
    }
}

/// Draws keys by YCSB's distribution, scattered over the records.
pub(super) struct Keys {
    draw: Draw,
    /// Sums of the weights of ranks.
    sums: Vec<f64>,
}

impl Keys {
    pub(super) fn new(records: u64, seed: u64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=records).map(|rank| {
            sum += (rank as f64).powf(-THETA);
            sum
        });
        Keys { sums: sums.collect(), draw: Draw::new(seed) }
    }

    pub(super) fn key(&mut self) -> u64 {
        let whole = self.sums.last().copied().unwrap_or(1.0);
        let at = self.draw.below(1 << 40) as f64 / (1u64 << 40) as f64 * whole;
        let rank = self.sums.partition_point(|sum| *sum < at) as u64;
        rank.wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(32) % self.sums.len() as u64
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.draw.below(bound)
    }
}

/// A store whose records are replaced as a whole, its index in the same memory.
fn slots<E: Env>(env: &E, records: u64, value: usize, operations: u64) -> Result<u64, StudyError> {
    let options = Options {
        engine: Engine::Slab,
        index: Placement::Persistent,
        chunk: 256 << 10,
        lanes: 2,
        seed: Some(1),
        ..Options::default()
    };
    let store = Store::create_on(env, &options)?;
    let mut bytes = vec![7; value];
    for record in 0..records {
        store.put(&record.to_le_bytes(), &bytes)?;
    }
    let mut keys = Keys::new(records, 1);
    for operation in 0..operations {
        let key = keys.key().to_le_bytes();
        let mut found = 0;
        store.get_with(&key, |value| found = value.len())?;
        if keys.below(2) == 0 {
            let at = keys.below((value / 100) as u64) as usize * 100;
            bytes[at..at + 8].copy_from_slice(&operation.to_le_bytes());
            store.put(&key, &bytes)?;
        }
    }
    Ok(records * (value as u64 + 64) * 5 / 4)
}

/// Records in place: an update stores one field, and now and then a record moves to the head of its list, by
/// stores to it and to its neighbours.
fn lists<S: Space>(space: &S, records: u64, operations: u64) -> u64 {
    const RECORD: u64 = 2048 + 64;
    /// Heads of lists, counters, a table of buckets.
    const HEAD: u64 = 64 << 10;
    let at = |record: u64| HEAD + record * RECORD;
    let mut neighbours: Vec<[u64; 2]> =
        (0..records).map(|record| [(record + 1) % records, (record + records - 1) % records]).collect();
    let mut keys = Keys::new(records, 2);
    let value = [7; 100];
    for operation in 0..operations {
        let key = keys.key();
        space.load_u64(4096 + key % 6000 * 8);
        (0..RECORD / 64).for_each(|line| _ = space.load_u64(at(key) + line * 64));
        // Counters of the thread.
        space.store_u64(128, operation);
        if keys.below(2) == 0 {
            space.store(at(key) + 64 + keys.below(20) * 100, &value);
            // Number of the version and time.
            space.store_u64(at(key), operation);
        }
        if keys.below(16) == 0 {
            // To the head of the list.
            let [next, before] = neighbours[key as usize];
            space.store_u64(at(next) + 8, before);
            space.store_u64(at(before) + 16, next);
            neighbours[next as usize][1] = before;
            neighbours[before as usize][0] = next;
            space.store_u64(at(key) + 8, 0);
            space.store_u64(at(key) + 16, operation);
            space.store_u64(64, key);
            let head = keys.below(records);
            neighbours[key as usize] = [head, neighbours[head as usize][1]];
        }
    }
    HEAD + records * RECORD
}

/// Versions appended to logs by two threads.
fn appended<E: Env>(env: &E, operations: u64) -> Result<u64, StudyError> {
    let options = Options {
        engine: Engine::Log,
        chunk: 64 << 10,
        lanes: 4,
        queue: u32::MAX,
        seed: Some(1),
        ..Options::default()
    };
    let store = Store::create_on(env, &options)?;
    let results = std::sync::Mutex::new(Ok(()));
    env.threads(2, |thread| {
        let mut keys = Keys::new(4096, u64::from(thread));
        for _ in 0..operations / 2 {
            let key = keys.key().to_le_bytes();
            if let Err(error) = store.put(&key, &[7; 480])
                && let Ok(mut results) = results.lock()
            {
                *results = Err(error);
            }
        }
    });
    results.into_inner().unwrap_or(Ok(()))?;
    Ok(operations * 544)
}
