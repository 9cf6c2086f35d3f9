//! What engines share that write a region down, carry it out at once, and are done with its log when it ends.
//!
//! # The mark
//! A region ends when what its record says is durable in its place. From then on nobody needs the record, but
//! recovery finds it, and must not carry it out again once a later region has changed the same words and its
//! record is gone. To say so at the end of each region would take a fence more. Instead every record begins
//! with a *mark*: regions with lower numbers had ended when it was written. Recovery takes the highest mark
//! of all records that are whole, and leaves those with lower numbers alone.
//!
//! A record may be written over once a mark above its number is durable: then whatever it could be confused
//! with is out of the way, too. With one thread that is the next record's, so a log holds two of them, the
//! last one and the one that is being written. Where there is no room, because the log is short or a region
//! in another log takes its time, the mark is written to the state line instead ([`State`]), which is a fence
//! more.
//!
//! # Long regions
//! A record that is longer than its log stands in chunks that the heap lends ([`long`](super::long)), and the
//! log has its mark and where the rest is. That takes a fence more. What stands there are words and their
//! values, whatever the other writes of the record stand for.
//!
//! # Logs
//! A log begins with a ring of records. Behind it can be lines for copies ([`Log::take_copy`]), which are
//! taken and given up together with the record that names them.
//!
//! # Memory that fails
//! leaves a region of which nobody knows how far it came, and its log with it. Who waits for either is woken,
//! and panics ([`Health`]).

mod log;
mod recovery;

use space::{Env, Space};

use super::flaw::{Flaw, Sound};
use super::health::Health;
use super::long::OverflowRecord;
use super::record::{self, WORDS_MAX};
use super::state::{NUMBERS, State};
use super::{Extent, Logs, set_in_place};
use crate::log::WORDS;
use crate::{Error, Write};

pub use log::{Log, Shape};
pub use recovery::Plan;

/// The logs of a pool, and who is at work on them.
pub struct Journal<E: Env, F: Flaw = Sound> {
    /// Where the mark stands that is in no record.
    state: u64,
    turns: E::Mutex<Turns>,
    /// Notified when a region ends, if somebody waits.
    ended: E::Condvar,
    /// The mark in the state line; held by who writes it.
    noted: E::Mutex<u64>,
    /// Words of a record that a log holds.
    holds: u64,
    health: Health<F>,
}

struct Turns {
    /// Logs of no region, the one that was used last at the end: it is warm.
    free: Vec<Log>,
    /// The next region's number.
    next: u64,
    /// Numbers of regions that are being written down or carried out, in their order.
    under_way: Vec<u64>,
    /// Threads that wait for any of this.
    waiting: u32,
}

impl Turns {
    /// All regions with lower numbers have ended.
    fn mark(&self) -> u64 {
        self.under_way.first().copied().unwrap_or(self.next)
    }
}

/// The first write of each record: room for its mark.
const MARK: Write = Write::set(0, 0);

/// A number that was drawn, and the mark at that moment.
struct Drawn {
    number: u64,
    mark: u64,
}

/// Wakes all who wait if it is dropped.
struct Wakes<'j, E: Env, F: Flaw>(&'j Journal<E, F>, &'j E);

impl<E: Env, F: Flaw> Drop for Wakes<'_, E, F> {
    fn drop(&mut self) {
        let Wakes(journal, env) = self;
        // Nobody is between looking and waiting.
        drop(env.lock(&journal.turns));
        env.notify_all(&journal.ended);
    }
}

impl<E: Env, F: Flaw> Journal<E, F> {
    /// The empty logs of a pool, in which the next region has number `next`.
    pub fn new(env: &E, logs: &Logs, shape: Shape, next: u64) -> Self {
        let free = logs.starts().map(|base| Log::new(base, shape)).collect();
        let turns = Turns { free, next, under_way: Vec::new(), waiting: 0 };
        Journal {
            state: logs.state,
            turns: env.mutex(turns),
            ended: env.condvar(),
            noted: env.mutex(next),
            holds: WORDS_MAX.min(shape.lines * WORDS as u64),
            health: Health::new(),
        }
    }

    /// Does what regions rely on. If it panics, those who wait need not wait any longer.
    #[track_caller]
    pub fn guard<R>(&self, env: &E, work: impl FnOnce() -> R) -> R {
        let unwinding = Wakes(self, env);
        let done = self.health.guard(work);
        std::mem::forget(unwinding);
        done
    }

    /// Waits until `ready` has something to give.
    #[track_caller]
    fn wait<R>(&self, env: &E, mut ready: impl FnMut(&mut Turns) -> Option<R>) -> R {
        let mut turns = env.lock(&self.turns);
        loop {
            self.health.check();
            if let Some(result) = ready(&mut turns) {
                return result;
            }
            turns.waiting += 1;
            turns = env.wait(&self.ended, turns);
            turns.waiting -= 1;
        }
    }

    /// Changes the turns, and notifies waiting threads.
    #[track_caller]
    fn update(&self, env: &E, change: impl FnOnce(&mut Turns)) {
        let mut turns = env.lock(&self.turns);
        change(&mut turns);
        let waiting = turns.waiting > 0;
        drop(turns);
        if waiting {
            env.notify_all(&self.ended);
        }
    }

