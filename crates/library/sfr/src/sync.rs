//! Synchronisation: where SFRs end, and what orders them.

use space::{Env, Space};

use crate::entry::Entry;
use crate::order::{BUCKETS, Order};
use crate::{Design, Flaw, Steps, Thread};

/// What an operation in the pool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It reads.
    Load,
    /// It writes.
    Store,
    /// It reads and may write.
    ReadModifyWrite,
}

impl<E: Env> Thread<'_, '_, E> {
    /// Has to come *before* an operation by which others may learn of what this thread did: an unlock, a
    /// signal, a start of a thread, a store that releases. `object` is any number that stands for what the
    /// operation is on, its address say.
    pub fn release(&mut self, object: u64) {
        self.relieve();
        match self.pool.options.design {
            Design::None => return,
            Design::Coupled => self.commit_own(),
            Design::Strand => self.join(),
            Design::Atlas if self.depth == 0 => self.flush_outside(),
            Design::Decoupled | Design::Atlas => {}
        }
        if self.knows_locks_only() {
            return;
        }
        let last = self.depth == 0;
        self.pass_on(object, last);
    }

    /// Has to come *after* an operation by which this thread may have learned of what others did.
    pub fn acquire(&mut self, object: u64) {
        self.relieve();
        match self.pool.options.design {
            Design::None => return,
            Design::Strand => self.join(),
            Design::Atlas if self.depth == 0 => self.flush_outside(),
            Design::Coupled | Design::Decoupled | Design::Atlas => {}
        }
        if self.knows_locks_only() {
            return;
        }
        let last = self.depth == 0;
        self.learn(object, last);
    }

    /// Has to come after an operation by which this thread may have learned of anything that anybody
    /// released, as a fence that acquires.
    pub fn acquire_all(&mut self) {
        let pool = self.pool;
        if pool.options.design == Design::None || self.knows_locks_only() {
            return;
        }
        let last = self.depth == 0;
        for bucket in 0..BUCKETS {
            let order = *pool.env.hold(pool.buckets.latch(bucket));
            self.clock = self.clock.max(order.clock);
            if order.released > 0 && pool.options.design.is_pruned() {
                self.end(Order::Acquire { bucket, number: order.released }, last);
            }
        }
        self.clock += 1;
        self.relieve();
    }

    /// Has to come after taking a lock: an acquire, and the begin of a critical section.
    pub fn lock(&mut self, object: u64) {
        if self.pool.options.design != Design::Atlas {
            return self.acquire(object);
        }
        self.relieve();
        if self.depth == 0 {
            self.flush_outside();
        }
        self.depth += 1;
        let (bucket, number) = self.learn(object, false);
        self.note(bucket, number, false);
    }

    /// Has to come before giving up a lock: a release, and the end of a critical section.
    pub fn unlock(&mut self, object: u64) {
        if self.pool.options.design != Design::Atlas {
            return self.release(object);
        }
        self.relieve();
        if self.depth <= 1 {
            self.flush_section();
        }
        self.depth = self.depth.saturating_sub(1);
        let last = self.depth == 0 || self.pool.has(Flaw::SectionsApart);
        if self.depth > 0 && self.pool.has(Flaw::SectionsApart) {
            self.flush_section();
        }
        let (bucket, number) = self.pass_on(object, last);
        self.note(bucket, number, true);
    }

    /// Has to come before a wait for a condition, which gives up a lock: an unlock, unless sections go on
    /// there ([`crate::Options::locks_only`]).
    pub fn begin_wait(&mut self, lock: u64) {
        if !self.knows_locks_only() {
            self.unlock(lock);
        }
    }

    /// Has to come after such a wait, once the lock is taken again.
    pub fn end_wait(&mut self, lock: u64) {
        if !self.knows_locks_only() {
            self.lock(lock);
        }
    }

    /// Whether nothing but locks orders anything: ATLAS as it was published.
    fn knows_locks_only(&self) -> bool {
        self.pool.options.design == Design::Atlas && self.pool.options.locks_only
    }

