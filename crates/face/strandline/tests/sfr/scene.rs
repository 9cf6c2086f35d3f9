//! What the threads of a run do, and the journal of what they did.

use std::sync::{Mutex, PoisonError};

use sfr::{Design, Kind, Pool, Thread};
use space::{Env, Observer, Space};

/// Locks, each with a cell of its own in the pool.
pub const LOCKS: u64 = 4;
/// Words that are swapped without a lock.
pub const SWAPPED: u64 = 2;
/// Most threads.
pub const THREADS: u64 = 4;

/// Bytes of the root block: cells, swapped words, the word of bytes, records, a wide range.
pub const ROOT: u64 = (LOCKS + 1 + 1 + THREADS + 3) * 64;

/// Where things are, from the root on.
pub fn cell(root: u64, lock: u64) -> u64 {
    root + lock * 64
}
pub fn swapped(root: u64, word: u64) -> u64 {
    root + LOCKS * 64 + word * 8
}
pub fn bytes(root: u64) -> u64 {
    root + (LOCKS + 1) * 64
}
pub fn record(root: u64, thread: u64) -> u64 {
    root + (LOCKS + 2 + thread) * 64
}
pub fn wide(root: u64) -> u64 {
    root + (LOCKS + 2 + THREADS) * 64 + 3
}

/// What a run does.
#[derive(Clone, Debug)]
pub struct Scene {
    pub design: Design,
    pub threads: u64,
    pub steps: u64,
    /// Which kinds of steps there are, out of [`STEPS`].
    pub kinds: &'static [Step],
    /// How often a thread that prunes does so.
    pub prunings: u32,
    /// Whether priorities decide who runs, or chance.
    pub priorities: bool,
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A critical section.
    One,
    /// Hand over hand through two locks.
    Two,
    /// A byte of a word that all share, without a lock.
    Byte,
    /// An atomic exchange in the pool.
    Swap,
    /// A block is pushed to or popped from a stack.
    Stack,
    /// A range of more than an entry.
    Wide,
    /// A critical section whose entries are more than a new log has room for.
    Long,
    /// As [`Step::Stack`] with blocks of more than a unit.
    Block,
    /// All that was done is waited for.
    Sync,
}

pub const STEPS: &[Step] =
    &[Step::One, Step::Two, Step::Byte, Step::Swap, Step::Stack, Step::Wide, Step::One, Step::Sync];
/// What changes units: logs that grow, blocks of all sizes.
pub const LARGE: &[Step] = &[Step::Long, Step::Block, Step::Stack, Step::One, Step::Block, Step::Sync];
/// What ATLAS protects.
pub const SECTIONS: &[Step] = &[Step::One, Step::Two, Step::Stack, Step::Wide, Step::One, Step::Sync];

/// One SFR, or one operation in the pool.
#[derive(Clone, Debug)]
pub struct Done {
    pub thread: u64,
    /// Which SFR of its thread it is, from 1; 0 for a swap.
    pub number: u64,
    pub stores: Vec<(u64, Vec<u8>)>,
    pub allocated: Option<u64>,
    pub freed: Option<u64>,
    /// Whether a critical section ends with it.
    pub closes: bool,
    /// For a swap, the offset and the value.
    pub swap: Option<(u64, u64)>,
    /// Places in the journal of the releases that it saw.
    pub after: Vec<usize>,
}

/// All that was done, in an order in which it may have happened.
#[derive(Debug, Default)]
pub struct Journal {
    pub done: Vec<Done>,
    /// The last release of each lock.
    released: [Option<usize>; LOCKS as usize],
    /// For each wait: its number, the thread and how many of its SFRs and swaps were done.
    pub waited: Vec<(u64, u64, usize)>,
}

/// The journal as the threads of a simulated run share it: one of them runs at a time.
pub type Shared = Mutex<Journal>;

fn with<R>(journal: &Shared, change: impl FnOnce(&mut Journal) -> R) -> R {
    change(&mut journal.lock().unwrap_or_else(PoisonError::into_inner))
}

struct Worker<'w, 'p, 'e, E: Env> {
    scene: &'w Scene,
    env: &'e E,
    journal: &'w Shared,
    locks: &'w [E::Mutex<()>],
    thread: Thread<'p, 'e, E>,
    root: u64,
    me: u64,
    /// SFRs so far.
    number: u64,
    open: Done,
    random: u64,
}

/// Runs a scene on an opened pool.
pub fn play<E: Env>(scene: &Scene, env: &E, pool: &Pool<'_, E>, journal: &Shared) {
    let locks: Vec<_> = (0..LOCKS).map(|_| env.mutex(())).collect();
    let root = pool.root();
    let pruner = u64::from(scene.prunings > 0);
    env.threads((scene.threads + pruner) as u32, |number| {
        let me = u64::from(number);
        if me == scene.threads {
            for _ in 0..scene.prunings {
                pool.prune();
                let _ = env.now_ns();
            }
            return;
        }
        let thread = pool.thread().expect("a log");
        let random = scene.seed * 64 + me + 1;
        let open = fresh(me);
        Worker { scene, env, journal, locks: &locks, thread, root, me, number: 0, open, random }.work();
    });
}

fn fresh(thread: u64) -> Done {
    let (stores, after) = (Vec::new(), Vec::new());
    Done { thread, number: 0, stores, allocated: None, freed: None, closes: true, swap: None, after }
}