    /// Whether the record of so many writes fits into a log, however many runs they are.
    pub fn holds_any(&self, writes: usize) -> bool {
        // Their number, the mark, and they.
        let words = 1 + 2 + 2 * writes as u64;
        words <= self.holds
    }

    /// Words of the record of these writes for which there is no room in a log: 0 if it fits.
    pub fn overflow_words(&self, writes: &[Write]) -> u64 {
        let words = record::length(writes);
        if words + 2 <= self.holds { 0 } else { words - 1 }
    }

    /// A log that no region has. Waits for one.
    #[track_caller]
    pub fn lease(&self, env: &E) -> Log {
        self.wait(env, |turns| turns.free.pop())
    }

    /// Gives a log back in which nothing was written since it was leased, but copies.
    #[track_caller]
    pub fn give_back(&self, env: &E, mut log: Log) {
        log.forget_copies();
        self.update(env, |turns| turns.free.push(log));
    }

    /// Whether the log has room for so many lines and copies, if need be after others have ended.
    #[track_caller]
    pub fn make_room(&self, env: &E, log: &mut Log, lines: u64, copies: u64) -> bool {
        while !log.has_room(lines, copies) {
            let Some(last) = log.last_kept() else { return false };
            if !F::NOT_NOTED {
                self.note(env, last + 1);
            }
            log.release(last + 1);
        }
        true
    }

    /// Says durably that recovery need not look at regions with lower numbers than `wanted`, once they have
    /// ended.
    #[track_caller]
    fn note(&self, env: &E, wanted: u64) {
        let mut noted = env.lock(&self.noted);
        if *noted < wanted {
            let mark = self.wait(env, |turns| Some(turns.mark()).filter(|mark| *mark >= wanted));
            self.guard(env, || State { below: mark, void: false }.write(env.space(), self.state));
            *noted = mark;
        }
    }

    /// Waits until recovery would do nothing to any word.
    #[track_caller]
    pub fn checkpoint(&self, env: &E) {
        let next = env.lock(&self.turns).next;
        self.note(env, next);
    }

    /// Writes one word in place, which no region under way names.
    #[track_caller]
    pub fn set_alone(&self, env: &E, offset: u64, value: u64) {
        self.checkpoint(env);
        self.guard(env, || set_in_place(env.space(), offset, value));
    }

    #[track_caller]
    fn draw(&self, env: &E) -> Result<Drawn, Error> {
        let mut turns = env.lock(&self.turns);
        self.health.check();
        let number = turns.next;
        if number >= NUMBERS {
            return Err(Error::Exhausted);
        }
        turns.next += 1;
        turns.under_way.push(number);
        let mark = turns.mark();
        Ok(Drawn { number, mark })
    }

    /// Writes words to chunks, durably.
    #[track_caller]
    pub fn write_there(
        &self,
        env: &E,
        extent: &Extent,
        writes: impl IntoIterator<Item = Write>,
    ) -> OverflowRecord {
        let writes: Vec<Write> = writes.into_iter().collect();
        self.guard(env, || {
            let there = OverflowRecord::write(env.space(), extent, &record::words(&writes));
            if !F::EXTENT_NOT_FENCED {
                // What the log says may survive before anybody waits for it.
                env.space().fence();
            }
            there
        })
    }

    /// Writes a region down that wants all this, perhaps with more elsewhere, makes that durable, and then
    /// carries it out, which is to end with a fence. Gives the log back.
    ///
    /// # Errors
    /// If the record does not fit into the log, which [`Journal::overflow_words`] says before.
    #[track_caller]
    pub fn commit(
        &self,
        env: &E,
        mut log: Log,
        writes: impl IntoIterator<Item = Write>,
        there: Option<&OverflowRecord>,
        carry_out: impl FnOnce(&E::Space),
    ) -> Result<(), Error> {
        let mut writes: Vec<Write> = std::iter::once(MARK).chain(writes).collect();
        let words = if there.is_some() { record::length_long(&writes) } else { record::length(&writes) };
        if words > self.holds || !self.make_room(env, &mut log, record::lines(words), 0) {
            self.give_back(env, log);
            return Err(Error::Full { wanted: 8 * words });
        }
        let Drawn { number, mark } = match self.draw(env) {
            Ok(drawn) => drawn,
            Err(error) => {
                self.give_back(env, log);
                return Err(error);
            }
        };
        let below = if F::NOTED_EARLY { number + 1 } else { mark };
        let word = State { below, void: false }.word(self.state);
        writes[0] = Write::set(self.state, word);
        let space = env.space();
        self.guard(env, || {
            log.write(space, number, &writes, there, !F::LOG_NOT_FLUSHED);
            let mut carry_out = Some(carry_out);
            if F::APPLIED_EARLY
                && let Some(carry_out) = carry_out.take()
            {
                carry_out(space);
            }
            if !F::LOG_NOT_FENCED {
                space.fence();
            }
            log.release(mark);
            if let Some(carry_out) = carry_out {
                carry_out(space);
            }
        });
        self.update(env, |turns| {
            turns.under_way.retain(|other| *other != number);
            turns.free.push(log);
        });
        Ok(())
    }
}
