//! A thread: its log, and what happens before a store.

use std::fmt;

use space::{Env, Space};

use crate::blocks::{FRONT, allocated, requested};
use crate::entry::{DATA, Entry};
use crate::layout::ROOT;
use crate::order::Order;
use crate::queue::{Counters, End};
use crate::ring::Ring;
use crate::{Design, Error, Flaw, Pool, Steps};

/// Ends that wait for the pruner before the thread prunes itself.
const BACKLOG: usize = 1 << 14;

/// A thread of the program. Dropping it ends its SFR and gives its log to the next thread.
pub struct Thread<'p, 'e, E: Env> {
    pub(crate) pool: &'p Pool<'e, E>,
    pub(crate) log: u32,
    seed: u64,
    ring: Ring,
    /// Position of the first entry that may not be overwritten, as last heard.
    pub(crate) head: u64,
    /// Position of the next entry.
    pub(crate) tail: u64,
    pub(crate) clock: u64,
    /// Position of the section's first entry that was not flushed for (ATLAS).
    pub(crate) section: u64,
    /// Critical sections that the thread is in, for ATLAS.
    pub(crate) depth: u32,
    /// Blocks that the open SFR freed.
    pub(crate) freed: Vec<u64>,
    /// A store that was announced and is to be flushed once it is made (strands).
    pub(crate) pending: Option<(u64, u64)>,
    /// Others that were announced together with it.
    pub(crate) pending_too: Vec<(u64, u64)>,
    /// Stores outside critical sections (ATLAS).
    pub(crate) outside: Vec<(u64, u64)>,
    /// Ends that were queued, and how many of them a commit may come up to.
    pub(crate) ended: u64,
    pub(crate) closed: u64,
    /// Whether the pruner falls behind.
    pub(crate) behind: bool,
    pub(crate) counters: Counters,
}

impl<'p, 'e, E: Env> Thread<'p, 'e, E> {
    pub(crate) fn new(pool: &'p Pool<'e, E>) -> Result<Self, Error> {
        let env = pool.env;
        let take = |queue: &E::Latch<_>| {
            let mut queue: E::LatchGuard<'_, crate::queue::Queue> = env.hold(queue);
            !std::mem::replace(&mut queue.taken, true)
        };
        let log = pool.queues.iter().position(take).ok_or(Error::Threads)?;
        let known = env.hold(&pool.queues[log]).ring;
        let ring = match known {
            Some(ring) => ring,
            None => {
                let unit = env.lock(&pool.heap).take_ring(env, 1);
                let unit = unit.inspect_err(|_| env.hold(&pool.queues[log]).taken = false)?;
                let ring = Ring::new(&pool.layout, unit, 1);
                ring.publish(env, log as u32);
                env.hold(&pool.queues[log]).ring = Some(ring);
                ring
            }
        };
        let queue = env.hold(&pool.queues[log]);
        let (head, tail, clock) = (queue.head, queue.tail, queue.clock);
        let (ended, counters) = (queue.ended, queue.counters);
        drop(queue);
        Ok(Thread {
            pool,
            log: log as u32,
            seed: pool.seed(log as u32),
            ring,
            head,
            tail,
            clock,
            section: tail,
            depth: 0,
            freed: Vec::new(),
            pending: None,
            pending_too: Vec::new(),
            outside: Vec::new(),
            ended,
            closed: ended,
            behind: false,
            counters,
        })
    }

    /// Has to come before each store of `bytes` bytes at `offset` that is to be failure-atomic: logs what is
    /// there. The store may follow at once and may be made in parts.
    ///
    /// # Panics
    /// If the pool has no room for the log of so long a region.
    #[inline]
    pub fn will_store(&mut self, offset: u64, bytes: u64) {
        match self.pool.options.design {
            Design::None => {}
            Design::Coupled | Design::Decoupled => self.log_range(offset, bytes),
            Design::Strand => {
                self.flush_pending();
                self.log_range(offset, bytes);
                self.pending = Some((offset, bytes));
            }
            Design::Atlas if self.depth > 0 => self.log_range(offset, bytes),
            Design::Atlas => {
                self.counters.stores += 1;
                self.outside.push((offset, bytes));
                if self.outside.len() > 256 {
                    self.flush_outside();
                }
            }
        }
    }

