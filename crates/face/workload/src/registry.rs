//! The workloads by name, and how they are run.

use std::ops::Range;

use event::{Sink, SinkError};
use space::{Env, Image, Recorded, Recording};

use crate::transactions::{self, Keys, Kind, Transactions};
use crate::{TreeError, fill, library, log, scatter};

/// What a run can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Operations; what one is, the workload says. At least 1.
    pub operations: u64,
    /// Threads, from 1. With more than one the order of events depends on the environment.
    pub threads: u32,
    /// Start of all randomness.
    pub seed: u64,
}

/// What came out of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Operations done, all phases together.
    pub operations: u64,
    /// A sum over results; depends on the parameters only.
    pub checksum: u64,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The tree could not go on.
    #[error("btree-fill: {0}")]
    Tree(#[from] TreeError),
    /// The library's ordered map could not go on.
    #[error("index-fill: {0}")]
    Index(#[from] index::Error),
    /// A pool of transactions could not go on.
    #[error("transactions: {0}")]
    Region(#[from] region::Error),
    /// The library's key-value store could not go on.
    #[error("kv-fill: {0}")]
    Store(#[from] kv::Error),
    /// The consumer of events could not go on.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The workload did not find what it had written.
    #[error("{workload}: operation {index} did not find what was stored; this is a bug in the workload")]
    Wrong {
        /// The workload.
        workload: &'static str,
        /// Which operation.
        index: u64,
    },
    /// There is no memory for the space.
    #[error("so many operations take {bytes} bytes of memory, more than there is; ask for fewer operations")]
    TooLarge {
        /// Bytes of the space.
        bytes: u64,
    },
}

/// Largest space that is asked for, so that sizes do not overflow.
const BYTES_MAX: u64 = 1 << 62;

/// A built-in program.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Operations of a run of a few seconds.
    pub default_operations: u64,
    program: Program,
}

#[derive(Clone, Copy, Debug)]
enum Program {
    Fill,
    Log,
    Scatter,
    Index,
    Store(kv::Engine),
    Transactions(Transactions),
}

/// Transactions of a few seconds.
const fn transactions(name: &'static str, summary: &'static str, kind: Kind, keys: Keys) -> Workload {
    let program = Program::Transactions(Transactions { kind, keys });
    Workload { name, summary, default_operations: 20_000, program }
}

impl Workload {
    /// All of them; the first one is what runs when none is named.
    pub const ALL: &'static [Workload] = &[
        Workload {
            name: "btree-fill",
            summary: "insert random keys into a persistent B+-tree, then look them up",
            default_operations: 100_000,
            program: Program::Fill,
        },
        Workload {
            name: "log-append",
            summary: "append 256-byte records with non-temporal stores: what persistent memory likes",
            default_operations: 200_000,
            program: Program::Log,
        },
        Workload {
            name: "hash-scatter",
            summary: "rewrite random 64-byte buckets and flush them twice: what it does not like",
            default_operations: 200_000,
            program: Program::Scatter,
        },
        Workload {
            name: "index-fill",
            summary: "insert random keys into the library's ordered map, each durable, then look them up",
            default_operations: 200_000,
            program: Program::Index,
        },
        Workload {
            name: "kv-fill",
            summary: "put 100-byte values into the library's key-value store, in slots, then get them",
            default_operations: 200_000,
            program: Program::Store(kv::Engine::Slab),
        },
        Workload {
            name: "kv-log-fill",
            summary: "the same in logs",
            default_operations: 200_000,
            program: Program::Store(kv::Engine::Log),
        },
        transactions("queue", "transactions: append to and take from a queue", Kind::Queue, Keys::Random),
        transactions(
            "hashmap",
            "transactions: read and update words of a hash map",
            Kind::HashMap,
            Keys::Random,
        ),
        transactions("array-swap", "transactions: swap two elements of an array", Kind::Swaps, Keys::Random),
        transactions(
            "rb-tree",
            "transactions: insert into and delete from a red-black tree",
            Kind::RbTree,
            Keys::Random,
        ),
        transactions("rb-tree-zipf", "the same with keys of which some are hot", Kind::RbTree, Keys::Zipf),
        transactions(
            "b-tree",
            "transactions: insert into and delete from a B+-tree",
            Kind::BTree,
            Keys::Random,
        ),
        transactions("b-tree-zipf", "the same with keys of which some are hot", Kind::BTree, Keys::Zipf),
        transactions(
            "hash",
            "transactions: insert into and delete from a hashtable with chains",
            Kind::Hash,
            Keys::Random,
        ),
        transactions("hash-zipf", "the same with keys of which some are hot", Kind::Hash, Keys::Zipf),
        transactions("tpcc", "transactions: new orders", Kind::Orders, Keys::Random),
        transactions("nstore-read", "transactions: rows, 90 of 100 read", Kind::RowsRead, Keys::Random),
        transactions(
            "nstore-half",
            "transactions: rows, half read, half update a field",
            Kind::RowsHalf,
            Keys::Random,
        ),
        transactions(
            "nstore-write",
            "transactions: rows, 90 of 100 update a field",
            Kind::RowsWrite,
            Keys::Random,
        ),
        transactions(
            "memcached",
            "transactions: a cache of items, nine of ten set",
            Kind::Cache,
            Keys::Random,
        ),
        transactions("vacation", "transactions: reservations", Kind::Reservations, Keys::Random),
    ];

    /// The one of that name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Workload> {
        Self::ALL.iter().find(|workload| workload.name == name)
    }

    /// Its transactions, if it is made of marked regions without protection, which hardware or a mapping is to make atomic.
    #[must_use]
    pub fn transactions(&self) -> Option<Transactions> {
        match self.program {
            Program::Transactions(transactions) => Some(transactions),
            _ => None,
        }
    }

    /// A run of a few seconds on one thread.
    #[must_use]
    pub fn default_params(&self) -> Params {
        Params { operations: self.default_operations, threads: 1, seed: 1 }
    }

    /// Bytes of space that a run needs, a multiple of 4096.
    #[must_use]
    pub fn bytes(&self, params: &Params) -> u64 {
        let bytes = match self.program {
            Program::Fill => fill::bytes(params),
            Program::Log => log::bytes(params),
            Program::Scatter => scatter::bytes(params),
            Program::Index => library::index_bytes(params),
            Program::Store(_) => library::store_bytes(params),
            Program::Transactions(_) => transactions::bytes(),
        };
        bytes.min(BYTES_MAX).next_multiple_of(4096)
    }

    /// Runs on a fresh space of at least [`Workload::bytes`] bytes.
    ///
    /// # Errors
    /// If the workload fails.
    pub fn run<E: Env>(&self, env: &E, params: &Params) -> Result<Outcome, WorkloadError> {
        match self.program {
            Program::Fill => fill::run(env, params),
            Program::Log => log::run(env, params),
            Program::Scatter => scatter::run(env, params),
            Program::Index => library::index(env, params),
            Program::Store(engine) => library::store(env, params, engine),
            Program::Transactions(transactions) => transactions::run(transactions, env, params),
        }
    }

    /// Runs in memory and gives every event to `sink`. The memory counts as persistent, under the workload's
    /// name. `env` makes the environment: `pmem::Os::new`.
    ///
    /// # Errors
    /// If the sink or the workload fails.
    pub fn record<K, E>(
        &self,
        params: &Params,
        sink: K,
        env: impl FnOnce(Recorded<Image, K>) -> E,
    ) -> Result<(Outcome, K), WorkloadError>
    where
        K: Sink + Send,
        E: Env<Base = Recorded<Image, K>>,
    {
        if let Program::Transactions(transactions) = self.program {
            return transactions::record(transactions, self.name, params, sink);
        }
        let recording = Recording::persistent(format!("strandline workload {}", self.name), self.name);
        let bytes = self.bytes(params);
        room(bytes)?;
        let env = env(Recorded::new(Image::new(bytes), sink, &recording)?);
        let outcome = self.run(&env, params);
        let (_, sink) = env.into_space().finish()?;
        Ok((outcome?, sink))
    }
}

