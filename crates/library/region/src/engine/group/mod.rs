//! Group commit: many regions share a record and a fence.
//!
//! # A commit
//! adds the region's writes to an overlay in ordinary memory and returns a ticket. Loads look there first.
//! Nothing of the region is in the pool yet, neither in a log nor in place, so whatever a processor or a page
//! cache writes back meanwhile is of durable regions alone.
//!
//! # A sync
//! takes all committed regions as one batch, writes them to a log as one record of [`Redo`](super::Redo), and
//! fences. Then it applies the batch in place and its tickets are due. One thread at a time syncs. Threads
//! that wait for their tickets meanwhile find that the next batch has them all: of `n` threads one syncs for
//! `n` regions. A batch that would be longer than a log is written by the commit that finds it full.
//!
//! # After a crash
//! recovery applies whole records in their order, as with redo. A batch is all there or not at all, and holds
//! consecutive regions, so what survives is a prefix of the commit order, with every region whose ticket was
//! due.
//!
//! # Long regions
//! A region that is longer than a log has a record of its own, which continues in an overflow extent. It is
//! written behind the regions committed before, and is durable when it is committed.
//!
//! # Where it pays
//! Where a fence waits for a disk, and a program has many threads or need not wait for each region. On
//! persistent memory a fence costs less than the overlay.

mod overlay;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use space::{Env, Space};

use super::flaw::{self, Flaw};
use super::redo::{Redo, RedoEngine};
use super::{Atomicity, Consolidate, Engine, Extent, Logs, Overflow, Recovered, Ticket};
use crate::writes::Writes;
use crate::{Change, Error};
use overlay::Overlay;

/// Regions by group commit: committed at once, durable together. `F` is [`Sound`](flaw::Sound), but in tests
/// of the crash checker.
///
/// [`Pool::region_async`](crate::Pool::region_async) goes on before its region is durable;
/// [`Pool::region`](crate::Pool::region) waits, and shares the fence with other threads that wait.
#[derive(Debug)]
pub struct Group<F: Flaw = flaw::Sound>(PhantomData<F>);

impl<F: Flaw> Atomicity for Group<F> {
    const NUMBER: u32 = 7;
    const NAME: &'static str = "group";
    type Engine<E: Env> = GroupEngine<E, F>;
}

/// The [`Engine`] of [`Group`].
pub struct GroupEngine<E: Env, F: Flaw> {
    redo: RedoEngine<E, F>,
    overlay: E::Latch<Overlay>,
    /// Whether the overlay has words. Set before the region's commit returns, cleared once they are in place.
    has_words: AtomicBool,
    /// Whether a thread syncs. Locked before the overlay.
    is_led: E::Mutex<bool>,
    /// The thread that synced is done. All that wait wake at once: most of them are due, and one leads next.
    done: E::Condvar,
}

/// The thread that syncs, until this is dropped.
struct Leader<'g, E: Env, F: Flaw>(&'g GroupEngine<E, F>, &'g E);

impl<E: Env, F: Flaw> Drop for Leader<'_, E, F> {
    fn drop(&mut self) {
        let Leader(engine, env) = self;
        *env.lock(&engine.is_led) = false;
        env.notify_all(&engine.done);
    }
}

impl<E: Env, F: Flaw> GroupEngine<E, F> {
    /// Waits until no other thread syncs, and makes the caller the one that does. `None` once the ticket is
    /// due, if there is one.
    #[track_caller]
    fn lead<'g>(&'g self, env: &'g E, ticket: Option<Ticket>) -> Option<Leader<'g, E, F>> {
        let mut is_led = env.lock(&self.is_led);
        loop {
            if ticket.is_some_and(|ticket| self.is_due(env, ticket)) {
                return None;
            }
            if !*is_led {
                *is_led = true;
                return Some(Leader(self, env));
            }
            is_led = env.wait(&self.done, is_led);
        }
    }

    /// Makes the committed regions durable and applies them. For the thread that leads.
    #[track_caller]
    fn write_batch(&self, env: &E) -> Result<(), Error> {
        let Some(batch) = env.hold(&self.overlay).begin() else { return Ok(()) };
        if F::DUE_EARLY {
            env.hold(&self.overlay).due = batch.last;
        }
        self.redo.log(env, &batch.writes)?;
        self.end_batch(env);
        Ok(())
    }

    /// The batch is durable and in place.
    #[track_caller]
    fn end_batch(&self, env: &E) {
        let mut overlay = env.hold(&self.overlay);
        overlay.end();
        self.has_words.store(!overlay.is_empty(), Ordering::Release);
    }

    /// The committed value of the word at `offset`, if it is not in place.
    #[inline]
    #[track_caller]
    fn pending(&self, env: &E, offset: u64) -> Option<u64> {
        if !self.has_words.load(Ordering::Acquire) {
            return None;
        }
        env.hold(&self.overlay).get(offset)
    }
}

impl<E: Env, F: Flaw> Engine<E> for GroupEngine<E, F> {
    type Region = Box<Writes>;

    const IN_PLACE: bool = false;
    const NOT_CONFIRMED: bool = F::NOT_CONFIRMED;
    const HEAP: flaw::HeapFlaw = F::HEAP;

    fn recover(space: &E::Space, logs: &Logs) -> Result<Recovered, Error> {
        <<Redo<F> as Atomicity>::Engine<E> as Engine<E>>::recover(space, logs)
    }

