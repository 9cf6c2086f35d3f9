//! Undo: what a word was is written down and made durable before the word is written.
//!
//! # A region
//! has one of the pool's logs for itself, from its first write to its end. Before a word is written for the
//! first time, a line with what it was goes into the log and is made durable, by a flush or a non-temporal
//! store, and a fence; then the word is written in place, and further writes of it need nothing. A commit
//! flushes the words and fences, then writes a line that says that the region has ended, and makes it
//! durable. That makes `k + 2` fences for a region of `k` words, where [`Redo`](super::Redo) has one.
//!
//! In return nothing is left to do behind it: the words are where they belong, reads need no search, and a
//! log is free again as soon as its region has ended. Blocks that the region took itself need no lines,
//! because nobody can tell what was in them.
//!
//! # A region that is longer than its log
//! goes on in a chunk that the heap lends. Nobody has the chunk and no log names it. It is emptied, durably,
//! so that what stood there is taken for no line; then a line of the log says that there is more, and is made
//! durable like any other. From there on lines go to the chunk, and from it to another one. The end is
//! written to the log, where a line is kept for it: then the chunks are free, as they always were on the
//! medium.
//!
//! # Recovery
//! looks at each log by itself. The region with the highest number had the log last. If its end is there, it
//! stays, and otherwise its lines are done from the last to the first. Regions of two logs do not meet,
//! except that each changes bits of its own, so the order of logs does not matter.
//!
//! # As many regions as logs
//! can be under way. One more waits until a log is free, so a thread must not begin a region within one; it
//! hands the [`Tx`](crate::Tx) on.

mod line;
mod recovery;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use space::{Env, LINE, Space};

use super::flaw::{self, Flaw};
use super::health::Health;
use super::place::{apply, flush_all, inverse, take_back};
use super::state::NUMBERS;
use super::{Atomicity, Engine, ExtendLog, Extent, Logs, Recovered, Ticket, set_in_place};
use crate::log::{Ring, Role, clear};
use crate::writes::Writes;
use crate::{Change, Error, Write};
use line::Piece;

/// Regions by undo. See [`crate::Engine`] for what that promises. `F` is [`Sound`](flaw::Sound), but in tests
/// of the crash checker.
///
/// Each word costs a fence, and each region two more. As many regions can be under way as the pool has logs;
/// one more waits, so a thread that begins a region within another one may wait for itself.
#[derive(Debug)]
pub struct Undo<F: Flaw = flaw::Sound>(PhantomData<F>);

impl<F: Flaw> Atomicity for Undo<F> {
    const NUMBER: u32 = 2;
    const NAME: &'static str = "undo";
    type Engine<E: Env> = UndoEngine<E, F>;
}

/// The [`Engine`] of [`Undo`].
pub struct UndoEngine<E: Env, F: Flaw> {
    /// Logs of no region, the one that was used last at the end: it is warm.
    free: E::Mutex<Vec<Ring>>,
    /// Notified when a log becomes free.
    freed: E::Condvar,
    /// The next region's number.
    next: AtomicU64,
    health: Health<F>,
}

/// Wakes all who wait for a log if it is dropped.
struct Wakes<'e, E: Env, F: Flaw>(&'e UndoEngine<E, F>, &'e E);

impl<E: Env, F: Flaw> Drop for Wakes<'_, E, F> {
    fn drop(&mut self) {
        let Wakes(engine, env) = self;
        // Nobody is between looking and waiting.
        drop(env.lock(&engine.free));
        env.notify_all(&engine.freed);
    }
}

/// A region under way.
pub struct Region {
    /// What takes its writes back, in their order.
    inverses: Box<Writes>,
    /// Its log, once it has written.
    lease: Option<Lease>,
    /// Why it can only be aborted.
    failed: Option<Error>,
}

/// A log that a region has.
struct Lease {
    number: u64,
    ring: Ring,
    /// The chunk in which it goes on.
    piece: Option<Ring>,
    /// All chunks in which it went on.
    extent: Option<Extent>,
}

impl Lease {
    /// Where the next line goes, if so many fit behind each other there.
    #[inline]
    fn room(&mut self, lines: u64) -> Option<&mut Ring> {
        match &mut self.piece {
            Some(piece) => Some(piece).filter(|piece| piece.has_room(lines)),
            // One line is kept for the end.
            None => Some(&mut self.ring).filter(|ring| ring.has_room(lines + 1)),
        }
    }
}