/// Whether there is memory for an image of so many bytes: an image itself can't fail, it aborts.
fn room(bytes: u64) -> Result<(), WorkloadError> {
    let words = usize::try_from(bytes / 8).map_err(|_| WorkloadError::TooLarge { bytes })?;
    Vec::<u64>::new().try_reserve_exact(words).map_err(|_| WorkloadError::TooLarge { bytes })
}

impl Params {
    /// Gives the operations to the threads in turns, and adds up what they return.
    pub(crate) fn share_out<E: Env>(
        &self,
        env: &E,
        work: impl Fn(std::iter::StepBy<Range<u64>>) -> Result<u64, WorkloadError> + Sync,
    ) -> Result<u64, WorkloadError> {
        let threads = self.threads.max(1);
        self.on_threads(env, |thread| work((u64::from(thread)..self.operations).step_by(threads as usize)))
    }

    /// Gives each thread a run of consecutive operations, and adds up what they return.
    pub(crate) fn share_out_runs<E: Env>(
        &self,
        env: &E,
        work: impl Fn(Range<u64>) -> Result<u64, WorkloadError> + Sync,
    ) -> Result<u64, WorkloadError> {
        let threads = u64::from(self.threads.max(1));
        let bound = |thread: u64| {
            let bound = u128::from(self.operations) * u128::from(thread) / u128::from(threads);
            u64::try_from(bound).unwrap_or(self.operations)
        };
        self.on_threads(env, |thread| work(bound(thread.into())..bound(u64::from(thread) + 1)))
    }

    /// Runs `work` for each thread's number; a single one runs on the caller's thread.
    fn on_threads<E: Env>(
        &self,
        env: &E,
        work: impl Fn(u32) -> Result<u64, WorkloadError> + Sync,
    ) -> Result<u64, WorkloadError> {
        if self.threads <= 1 {
            return work(0);
        }
        let results = std::sync::Mutex::new(Ok(0u64));
        env.threads(self.threads, |thread| {
            let result = work(thread);
            let mut results = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match (&mut *results, result) {
                (Ok(sum), Ok(part)) => *sum = sum.wrapping_add(part),
                (Ok(_), Err(error)) => *results = Err(error),
                (Err(_), _) => {}
            }
        });
        results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
