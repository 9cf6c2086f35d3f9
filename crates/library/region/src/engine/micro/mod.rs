//! Micro-buffering: a region works on copies in ordinary memory, and its commit writes them down and then
//! back, in the way that suits their length.
//!
//! # A region
//! When a word of a line is written for the first time, the line is copied to ordinary memory; the region
//! reads and writes it there. The line is the unit because it is what memory gives anyway, and because an
//! engine sees words and no objects; an object that is written whole is a stretch of lines.
//!
//! # A commit
//! writes the words that changed into a log as a redo record, flushes and fences it. Then it writes the
//! buffers back and fences again. That is two fences whatever the region writes, and nothing is left to do
//! behind it: what recovery need not look at any more is said by the next record
//! ([`journal`](super::journal)); a region that is longer than a log has a third one. Only words that the
//! region wrote go back; what lies beside them in their line may be another region's.
//!
//! # How buffers are written back
//! A store and a flush need the line in the cache, where the copy has just brought it, and each flush is
//! waited for. A non-temporal store needs neither, but the line is then in no cache, and for a few lines its
//! way to memory is the longer one. So stretches of lines that are written whole use non-temporal stores from
//! a *threshold* on, and everything else stores and flushes. Where the two are equal depends on the machine,
//! and that whoever reads the lines next finds them in no cache is in no such measure.
//! [`MicroBufferEngine::set_threshold`] sets it, [`Pool::measure_threshold`](crate::Pool::measure_threshold)
//! measures it, and [`MicroBufferEngine::DEFAULT_THRESHOLD`] says what it is otherwise.

mod buffers;
mod measure;
mod write_back;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use space::{Env, LINE, Space};

use super::flaw::{self, Flaw};
use super::journal::{Journal, Plan, Shape};
use super::place::{apply, flush};
use super::{Atomicity, Engine, Extent, Logs, Overflow, Recovered, Ticket, WriteBackThreshold};
use crate::{Change, Error};
use buffers::Buffers;
use write_back::write_back;

/// Regions by micro-buffering. `F` is [`Sound`](flaw::Sound), but in tests of the crash checker.
///
/// Each region costs two fences. Which lines use non-temporal stores depends on a threshold
/// ([`MicroBufferEngine::set_threshold`]).
#[derive(Debug)]
pub struct MicroBuffer<F: Flaw = flaw::Sound>(PhantomData<F>);

impl<F: Flaw> Atomicity for MicroBuffer<F> {
    const NUMBER: u32 = 4;
    const NAME: &'static str = "micro-buffer";
    type Engine<E: Env> = MicroBufferEngine<E, F>;
}

/// The [`Engine`] of [`MicroBuffer`].
pub struct MicroBufferEngine<E: Env, F: Flaw> {
    journal: Journal<E, F>,
    threshold: AtomicU64,
}

impl<E: Env, F: Flaw> MicroBufferEngine<E, F> {
    /// Bytes from which on a stretch of lines is written back by non-temporal stores by default: where the
    /// modelled 3D XPoint machine turns (`strandline reproduce xpoint-18`). Other memory turns elsewhere.
    pub const DEFAULT_THRESHOLD: u64 = 512;

    /// Bytes from which on a stretch of whole lines is written back by non-temporal stores; shorter ones by
    /// stores and flushes.
    pub fn threshold(&self) -> u64 {
        self.threshold.load(Ordering::Relaxed)
    }

    /// Sets it, for regions that commit from now on. With 0 every whole line uses non-temporal stores, with
    /// `u64::MAX` none. It is not kept in the pool, because it belongs to the machine.
    pub fn set_threshold(&self, bytes: u64) {
        self.threshold.store(bytes, Ordering::Relaxed);
    }

    /// Writes all that the region wants to its places, durably.
    #[track_caller]
    fn write_back(&self, space: &E::Space, region: &Buffers) {
        write_back(space, region.lines(), self.threshold(), !F::PLACES_NOT_FLUSHED);
        for write in region.bits() {
            apply(space, write);
            if !F::PLACES_NOT_FLUSHED {
                flush(space, write);
            }
        }
        space.fence();
    }
}

