//! Chunks: who has which, what of them is still needed, and how the file gets longer.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use space::{Env, LINE, Space};

use crate::Error;
use crate::grown::Grown;
use crate::layout::{Head, Layout, Use};

/// What is known of a chunk, in ordinary memory.
#[derive(Debug, Default)]
pub(crate) struct Info {
    /// The generation of its present use, and above it what that is.
    head: AtomicU64,
    /// A log: where its records end, once nothing is appended any more. Slots: bytes of one.
    pub(crate) detail: AtomicU64,
    /// A log: bytes of records that nobody needs.
    pub(crate) outdated: AtomicU64,
    /// A log: bytes of its tombstones.
    pub(crate) tombstones: AtomicU64,
    /// A log: the newest generation that one of its tombstones speaks of.
    pub(crate) oldest_needed: AtomicU64,
    /// It waits for garbage collection.
    pub(crate) queued: AtomicBool,
    /// Where closing left bits of its free slots that are not in `free` yet; 0 if nowhere.
    pub(crate) bits: AtomicU64,
    /// Slots that are free and in no lane. Held for a moment, never across an access of the space.
    pub(crate) free: Mutex<Vec<u64>>,
}

impl Info {
    const USE: u32 = 60;

    pub(crate) fn head(&self) -> Head {
        let word = self.head.load(Relaxed);
        let used = Use::ALL[(word >> Self::USE) as usize % Use::ALL.len()];
        Head { used, generation: word & ((1 << Self::USE) - 1), detail: self.detail.load(Relaxed) }
    }

    pub(crate) fn set_head(&self, head: Head) {
        self.detail.store(head.detail, Relaxed);
        self.head.store((head.used as u64) << Self::USE | head.generation, Relaxed);
        self.outdated.store(0, Relaxed);
        self.tombstones.store(0, Relaxed);
        self.oldest_needed.store(0, Relaxed);
        self.queued.store(false, Relaxed);
        self.bits.store(0, Relaxed);
    }
}

/// How much of the last room somebody may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserve {
    /// None: new values.
    Keep,
    /// All but what garbage collection needs: deletes.
    Share,
    /// All: garbage collection.
    Use,
}

/// Chunks that new values leave to deletes and garbage collection.
const RESERVED: usize = 2;

impl Reserve {
    fn kept(self) -> usize {
        match self {
            Reserve::Keep => RESERVED,
            Reserve::Share => 1,
            Reserve::Use => 0,
        }
    }
}

/// Makes the space longer, to so many bytes.
pub(crate) type Grow<E> = fn(&E, u64) -> Result<(), Error>;

/// The chunks of a store.
pub(crate) struct Chunks<E: Env> {
    pub(crate) layout: Layout,
    info: Grown<Info>,
    pool: E::Mutex<Pool>,
    pub(crate) grow: Option<Grow<E>>,
    max_bytes: u64,
    generation: AtomicU64,
}

#[derive(Debug)]
struct Pool {
    free: BTreeSet<u32>,
    /// Chunks from this one on were never used.
    high: u32,
}

impl<E: Env> Chunks<E> {
    pub(crate) fn new(env: &E, layout: Layout, grow: Option<Grow<E>>, max_bytes: u64) -> Self {
        let pool = env.mutex(Pool { free: BTreeSet::new(), high: 0 });
        Chunks { layout, info: Grown::new(), pool, grow, max_bytes, generation: AtomicU64::new(0) }
    }

    /// Goes by what the chunks' heads say: those that are in use, in order of their place.
    pub(crate) fn open(&self, env: &E) -> Result<Vec<(u32, Head)>, Error> {
        let space = env.space();
        let high = self.layout.high(space)?;
        let has = self.layout.chunks_in(space.len());
        if high > has {
            let expected = self.layout.chunk_at(high);
            return Err(Error::Short { offset: crate::layout::HIGH, expected, found: space.len() });
        }
        let mut pool = env.lock(&self.pool);
        pool.high = high;
        let (mut used, mut newest, mut at) = (Vec::new(), 0, 0);
        while at < high {
            let head = self.layout.head(space, at)?;
            newest = head.generation.max(newest);
            self.info.at(at as usize).set_head(head);
            let mut count = 1;
            if head.used == Use::Free {
                pool.free.insert(at);
            } else {
                if head.used.is_long() {
                    count = u32::try_from(head.detail).unwrap_or(u32::MAX);
                    if count == 0 || count > high - at {
                        let offset = self.layout.chunk_at(at) + 8;
                        return Err(Error::damaged(offset, "how many chunks go on", head.detail));
                    }
                }
                used.push((at, head));
            }
            at += count;
        }
        self.generation.store(newest, Relaxed);
        Ok(used)
    }

    pub(crate) fn info(&self, at: u32) -> &Info {
        self.info.at(at as usize)
    }

    /// The chunk in which `offset` is.
    pub(crate) fn of(&self, offset: u64) -> (u32, &Info) {
        let at = self.layout.chunk_of(offset);
        (at, self.info(at))
    }

    /// The newest generation of any chunk.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// Chunks that were ever used, and how many of them are free.
    pub(crate) fn usage(&self, env: &E) -> (u32, u32) {
        let pool = env.lock(&self.pool);
        (pool.high, pool.free.len() as u32)
    }

