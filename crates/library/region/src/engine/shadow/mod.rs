//! Shadow copy: a region writes to copies in the pool, switches to them with one record, and then they are
//! copied back.
//!
//! # Why copied back
//! Shadowing means to change a copy and then to let a pointer swing to it. Here pointers are offsets into one
//! flat space, and reads outside of regions go straight to it, so there is no pointer to swing for a place:
//! either a table translates every access, or the copy comes back to where it is looked for. Systems that
//! call their transactions shadow copy do the latter: the new data go to a log, the log is made durable, the
//! originals are updated, and after a crash that is done again. So does this engine. The switch is a record
//! that names the copies: before it is durable the originals count, afterwards the copies do, until they have
//! been copied back.
//!
//! # The unit is a line
//! Pages would have a shorter record, and up to 64 times the lines to copy. And whatever the unit, what is
//! copied back are the words that the region wrote, because two regions may write different words of one unit
//! at the same time; the record has a bit for each.
//!
//! # A region
//! has one of the pool's logs for itself, from its first write to its end. When it first writes to a line, it
//! copies the line to a place behind the log's records; then it reads and writes there. As many copies as a
//! log holds do not need ordinary memory.
//!
//! A region that is longer keeps further words in ordinary memory, because the pool has no place for them
//! yet. Its commit writes all of its words to chunks that the heap lends, which are its shadow then; the
//! record leads there, and the copies in the log are given up. That is three fences, too.
//!
//! # A commit
//! flushes the copies and fences, writes the record that names them, flushes and fences it, copies the words
//! that were written back, flushes them and fences. That is three fences whatever the region writes. The
//! record has a check of each copy's bytes, so that recovery finds a damaged one. When a record and its
//! copies may be written over is the business of [`journal`](super::journal).
//!
//! # As many regions as logs
//! can be under way. One more waits until a log is free, so a thread must not begin a region within one; it
//! hands the [`Tx`](crate::Tx) on.

mod copy;

use std::marker::PhantomData;

use space::{Env, LINE, Space};

use super::flaw::{self, Flaw};
use super::journal::{Journal, Log, Plan, Shape};
use super::place::{apply, flush, flush_all};
use super::{Atomicity, Engine, Extent, Logs, Overflow, Recovered, Ticket};
use crate::writes::Writes;
use crate::{Change, Damage, Error, Write};
use copy::{Copy, SLOTS};

/// Regions by shadow copy. `F` is [`Sound`](flaw::Sound), but in tests of the crash checker.
///
/// Each region costs three fences. As many regions can be under way as the pool has logs; one more waits, so
/// a thread that begins a region within another one may wait for itself.
#[derive(Debug)]
pub struct Shadow<F: Flaw = flaw::Sound>(PhantomData<F>);

impl<F: Flaw> Atomicity for Shadow<F> {
    const NUMBER: u32 = 5;
    const NAME: &'static str = "shadow";
    type Engine<E: Env> = ShadowEngine<E, F>;
}

/// The [`Engine`] of [`Shadow`].
pub struct ShadowEngine<E: Env, F: Flaw> {
    journal: Journal<E, F>,
}

/// A region under way.
#[derive(Default)]
pub struct Region {
    /// Its log, once it has written.
    log: Option<Log>,
    copies: Vec<Copy>,
    /// By offset of a line: which of `copies` it has.
    index: Box<Writes>,
    bits: Vec<Write>,
    /// Words of lines for which the log had no room.
    more: Option<Box<Writes>>,
}

impl Region {
    /// Where the region has the word at `offset`, if it has its line.
    #[inline]
    fn find(&self, offset: u64) -> Option<(usize, u64)> {
        let at = self.index.get(line_of(offset))? as usize;
        let log = self.log.as_ref()?;
        Some((at, log.copy(self.copies[at].slot) + offset % LINE))
    }

    /// All that the region wants, word by word, in the order of places.
    fn words<S: Space>(&self, space: &S) -> Vec<Write> {
        let place = |copy: &Copy| self.log.as_ref().map(|log| log.copy(copy.slot));
        let copies = self.copies.iter().filter_map(|copy| Some((copy, place(copy)?)));
        let mut words: Vec<Write> = copies.flat_map(|(copy, place)| copy.writes(space, place)).collect();
        words.extend(self.more.iter().flat_map(|more| more.entries()));
        words.sort_unstable_by_key(|write| write.offset());
        words.extend(&self.bits);
        words
    }
}

fn line_of(offset: u64) -> u64 {
    offset / LINE * LINE
}

/// A third of a log's lines are for records: that is enough for as many copies as the others hold, each two
/// words of a record.
fn shape(logs: &Logs) -> Shape {
    let lines = logs.bytes / LINE;
    let records = lines.div_ceil(3).max(2);
    Shape { lines: records, copies: (lines - records).min(SLOTS) }
}

impl<E: Env, F: Flaw> ShadowEngine<E, F> {
    /// Copies the line of `offset`; which copy it is, and where the word is. `None` if there is no room for
    /// one.
    #[track_caller]
    fn copy(&self, env: &E, region: &mut Region, offset: u64) -> Option<(usize, u64)> {
        let at = region.copies.len();
        let log = region.log.get_or_insert_with(|| self.journal.lease(env));
        if region.more.is_some() || !self.journal.make_room(env, log, 0, 1) {
            return None;
        }
        let (space, line, slot) = (env.space(), line_of(offset), log.take_copy());
        let place = log.copy(slot);
        (0..LINE).step_by(8).for_each(|word| space.store_u64(place + word, space.load_u64(line + word)));
        region.copies.push(Copy { line, slot, written: 0 });
        region.index.set(line, at as u64);
        Some((at, place + offset % LINE))
    }

