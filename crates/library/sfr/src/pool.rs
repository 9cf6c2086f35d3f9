//! A pool: its parts in ordinary memory, its making and its end.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use space::{Env, LINE, Space};

use crate::blocks::{FRONT, allocated};
use crate::cut::Ahead;
use crate::entry::ENTRY;
use crate::guard::Lock;
use crate::heap::Heap;
use crate::layout::{self, LOGS_MAX, Layout, NAME_MAX, ROOT, SELECTOR};
use crate::order::{BUCKETS, Buckets};
use crate::queue::{Counters, Queue};
use crate::recovery::{self, Recovered};
use crate::{Design, Error, Flaw, Options, Steps, Thread};

/// Persistent memory in which the stores of SFRs are failure-atomic.
///
/// It is for the threads of one process. Each takes a [`Thread`] and stores through it.
pub struct Pool<'e, E: Env> {
    pub(crate) env: &'e E,
    pub(crate) layout: Layout,
    pub(crate) options: Options,
    pub(crate) buckets: Buckets<E>,
    pub(crate) queues: Box<[E::Latch<Queue>]>,
    pub(crate) heap: E::Mutex<Heap>,
    pub(crate) pruning: E::Mutex<Pruning>,
    /// Numbers of locks that are the pool's own.
    objects: AtomicU64,
}

/// What whoever commits for all threads has to know.
pub(crate) struct Pruning {
    /// Releases of each bucket that are crossed, up to the first that is not.
    pub released: Box<[u64]>,
    /// And those behind it.
    pub ahead: Ahead,
    /// The selector's word.
    pub selector: u64,
    /// Commits, flushes and fences of pruners.
    pub counters: Counters,
}

/// What was counted since the opening. What a thread has not yet ended an SFR after is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Stores that were announced, outside critical sections too.
    pub stores: u64,
    /// Entries that were logged for them: one for each 32 bytes.
    pub entries: u64,
    /// Bytes of entries.
    pub log_bytes: u64,
    /// Lines that were flushed.
    pub flushes: u64,
    /// Fences.
    pub fences: u64,
    /// SFRs that ended; critical sections for ATLAS.
    pub regions: u64,
    /// Moves of heads.
    pub commits: u64,
    /// The most bytes of entries that were not committed in one log at the end of an SFR.
    pub live_log_max: u64,
}

impl<'e, E: Env> Pool<'e, E> {
    /// Makes a pool of all the memory of `env`; whatever is there is lost.
    ///
    /// # Errors
    /// If the memory is too short, also for the root block, or the layout's name too long.
    pub fn create(env: &'e E, options: &Options) -> Result<Self, Error> {
        if options.layout.len() > NAME_MAX {
            return Err(Error::Name { bytes: options.layout.len() });
        }
        let layout = Layout::new(env.random(), env.space().len(), options.base)?;
        let space = env.space();
        space.store(0, &[0; 8]);
        space.persist(0, 8);
        for offset in (SELECTOR..layout.units_at).step_by(8) {
            if space.load_u64(offset) != 0 {
                space.store_u64(offset, 0);
                space.flush(offset, 8);
            }
        }
        space.fence();
        let mut heap = Heap::new(&layout);
        if options.root > 0 {
            Self::make_root(env, &mut heap, options.root)?;
        }
        // From here on it is a pool.
        layout.write(env, &options.layout);
        let queues = (0..LOGS_MAX).map(|_| Queue::new(1, 1, None)).collect();
        Ok(Self::with(env, layout, options, heap, queues, 0))
    }

    /// Makes the root block of a pool that is not one yet, durably.
    fn make_root(env: &E, heap: &mut Heap, bytes: u64) -> Result<(), Error> {
        let (space, block) = (env.space(), heap.take(env, bytes)?);
        let zeros = [0; 4096];
        let (mut at, end) = (block + FRONT, block + FRONT + bytes);
        while at < end {
            let part = (end - at).min(zeros.len() as u64);
            space.store(at, &zeros[..part as usize]);
            at += part;
        }
        space.store_u64(block, allocated(bytes));
        space.store_u64(ROOT, block + FRONT);
        space.flush(block, FRONT + bytes);
        space.persist(ROOT, 8);
        Ok(())
    }

    /// Opens a pool: undoes every SFR that was not committed.
    ///
    /// # Errors
    /// If there is no pool, it is damaged or cut, or (with [`Options::strict`]) what survived contradicts
    /// itself.
    pub fn open(env: &'e E, options: &Options) -> Result<(Self, Recovered), Error> {
        let state = recovery::recover(env, options)?;
        let rings: Vec<_> =
            state.queues.iter().filter_map(|queue| queue.ring).map(|ring| (ring.unit, ring.units)).collect();
        let heap = Heap::open(env, &state.layout, &rings, state.clock)?;
        let pool = Self::with(env, state.layout, options, heap, state.queues, state.selector);
        Ok((pool, state.recovered))
    }

