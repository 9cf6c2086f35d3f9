//! Recordings of transactions by several threads.
//!
//! The operations are carried out one after the other and dealt to the threads in turn, each between the locks that it needs: one of
//! the schedules that these threads have, the same each time. The machine gives each thread a clock of its own and keeps the order of each
//! lock.

use event::{Batch, Capabilities, Definition, Event, Op, Sink, SinkError, SiteId, Source, ThreadId};
use region::{Geometry, Options, Pool, Unprotected};
use space::sim::{Schedule, run as simulated};
use space::{Env, Image, Observer, Recorded, Recording, Space};

use super::structure::{Structure, scatter};
use super::{BTree, Cache, Hash, HashMap, Orders, Queue, RbTree, Reservations, Rows, Swaps};
use crate::{Outcome, Params, WorkloadError};

/// Bytes of a pool.
const BYTES: u64 = 48 << 20;
const GEOMETRY: Geometry = Geometry { logs: 8, log_bytes: 16 << 10, chunk_bytes: 64 << 10 };
/// Keys inserted by one region before the recording.
const AT_ONCE: u64 = 16;
/// Locks of structures that have more than one.
const STRIPES: u64 = 64;

/// How keys are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keys {
    /// All alike.
    Random,
    /// Four of five times one of 15 % of the keys.
    Zipf,
}

impl Keys {
    /// The `number`th key, out of `count`.
    #[must_use]
    pub fn draw(self, number: u64, count: u64) -> u64 {
        let random = scatter(2 * number + 1);
        let hot = (count * 15 / 100).max(1);
        match self {
            Keys::Random => random % count,
            Keys::Zipf if scatter(2 * number) % 5 < 4 => random % hot,
            Keys::Zipf => hot + random % (count - hot).max(1),
        }
    }
}

/// A structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A list with two ends.
    Queue,
    /// Reads and updates of a hash map.
    HashMap,
    /// Swaps of two elements of an array.
    Swaps,
    /// Insertions into and deletions from a red-black tree,
    RbTree,
    /// a B+-tree,
    BTree,
    /// a hashtable with chains.
    Hash,
    /// New orders.
    Orders,
    /// Rows, 90 of 100 transactions read,
    RowsRead,
    /// half,
    RowsHalf,
    /// or 10.
    RowsWrite,
    /// Cached items.
    Cache,
    /// Reservations.
    Reservations,
}

/// Transactions on a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transactions {
    /// The structure.
    pub kind: Kind,
    /// How keys are drawn.
    pub keys: Keys,
}

/// Does something with the type of a structure.
macro_rules! with_structure {
    ($kind:expr, $call:ident($($argument:expr),*)) => {
        match $kind {
            Kind::Queue => $call::<Queue, _>($($argument),*),
            Kind::HashMap => $call::<HashMap, _>($($argument),*),
            Kind::Swaps => $call::<Swaps, _>($($argument),*),
            Kind::RbTree => $call::<RbTree, _>($($argument),*),
            Kind::BTree => $call::<BTree, _>($($argument),*),
            Kind::Hash => $call::<Hash, _>($($argument),*),
            Kind::Orders => $call::<Orders, _>($($argument),*),
            Kind::RowsRead => $call::<Rows<90>, _>($($argument),*),
            Kind::RowsHalf => $call::<Rows<50>, _>($($argument),*),
            Kind::RowsWrite => $call::<Rows<10>, _>($($argument),*),
            Kind::Cache => $call::<Cache, _>($($argument),*),
            Kind::Reservations => $call::<Reservations, _>($($argument),*),
        }
    };
}

impl Kind {
    /// Locks that an operation holds, in the order in which it takes them.
    fn locks(self, key: u64, random: u64) -> Vec<u64> {
        let stripe = |number: u64| 1 + number % STRIPES;
        let mut locks = match self {
            Kind::Queue | Kind::RbTree | Kind::BTree => vec![0],
            Kind::HashMap => vec![stripe(key)],
            Kind::Hash => vec![stripe(scatter(key))],
            Kind::Swaps => vec![stripe(scatter(key)), stripe(scatter(random))],
            // The district's, then those of stripes of the stock.
            Kind::Orders => vec![0x100 + key % 10, stripe(random), stripe(scatter(random))],
            Kind::RowsRead | Kind::RowsHalf | Kind::RowsWrite => vec![stripe(key)],
            Kind::Cache => vec![stripe(key)],
            Kind::Reservations => vec![stripe(key), 0x100 + random % 8],
        };
        locks.sort_unstable();
        locks.dedup();
        locks
    }
}

impl Transactions {
    /// Key and random number of an operation.
    fn operation<S: Structure>(self, number: u64, seed: u64) -> (u64, u64) {
        let number = number ^ scatter(seed.wrapping_sub(1));
        (scatter(self.keys.draw(number, S::KEYS)), scatter(!number) | 1 << 50)
    }
}

/// Bytes of space that a run needs.
pub(crate) fn bytes() -> u64 {
    BYTES
}

/// Makes a pool in which every other key is, then runs all operations on the caller's thread.
///
/// # Errors
/// If the pool is full.
pub fn run<E: Env>(transactions: Transactions, env: &E, params: &Params) -> Result<Outcome, WorkloadError> {
    with_structure!(transactions.kind, run_on(transactions, env, params))
}