impl<E: Env, F: Flaw> UndoEngine<E, F> {
    /// Does what regions rely on. If it panics, those who wait for a log need not wait any longer.
    #[track_caller]
    fn guard<R>(&self, env: &E, work: impl FnOnce() -> R) -> R {
        let unwinding = Wakes(self, env);
        let done = self.health.guard(work);
        std::mem::forget(unwinding);
        done
    }

    /// As `guard`, also in a thread that is panicking, where a fence can't: whether what was to be durable
    /// is.
    #[track_caller]
    fn surely(&self, env: &E, work: impl FnOnce()) -> bool {
        self.guard(env, work);
        if env.space().has_failed() {
            self.health.lose();
            drop(Wakes(self, env));
        }
        !self.health.is_lost()
    }

    /// The log of a region, one of those that are free if it has none yet.
    #[track_caller]
    fn lease<'r>(&self, env: &E, lease: &'r mut Option<Lease>) -> Result<&'r mut Lease, Error> {
        let taken = match lease.take() {
            Some(lease) => lease,
            None => self.take_log(env)?,
        };
        Ok(lease.insert(taken))
    }

    #[track_caller]
    fn take_log(&self, env: &E) -> Result<Lease, Error> {
        let mut free = env.lock(&self.free);
        let ring = loop {
            self.health.check();
            match free.pop() {
                Some(ring) => break ring,
                None => free = env.wait(&self.freed, free),
            }
        };
        // Drawn by who has the log, so numbers rise in each.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= NUMBERS {
            self.next.store(NUMBERS, Ordering::Relaxed);
            free.push(ring);
            env.notify_one(&self.freed);
            return Err(Error::Exhausted);
        }
        Ok(Lease { number, ring, piece: None, extent: None })
    }

    /// Makes durable what takes a write back that is about to be made.
    #[track_caller]
    fn remember(&self, env: &E, region: &mut Region, write: Write) -> Result<(), Error> {
        self.health.check();
        let known = region.inverses.entries().len() as u64;
        let lease = self.lease(env, &mut region.lease);
        let lease = lease.inspect_err(|error| region.failed = Some(error.clone()))?;
        if F::REUSED_EARLY && lease.room(2).is_none() {
            lease.ring.release(lease.ring.head());
        }
        let number = lease.number;
        // Another one can say that there is more elsewhere.
        let ring = lease.room(2).ok_or(Error::Full { wanted: LINE })?;
        let space = env.space();
        let role = if known == 0 { Role::First } else { Role::Later };
        self.guard(env, || {
            let line = line::inverse(number, write);
            ring.push_alone(space, &line, role, !F::LOG_NOT_FLUSHED).expect("there is room");
            if !F::LOG_NOT_FENCED {
                space.fence();
            }
        });
        Ok(())
    }

    /// Says in the log that the region has ended, durably.
    #[track_caller]
    fn write_end(space: &E::Space, Lease { number, ring, .. }: &mut Lease) {
        ring.push_alone(space, &line::end(*number), Role::End, true).expect("a line is kept for it");
        space.fence();
    }

    /// Gives the log back of a region that has ended.
    #[track_caller]
    fn give_back(&self, env: &E, Lease { mut ring, .. }: Lease) {
        ring.release(ring.head());
        env.lock(&self.free).push(ring);
        env.notify_one(&self.freed);
    }
}

impl<E: Env, F: Flaw> Engine<E> for UndoEngine<E, F> {
    type Region = Region;

    const IN_PLACE: bool = true;
    const NOT_CONFIRMED: bool = F::NOT_CONFIRMED;
    const HEAP: flaw::HeapFlaw = F::HEAP;

    fn recover(space: &E::Space, logs: &Logs) -> Result<Recovered, Error> {
        let plan = recovery::Plan::read(space, logs)?;
        plan.carry_out(space, logs);
        Ok(plan.recovered())
    }

    fn new(env: &E, logs: Logs, recovered: &Recovered) -> Self {
        let free: Vec<Ring> = logs.starts().map(|base| Ring::new(base, logs.bytes)).collect();
        UndoEngine {
            free: env.mutex(free),
            freed: env.condvar(),
            next: AtomicU64::new(recovered.next),
            health: Health::new(),
        }
    }

