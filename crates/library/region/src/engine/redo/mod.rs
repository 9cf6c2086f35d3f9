//! Redo: a region is written down, made durable with one fence, and then done.
//!
//! # A commit
//! A region's writes stay in ordinary memory until it ends. Then they go into one of the pool's logs as a
//! record of whole lines, which is flushed, or stored non-temporally, and fenced: as a rule that is the only
//! fence. No mark follows, because lines know whether they are whole, and a record knows how many it has.
//! Then the words get their values, in place, without a flush.
//!
//! A record that is longer than a log goes to chunks of the heap that nobody has and no log names; the log
//! has where. That takes a second fence, between the chunks and the log, and room in the pool as long as the
//! logs are not settled. So regions have no limit but the pool.
//!
//! # Who makes the places durable
//! Whoever writes the log's next record flushes most lines together with it, and one fence waits for both;
//! lines that many regions write are flushed now and then ([`places`]). When a log is full,
//! [`Engine::checkpoint`] goes through all logs, flushes what may not be durable, fences, and notes durably
//! up to which number regions need no log any more. Only then are old records written over.
//!
//! # Order among threads
//! Regions of several threads go to several logs and have numbers from one counter, drawn while their log is
//! locked. A region that read what another wrote began after that one had ended, so its number is higher.
//! Recovery does all whole records from the noted number on again, in the order of their numbers. A record
//! must not be forgotten while one with a lower number on the same word can still be found in another log;
//! that is why what is noted is one number for all logs, and the records below it are given up only when it
//! is durable.

mod bits;
mod places;
mod recovery;

use std::marker::PhantomData;

use space::{Env, LINE, Space};

use super::flaw::{self, Flaw};
use super::health::Health;
use super::long::OverflowRecord;
use super::record::{self, Draft, Drafted, Entry, One, WORDS_MAX};
use super::state::{NUMBERS, State};
use super::{Atomicity, Engine, Extent, Logs, Overflow, Recovered, Ticket};
use crate::log::Ring;
use crate::writes::Writes;
use crate::{Change, Error, Write};
use bits::Bits;
use places::Places;

/// Numbers that are left when [`RedoEngine::check`] refuses.
const SPARE_NUMBERS: u64 = 8;

/// Regions by redo. `F` is [`Sound`](flaw::Sound), but in tests of the crash checker.
#[derive(Debug)]
pub struct Redo<F: Flaw = flaw::Sound>(PhantomData<F>);

impl<F: Flaw> Atomicity for Redo<F> {
    const NUMBER: u32 = 1;
    const NAME: &'static str = "redo";
    type Engine<E: Env> = RedoEngine<E, F>;
}

/// One of the logs.
struct Log<F: Flaw> {
    ring: Ring,
    /// The record that comes next.
    draft: Draft,
    places: Places<F>,
}

/// The [`Engine`] of [`Redo`].
pub struct RedoEngine<E: Env, F: Flaw> {
    place: Logs,
    /// A thread writes to one of them, by its number. Threads whose numbers lead to the same one take turns.
    logs: Vec<E::Latch<Log<F>>>,
    /// The next region's number. Behind a latch, because the order of numbers is one that recovery builds on
    /// (`check_gaps`), and an observer knows nothing of the order of atomics.
    next: E::Latch<u64>,
    bits: Bits<E>,
    /// Words of a record that a log holds.
    holds: u64,
    /// Held by who settles.
    settling: E::Mutex<()>,
    /// Looked at under the lock of a log: nothing may come behind a record that may be missing.
    health: Health<F>,
}