    /// Ends a region that has a log.
    #[track_caller]
    fn switch(&self, env: &E, log: Log, copies: &[Copy], bits: &[Write]) -> Result<(), Error> {
        let space = env.space();
        let places: Vec<u64> = copies.iter().map(|copy| log.copy(copy.slot)).collect();
        if !copies.is_empty() {
            self.journal.guard(env, || {
                if !F::COPIES_NOT_FLUSHED {
                    places.iter().for_each(|&place| space.flush(place, LINE));
                }
                if !F::SWITCHED_EARLY {
                    space.fence();
                }
            });
        }
        let described = copies.iter().zip(&places).map(|(copy, &place)| copy.describe(space, place));
        self.journal.commit(env, log, described.chain(bits.iter().copied()), None, |space| {
            let words = copies.iter().zip(&places).flat_map(|(copy, &place)| copy.writes(space, place));
            words.chain(bits.iter().copied()).for_each(|write| {
                apply(space, &write);
            });
            if !F::PLACES_NOT_FLUSHED {
                copies.iter().for_each(|copy| space.flush(copy.line, LINE));
                bits.iter().for_each(|write| flush(space, write));
            }
            space.fence();
        })
    }
}

impl<E: Env, F: Flaw> Engine<E> for ShadowEngine<E, F> {
    type Region = Region;

    const IN_PLACE: bool = false;
    const NOT_CONFIRMED: bool = F::NOT_CONFIRMED;
    const HEAP: flaw::HeapFlaw = F::HEAP;

    fn recover(space: &E::Space, logs: &Logs) -> Result<Recovered, Error> {
        let shape = shape(logs);
        let plan = Plan::read(space, logs, shape, |base, described| {
            let place = |slot| (slot < shape.copies).then(|| shape.copy(base, slot));
            let mut writes = Vec::new();
            for write in described {
                let Change::Set(value) = write.change() else {
                    writes.push(write);
                    continue;
                };
                let copy = Copy::of(space, write.offset(), value, place);
                let copy = copy.ok_or(Damage::ShadowCopy { offset: write.offset() })?;
                writes.extend(copy.writes(space, shape.copy(base, copy.slot)));
            }
            Ok(writes)
        })?;
        plan.carry_out(space, logs);
        Ok(plan.recovered())
    }

    fn new(env: &E, logs: Logs, recovered: &Recovered) -> Self {
        ShadowEngine { journal: Journal::new(env, &logs, shape(&logs), recovered.next) }
    }

    #[inline]
    fn begin(&self, _: &E) -> Region {
        Region { index: Writes::take(), ..Region::default() }
    }

    #[inline]
    fn load(&self, env: &E, region: &Region, offset: u64) -> u64 {
        let more = || region.more.as_ref().and_then(|more| more.get(offset));
        match region.find(offset) {
            Some((_, place)) => env.space().load_u64(place),
            None => more().unwrap_or_else(|| env.space().load_u64(offset)),
        }
    }

    #[inline]
    fn store(&self, env: &E, region: &mut Region, offset: u64, value: u64) -> Result<(), Error> {
        let found = match region.find(offset) {
            Some(found) => Some(found),
            None => self.copy(env, region, offset),
        };
        if let Some((at, place)) = found {
            region.copies[at].written |= 1 << (offset % LINE / 8);
            env.space().store_u64(place, value);
        } else {
            region.more.get_or_insert_default().set(offset, value);
        }
        Ok(())
    }

    #[inline]
    fn change(&self, env: &E, region: &mut Region, offset: u64, change: Change) -> Result<(), Error> {
        match change {
            Change::Set(value) => self.store(env, region, offset, value),
            Change::Take(_) | Change::Give(_) => {
                region.bits.push(Write::new(offset, change));
                Ok(())
            }
        }
    }

    fn commit(&self, env: &E, mut region: Region) -> Result<Ticket, Error> {
        let log = match region.log.take() {
            None if !region.bits.is_empty() => Some(self.journal.lease(env)),
            log => log,
        };
        let result = match log {
            Some(log) => self.switch(env, log, &region.copies, &region.bits),
            None => Ok(()),
        };
        region.index.put_back();
        result.map(|()| Ticket::DUE)
    }

    crate::due_at_commit!(E);

    fn abort(&self, env: &E, region: Region) {
        if let Some(log) = region.log {
            self.journal.give_back(env, log);
        }
        region.index.put_back();
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
    fn overflow(&self) -> Option<&impl Overflow<E, Region>> {
        Some(self)
    }
}

impl<E: Env, F: Flaw> Overflow<E, Region> for ShadowEngine<E, F> {
    #[inline]
    fn overflow_words(&self, region: &Region) -> u64 {
        if region.more.is_none() && self.journal.holds_any(region.copies.len() + region.bits.len()) {
            return 0;
        }
        let words: u64 = region.copies.iter().map(|copy| u64::from(copy.written.count_ones())).sum();
        let more = region.more.as_ref().map_or(0, |more| more.entries().len());
        // If no two follow each other.
        2 * (words + more as u64 + region.bits.len() as u64)
    }

    fn commit_overflow(&self, env: &E, mut region: Region, extent: &Extent) -> Result<Ticket, Error> {
        let writes = region.words(env.space());
        let there = self.journal.write_there(env, extent, writes.iter().copied());
        let log = region.log.take().unwrap_or_else(|| self.journal.lease(env));
        let result = self.journal.commit(env, log, [], Some(&there), |space| {
            writes.iter().for_each(|write| apply(space, write));
            if !F::PLACES_NOT_FLUSHED {
                flush_all(space, &writes);
            }
            space.fence();
        });
        region.index.put_back();
        result.map(|()| Ticket::DUE)
    }
}