impl<E: Env> Worker<'_, '_, '_, E> {
    fn random(&mut self, bound: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % bound
    }

    fn work(mut self) {
        for step in 0..self.scene.steps {
            let kind = self.random(self.scene.kinds.len() as u64) as usize;
            match self.scene.kinds[kind] {
                Step::One => self.one(),
                Step::Two => self.two(),
                Step::Byte => self.byte(),
                Step::Swap => self.swap(step),
                Step::Stack => self.stack(16),
                Step::Block => self.stack(5000),
                Step::Long => self.long(),
                Step::Wide => self.wide(),
                Step::Sync => self.wait(step),
            }
        }
        self.wait(self.scene.steps);
    }

    fn object(lock: u64) -> u64 {
        0x7000 + lock
    }

    fn took(&mut self, lock: u64) {
        self.thread.lock(Self::object(lock));
        let seen = with(self.journal, |journal| journal.released[lock as usize]);
        self.open.after.extend(seen);
    }

    fn store(&mut self, offset: u64, bytes: &[u8]) {
        self.thread.store(offset, bytes);
        self.open.stores.push((offset, bytes.to_vec()));
    }

    fn word(&mut self, offset: u64, value: u64) {
        self.thread.store_u64(offset, value);
        self.open.stores.push((offset, value.to_le_bytes().to_vec()));
    }

    /// The last store of an SFR: how many there are.
    fn seal(&mut self, closes: bool) -> usize {
        self.number += 1;
        self.word(record(self.root, self.me), self.number);
        let mut done = std::mem::replace(&mut self.open, fresh(self.me));
        (done.number, done.closes) = (self.number, closes);
        with(self.journal, |journal| {
            journal.done.push(done);
            journal.done.len() - 1
        })
    }

    fn gives(&mut self, lock: u64, closes: bool) {
        let place = self.seal(closes);
        with(self.journal, |journal| journal.released[lock as usize] = Some(place));
        self.thread.unlock(Self::object(lock));
    }

    fn value(&mut self) -> u64 {
        (self.me + 1) << 32 | (self.number + 1) << 8 | self.random(200)
    }

    fn fill(&mut self, lock: u64) {
        let at = cell(self.root, lock);
        for _ in 0..=self.random(3) {
            let (word, value) = (self.random(3), self.value());
            self.word(at + word * 8, value);
        }
    }

    fn one(&mut self) {
        let lock = self.random(LOCKS);
        let held = self.env.lock(&self.locks[lock as usize]);
        self.took(lock);
        self.fill(lock);
        self.gives(lock, true);
        drop(held);
    }

    fn two(&mut self) {
        let first = self.random(LOCKS - 1);
        let second = first + 1 + self.random(LOCKS - 1 - first);
        let one = self.env.lock(&self.locks[first as usize]);
        self.took(first);
        self.fill(first);
        self.seal(false);
        let other = self.env.lock(&self.locks[second as usize]);
        self.took(second);
        self.fill(second);
        self.gives(first, false);
        drop(one);
        self.fill(second);
        self.gives(second, true);
        drop(other);
    }

    fn byte(&mut self) {
        let value = self.random(255) as u8 + 1;
        self.store(bytes(self.root) + self.me, &[value]);
        self.seal(true);
        self.thread.boundary();
    }

    fn swap(&mut self, step: u64) {
        let word = self.random(SWAPPED);
        let offset = swapped(self.root, word);
        let value = ((self.me + 1) << 32) | (step + 1);
        let (journal, me) = (self.journal, self.me);
        self.thread.atomic(offset, 8, Kind::ReadModifyWrite, |space| {
            space.store_u64(offset, value);
            with(journal, |journal| journal.done.push(Done { swap: Some((offset, value)), ..fresh(me) }));
        });
    }

    fn long(&mut self) {
        let lock = self.random(LOCKS);
        let held = self.env.lock(&self.locks[lock as usize]);
        self.took(lock);
        for word in 0..70 {
            let value = self.value();
            self.word(cell(self.root, lock) + word % 3 * 8, value);
        }
        self.gives(lock, true);
        drop(held);
    }

    fn stack(&mut self, bytes: u64) {
        let lock = self.random(LOCKS);
        let held = self.env.lock(&self.locks[lock as usize]);
        self.took(lock);
        let at = cell(self.root, lock) + 24;
        let top = self.thread.load_u64(at);
        if top == 0 || self.random(2) == 0 {
            let block = self.thread.alloc(bytes).expect("room");
            let value = self.value();
            self.word(block, top);
            self.word(block + 8, value);
            self.word(at, block);
            self.open.allocated = Some(block);
        } else {
            let next = self.thread.load_u64(top);
            self.word(at, next);
            self.thread.free(top).expect("a block");
            self.open.freed = Some(top);
        }
        self.gives(lock, true);
        drop(held);
    }

    fn wide(&mut self) {
        let held = self.env.lock(&self.locks[0]);
        self.took(0);
        let byte = self.random(255) as u8 + 1;
        let bytes: Vec<u8> = (0..90).map(|at| byte ^ at).collect();
        self.store(wide(self.root), &bytes);
        self.gives(0, true);
        drop(held);
    }

    fn wait(&mut self, step: u64) {
        let number = (self.me << 32) | (step + 1);
        self.env.space().observer().region_begin(number);
        let me = self.me;
        with(self.journal, |journal| {
            let done = journal.done.iter().filter(|done| done.thread == me).count();
            journal.waited.push((number, me, done));
        });
        self.thread.sync();
        self.env.space().observer().region_end(number);
    }
}