    #[inline]
    fn begin(&self, _: &E) -> Region {
        Region { inverses: Writes::take(), lease: None, failed: None }
    }

    #[inline]
    fn load(&self, env: &E, _: &Region, offset: u64) -> u64 {
        env.space().load_u64(offset)
    }

    #[inline]
    fn store(&self, env: &E, region: &mut Region, offset: u64, value: u64) -> Result<(), Error> {
        let space = env.space();
        if region.inverses.get(offset).is_none() {
            let was = space.load_u64(offset);
            self.remember(env, region, Write::set(offset, was))?;
            region.inverses.set(offset, was);
        }
        space.store_u64(offset, value);
        Ok(())
    }

    #[inline]
    fn change(&self, env: &E, region: &mut Region, offset: u64, change: Change) -> Result<(), Error> {
        if let Change::Set(value) = change {
            return self.store(env, region, offset, value);
        }
        let Some(inverse) = inverse(change) else { return Ok(()) };
        self.remember(env, region, Write::new(offset, inverse))?;
        region.inverses.push_bits(offset, inverse);
        apply(env.space(), &Write::new(offset, change));
        Ok(())
    }

    fn commit(&self, env: &E, mut region: Region) -> Result<Ticket, Error> {
        if let Some(error) = region.failed.take() {
            self.abort(env, region);
            return Err(error);
        }
        if region.lease.is_some() && self.health.is_lost() {
            self.abort(env, region);
            self.health.fail();
        }
        let space = env.space();
        if let Some(mut lease) = region.lease {
            self.guard(env, || {
                if F::NOTED_EARLY {
                    Self::write_end(space, &mut lease);
                }
                if !F::PLACES_NOT_FLUSHED {
                    flush_all(space, region.inverses.entries());
                }
                space.fence();
                if !F::NOTED_EARLY {
                    Self::write_end(space, &mut lease);
                }
            });
            self.give_back(env, lease);
        }
        region.inverses.put_back();
        Ok(Ticket::DUE)
    }

    crate::due_at_commit!(E);

    fn abort(&self, env: &E, region: Region) {
        if let Some(mut lease) = region.lease {
            let (space, inverses) = (env.space(), region.inverses.entries());
            if self.health.is_lost() {
                // For those who look. Recovery does it, too, because there is no end.
                take_back(space, inverses);
            } else {
                // An end says that what was taken back is durable; others may write these words next, and
                // recovery must not take them back once more. And nothing may stand in the log behind an end
                // that is not durable.
                let taken_back = || {
                    take_back(space, inverses);
                    space.fence();
                };
                if self.surely(env, taken_back) && self.surely(env, || Self::write_end(space, &mut lease)) {
                    self.give_back(env, lease);
                }
            }
        }
        region.inverses.put_back();
    }

    fn set_alone(&self, env: &E, offset: u64, value: u64) -> Result<(), Error> {
        self.health.check();
        self.guard(env, || set_in_place(env.space(), offset, value));
        Ok(())
    }

    fn checkpoint(&self, _: &E) -> Result<(), Error> {
        // What has ended is in its place.
        Ok(())
    }

    #[inline(always)]
    fn extension(&self) -> Option<&impl ExtendLog<E, Region>> {
        Some(self)
    }
}

impl<E: Env, F: Flaw> ExtendLog<E, Region> for UndoEngine<E, F> {
    fn extend_log(&self, env: &E, region: &mut Region, extent: Extent) {
        let (Some(lease), Some(&chunk)) = (&mut region.lease, extent.chunks.first()) else { return };
        let (space, bytes, number) = (env.space(), extent.chunk_bytes, lease.number);
        let piece = Piece { at: chunk, lines: bytes / LINE };
        self.guard(env, || {
            clear(space, chunk, bytes);
            if !F::EXTENT_NOT_FENCED {
                space.fence();
            }
            let ring = lease.room(1).expect("a line is kept for this");
            ring.push_alone(space, &line::goes_on(number, piece), Role::Later, true).expect("there is room");
            space.fence();
        });
        lease.piece = Some(Ring::new(chunk, bytes));
        match &mut lease.extent {
            Some(all) => all.chunks.push(chunk),
            none => *none = Some(extent),
        }
    }

    fn take_extent(&self, region: &mut Region) -> Option<Extent> {
        region.lease.as_mut()?.extent.take()
    }
}
