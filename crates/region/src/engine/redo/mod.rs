//! Redo: a region is written down, made durable with one fence, and then done.
//!
//! # A commit
//! A region's writes stay in ordinary memory until it ends. Then they go into one of the pool's logs as a record of whole
//! lines, which is flushed and fenced: that is the only fence. No mark follows, because lines know
//! whether they are whole, and a record knows how many it has. Then the words get their values, in place, without a flush.
//!
//! # Who makes the places durable
//! Nobody, until a log is full. Then [`Engine::settle`] goes through all logs, flushes each place that a record names, fences, and
//! notes durably up to which number regions need no log any more. Only then are old records written over. A line that
//! a thousand regions wrote is flushed once, and most have left the caches by then.
//!
//! # Order among threads
//! Regions of several threads go to several logs and have numbers from one counter, drawn while their log is locked. A region that read what
//! another wrote began after that one had ended, so its number is higher. Recovery does all whole records from the
//! noted number on again, in the order of their numbers. A record must not be forgotten while one with a lower number on the same word can
//! still be found in another log; that is why what is noted is one number for all logs, and the records below it are given up
//! only when it is durable.

mod recovery;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use space::{Env, LINE, Space};

use super::flaw::{self, Flaw};
use super::place::{apply, flush};
use super::record::{self, Found, WORDS_MAX};
use super::state::{NUMBERS, State};
use super::{Atomicity, Engine, Logs, Recovered};
use crate::log::Ring;
use crate::writes::Writes;
use crate::{Change, Error};

/// Regions by redo. `F` is [`Sound`](flaw::Sound), but in tests of the crash checker.
#[derive(Debug)]
pub struct Redo<F: Flaw = flaw::Sound>(PhantomData<F>);

impl<F: Flaw> Atomicity for Redo<F> {
    const NUMBER: u32 = 1;
    const NAME: &'static str = "redo";
    type Engine<E: Env> = RedoEngine<E, F>;
}

/// The [`Engine`] of [`Redo`].
pub struct RedoEngine<E: Env, F: Flaw> {
    flaw: PhantomData<F>,
    place: Logs,
    logs: Vec<Log<E>>,
    /// The next region's number. Behind a lock, because the order of numbers is one that recovery builds on (`check_gaps`), and an observer knows
    /// nothing of the order of atomics.
    next: E::Mutex<u64>,
    /// Held by who settles.
    settling: E::Mutex<()>,
    /// The log that was used last: with one thread it is always the same one, and warm.
    last: AtomicUsize,
}

struct Log<E: Env> {
    /// Whether somebody writes to it: a hint, for those who look for a free one.
    busy: AtomicBool,
    ring: E::Mutex<Ring>,
}

impl<E: Env, F: Flaw> RedoEngine<E, F> {
    /// Runs `work` on a log that has room for so many lines.
    #[track_caller]
    fn with_log<R>(&self, env: &E, lines: u64, work: impl FnOnce(&mut Ring) -> R) -> Result<R, Error> {
        loop {
            let log = self.pick();
            let mut ring = env.lock(&log.ring);
            let room = ring.has_room(lines);
            if room {
                let result = work(&mut ring);
                drop(ring);
                log.busy.store(false, Ordering::Release);
                return Ok(result);
            }
            drop(ring);
            log.busy.store(false, Ordering::Release);
            self.settle(env)?;
        }
    }

    /// The number of a region whose log is locked.
    #[track_caller]
    fn draw(&self, env: &E) -> Result<u64, Error> {
        let mut next = env.lock(&self.next);
        if *next >= NUMBERS {
            return Err(Error::Exhausted);
        }
        *next += 1;
        Ok(*next - 1)
    }

    /// A log that nobody writes to, if there is one.
    fn pick(&self) -> &Log<E> {
        let first = self.last.load(Ordering::Relaxed);
        for step in 0..self.logs.len() {
            let at = (first + step) % self.logs.len();
            if !self.logs[at].busy.swap(true, Ordering::Acquire) {
                if step > 0 {
                    self.last.store(at, Ordering::Relaxed);
                }
                return &self.logs[at];
            }
        }
        &self.logs[first]
    }
}