fn shape(logs: &Logs) -> Shape {
    Shape { lines: logs.bytes / LINE, copies: 0 }
}

impl<E: Env, F: Flaw> Engine<E> for MicroBufferEngine<E, F> {
    type Region = Buffers;

    const IN_PLACE: bool = false;
    const NOT_CONFIRMED: bool = F::NOT_CONFIRMED;
    const HEAP: flaw::HeapFlaw = F::HEAP;

    fn recover(space: &E::Space, logs: &Logs) -> Result<Recovered, Error> {
        let plan = Plan::read(space, logs, shape(logs), |_, writes| Ok(writes))?;
        plan.carry_out(space, logs);
        Ok(plan.recovered())
    }

    fn new(env: &E, logs: Logs, recovered: &Recovered) -> Self {
        MicroBufferEngine {
            journal: Journal::new(env, &logs, shape(&logs), recovered.next),
            threshold: AtomicU64::new(Self::DEFAULT_THRESHOLD),
        }
    }

    #[inline]
    fn begin(&self, _: &E) -> Buffers {
        Buffers::take()
    }

    #[inline]
    fn load(&self, env: &E, region: &Buffers, offset: u64) -> u64 {
        region.get(offset).unwrap_or_else(|| env.space().load_u64(offset))
    }

    #[inline]
    fn store(&self, env: &E, region: &mut Buffers, offset: u64, value: u64) -> Result<(), Error> {
        region.set(env.space(), offset, value);
        Ok(())
    }

    #[inline]
    fn change(&self, env: &E, region: &mut Buffers, offset: u64, change: Change) -> Result<(), Error> {
        match change {
            Change::Set(value) => region.set(env.space(), offset, value),
            Change::Take(_) | Change::Give(_) => region.push_bits(offset, change),
        }
        Ok(())
    }

    fn commit(&self, env: &E, mut region: Buffers) -> Result<Ticket, Error> {
        if !region.is_empty() {
            region.sort();
            let log = self.journal.lease(env);
            self.journal.commit(env, log, region.writes(), None, |space| self.write_back(space, &region))?;
        }
        region.put_back();
        Ok(Ticket::DUE)
    }

    crate::due_at_commit!(E);

    fn abort(&self, _: &E, region: Buffers) {
        region.put_back();
    }

    fn set_alone(&self, env: &E, offset: u64, value: u64) -> Result<(), Error> {
        self.journal.set_alone(env, offset, value);
        Ok(())
    }

    fn checkpoint(&self, env: &E) -> Result<(), Error> {
        self.journal.checkpoint(env);
        Ok(())
    }

    #[inline(always)]
    fn overflow(&self) -> Option<&impl Overflow<E, Buffers>> {
        Some(self)
    }

    #[inline(always)]
    fn write_back_threshold(&self) -> Option<&impl WriteBackThreshold> {
        Some(self)
    }
}

impl<E: Env, F: Flaw> WriteBackThreshold for MicroBufferEngine<E, F> {
    fn set_threshold(&self, bytes: u64) {
        MicroBufferEngine::set_threshold(self, bytes);
    }
}

impl<E: Env, F: Flaw> Overflow<E, Buffers> for MicroBufferEngine<E, F> {
    #[inline]
    fn overflow_words(&self, region: &Buffers) -> u64 {
        if self.journal.holds_any(region.most_writes()) {
            return 0;
        }
        // In their order there are fewer runs, not more.
        self.journal.overflow_words(&region.writes().collect::<Vec<_>>())
    }

    fn commit_overflow(&self, env: &E, mut region: Buffers, extent: &Extent) -> Result<Ticket, Error> {
        region.sort();
        let there = self.journal.write_there(env, extent, region.writes());
        let log = self.journal.lease(env);
        self.journal.commit(env, log, [], Some(&there), |space| self.write_back(space, &region))?;
        region.put_back();
        Ok(Ticket::DUE)
    }
}
