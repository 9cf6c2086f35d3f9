//! Commits: of a thread's own SFR, and of all that have ended.

use space::{Env, LINE, Space};

use crate::cut::{forward, greatest};
use crate::entry::range;
use crate::pool::Pruning;
use crate::queue::End;
use crate::ring::Ring;
use crate::thread::lines;
use crate::{Design, Flaw, Pool, Steps, Thread, layout};

/// The place of an ended SFR in its log. It is *due* once the SFR is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ticket {
    log: u32,
    number: u64,
}

/// A log as the pruner found it.
struct Seen {
    log: usize,
    head: u64,
    ring: Ring,
}

impl<E: Env> Pool<'_, E> {
    /// Commits the SFRs that have ended and whose predecessors have. A thread of the program's should do it
    /// again and again, unless the design is not [`Design::is_pruned`]. Returns whether anything was there.
    pub fn prune(&self) -> bool {
        let mut pruning = self.env.lock(&self.pruning);
        let (mut seen, mut ends): (Vec<Seen>, Vec<Vec<End>>) = (Vec::new(), Vec::new());
        let mut heads = Vec::new();
        let mut clock = 0;
        // Sections of ATLAS may have to be committed all together.
        let at_once =
            if self.options.design == Design::Atlas { usize::MAX } else { self.options.at_once.max(1) };
        for (log, queue) in self.queues.iter().enumerate() {
            let queue = self.env.hold(queue);
            let Some(ring) = queue.ring else { continue };
            heads.resize(log, 1);
            heads.push(queue.head);
            if !queue.ends.is_empty() {
                seen.push(Seen { log, head: queue.head, ring });
                ends.push(queue.ends.iter().take(at_once).copied().collect());
            }
            clock = clock.max(queue.clock);
        }
        let crossed = self.choose(&ends, &mut pruning);
        if crossed.iter().all(|&crossed| crossed == 0) && self.options.design == Design::Atlas {
            return false;
        }
        let mut changed = Vec::new();
        let mut moved = false;
        for ((seen, ends), &crossed) in seen.iter().zip(&ends).zip(&crossed) {
            let head = self.head_after(seen.head, ends, crossed);
            if self.options.design == Design::Decoupled {
                self.stored(seen.head..head, &seen.ring, &mut changed);
            }
            moved |= head > seen.head;
            heads[seen.log] = head;
        }
        if moved && self.does(Steps::Data) {
            changed.sort_unstable();
            changed.dedup();
            for &line in &changed {
                self.env.space().flush_line(line);
            }
            pruning.counters.flushes += changed.len() as u64;
        }
        if moved && self.does(Steps::Commit) {
            self.write_heads(&heads, &mut pruning);
        }
        let mut freed = Vec::new();
        for (seen, &crossed) in seen.iter().zip(&crossed) {
            let mut queue = self.env.hold(&self.queues[seen.log]);
            queue.ends.drain(..crossed);
            queue.head = heads[seen.log];
            while queue.freed.front().is_some_and(|&(position, _)| position <= queue.head) {
                freed.extend(queue.freed.pop_front().map(|(_, block)| block));
            }
        }
        if !freed.is_empty() {
            let mut heap = self.env.lock(&self.heap);
            heap.clock = heap.clock.max(clock);
            for block in freed {
                heap.give(self.env, block);
            }
        }
        moved || crossed.iter().any(|&crossed| crossed > 0)
    }

    fn choose(&self, ends: &[Vec<End>], pruning: &mut Pruning) -> Vec<usize> {
        if self.has(Flaw::NotClosed) {
            return ends.iter().map(Vec::len).collect();
        }
        match self.options.design {
            Design::Atlas => greatest(ends, &mut pruning.released, &mut pruning.ahead),
            _ => forward(ends, &mut pruning.released),
        }
    }

    /// Where a log's head may go when that many ends are crossed: the SFR in front of the first end that is
    /// not crossed is complete, and waits for nothing that is not crossed.
    fn head_after(&self, head: u64, ends: &[End], crossed: usize) -> u64 {
        let next = ends.get(crossed).filter(|_| self.options.design != Design::Atlas);
        let last = crossed.checked_sub(1).map(|last| &ends[last]);
        next.or(last).map_or(head, |end| end.position.max(head))
    }

    /// Adds the lines that these entries' stores touch.
    fn stored(&self, positions: std::ops::Range<u64>, ring: &Ring, changed: &mut Vec<u64>) {
        for position in positions {
            let (offset, bytes) = range(self.env.space().load_u64(ring.place(position) + 16));
            let first = offset / LINE * LINE;
            let touched = (0..lines(offset, bytes)).map(|line| first + line * LINE);
            changed.extend(touched.filter(|_| bytes > 0));
        }
    }

    /// Commits all that has ended before the call; others may go on.
    pub fn sync(&self) {
        if !self.options.design.is_pruned() {
            return;
        }
        let ended: Vec<u64> = self.queues.iter().map(|queue| self.env.hold(queue).ended).collect();
        let is_missing = |(queue, ended): (&E::Latch<_>, &u64)| {
            let queue: E::LatchGuard<'_, crate::queue::Queue> = self.env.hold(queue);
            queue.committed() < *ended
        };
        while self.queues.iter().zip(&ended).any(is_missing) && self.prune() {}
    }

    /// Whether the SFR of a ticket is durable.
    pub fn is_due(&self, ticket: Ticket) -> bool {
        let queue = self.queues.get(ticket.log as usize);
        queue.is_none_or(|queue| self.env.hold(queue).committed() >= ticket.number)
    }

    /// Waits until it is.
    pub fn wait(&self, ticket: Ticket) {
        while !self.is_due(ticket) {
            if !self.prune() {
                // Somebody else has to end a critical section first.
                std::hint::spin_loop();
            }
        }
    }
}

