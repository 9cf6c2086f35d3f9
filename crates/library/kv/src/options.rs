//! How a store is made and opened.

use std::sync::Arc;

use space::Env;

/// Where values are stored. Fixed when the store is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Each thread appends to a log. Fast in bursts: what an update leaves behind is collected later.
    Log,
    /// Slots of fixed sizes in superblocks, reused in place. The same speed at any time.
    #[default]
    Slab,
}

/// Where the index is kept. Fixed when the store is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// In ordinary memory; made again from the records when a store was not closed in order.
    #[default]
    Volatile,
    /// In the file. Every change waits for the index, too, and is durable when it returns; opening after a
    /// crash reads the index and none of the records.
    Persistent,
}

/// Whether values are written back as they are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Values {
    /// Yes: right everywhere.
    #[default]
    Flush,
    /// No: they stay in the cache. Right only where the caches themselves survive a power failure (eADR), and
    /// faster there for small values that are soon read or written again. Elsewhere acknowledged changes are
    /// lost.
    Keep,
}

/// When a change is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durable {
    /// When it returns. Its ticket is due.
    AtOnce,
    /// When somebody waited for its ticket: one sync for all who wait.
    WhenWaited,
}

/// How a store is made and opened. What is fixed when a store is made is ignored when it is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where values are stored.
    pub engine: Engine,
    /// Where the index is kept.
    pub index: Placement,
    /// Whether values are written back.
    pub values: Values,
    /// When a change is durable. `None`: at once on persistent memory, when waited for where that takes a
    /// sync.
    pub durable: Option<Durable>,
    /// Bytes of a log or superblock: a power of two from 1 KiB to 1 GiB. Fixed when the store is made.
    pub chunk: u64,
    /// Bytes that a new file begins with; four chunks at least.
    pub bytes: u64,
    /// Bytes that the file may grow to, four chunks at least. `None`: as far as the file system and address
    /// space allow.
    pub max_bytes: Option<u64>,
    /// Threads that can append at the same time without waiting for each other. 0: 16, but one where changes
    /// wait for a sync ([`Durable::WhenWaited`]): what threads append to one log lies in few pages, which a
    /// sync writes at once.
    pub lanes: u32,
    /// Parts of the index, each with a latch of its own: a power of two up to 65,536.
    pub shards: u32,
    /// Logs that may wait for garbage collection before a thread that needs a new log has to collect one
    /// itself.
    pub queue: u32,
    /// The number of a new store, which goes into hashes and checksums. `None`: a random one. Given for runs
    /// that are to be the same; a record of one store is then one of the other, too.
    pub seed: Option<u64>,
    /// Threads that read records when a store is opened that was not closed in order.
    pub threads: u32,
    /// Who hears how far that is.
    pub progress: Option<Progress>,
    /// A mistake that the store is to make. For tests, which have to catch it.
    #[doc(hidden)]
    pub flaw: Option<Flaw>,
}

impl Options {
    /// The number of a new store, of 48 bits.
    pub(crate) fn number<E: Env>(&self, env: &E) -> u64 {
        self.seed.unwrap_or_else(|| env.random() >> 16) & (u64::MAX >> 16)
    }
}

/// Hears how far the recovery of a store is: chunks that were read, and chunks that there are. Called by any
/// of the threads that read.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(u64, u64) + Send + Sync>);

impl Progress {
    /// Has `hear` called.
    pub fn new(hear: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        Progress(Arc::new(hear))
    }

    pub(crate) fn report(&self, done: u64, all: u64) {
        (self.0)(done, all);
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Progress")
    }
}

/// Mistakes that tests of crashes have to catch.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// A change returns, and readers see it, before its record is durable.
    NotFenced,
    /// Checksums cover the head of a record only.
    ShortChecksum,
    /// The index in the file leads to a record before that is durable.
    IndexFirst,
    /// A collected log is free before the copies are durable.
    FreedBeforeCopied,
    /// What is replaced is cleared before the new record is durable.
    ClearedTooEarly,
    /// A slot is used again before its zero is durable.
    SlotReusedEarly,
    /// What closing left counts for as long as the store is open.
    ClosedWhileOpen,
    /// What closing leaves counts before it is durable.
    ClosedEarly,
    /// Recovery trusts records that a killed process stored and the caches still hold.
    RecoveredEarly,
}

impl Default for Options {
    /// What holds up under load of any kind: slabs, index in ordinary memory, values written back.
    fn default() -> Options {
        Options {
            engine: Engine::default(),
            index: Placement::default(),
            values: Values::default(),
            durable: None,
            chunk: 4 << 20,
            bytes: 64 << 20,
            max_bytes: None,
            lanes: 0,
            shards: 1024,
            queue: 4,
            seed: None,
            threads: 4,
            progress: None,
            flaw: None,
        }
    }
}
