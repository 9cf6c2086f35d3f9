//! `Store`: an engine on a space.

use std::collections::{HashMap, VecDeque};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use pmem::{Os, Synced};
use region::Ticket;
use space::{Env, Space};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::chunks::{Chunks, Grow};
use crate::due::Due;
use crate::handle::Handle;
use crate::lane::Lane;
use crate::layout::Layout;
use crate::left::Left;
use crate::options::Flaw;
use crate::pieces::Tree;
use crate::record;
use crate::shard::Shard;
use crate::sorted::Order;
use crate::{Durable, Error, Options, Placement, Stats};

/// Lanes where threads do not wait for syncs together.
const LANES: u32 = 16;

/// A key-value store on the space of an environment: of a file, unless something else is said
/// ([`Store::create`], [`Store::open`]). [`crate::KeyValue`] has its operations.
pub struct Store<E: Env = Os<Synced>, H: Handle<E> = Arc<E>> {
    pub(crate) env: H,
    pub(crate) options: Options,
    pub(crate) chunks: Arc<Chunks<E>>,
    /// The index, where it is in persistent memory; else it is in the shards.
    pub(crate) tree: Option<Tree<E, H>>,
    pub(crate) shards: Box<[Shard<E>]>,
    pub(crate) lanes: Box<[E::Latch<Lane>]>,
    /// Where garbage collection writes.
    pub(crate) collector: E::Mutex<Lane>,
    /// Logs that wait for it.
    pub(crate) queue: E::Mutex<VecDeque<u32>>,
    pub(crate) waiting: AtomicU64,
    /// The oldest two generations of logs, when that was looked at last.
    pub(crate) oldest: [AtomicU64; 2],
    /// Bytes of tombstones in logs, and of logs.
    pub(crate) tombstones: AtomicU64,
    pub(crate) log_bytes: AtomicU64,
    /// A log was opened since that was looked at last.
    pub(crate) new_log: AtomicBool,
    /// Superblocks with free slots that no lane has, by the size of these.
    pub(crate) partial: E::Mutex<HashMap<u64, Vec<u32>>>,
    pub(crate) due: Due<E>,
    pub(crate) order: Order<E>,
    pub(crate) pins: Pins<E>,
    pub(crate) collected: AtomicU64,
    pub(crate) copied: AtomicU64,
    pub(crate) recovered: AtomicU64,
    /// What closing left, if the store was opened by it, and whether anything has changed since.
    pub(crate) left: OnceLock<Left>,
    pub(crate) changed: AtomicBool,
    kind: PhantomData<E>,
}

/// Snapshots, and what is not used again because of them.
pub(crate) struct Pins<E: Env> {
    pub(crate) count: AtomicUsize,
    pub(crate) withheld: E::Mutex<Withheld>,
}

#[derive(Debug, Default)]
pub(crate) struct Withheld {
    pub(crate) slots: Vec<u64>,
    pub(crate) chunks: Vec<u32>,
}

impl<E: Env, H: Handle<E>> Store<E, H> {
    /// Makes a store on an empty space.
    ///
    /// # Errors
    /// If there is something in the space, it is too small, or the options make no store.
    pub fn create_on(env: H, options: &Options) -> Result<Self, Error> {
        let layout = Layout::new(options, options.number(&*env))?;
        Self::create_growing(env, options, layout, None)
    }

    /// Opens the store on a space, after recovery if it was not closed in order.
    ///
    /// # Errors
    /// If there is none, or it is damaged.
    pub fn open_on(env: H, options: &Options) -> Result<Self, Error> {
        Self::open_growing(env, options, None)
    }

    pub(crate) fn open_growing(env: H, options: &Options, grow: Option<Grow<E>>) -> Result<Self, Error> {
        let layout = Layout::open(env.space())?;
        let mut store = Self::assemble(env, options, layout, grow);
        store.recover()?;
        Ok(store)
    }

    pub(crate) fn create_growing(
        env: H,
        options: &Options,
        layout: Layout,
        grow: Option<Grow<E>>,
    ) -> Result<Self, Error> {
        let mut store = Self::assemble(env, options, layout, grow);
        let begin = layout.begin(store.env.space())?;
        if layout.index == Placement::Persistent {
            store.tree = Some(store.make_tree()?);
        }
        // From here on it is a store.
        begin.finish(&layout, store.env.space());
        Ok(store)
    }