fn run_on<S: Structure, E: Env>(
    transactions: Transactions,
    env: &E,
    params: &Params,
) -> Result<Outcome, WorkloadError> {
    fill::<S, E>(env)?;
    env.space().observer().phase("operations");
    operate::<S, E>(transactions, env, params)
}

/// Makes a pool in which every other key is.
fn fill<S: Structure, E: Env>(env: &E) -> Result<(), WorkloadError> {
    let pool = Pool::<_, S, Unprotected>::create(env, &Options { geometry: Some(GEOMETRY), bytes: None })?;
    let keys = if S::FILLED { S::KEYS } else { 0 };
    for first in (0..keys).step_by(2 * AT_ONCE as usize) {
        pool.region(|tx| {
            let mut keys = (first..first + 2 * AT_ONCE).step_by(2);
            keys.try_for_each(|number| S::update(tx, scatter(number), number))
        })?;
    }
    Ok(pool.checkpoint()?)
}

fn operate<S: Structure, E: Env>(
    transactions: Transactions,
    env: &E,
    params: &Params,
) -> Result<Outcome, WorkloadError> {
    let (pool, _) = Pool::<_, S, Unprotected>::open(env)?;
    let mut checksum = 0u64;
    for number in 0..params.operations {
        let (key, random) = transactions.operation::<S>(number, params.seed);
        pool.region(|tx| S::update(tx, key, random))?;
        checksum = checksum.wrapping_add(key ^ random);
    }
    Ok(Outcome { operations: params.operations, checksum })
}

/// Fills a structure, and records the operations behind that for `sink`.
///
/// # Errors
/// If the pool is full or the sink fails.
pub fn record<K: Sink + Send>(
    transactions: Transactions,
    name: &str,
    params: &Params,
    sink: K,
) -> Result<(Outcome, K), WorkloadError> {
    with_structure!(transactions.kind, record_on(transactions, name, params, sink))
}

fn record_on<S: Structure, K: Sink + Send>(
    transactions: Transactions,
    name: &str,
    params: &Params,
    sink: K,
) -> Result<(Outcome, K), WorkloadError> {
    let filled = simulated(Image::new(BYTES), &Schedule::walk(0), |env| fill::<S, _>(env));
    let image = filled.space;
    filled.result.unwrap_or_else(|failure| panic!("{failure}"))?;
    let seed = params.seed;
    let locks = move |number: u64| {
        let (key, random) = transactions.operation::<S>(number, seed);
        transactions.kind.locks(key, random)
    };
    let dealt = Dealt {
        inner: sink,
        threads: params.threads.max(1),
        locks: Box::new(locks),
        region: 0,
        held: Vec::new(),
        thread: ThreadId(0),
        seq: 0,
        out: Vec::new(),
    };
    let recording = Recording::persistent(format!("strandline workload {name}"), name);
    let space = Recorded::new(image, dealt, &recording)?;
    let ran = simulated(space, &Schedule::walk(0), |env| operate::<S, _>(transactions, env, params));
    let outcome = ran.result.unwrap_or_else(|failure| panic!("{failure}"));
    let (_, dealt) = ran.space.finish()?;
    Ok((outcome?, dealt.inner))
}

type LocksOf = Box<dyn Fn(u64) -> Vec<u64> + Send>;

/// Gives the operations of one thread to several, in turn, with the locks of each.
struct Dealt<K> {
    inner: K,
    threads: u32,
    locks: LocksOf,
    /// Regions that have begun.
    region: u64,
    held: Vec<u64>,
    thread: ThreadId,
    seq: u64,
    out: Vec<Event>,
}

/// Where locks are, outside of any pool.
const LOCKS: u64 = 1 << 45;

impl<K: Sink> Dealt<K> {
    fn send(&mut self, time_ns: u64) -> Result<(), SinkError> {
        if self.out.is_empty() {
            return Ok(());
        }
        let batch = Batch { thread: self.thread, time_ns, events: &self.out, values: &[] };
        self.inner.push(batch)?;
        self.out.clear();
        Ok(())
    }

    fn lock(&mut self, number: u64, release: bool, site: SiteId) {
        self.seq += 1;
        let (lock, seq) = (LOCKS + 64 * number, self.seq);
        let op = if release { Op::Unlock { lock, seq } } else { Op::Lock { lock, shared: false, seq } };
        self.out.push(Event { op, site, instructions: 10 });
    }
}

impl<K: Sink> Sink for Dealt<K> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn needs(&self) -> Capabilities {
        self.inner.needs()
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        let mut source = source.clone();
        source.capabilities.remove(Capabilities::VALUES);
        self.inner.begin(&source)
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        self.inner.define(definition)
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        for &event in batch.events {
            match event.op {
                Op::RegionBegin { .. } => {
                    self.send(batch.time_ns)?;
                    self.thread = ThreadId((self.region % u64::from(self.threads)) as u32);
                    self.held = (self.locks)(self.region);
                    self.region += 1;
                    for at in 0..self.held.len() {
                        self.lock(self.held[at], false, event.site);
                    }
                    self.out.push(event);
                }
                Op::RegionEnd { .. } => {
                    self.out.push(event);
                    for at in (0..self.held.len()).rev() {
                        self.lock(self.held[at], true, event.site);
                    }
                    self.send(batch.time_ns)?;
                }
                // One thread alone has no synchronisation of its own to keep.
                event::synchronizations!() => {}
                _ => self.out.push(event),
            }
        }
        self.send(batch.time_ns)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.inner.finish()
    }
}