    fn with(
        env: &'e E,
        layout: Layout,
        options: &Options,
        heap: Heap,
        queues: Vec<Queue>,
        selector: u64,
    ) -> Self {
        let clock = heap.clock;
        let pruning = Pruning {
            released: vec![0; BUCKETS].into(),
            ahead: Ahead::new(),
            selector,
            counters: Counters::default(),
        };
        Pool {
            env,
            layout,
            options: options.clone(),
            buckets: Buckets::new(env, clock),
            queues: queues.into_iter().map(|queue| env.latch(queue)).collect(),
            heap: env.mutex(heap),
            pruning: env.mutex(pruning),
            objects: AtomicU64::new(1),
        }
    }

    /// The address at which a pool wants to be mapped, from its first [`crate::HEADER_BYTES`] bytes; 0 for
    /// any.
    ///
    /// # Errors
    /// If these are not the first bytes of a pool.
    pub fn base_of(header: &[u8]) -> Result<u64, Error> {
        Ok(Layout::read(header)?.base)
    }

    /// The pool's number, which is random.
    pub fn number(&self) -> u64 {
        self.layout.number
    }

    /// The environment.
    pub fn env(&self) -> &'e E {
        self.env
    }

    /// The design of this run.
    pub fn design(&self) -> Design {
        self.options.design
    }

    /// Bytes of the pool.
    pub fn bytes(&self) -> u64 {
        self.layout.bytes
    }

    /// Offset of the root block, 0 if there is none. The word is data of the program:
    /// [`Thread::set_root`] is a store like any other.
    pub fn root(&self) -> u64 {
        self.env.space().load_u64(ROOT)
    }

    /// A thread of the program, with a log of its own until it is dropped.
    ///
    /// # Errors
    /// If there are as many threads as logs, or no room for another log.
    pub fn thread(&self) -> Result<Thread<'_, 'e, E>, Error> {
        Thread::new(self)
    }

    /// A lock for [`Thread::enter`].
    pub fn lock(&self) -> Lock<E> {
        let object = self.objects.fetch_add(1, Ordering::Relaxed);
        Lock::new(self.env, object)
    }

    /// Commits all that ended. A pool that is dropped without it has lost nothing but what was not committed.
    pub fn close(self) {
        self.sync();
    }

    /// What was counted.
    pub fn stats(&self) -> Stats {
        let mut sum = self.env.lock(&self.pruning).counters;
        for queue in &self.queues {
            sum.add(&self.env.hold(queue).counters);
        }
        Stats {
            stores: sum.stores,
            entries: sum.entries,
            log_bytes: sum.entries * ENTRY,
            flushes: sum.flushes,
            fences: sum.fences,
            regions: sum.regions,
            commits: sum.commits,
            live_log_max: sum.live_max * ENTRY,
        }
    }

    /// Bytes of entries that are not committed, over all logs, as of the last ends of SFRs.
    pub fn log_bytes(&self) -> u64 {
        let live = |queue: &E::Latch<Queue>| {
            let queue = self.env.hold(queue);
            queue.tail.saturating_sub(queue.head)
        };
        self.queues.iter().map(live).sum::<u64>() * ENTRY
    }

    /// The seed of a log's checksums.
    pub(crate) fn seed(&self, log: u32) -> u64 {
        seed(&self.layout, log)
    }

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.options.flaw == Some(flaw)
    }

    pub(crate) fn does(&self, steps: Steps) -> bool {
        self.options.steps >= steps
    }

    /// Writes the heads of logs into the vector that does not count, and makes it the one that does. What was
    /// flushed before survives before the heads count.
    pub(crate) fn write_heads(&self, heads: &[u64], pruning: &mut Pruning) {
        let lines = write_heads(self.env, heads, &mut pruning.selector, self.options.flaw);
        pruning.counters.flushes += lines + 1;
        pruning.counters.fences += 2;
        pruning.counters.commits += 1;
    }
}

/// The seed of a log's checksums.
pub(crate) fn seed(layout: &Layout, log: u32) -> u64 {
    layout.number ^ u64::from(log + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Writes all heads and then the selector; returns the lines of heads.
pub(crate) fn write_heads<E: Env>(env: &E, heads: &[u64], selector: &mut u64, flaw: Option<Flaw>) -> u64 {
    let space = env.space();
    let one_by_one = flaw == Some(Flaw::HeadsOneByOne);
    let next = selector.wrapping_add(1);
    // The twin writes what counts already.
    let which = if one_by_one { *selector } else { next };
    for (log, &head) in heads.iter().enumerate() {
        let at = layout::vector(which, log as u32);
        if space.load_u64(at) != head {
            space.store_u64(at, head);
        }
    }
    let bytes = heads.len() as u64 * 8;
    space.flush(layout::vector(which, 0), bytes);
    if flaw != Some(Flaw::NoFenceBeforeCommit) {
        space.fence();
    }
    if !one_by_one {
        space.store_u64(SELECTOR, next);
        space.persist(SELECTOR, 8);
        *selector = next;
    }
    bytes.div_ceil(LINE)
}

impl<E: Env> fmt::Debug for Pool<'_, E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Pool").field("layout", &self.layout).field("options", &self.options).finish()
    }
}