    /// Ends the SFR at what is no synchronisation with another thread of the program: a system call.
    pub fn boundary(&mut self) {
        self.relieve();
        match self.pool.options.design {
            Design::None => {}
            Design::Coupled => self.commit_own(),
            Design::Decoupled => self.end(Order::Own, true),
            Design::Strand => {
                self.join();
                self.end(Order::Own, true);
            }
            Design::Atlas if self.depth == 0 => {
                self.flush_outside();
                self.end(Order::Own, true);
            }
            Design::Atlas => {}
        }
    }

    /// Does an atomic operation on `bytes` bytes of the pool: a region of its own, ordered with all others on
    /// the same object in the order in which they happen.
    pub fn atomic<R>(
        &mut self,
        offset: u64,
        bytes: u64,
        kind: Kind,
        operation: impl FnOnce(&E::Space) -> R,
    ) -> R {
        let (pool, env) = (self.pool, self.pool.env);
        let stores = kind != Kind::Load;
        self.relieve();
        match pool.options.design {
            Design::None => return operation(env.space()),
            Design::Atlas => {
                // Lock-free code is none of its business; within a section it is a store like any other.
                if stores {
                    self.will_store(offset, bytes);
                }
                return operation(env.space());
            }
            Design::Coupled => self.commit_own(),
            Design::Strand => self.join(),
            Design::Decoupled => {}
        }
        self.make_room(2 + bytes / 32);
        let coupled = pool.options.design == Design::Coupled;
        let early = stores && pool.has(Flaw::RacingLogged);
        if early {
            self.log_range(offset, bytes);
        }
        let (bucket, latch) = pool.buckets.of(offset / 8);
        let mut order = env.hold(latch);
        self.clock = self.clock.max(order.clock) + 1;
        if !coupled {
            self.end(Order::Acquire { bucket, number: order.released }, true);
        }
        if stores && !early {
            self.log_range(offset, bytes);
        }
        let result = operation(env.space());
        if !stores {
            return result;
        }
        if coupled {
            self.commit_own();
        } else if pool.options.design == Design::Strand && pool.does(Steps::Data) {
            env.space().persist(offset, bytes);
            self.counters.flushes += 1;
            self.counters.fences += 1;
        }
        order.clock = order.clock.max(self.clock);
        order.released += 1;
        if !coupled {
            self.end(Order::Release { bucket, number: order.released }, true);
        }
        self.clock += 1;
        result
    }

    /// Takes the next number of the object's bucket, and leaves the clock there.
    fn pass_on(&mut self, object: u64, last: bool) -> (usize, u64) {
        let (pool, env) = (self.pool, self.pool.env);
        let (bucket, latch) = pool.buckets.of(object);
        let mut order = env.hold(latch);
        order.clock = order.clock.max(self.clock);
        order.released += 1;
        let number = order.released;
        if pool.options.design.is_pruned() {
            self.end(Order::Release { bucket, number }, last);
        }
        drop(order);
        self.clock += 1;
        (bucket, number)
    }

    /// Reads the number of the object's bucket, and takes the clock on.
    fn learn(&mut self, object: u64, last: bool) -> (usize, u64) {
        let (pool, env) = (self.pool, self.pool.env);
        let (bucket, latch) = pool.buckets.of(object);
        let order = *env.hold(latch);
        self.clock = self.clock.max(order.clock) + 1;
        if pool.options.design.is_pruned() {
            // The twin takes the number that it would have read before the operation.
            let number = order.released - u64::from(pool.has(Flaw::CountedBefore) && order.released > 0);
            self.end(Order::Acquire { bucket, number }, last);
        }
        (bucket, order.released)
    }

    /// Joins the strands of the SFR: what it stored survives from here on.
    fn join(&mut self) {
        if self.pending.is_some() {
            self.flush_pending();
            if self.pool.does(Steps::Data) && !self.pool.has(Flaw::NoFenceBeforeCommit) {
                self.fence();
            }
        }
    }

    /// Notes a lock in the log, as ATLAS does to order sections.
    fn note(&mut self, bucket: usize, number: u64, release: bool) {
        self.append(Entry::note(0, self.clock, bucket, number, release));
        self.await_entries();
    }

    /// Prunes, if the pruner falls behind.
    fn relieve(&mut self) {
        if std::mem::take(&mut self.behind) {
            self.pool.prune();
        }
    }
}