    fn new(env: &E, logs: Logs, recovered: &Recovered) -> Self {
        GroupEngine {
            redo: RedoEngine::new(env, logs, recovered),
            overlay: env.latch(Overlay::default()),
            has_words: AtomicBool::new(false),
            is_led: env.mutex(false),
            done: env.condvar(),
        }
    }

    #[inline]
    fn begin(&self, _: &E) -> Box<Writes> {
        Writes::take()
    }

    #[inline]
    fn load(&self, env: &E, region: &Box<Writes>, offset: u64) -> u64 {
        let word = || self.pending(env, offset).unwrap_or_else(|| env.space().load_u64(offset));
        region.get(offset).unwrap_or_else(word)
    }

    fn read(&self, env: &E, offset: u64, bytes: &mut [u8]) {
        if !self.has_words.load(Ordering::Acquire) {
            return env.space().load(offset, bytes);
        }
        // Before the space is read: a word that is not found is in place.
        let words = offset & !7..offset + bytes.len() as u64;
        let overlay = env.hold(&self.overlay);
        let pending: Vec<(u64, u64)> =
            words.step_by(8).filter_map(|word| Some((word, overlay.get(word)?))).collect();
        drop(overlay);
        env.space().load(offset, bytes);
        for (word, value) in pending {
            for (at, byte) in (word..).zip(value.to_le_bytes()) {
                let place = at.checked_sub(offset).and_then(|at| bytes.get_mut(at as usize));
                place.into_iter().for_each(|place| *place = byte);
            }
        }
    }

    #[inline]
    fn store(&self, _: &E, region: &mut Box<Writes>, offset: u64, value: u64) -> Result<(), Error> {
        // Each word once: what fits into a log fits into it as a batch of its own.
        region.set(offset, value);
        Ok(())
    }

    #[inline]
    fn change(&self, env: &E, region: &mut Box<Writes>, offset: u64, change: Change) -> Result<(), Error> {
        match change {
            Change::Set(value) => self.store(env, region, offset, value),
            bits => {
                region.push_bits(offset, bits);
                Ok(())
            }
        }
    }

    /// A region that wrote nothing has the ticket of the last one before it: what it read is durable then.
    fn commit(&self, env: &E, region: Box<Writes>) -> Result<Ticket, Error> {
        let writes = region.entries();
        let ticket = loop {
            self.redo.check(env)?;
            let mut overlay = env.hold(&self.overlay);
            if writes.is_empty() {
                break overlay.last;
            }
            let open = overlay.open_len();
            if open == 0 || self.redo.holds(open + writes.len()) {
                self.has_words.store(true, Ordering::Release);
                break overlay.commit(writes);
            }
            drop(overlay);
            self.sync(env)?;
        };
        region.put_back();
        Ok(Ticket::new(ticket))
    }

    fn is_due(&self, env: &E, ticket: Ticket) -> bool {
        ticket == Ticket::DUE || env.hold(&self.overlay).due >= ticket.number()
    }

    fn wait(&self, env: &E, ticket: Ticket) -> Result<(), Error> {
        let ticket = ticket.min(Ticket::new(env.hold(&self.overlay).last));
        if self.is_due(env, ticket) {
            return Ok(());
        }
        while let Some(_leader) = self.lead(env, Some(ticket)) {
            self.write_batch(env)?;
        }
        Ok(())
    }

    fn sync(&self, env: &E) -> Result<(), Error> {
        let last = env.hold(&self.overlay).last;
        self.wait(env, Ticket::new(last))
    }

    fn abort(&self, _: &E, region: Box<Writes>) {
        region.put_back();
    }

    fn set_alone(&self, env: &E, offset: u64, value: u64) -> Result<(), Error> {
        let mut region = self.begin(env);
        self.store(env, &mut region, offset, value)?;
        let ticket = self.commit(env, region)?;
        self.wait(env, ticket)
    }

    fn checkpoint(&self, env: &E) -> Result<(), Error> {
        self.sync(env)?;
        self.redo.checkpoint(env)
    }

    #[inline(always)]
    fn overflow(&self) -> Option<&impl Overflow<E, Box<Writes>>> {
        Some(self)
    }

    #[inline(always)]
    fn consolidation(&self) -> Option<&impl Consolidate<E>> {
        Some(self)
    }
}

impl<E: Env, F: Flaw> Overflow<E, Box<Writes>> for GroupEngine<E, F> {
    #[inline]
    fn overflow_words(&self, region: &Box<Writes>) -> u64 {
        self.redo.overflow_words(region)
    }

    fn commit_overflow(&self, env: &E, region: Box<Writes>, extent: &Extent) -> Result<Ticket, Error> {
        self.redo.check(env)?;
        let leader = self.lead(env, None);
        if !F::OVERTAKES {
            self.write_batch(env)?;
        }
        // The number is drawn together with the batch before it, so no region comes between.
        let (batch, number) = {
            let mut overlay = env.hold(&self.overlay);
            let batch = if F::OVERTAKES { None } else { overlay.begin() };
            (batch, overlay.draw())
        };
        if let Some(batch) = batch {
            self.redo.log(env, &batch.writes)?;
            self.end_batch(env);
        }
        self.redo.commit_overflow(env, region, extent)?;
        let mut overlay = env.hold(&self.overlay);
        overlay.due = overlay.due.max(number);
        drop(overlay);
        drop(leader);
        Ok(Ticket::new(number))
    }
}

/// Syncs, for a thread that does it now and then.
impl<E: Env, F: Flaw> Consolidate<E> for GroupEngine<E, F> {
    fn consolidate(&self, env: &E) -> Result<bool, Error> {
        self.sync(env)?;
        Ok(false)
    }
}
