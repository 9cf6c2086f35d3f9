//! The library's trees at work on 48 simulated threads: what each operation does to the tree's memory.
//!
//! A recording is of a tree with some 100,000 pairs. `replay.rs` makes a large one of it, so here an
//! operation is kept as steps with offsets: loads of one line that follow each other are one step, with the
//! instructions of all of them.

use std::sync::{Mutex, PoisonError};

use ::index::log_structured::{self, LogTree};
use ::index::tree::{
    FastFair, FastFairSp, Options, PersistentUnsorted, Plain, Tree, UnsortedLeaf, Variant, Wal,
};
use ::index::{Error, OrderedMap, Whole};
use space::sim::{Accesses, Schedule, run};
use space::{Env, Image, LINE, Observer, Recorded, Recording, Space};

use crate::StudyError;
use crate::pattern::Draw;
use crate::steps::{Kept, Step};

/// Threads, those of the study's largest runs.
pub(super) const THREADS: u32 = 48;
/// Bytes of a slot: keys and values of 16 bytes each.
const PAIR: u64 = 32;

/// The study's trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Plain,
    UnsortedLeaf,
    Wal,
    FastFair,
    PersistentUnsorted,
    FastFairSp,
    /// btree-LS.
    Logs,
}

/// What threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    /// New keys in random order, *Fill Random*.
    Insert,
    /// Keys that there are, in random order.
    Read,
    /// So many of a hundred operations are inserts, the others reads.
    Mixed(u64),
    /// Keys that there are get another value.
    Update,
    /// So many pairs in order, from a random key on.
    Range(u64),
    /// The tree is opened; by one thread, or so many.
    Open(u32),
}

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setup {
    pub kind: Kind,
    pub work: Work,
    /// Bytes of a node.
    pub node: u64,
    /// Pairs before.
    pub records: u64,
    /// Operations of a thread.
    pub operations: u64,
    pub group_flush: bool,
    /// Of btree-LS.
    pub logs: usize,
    /// Bytes of a log's garbage at which it is collected, in hundredths of the live bytes; 0: never.
    pub garbage: u64,
    /// Updates before, in hundredths of the pairs: what makes garbage.
    pub aged: u64,
    /// Newest records of a chain that are asked for at the same time.
    pub cached: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            kind: Kind::Plain,
            work: Work::Insert,
            node: 512,
            records: 100_000,
            operations: 150,
            group_flush: false,
            logs: 48,
            garbage: 0,
            aged: 0,
            cached: 4,
        }
    }
}

/// A recording.
pub(crate) struct Taken {
    /// What each thread does, operation by operation.
    pub(super) threads: Vec<Vec<Vec<Step>>>,
    /// Where nodes begin: what is before is there once, whatever the size of the tree.
    pub(super) nodes: u64,
    /// Bytes of the space in use.
    pub(super) bytes: u64,
}

/// Instructions of an operation beside its accesses: to make a key, the call, a latch, the result.
const PER_OPERATION: u16 = 200;
/// Whose locks are kept: those of logs and of the list of nodes. A node's latch is not: the study's tree has
/// so many nodes that threads do not meet at one.
const LOCKS: &[&str] = &["tree/split.rs", "log_structured/write.rs"];

impl Setup {
    fn bytes(&self) -> u64 {
        let leaves = 3 * self.records * PAIR;
        let logs = self.logs as u64 * 8 * self.chunk() + self.aged * self.records;
        match self.kind {
            Kind::Logs => 8 * self.records * PAIR + 2 * logs + self.live() * self.garbage / 100 * 96,
            _ => leaves + leaves / 4 + (8 << 20),
        }
    }

    /// Live bytes of a log.
    fn live(&self) -> u64 {
        2 * PAIR * self.records / self.logs as u64
    }

    fn chunk(&self) -> u64 {
        4096
    }

    fn tree_options(&self) -> Options {
        Options { node: self.node, logs: THREADS, group_flush: self.group_flush, ..Options::default() }
    }

    fn log_options(&self, threads: u32) -> log_structured::Options {
        log_structured::Options {
            logs: self.logs,
            node: self.node,
            chunk: self.chunk(),
            cached: self.cached,
            garbage: if self.garbage == 0 { u64::MAX } else { self.live() * self.garbage / 100 },
            inline: self.garbage > 0,
            threads,
            ..log_structured::Options::default()
        }
    }

    /// Where nodes begin. What is before them is the extents' head, the root words and the logs of variants
    /// that have some, one record each.
    fn nodes(&self) -> u64 {
        let logs = match self.kind {
            Kind::Wal | Kind::PersistentUnsorted => u64::from(THREADS) * (LINE + self.node),
            _ => 0,
        };
        256 + (256 + logs).next_multiple_of(256)
    }
}

/// Key `number`: in random order.
fn key(number: u64) -> [u64; 2] {
    [number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23), number]
}

/// Records what the threads do.
pub(super) fn record(setup: &Setup) -> Result<Taken, StudyError> {
    match setup.kind {
        Kind::Plain => tree::<Plain>(setup),
        Kind::UnsortedLeaf => tree::<UnsortedLeaf>(setup),
        Kind::Wal => tree::<Wal>(setup),
        Kind::FastFair => tree::<FastFair>(setup),
        Kind::PersistentUnsorted => tree::<PersistentUnsorted>(setup),
        Kind::FastFairSp => tree::<FastFairSp>(setup),
        Kind::Logs => logs(setup),
    }
}