impl<E: Env, F: Flaw> RedoEngine<E, F> {
    /// Makes a record durable in a log, and then the writes.
    #[inline(always)]
    #[track_caller]
    fn log_and_apply(&self, env: &E, record: &impl Entry, writes: &[Write]) -> Result<(), Error> {
        let (space, thread) = (env.space(), env.thread_number());
        let latch = &self.logs[thread as usize % self.logs.len()];
        loop {
            let mut log = env.hold(latch);
            self.health.check();
            let Log { ring, draft, places } = &mut *log;
            // Flushes first: all that is done between them and the fence is done while they go on.
            places.begin(|line| space.flush_line(line));
            if !ring.has_room(record.prepare(draft)) {
                drop(log);
                self.give_up_records(env)?;
                continue;
            }
            let number = self.draw(env)?;
            self.health.guard(|| {
                record.write(draft, space, ring, number, !F::LOG_NOT_FLUSHED);
                let make = || writes.iter().for_each(|write| self.bits.apply(env, write));
                if F::APPLIED_EARLY {
                    make();
                }
                places.note(writes);
                if !F::LOG_NOT_FENCED {
                    space.fence();
                }
                make();
            });
            return Ok(());
        }
    }

    /// Makes these writes durable with one record, and then applies them. They must fit into a log: see [`RedoEngine::holds`].
    #[inline]
    #[track_caller]
    pub(super) fn log(&self, env: &E, writes: &Writes) -> Result<(), Error> {
        match writes.entries() {
            [] => Ok(()),
            [write] => self.log_and_apply(env, &One(write), std::slice::from_ref(write)),
            entries if self.holds(entries.len()) => {
                self.log_and_apply(env, &Drafted { here: entries, there: None }, entries)
            }
            _ => {
                let entries = &*writes.once();
                self.log_and_apply(env, &Drafted { here: entries, there: None }, entries)
            }
        }
    }

    /// Whether any so many writes fit into a log.
    #[inline(always)]
    pub(super) fn holds(&self, writes: usize) -> bool {
        record::length_max(writes) <= self.holds
    }

    /// Whether a few more records can be written.
    ///
    /// # Errors
    /// If there are hardly any numbers left.
    ///
    /// # Panics
    /// If the memory has failed.
    #[track_caller]
    pub(super) fn check(&self, env: &E) -> Result<(), Error> {
        self.health.check();
        let next = *env.hold(&self.next);
        if next + SPARE_NUMBERS < NUMBERS { Ok(()) } else { Err(Error::Exhausted) }
    }

    /// Makes durable what the records so far have written to its places, and gives these records up.
    #[track_caller]
    fn give_up_records(&self, env: &E) -> Result<(), Error> {
        let settling = env.lock(&self.settling);
        self.health.check();
        self.health.guard(|| self.give_up_locked(env));
        drop(settling);
        Ok(())
    }

    #[track_caller]
    fn give_up_locked(&self, env: &E) {
        let space = env.space();
        // Records that are there now have numbers below the one that is looked at then.
        let tails: Vec<u64> = self.logs.iter().map(|log| env.hold(log).ring.head()).collect();
        let below = *env.hold(&self.next);
        for log in &self.logs {
            // Whoever has a lower number holds the latch of a log, or is done.
            let mut log = env.hold(log);
            self.health.check();
            log.places.flush_all(|line| space.flush_line(line));
            log.draft.shrink();
        }
        if !F::NOTED_EARLY {
            space.fence();
        }
        if !F::NOT_NOTED {
            State { below, void: false }.write(space, self.place.state);
        }
        for (log, tail) in self.logs.iter().zip(tails) {
            env.hold(log).ring.release(tail);
        }
    }

    /// The number of a region whose log is locked.
    #[inline(always)]
    #[track_caller]
    fn draw(&self, env: &E) -> Result<u64, Error> {
        let mut next = env.hold(&self.next);
        if *next >= NUMBERS {
            return Err(Error::Exhausted);
        }
        *next += 1;
        Ok(*next - 1)
    }
}

impl<E: Env, F: Flaw> Engine<E> for RedoEngine<E, F> {
    type Region = Box<Writes>;