    fn assemble(env: H, options: &Options, layout: Layout, grow: Option<Grow<E>>) -> Self {
        let max_bytes = options.max_bytes.unwrap_or(u64::MAX);
        // What the index leads to is durable: it can't wait.
        let persistent = layout.index == Placement::Persistent;
        let mode = if persistent { Some(Durable::AtOnce) } else { options.durable };
        let due = Due::new(&*env, mode);
        let lanes = match options.lanes {
            0 if due.at_once() => LANES,
            0 => 1,
            lanes => lanes,
        };
        let shards = options.shards.clamp(1, 1 << 16).next_power_of_two();
        Store {
            options: options.clone(),
            chunks: Arc::new(Chunks::new(&env, layout, grow, max_bytes)),
            tree: None,
            shards: (0..shards).map(|_| Shard::new(&*env)).collect(),
            lanes: (0..lanes).map(|_| env.latch(Lane::default())).collect(),
            collector: env.mutex(Lane::default()),
            queue: env.mutex(VecDeque::new()),
            waiting: AtomicU64::new(0),
            oldest: [AtomicU64::new(0), AtomicU64::new(0)],
            tombstones: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            new_log: AtomicBool::new(false),
            partial: env.mutex(HashMap::new()),
            due,
            order: Order::new(&*env, shards as usize),
            pins: Pins { count: AtomicUsize::new(0), withheld: env.mutex(Withheld::default()) },
            collected: AtomicU64::new(0),
            copied: AtomicU64::new(0),
            recovered: AtomicU64::new(0),
            left: OnceLock::new(),
            changed: AtomicBool::new(false),
            kind: PhantomData,
            env,
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.chunks.layout
    }

    /// The hash of a key.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.chunks.layout.id)
    }

    /// The shard of the keys with that hash.
    #[inline]
    pub(crate) fn shard_number(&self, hash: u64) -> usize {
        (hash >> 40) as usize & (self.shards.len() - 1)
    }

    #[inline]
    pub(crate) fn shard(&self, hash: u64) -> &Shard<E> {
        &self.shards[self.shard_number(hash)]
    }

    /// The calling thread's lane.
    #[inline]
    pub(crate) fn lane(&self) -> E::LatchGuard<'_, Lane> {
        let at = self.env.thread_number() as usize % self.lanes.len();
        self.env.hold(&self.lanes[at])
    }

    /// Bytes of a record that its checksum covers at most.
    pub(crate) fn covers(&self) -> usize {
        if self.flawed(Flaw::ShortChecksum) { record::HEAD as usize } else { usize::MAX }
    }

    #[inline]
    pub(crate) fn flawed(&self, flaw: Flaw) -> bool {
        self.options.flaw == Some(flaw)
    }

    /// Refuses to go on where a sync has failed.
    pub(crate) fn check_health(&self) -> Result<(), Error> {
        if self.env.space().has_failed() { Err(Error::Failed) } else { Ok(()) }
    }

    /// See [`crate::KeyValue::wait`].
    ///
    /// # Errors
    /// If the disk failed.
    pub fn wait(&self, ticket: Ticket) -> Result<(), Error> {
        self.due.wait(&self.env, ticket, || {
            for lane in &self.lanes {
                let mut lane = self.env.hold(lane);
                self.confirm_ends(&mut lane);
                for (begin, end) in lane.ranges.drain(..) {
                    self.env.space().flush(begin, end - begin);
                }
            }
        })
    }

    /// See [`crate::KeyValue::sync`].
    ///
    /// # Errors
    /// If the disk failed.
    pub fn sync(&self) -> Result<(), Error> {
        self.wait(self.due.latest())
    }

    /// See [`crate::KeyValue::stats`].
    pub fn stats(&self) -> Stats {
        let (chunks, free) = self.chunks.usage(&self.env);
        let logs = self.chunks.logs(&self.env);
        let outdated = |at: u32| self.chunks.info(at).outdated.load(Relaxed);
        Stats {
            engine: self.layout().engine,
            durable: self.due.mode,
            keys: self.shards.iter().map(|shard| shard.count()).sum(),
            bytes: self.env.space().len(),
            chunk: self.layout().chunk,
            chunks: u64::from(chunks),
            free_chunks: u64::from(free),
            logs: logs.len() as u64,
            outdated_bytes: logs.iter().map(|(at, _)| outdated(*at)).sum(),
            queued_logs: self.env.lock(&self.queue).len() as u64,
            collected_logs: self.collected.load(Relaxed),
            copied_bytes: self.copied.load(Relaxed),
            recovered_records: self.recovered.load(Relaxed),
            index_bytes: self.shards.iter().map(|shard| shard.table.bytes()).sum(),
        }
    }
}