fn tree<D: Variant>(setup: &Setup) -> Result<Taken, StudyError> {
    let options = setup.tree_options();
    taken(setup, |env| {
        let whole = Whole::create(env.space(), setup.bytes() - 4096)?;
        let map: Tree<_, [u64; 2], [u64; 2], _, D> = Tree::create(env, whole, &options)?;
        fill(&map, setup)?;
        if let Work::Open(_) = setup.work {
            drop(map);
            return opened(env, |whole| {
                Tree::<_, [u64; 2], [u64; 2], _, D>::open(env, whole, &options).map(drop)
            });
        }
        work(env, &map, setup)
    })
}

fn logs(setup: &Setup) -> Result<Taken, StudyError> {
    taken(setup, |env| {
        let whole = Whole::create(env.space(), setup.bytes() - 4096)?;
        let map: LogTree<_, [u64; 2], [u64; 2], _> = LogTree::create(env, whole, &setup.log_options(1))?;
        fill(&map, setup)?;
        if let Work::Open(threads) = setup.work {
            drop(map);
            let options = setup.log_options(threads);
            return opened(env, |whole| {
                LogTree::<_, [u64; 2], [u64; 2], _>::open(env, whole, &options).map(drop)
            });
        }
        work(env, &map, setup)
    })
}

/// Runs a scenario and keeps what threads beside the first do.
fn taken(setup: &Setup, scenario: impl FnOnce(&Simulated) -> Result<(), Error>) -> Result<Taken, StudyError> {
    let recording = Recording::persistent("studies", "tree");
    let mut kept = Kept::new(PER_OPERATION, LOCKS);
    if let Work::Open(_) = setup.work {
        kept = kept.whole();
    }
    let space = Recorded::new(Image::new(setup.bytes()), kept, &recording)?;
    let schedule = Schedule::walk(1).at_accesses(Accesses::Never);
    let ran = run(space, &schedule, scenario);
    ran.result.unwrap_or_else(|failure| panic!("{setup:?}: {failure}"))?;
    let (_, mut kept) = ran.space.finish()?;
    // Others than those that are meant started before: to make a tree of logs is to open an empty one.
    kept.threads.retain(|thread| !thread.is_empty());
    let last = match (setup.work, setup.kind) {
        (Work::Open(threads), Kind::Logs) => threads as usize,
        (Work::Open(_), _) => 1,
        _ => THREADS as usize,
    };
    let threads = kept.threads.split_off(kept.threads.len().saturating_sub(last));
    Ok(Taken { threads, nodes: setup.nodes(), bytes: kept.end })
}

type Simulated = space::Sim<Recorded<Image, Kept>>;

/// Opens a tree on a thread of its own, so that what it does is kept.
fn opened(env: &Simulated, open: impl Fn(Whole) -> Result<(), Error> + Sync) -> Result<(), Error> {
    let result = Mutex::new(Ok(()));
    env.threads(1, |_| {
        let opened = Whole::open(env.space()).and_then(&open);
        *result.lock().unwrap_or_else(PoisonError::into_inner) = opened;
    });
    result.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Random inserts, as the study warms up.
fn fill<M: OrderedMap<[u64; 2], [u64; 2]>>(map: &M, setup: &Setup) -> Result<(), Error> {
    (0..setup.records).try_for_each(|number| map.insert(key(number), [number; 2]).map(drop))?;
    let mut draw = Draw::new(11);
    (0..setup.aged * setup.records / 100)
        .try_for_each(|at| map.insert(key(draw.below(setup.records)), [at, 1]).map(drop))
}

fn work<M: OrderedMap<[u64; 2], [u64; 2]>>(env: &Simulated, map: &M, setup: &Setup) -> Result<(), Error> {
    let result = Mutex::new(Ok(()));
    env.threads(THREADS, |thread| {
        let mut draw = Draw::new(1000 + u64::from(thread));
        for number in 0..setup.operations {
            let own = setup.records + u64::from(thread) * setup.operations + number;
            let known = draw.below(setup.records);
            let percentile = draw.below(100);
            env.space().observer().region_begin(number);
            let done = match setup.work {
                Work::Insert => map.insert(key(own), [own; 2]).map(drop),
                Work::Mixed(puts) if percentile < puts => map.insert(key(own), [own; 2]).map(drop),
                Work::Update => map.insert(key(known), [own, 2]).map(drop),
                Work::Range(pairs) => {
                    let mut left = pairs;
                    map.range(key(known), &mut |_, _| {
                        left -= 1;
                        left > 0
                    });
                    Ok(())
                }
                Work::Read | Work::Mixed(_) | Work::Open(_) => {
                    std::hint::black_box(map.get(key(known)));
                    Ok(())
                }
            };
            env.space().observer().region_end(number);
            if done.is_err() {
                *result.lock().unwrap_or_else(PoisonError::into_inner) = done;
                return;
            }
        }
    });
    result.into_inner().unwrap_or_else(PoisonError::into_inner)
}