    const IN_PLACE: bool = false;
    const NOT_CONFIRMED: bool = F::NOT_CONFIRMED;
    const HEAP: flaw::HeapFlaw = F::HEAP;

    fn recover(space: &E::Space, logs: &Logs) -> Result<Recovered, Error> {
        let plan = recovery::Plan::read(space, logs)?;
        plan.carry_out(space, logs);
        Ok(plan.recovered())
    }

    fn new(env: &E, logs: Logs, recovered: &Recovered) -> Self {
        let soon = !env.space().fence_writes();
        let log = |base| Log {
            ring: Ring::new(base, logs.bytes),
            draft: Draft::default(),
            places: Places::new(soon),
        };
        RedoEngine {
            place: logs,
            logs: logs.starts().map(|base| env.latch(log(base))).collect(),
            next: env.latch(recovered.next),
            bits: Bits::new(env),
            holds: WORDS_MAX.min(logs.bytes / LINE * crate::log::WORDS as u64),
            settling: env.mutex(()),
            health: Health::new(),
        }
    }

    #[inline(always)]
    fn begin(&self, _: &E) -> Box<Writes> {
        Writes::take()
    }

    #[inline]
    fn load(&self, env: &E, region: &Box<Writes>, offset: u64) -> u64 {
        region.get(offset).unwrap_or_else(|| env.space().load_u64(offset))
    }

    #[inline(always)]
    fn store(&self, env: &E, region: &mut Box<Writes>, offset: u64, value: u64) -> Result<(), Error> {
        region.append(offset, value);
        // It is stored to right behind the fence: waiting for its line can overlap with writing the log.
        env.space().prefetch(offset);
        Ok(())
    }

    #[inline]
    fn store_run(
        &self,
        env: &E,
        region: &mut Box<Writes>,
        offset: u64,
        words: &[[u8; 8]],
    ) -> Result<(), Error> {
        space::lines(offset, 8 * words.len() as u64).for_each(|line| env.space().prefetch(line));
        region.append_run(offset, words);
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

    #[inline]
    fn commit(&self, env: &E, region: Box<Writes>) -> Result<Ticket, Error> {
        self.log(env, &region)?;
        region.put_back();
        Ok(Ticket::DUE)
    }

    crate::due_at_commit!(E);

    fn abort(&self, _: &E, region: Box<Writes>) {
        region.put_back();
    }

    fn set_alone(&self, env: &E, offset: u64, value: u64) -> Result<(), Error> {
        // By a log, because an older record may name the word.
        let mut region = self.begin(env);
        self.store(env, &mut region, offset, value)?;
        self.commit(env, region).map(|_| ())
    }

    fn checkpoint(&self, env: &E) -> Result<(), Error> {
        if F::NOT_CHECKPOINTED { Ok(()) } else { self.give_up_records(env) }
    }

    #[inline(always)]
    fn overflow(&self) -> Option<&impl Overflow<E, Box<Writes>>> {
        Some(self)
    }
}

impl<E: Env, F: Flaw> Overflow<E, Box<Writes>> for RedoEngine<E, F> {
    #[inline]
    fn overflow_words(&self, region: &Box<Writes>) -> u64 {
        if self.holds(region.entries().len()) {
            return 0;
        }
        let words = record::length(&region.once());
        if words <= self.holds { 0 } else { words - 1 }
    }

    fn commit_overflow(&self, env: &E, region: Box<Writes>, extent: &Extent) -> Result<Ticket, Error> {
        let (space, writes) = (env.space(), &*region.once());
        let there = self.health.guard(|| {
            let there = OverflowRecord::write(space, extent, &record::words(writes));
            if !F::EXTENT_NOT_FENCED {
                // What the log says may survive before anybody waits for it.
                space.fence();
            }
            there
        });
        self.log_and_apply(env, &Drafted { here: &[], there: Some(&there) }, writes)?;
        region.put_back();
        Ok(Ticket::DUE)
    }
}