impl<E: Env, F: Flaw> Engine<E> for RedoEngine<E, F> {
    type Region = Writes;

    const IN_PLACE: bool = false;

    fn recover(space: &E::Space, logs: &Logs) -> Result<Recovered, Error> {
        let plan = recovery::Plan::read(space, logs)?;
        plan.carry_out(space, logs);
        Ok(plan.told())
    }

    fn new(env: &E, logs: Logs, recovered: &Recovered) -> Self {
        let log = |base| Log { busy: AtomicBool::new(false), ring: env.mutex(Ring::new(base, logs.bytes)) };
        RedoEngine {
            flaw: PhantomData,
            place: logs,
            logs: logs.starts().map(log).collect(),
            next: env.mutex(recovered.next),
            settling: env.mutex(()),
            last: AtomicUsize::new(0),
        }
    }

    #[inline]
    fn begin(&self, _: &E) -> Writes {
        Writes::take()
    }

    #[inline]
    fn load(&self, env: &E, region: &Writes, offset: u64) -> u64 {
        region.get(offset).unwrap_or_else(|| env.space().load_u64(offset))
    }

    #[inline]
    fn store(&self, env: &E, region: &mut Writes, offset: u64, value: u64) -> Result<(), Error> {
        if region.set(offset, value) {
            // It is stored to right behind the fence: waiting for its line can overlap with writing the log.
            env.space().prefetch(offset);
        }
        Ok(())
    }

    #[inline]
    fn change(&self, _: &E, region: &mut Writes, offset: u64, change: Change) -> Result<(), Error> {
        region.push_bits(offset, change);
        Ok(())
    }

    fn commit(&self, env: &E, region: Writes) -> Result<(), Error> {
        let writes = region.entries();
        if writes.is_empty() {
            region.put_back();
            return Ok(());
        }
        let words = record::length(writes);
        let holds = WORDS_MAX.min(self.place.bytes / LINE * crate::log::WORDS as u64);
        if words > holds {
            return Err(Error::TooLong { words, holds });
        }
        let space = env.space();
        self.with_log(env, record::lines(words), |ring| {
            let number = self.draw(env)?;
            let from = ring.head();
            record::write(space, ring, number, words, writes);
            if F::APPLIED_EARLY {
                writes.iter().for_each(|write| apply(space, write));
            }
            if !F::LOG_NOT_FLUSHED {
                ring.flush(space, from);
            }
            if !F::LOG_NOT_FENCED {
                space.fence();
            }
            writes.iter().for_each(|write| apply(space, write));
            Ok(())
        })??;
        region.put_back();
        Ok(())
    }

    fn abort(&self, _: &E, region: Writes) {
        region.put_back();
    }

    fn set_alone(&self, env: &E, offset: u64, value: u64) -> Result<(), Error> {
        // By a log, because an older record may name the word.
        let mut region = self.begin(env);
        self.store(env, &mut region, offset, value)?;
        self.commit(env, region)
    }

    fn settle(&self, env: &E) -> Result<(), Error> {
        let space = env.space();
        let settling = env.lock(&self.settling);
        // Whoever has a lower number holds the lock of a log, or is done.
        let below = *env.lock(&self.next);
        let mut given_up = Vec::with_capacity(self.logs.len());
        for (log, base) in self.logs.iter().zip(self.place.starts()) {
            let ring = env.lock(&log.ring);
            let mut at = ring.tail();
            while at < ring.head() {
                let count = ring.capacity();
                let Found::Record(record) = record::read(space, base, count, at % count) else {
                    return Err(Error::Damaged {
                        what: "a log that was just written",
                        offset: ring.place(at),
                    });
                };
                if record.number >= below {
                    break;
                }
                if !F::PLACES_NOT_FLUSHED {
                    record.writes.iter().for_each(|write| flush(space, write));
                }
                at += record.lines;
            }
            given_up.push(at);
        }
        if !F::NOTED_EARLY {
            space.fence();
        }
        if !F::NOT_NOTED {
            State { below, void: false }.write(space, self.place.state);
        }
        for (log, tail) in self.logs.iter().zip(given_up) {
            env.lock(&log.ring).release(tail);
        }
        drop(settling);
        Ok(())
    }
}