impl<E: Env> Thread<'_, '_, E> {
    /// The ticket of the SFR that ended last.
    pub fn ticket(&self) -> Ticket {
        let number = if self.pool.options.design.is_pruned() { self.closed } else { 0 };
        Ticket { log: self.log, number }
    }

    /// Waits for a ticket.
    pub fn wait(&mut self, ticket: Ticket) {
        self.pool.wait(ticket);
    }

    /// Ends the SFR and waits until it is durable, and with it all that it could have seen. Within a critical
    /// section of ATLAS: all before the section.
    ///
    /// A critical section of another thread in which something was released that this thread has acquired since
    /// (an inner lock, a semaphore, a system call that sends) comes before this SFR as a whole, so ATLAS waits here
    /// until that section ends. It waits for no other section that is open. A section must therefore not wait for
    /// a thread that it makes wait here.
    pub fn sync(&mut self) {
        self.boundary();
        self.wait(self.ticket());
    }

    /// Commits all entries of the thread.
    pub(crate) fn commit_own(&mut self) {
        if self.tail == self.head {
            return;
        }
        let (pool, env) = (self.pool, self.pool.env);
        self.flush_stored(self.head);
        if pool.does(Steps::Data) && !pool.has(Flaw::NoFenceBeforeCommit) {
            self.fence();
        }
        if pool.does(Steps::Commit) {
            let line = layout::line(self.log);
            env.space().store_u64(line, self.tail);
            env.space().flush_line(line);
            self.counters.flushes += 1;
            self.fence();
        }
        self.counters.commits += 1;
        self.counters.regions += 1;
        self.counters.live_max = self.counters.live_max.max(self.tail - self.head);
        self.head = self.tail;
        let mut queue = env.hold(&pool.queues[self.log as usize]);
        (queue.head, queue.tail, queue.clock) = (self.head, self.tail, self.clock);
        queue.counters = self.counters;
        drop(queue);
        if !self.freed.is_empty() {
            let mut heap = env.lock(&pool.heap);
            heap.clock = heap.clock.max(self.clock);
            for block in self.freed.drain(..) {
                heap.give(env, block);
            }
        }
    }