    /// The same for one more store, where the one that was announced before has not been made yet: of a call
    /// that writes to several places.
    ///
    /// # Panics
    /// As [`Thread::will_store`].
    pub fn will_also_store(&mut self, offset: u64, bytes: u64) {
        self.pending_too.extend(self.pending.take());
        self.will_store(offset, bytes);
    }

    /// Stores bytes of an SFR.
    pub fn store(&mut self, offset: u64, bytes: &[u8]) {
        self.will_store(offset, bytes.len() as u64);
        self.pool.env.space().store(offset, bytes);
    }

    /// Stores a word of an SFR.
    #[track_caller]
    pub fn store_u64(&mut self, offset: u64, value: u64) {
        self.will_store(offset, 8);
        self.pool.env.space().store_u64(offset, value);
    }

    /// The word at `offset`.
    #[track_caller]
    pub fn load_u64(&self, offset: u64) -> u64 {
        self.pool.env.space().load_u64(offset)
    }

    /// Makes the block at `offset` the root, as part of the SFR.
    pub fn set_root(&mut self, offset: u64) {
        self.store_u64(ROOT, offset);
    }

    /// Logs a range, whatever the design says of stores.
    pub(crate) fn log_range(&mut self, offset: u64, bytes: u64) {
        self.counters.stores += 1;
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let part = DATA.min(end - at);
            let data = self.old(at, part);
            let entry = Entry { position: 0, stamp: self.clock, offset: at, bytes: part, data };
            self.append(entry);
            at += part;
        }
        self.await_entries();
    }

    fn old(&self, at: u64, bytes: u64) -> [u64; 4] {
        let space = self.pool.env.space();
        if bytes == 8 && at.is_multiple_of(8) {
            return [space.load_u64(at), 0, 0, 0];
        }
        let mut old = [0; DATA as usize];
        space.load(at, &mut old[..bytes as usize]);
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(old.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words
    }

    /// Appends an entry and starts to write it back.
    pub(crate) fn append(&mut self, entry: Entry) {
        if self.tail - self.head >= self.ring.entries() {
            self.make_room(1);
        }
        let place = self.ring.place(self.tail);
        let words = Entry { position: self.tail, ..entry }.to_words(self.seed);
        self.pool.env.space().store_words(place, &words);
        if self.pool.does(Steps::Flush) {
            self.pool.env.space().flush_line(place);
            self.counters.flushes += 1;
        }
        self.tail += 1;
        self.counters.entries += 1;
    }

    pub(crate) fn ring(&self) -> Ring {
        self.ring
    }

    /// Waits until the entries survive.
    pub(crate) fn await_entries(&mut self) {
        if self.pool.does(Steps::Flush) && !self.pool.has(Flaw::EntryNotFenced) {
            self.fence();
        }
    }

    pub(crate) fn fence(&mut self) {
        self.pool.env.space().fence();
        self.counters.fences += 1;
    }

    /// Makes room for entries: by what was committed meanwhile, by committing, by a longer ring.
    pub(crate) fn make_room(&mut self, entries: u64) {
        let fits = |thread: &Self| thread.tail + entries - thread.head <= thread.ring.entries();
        if fits(self) {
            return;
        }
        self.hear_head();
        if !fits(self) && self.pool.options.design.is_pruned() {
            self.pool.prune();
            self.hear_head();
        }
        while !fits(self) {
            if let Err(error) = self.grow() {
                panic!("a region of {} entries needs a longer log: {error}", self.tail - self.head);
            }
        }
    }

    fn hear_head(&mut self) {
        let head = self.pool.env.hold(&self.pool.queues[self.log as usize]).head;
        self.head = self.head.max(head);
    }

    /// Moves the log to a ring of twice as many units.
    fn grow(&mut self) -> Result<(), Error> {
        let (pool, env) = (self.pool, self.pool.env);
        // The pruner reads entries from the ring.
        let pruning = env.lock(&pool.pruning);
        let units = self.ring.units * 2;
        let unit = env.lock(&pool.heap).take_ring(env, units)?;
        let ring = Ring::new(&pool.layout, unit, units);
        for position in self.head..self.tail {
            let (from, to) = (self.ring.place(position), ring.place(position));
            let words: [u64; 8] = std::array::from_fn(|word| env.space().load_u64(from + word as u64 * 8));
            env.space().store_words(to, &words);
            env.space().flush_line(to);
        }
        env.space().fence();
        ring.publish(env, self.log);
        env.hold(&pool.queues[self.log as usize]).ring = Some(ring);
        env.lock(&pool.heap).give_ring(self.ring.unit, self.ring.units);
        self.ring = ring;
        drop(pruning);
        Ok(())
    }

    /// Starts to write back the store that was announced last.
    pub(crate) fn flush_pending(&mut self) {
        if let Some((offset, bytes)) = self.pending.take()
            && self.pool.does(Steps::Data)
        {
            self.pool.env.space().flush(offset, bytes);
            self.counters.flushes += lines(offset, bytes);
            for (offset, bytes) in self.pending_too.drain(..) {
                self.pool.env.space().flush(offset, bytes);
                self.counters.flushes += lines(offset, bytes);
            }
        }
    }

    /// Makes stores outside critical sections durable.
    pub(crate) fn flush_outside(&mut self) {
        if self.outside.is_empty() || !self.pool.does(Steps::Data) {
            self.outside.clear();
            return;
        }
        for (offset, bytes) in std::mem::take(&mut self.outside) {
            self.pool.env.space().flush(offset, bytes);
            self.counters.flushes += lines(offset, bytes);
        }
        self.fence();
    }

    /// Queues the end of an SFR for the pruner.
    pub(crate) fn end(&mut self, order: Order, last: bool) {
        let mut queue = self.pool.env.hold(&self.pool.queues[self.log as usize]);
        let end = End { position: self.tail, order, last };
        let known = queue.ends.back();
        let says_nothing = known.is_some_and(|known| {
            *known == end || (known.last && order == Order::Own && known.position == self.tail)
        });
        if !says_nothing {
            queue.ends.push_back(end);
            queue.ended += 1;
            self.ended = queue.ended;
        }
        if last {
            self.closed = self.ended;
            queue.freed.extend(self.freed.drain(..).map(|block| (self.tail, block)));
            self.counters.regions += u64::from(queue.tail != self.tail);
        }
        self.head = self.head.max(queue.head);
        self.counters.live_max = self.counters.live_max.max(self.tail - self.head);
        queue.tail = self.tail;
        queue.clock = self.clock;
        queue.counters = self.counters;
        self.behind |= queue.ends.len() > BACKLOG;
    }

    /// Allocates a block of `bytes`, as part of the SFR: offset of its first byte, a multiple of 16. Its
    /// contents are whatever is there.
    ///
    /// # Errors
    /// If there is no room.
    pub fn alloc(&mut self, bytes: u64) -> Result<u64, Error> {
        Ok(self.allocate(bytes, false)? + FRONT)
    }

    /// The same with contents of zeros.
    ///
    /// # Errors
    /// As [`Thread::alloc`].
    pub fn zalloc(&mut self, bytes: u64) -> Result<u64, Error> {
        Ok(self.allocate(bytes, true)? + FRONT)
    }

    fn allocate(&mut self, bytes: u64, zeros: bool) -> Result<u64, Error> {
        let (pool, env) = (self.pool, self.pool.env);
        let mut taken = env.lock(&pool.heap).take(env, bytes);
        if taken.is_err() && pool.options.design.is_pruned() {
            // Some of what was freed may wait for its commit.
            pool.prune();
            taken = env.lock(&pool.heap).take(env, bytes);
        }
        let block = taken?;
        // Whoever freed the block came before.
        let clock = env.lock(&pool.heap).clock;
        self.clock = self.clock.max(clock + 1);
        if zeros {
            let zeros = [0; 4096];
            let mut at = block + FRONT;
            let end = at + bytes;
            while at < end {
                let part = (end - at).min(zeros.len() as u64);
                env.space().store(at, &zeros[..part as usize]);
                at += part;
            }
            // Nobody else has the block, and this SFR's commit does not flush what it did not log.
            if bytes > 0 && pool.options.design != Design::None && pool.does(Steps::Data) {
                env.space().persist(block + FRONT, bytes);
                self.counters.flushes += lines(block + FRONT, bytes);
                self.counters.fences += 1;
            }
        }
        self.set_word(block, allocated(bytes));
        Ok(block)
    }

    /// Frees a block, as part of the SFR.
    ///
    /// # Errors
    /// If no block is allocated there.
    pub fn free(&mut self, offset: u64) -> Result<(), Error> {
        let (block, _) = self.find(offset)?;
        self.set_word(block, 0);
        if self.pool.options.design == Design::None || self.pool.has(Flaw::ReusedEarly) {
            self.pool.env.lock(&self.pool.heap).give(self.pool.env, block);
        } else {
            self.freed.push(block);
            if self.is_unprotected() {
                self.end(Order::Own, true);
            }
        }
        Ok(())
    }

    /// The bytes that a block was allocated with, and those that it has room for.
    ///
    /// # Errors
    /// If no block is allocated there.
    pub fn usable(&self, offset: u64) -> Result<(u64, u64), Error> {
        let (block, room) = self.find(offset)?;
        let word = self.pool.env.space().load_u64(block);
        Ok((requested(word).unwrap_or_default(), room))
    }

    fn find(&self, offset: u64) -> Result<(u64, u64), Error> {
        let found = self.pool.env.lock(&self.pool.heap).block(self.pool.env, offset);
        let allocated = |&(block, _): &(u64, u64)| requested(self.pool.env.space().load_u64(block)).is_some();
        found.filter(allocated).ok_or(Error::NoBlock { offset })
    }

    /// Whether a store is logged only as a section of its own.
    fn is_unprotected(&self) -> bool {
        self.pool.options.design == Design::Atlas && self.depth == 0
    }

    /// Writes the word of a block. Outside a critical section a free is a section of its own, so that a heap is
    /// never left half changed, and an allocation is there at once: pointers to the block are not undone there, so
    /// it must not be, either. No entry of others is about the word, since a free block's is committed.
    fn set_word(&mut self, block: u64, word: u64) {
        let space = self.pool.env.space();
        if !self.is_unprotected() {
            self.store_u64(block, word);
            return;
        }
        if word == 0 {
            self.log_range(block, 8);
        }
        space.store_u64(block, word);
        if self.pool.does(Steps::Data) {
            space.persist(block, 8);
            self.counters.flushes += 1;
            self.counters.fences += 1;
        }
    }
}

/// Lines that a range touches.
pub(crate) fn lines(offset: u64, bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { (offset + bytes - 1) / 64 - offset / 64 + 1 }
}

impl<E: Env> Drop for Thread<'_, '_, E> {
    fn drop(&mut self) {
        // A thread that panics in the middle of a region leaves it to recovery.
        if !std::thread::panicking() {
            if self.depth > 0 {
                self.flush_section();
                self.depth = 0;
            }
            self.boundary();
        }
        let mut queue = self.pool.env.hold(&self.pool.queues[self.log as usize]);
        queue.tail = self.tail;
        queue.clock = queue.clock.max(self.clock);
        queue.counters = self.counters;
        queue.taken = std::thread::panicking();
    }
}

impl<E: Env> fmt::Debug for Thread<'_, '_, E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Thread { log, head, tail, clock, .. } = self;
        out.debug_struct("Thread")
            .field("log", log)
            .field("head", head)
            .field("tail", tail)
            .field("clock", clock)
            .finish()
    }
}