    /// Takes `count` chunks that follow each other, durably in use when this returns. The first one's number,
    /// and its head.
    pub(crate) fn take(
        &self,
        env: &E,
        used: Use,
        detail: u64,
        count: u32,
        reserve: Reserve,
    ) -> Result<(u32, Head), Error> {
        let mut pool = env.lock(&self.pool);
        let first = match self.find(env, &pool, count, reserve) {
            Some(first) => first,
            None => {
                self.make_longer(env, &pool, count)?;
                self.find(env, &pool, count, reserve)
                    .ok_or(Error::Full { wanted: u64::from(count) * self.layout.chunk })?
            }
        };
        let chunks = first..=first + count - 1;
        if *chunks.end() >= pool.high {
            self.raise(env, &mut pool, &chunks);
        }
        let head = Head { used, generation: self.generation.load(Relaxed) + 1, detail };
        if used == Use::Index {
            self.zero(env, first, count);
        }
        self.generation.store(head.generation, Relaxed);
        self.layout.set_head(env.space(), first, head);
        self.info(first).set_head(head);
        for at in chunks {
            pool.free.remove(&at);
        }
        Ok((first, head))
    }

    /// Has the file say that `chunks`, behind all that were ever used, are part of the store.
    fn raise(&self, env: &E, pool: &mut Pool, chunks: &RangeInclusive<u32>) {
        // What a file that was longer once has there is no head of this store, but it may look like damage.
        for at in pool.high..=*chunks.end() {
            self.layout.set_use(env.space(), at, Head { used: Use::Free, generation: 0, detail: 0 });
        }
        env.space().fence();
        self.layout.set_high(env.space(), chunks.end() + 1);
        env.space().fence();
        pool.free.extend(pool.high..=*chunks.end());
        pool.high = chunks.end() + 1;
    }

    /// Makes all of the chunks but their heads zeros.
    fn zero(&self, env: &E, first: u32, count: u32) {
        let begin = self.layout.chunk_at(first);
        let end = begin + u64::from(count) * self.layout.chunk;
        for at in (begin..end).step_by(LINE as usize) {
            let from = if (at - begin).is_multiple_of(self.layout.chunk) { 16 } else { 0 };
            // A new file has zeros already; to store them would have the system find pages for them.
            if (from..LINE).step_by(8).any(|word| env.space().load_u64(at + word) != 0) {
                (from..LINE).step_by(8).for_each(|word| env.space().store_u64(at + word, 0));
                env.space().flush_line(at);
            }
        }
        env.space().fence();
    }

    /// The first of `count` chunks that may be taken.
    fn find(&self, env: &E, pool: &Pool, count: u32, reserve: Reserve) -> Option<u32> {
        let has = self.layout.chunks_in(env.space().len());
        let free = pool.free.len() + (has - pool.high) as usize;
        if free < count as usize + reserve.kept() {
            return None;
        }
        let mut run = 0;
        for &at in &pool.free {
            run = if run > 0 && pool.free.contains(&(at.wrapping_sub(1))) { run + 1 } else { 1 };
            if run == count {
                return Some(at + 1 - count);
            }
        }
        // Free chunks at the end go on in chunks that were never used.
        let mut first = pool.high;
        while first > 0 && pool.free.contains(&(first - 1)) && pool.high - first < count {
            first -= 1;
        }
        (has - first >= count).then_some(first)
    }

    /// Whether [`Chunks::take`] would find `count` chunks, without making the space longer.
    pub(crate) fn has_room(&self, env: &E, count: u32, reserve: Reserve) -> bool {
        self.find(env, &env.lock(&self.pool), count, reserve).is_some()
    }

    /// Makes the space longer: by an eighth if there is room, or by as much as is needed.
    fn make_longer(&self, env: &E, pool: &Pool, count: u32) -> Result<(), Error> {
        let needed = u64::from(count) + RESERVED as u64;
        let full = Error::Full { wanted: u64::from(count) * self.layout.chunk };
        let Some(grow) = &self.grow else { return Err(full) };
        let len = env.space().len();
        let least =
            (self.layout.chunk_at(pool.high) + needed * self.layout.chunk).max(len + self.layout.chunk);
        let wish = (len + len / 8).max(least);
        for bytes in [wish.min(self.max_bytes), least] {
            if bytes > len && bytes <= self.max_bytes && bytes >= least && grow(env, bytes).is_ok() {
                return Ok(());
            }
        }
        Err(full)
    }

    /// Gives chunks back: durably free when this returns. `first` is the first of them, and has a head.
    pub(crate) fn release(&self, env: &E, first: u32) {
        let mut pool = env.lock(&self.pool);
        let head = self.info(first).head();
        let count = if head.used.is_long() { head.detail as u32 } else { 1 };
        let free = Head { used: Use::Free, generation: head.generation, detail: 0 };
        // The others have bytes of a value where their heads will be looked for.
        for at in first + 1..first + count {
            self.layout.set_use(env.space(), at, free);
            self.info(at).set_head(free);
        }
        if count > 1 {
            env.space().fence();
        }
        self.layout.set_head(env.space(), first, free);
        self.info(first).set_head(free);
        pool.free.extend(first..first + count);
    }

    /// All chunks that are in use as logs.
    pub(crate) fn logs(&self, env: &E) -> Vec<(u32, Head)> {
        self.used_as(env, Use::Log)
    }

    /// All first chunks of that use.
    pub(crate) fn used_as(&self, env: &E, used: Use) -> Vec<(u32, Head)> {
        let high = env.lock(&self.pool).high;
        let heads = (0..high).map(|at| (at, self.info(at).head()));
        heads.filter(|(_, head)| head.used == used).collect()
    }
}