    /// Starts to write back what the entries from a position on were logged for.
    fn flush_stored(&mut self, from: u64) {
        if !self.pool.does(Steps::Data) {
            return;
        }
        let mut changed = Vec::new();
        self.pool.stored(from..self.tail, &self.ring(), &mut changed);
        changed.sort_unstable();
        changed.dedup();
        for &line in &changed {
            self.pool.env.space().flush_line(line);
        }
        self.counters.flushes += changed.len() as u64;
    }

    /// Makes what a critical section stored durable.
    pub(crate) fn flush_section(&mut self) {
        let from = self.section.max(self.head);
        self.flush_stored(from);
        if self.pool.does(Steps::Data) && !self.pool.has(Flaw::NoFenceBeforeCommit) {
            self.fence();
        }
        self.section = self.tail;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use pmem::Os;
    use space::Image;

    use super::*;
    use crate::Options;

    const POST: u64 = 1;
    const OUTER: u64 = 2;
    const INNER: u64 = 3;
    const OTHER: u64 = 4;

    fn pool(env: &Os<Image>) -> Pool<'_, Os<Image>> {
        Pool::create(env, &Options { root: 64, ..Options::new(Design::Atlas) }).expect("a pool")
    }

    /// Both have posted the semaphore, one of them in a section that is still open. The other waits for its own.
    #[test]
    fn a_wait_of_atlas_passes_open_sections_that_it_has_not_seen() {
        let env = Os::new(Image::new(1 << 22));
        let pool = pool(&env);
        let (mut open, mut waits) = (pool.thread().expect("a log"), pool.thread().expect("a log"));
        let root = pool.root();
        open.lock(OUTER);
        open.store_u64(root, 1);
        open.release(POST);
        waits.lock(OTHER);
        waits.store_u64(root + 8, 1);
        waits.unlock(OTHER);
        waits.release(POST);
        waits.sync();
        assert!(pool.is_due(waits.ticket()));
        // It is committed when its time comes, and what follows does not wait for it for ever.
        open.unlock(OUTER);
        open.sync();
        waits.acquire(POST);
        waits.store_u64(root + 8, 2);
        waits.sync();
        assert!(pool.is_due(waits.ticket()));
    }

    /// Pointers outside of sections are not undone, so what they lead to must not be given out again.
    #[test]
    fn a_block_of_atlas_that_was_allocated_outside_of_sections_stays_allocated() {
        let env = Os::new(Image::new(1 << 22));
        let pool = pool(&env);
        let mut thread = pool.thread().expect("a log");
        let block = thread.alloc(32).expect("there is room");
        thread.store_u64(pool.root(), block);
        // It crashes before the pruner was there.
        std::mem::forget(thread);
        drop(pool);
        let (pool, _) = Pool::open(&env, &Options::new(Design::Atlas)).expect("it can be recovered");
        let mut thread = pool.thread().expect("a log");
        assert_eq!(thread.load_u64(pool.root()), block);
        assert_eq!(thread.free(block), Ok(()));
    }

    /// One has taken the lock that the other has given up in its open section: it survives with that or not at all.
    #[test]
    fn a_wait_of_atlas_waits_for_the_section_that_it_has_seen() {
        let env = Os::new(Image::new(1 << 22));
        let pool = pool(&env);
        let mut open = pool.thread().expect("a log");
        let root = pool.root();
        open.lock(OUTER);
        open.lock(INNER);
        open.store_u64(root, 1);
        open.unlock(INNER);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut waits = pool.thread().expect("a log");
                waits.lock(INNER);
                waits.store_u64(root, 2);
                waits.unlock(INNER);
                waits.sync();
                done.store(true, Ordering::Release);
            });
            std::thread::sleep(Duration::from_millis(30));
            assert!(!done.load(Ordering::Acquire));
            open.unlock(OUTER);
        });
        assert!(done.load(Ordering::Acquire));
    }
}
