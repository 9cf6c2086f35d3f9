//! Software SSP, shadow sub-paging (Ni 2022): a page that is being written to has a second page beside it,
//! and each of its lines is in one of the two.
//!
//! # Which line is where
//! The original page is at *home*, where its offset says; the other one is a *spare page* out of the pool's
//! place for logs, which is paired with a *slot*. A page with a slot is *active*, and has three sets of bits,
//! one bit for each line:
//! - *current*, in memory: lines whose words are in the spare page (`active.rs`);
//! - *committed*, durable: the same, as the journal and its table say it;
//! - *updated*: the lines that one commit writes.
//!
//! # A commit
//! A region's writes stay in ordinary memory until it ends. Then, for each line that it writes, the copy that
//! does *not* count is made what the line will be, and flushed. One fence later a record goes into the
//! journal: the committed bits of each page, in which the updated ones are turned over. It is flushed and
//! fenced, and then the current bits are made the same. So a region has two fences, however long it is, and
//! what it wrote is written once. Log lines know whether they are whole ([`crate::log`]), so a record needs
//! no mark.
//!
//! # Words and lines
//! Regions of two threads may write words of one line, and bits of one word ([`Engine::change`]); whole lines
//! change places. That is well because a line is put together from its copy that counts *while the engine's
//! lock is held*, up to the moment at which the new copy counts: commits follow one another, and what one has
//! written the next one copies along. Hence the words are kept apart until then; lines that are written while
//! a region runs would be two regions' lines. The price is that one thread commits at a time.
//!
//! # Reads
//! go through the current bits, in a region and outside of one ([`Engine::read`]), and need no lock;
//! `active.rs` says why. Nothing else may read words that regions have written, unless the engine is settled:
//! what the heap writes by itself, maps of new slabs and blocks of whole chunks, goes to chunks that were
//! settled before, and is at home.
//!
//! # Consolidation
//! A page can be given no other offset, as a page table could, so what is in a spare page goes home in the
//! end: lines that were written an odd number of times, not the fewer ones of the two pages. Home copies of
//! these lines do not count, so they can be written at any time; then a fence, a record that says so, another
//! one, and the spare page is free. This is done
//! - by a commit that finds no free slot: for an eighth of all slots at once, those that were not used for
//!   longest;
//! - by [`Engine::consolidate`], for a few of them, until a quarter of all slots is free. The engine has no
//!   thread of its own; a program calls it in one of its own now and then, and commits of the others go on in
//!   between and find free slots;
//! - by [`Engine::checkpoint`], for all of them, some at a time.
//!
//! # The journal
//! begins anew when it is full: what slots have is written to a table, those lines of it that changed; then
//! one word, made durable, says that the table counts and from which record on the journal does. There are
//! two tables, so the one that counts is never written to (`table.rs`).
//!
//! # More pages than slots
//! A region that writes to more pages than there are slots goes by words: everything is brought home and the
//! journal is begun anew, its words become the journal's only record, and then they are written where they
//! belong. That costs more fences, but always the same number of its own. If the journal is too short for
//! them, they stand in chunks that the heap lends ([`long`](super::long)), with a fence more.
//!
//! # Recovery
//! takes the table and the records behind it, brings every line home that is in a spare page, and empties
//! journal and tables. So nothing is active in a pool that was just opened.

mod active;
mod commit;
mod home;
mod journal;
mod parts;
mod recovery;
mod table;

use std::marker::PhantomData;

use space::{Env, LINE, Space};

use super::flaw::{self, Flaw};
use super::health::Health;
use super::record;
use super::{Atomicity, Consolidate, Engine, Extent, Logs, Overflow, Recovered, Ticket};
use crate::writes::Writes;
use crate::{Change, Error};
use active::Active;
use commit::{Journal, Shared};
use parts::Parts;

/// Slots whose pages are brought home without letting others commit.
const AT_ONCE: u32 = 16;

/// Regions by shadow sub-paging. `F` is [`Sound`](flaw::Sound), but in tests of the crash checker.
///
/// A region has two fences, and writes each of its lines once, to a spare page; the line is copied when the
/// spare page is needed for another page. Pools whose regions keep to few pages gain. One thread commits at a
/// time.
#[derive(Debug)]
pub struct Ssp<F: Flaw = flaw::Sound>(PhantomData<F>);

impl<F: Flaw> Atomicity for Ssp<F> {
    const NUMBER: u32 = 6;
    const NAME: &'static str = "ssp";
    type Engine<E: Env> = SspEngine<E, F>;
}

/// The [`Engine`] of [`Ssp`].
pub struct SspEngine<E: Env, F: Flaw> {
    shared: Shared,
    journal: E::Mutex<Journal<F>>,
    /// Looked at under the lock of the journal.
    health: Health<F>,
}

impl<E: Env, F: Flaw> SspEngine<E, F> {
    /// Changes where lines are.
    #[track_caller]
    fn change_places<R>(&self, env: &E, work: impl FnOnce(&mut Journal<F>) -> R) -> R {
        let mut journal = env.lock(&self.journal);
        self.health.check();
        self.health.guard(|| work(&mut journal))
    }

    /// What `load` reads where the word or the piece of a line at `offset` is.
    #[inline]
    #[track_caller]
    fn look<R>(&self, env: &E, offset: u64, mut load: impl FnMut(u64) -> R) -> R {
        match self.shared.active.look(offset, &mut load) {
            Some(found) => found,
            None => {
                let _nobody_moves_it = env.lock(&self.journal);
                load(self.shared.active.place(offset))
            }
        }
    }
}

impl<E: Env, F: Flaw> Engine<E> for SspEngine<E, F> {
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
        let parts = Parts::of(&logs);
        let shared = Shared { logs, parts, active: Active::new(parts) };
        let journal = env.mutex(Journal::new(&shared, recovered.next));
        SspEngine { shared, journal, health: Health::new() }
    }

    #[inline]
    fn begin(&self, _: &E) -> Box<Writes> {
        Writes::take()
    }

    #[inline]
    fn load(&self, env: &E, region: &Box<Writes>, offset: u64) -> u64 {
        let word = || self.look(env, offset, |place| env.space().load_u64(place));
        region.get(offset).unwrap_or_else(word)
    }

    fn read(&self, env: &E, offset: u64, bytes: &mut [u8]) {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let count = rest.len().min((LINE - at % LINE) as usize);
            let (now, later) = rest.split_at_mut(count);
            self.look(env, at, |place| env.space().load(place, now));
            (at, rest) = (at + count as u64, later);
        }
    }

    #[inline]
    fn store(&self, env: &E, region: &mut Box<Writes>, offset: u64, value: u64) -> Result<(), Error> {
        if region.set(offset, value) {
            // The commit copies its line; it is at home most times.
            env.space().prefetch(offset);
        }
        Ok(())
    }

    #[inline]
    fn change(&self, _: &E, region: &mut Box<Writes>, offset: u64, change: Change) -> Result<(), Error> {
        region.push_bits(offset, change);
        Ok(())
    }

    fn commit(&self, env: &E, region: Box<Writes>) -> Result<Ticket, Error> {
        if !region.entries().is_empty() {
            self.change_places(env, |journal| journal.commit(&self.shared, env.space(), region.entries()))?;
        }
        region.put_back();
        Ok(Ticket::DUE)
    }

    crate::due_at_commit!(E);

    fn abort(&self, _: &E, region: Box<Writes>) {
        region.put_back();
    }

    fn set_alone(&self, env: &E, offset: u64, value: u64) -> Result<(), Error> {
        // By a commit, because its line may be in a spare page.
        let mut region = self.begin(env);
        self.store(env, &mut region, offset, value)?;
        self.commit(env, region).map(|_| ())
    }

    fn checkpoint(&self, env: &E) -> Result<(), Error> {
        let slots = self.shared.parts.slots;
        for first in (0..slots).step_by(AT_ONCE as usize) {
            self.change_places(env, |journal| {
                let some = journal.taken(first..slots.min(first + AT_ONCE));
                journal.bring_home(&self.shared, env.space(), &some);
            });
        }
        self.change_places(env, |journal| journal.begin_anew(&self.shared, env.space()));
        Ok(())
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

impl<E: Env, F: Flaw> Consolidate<E> for SspEngine<E, F> {
    fn consolidate(&self, env: &E) -> Result<bool, Error> {
        Ok(self.change_places(env, |journal| journal.keep_free(&self.shared, env.space())))
    }
}

impl<E: Env, F: Flaw> Overflow<E, Box<Writes>> for SspEngine<E, F> {
    #[inline]
    fn overflow_words(&self, region: &Box<Writes>) -> u64 {
        let writes = region.entries();
        if self.shared.takes(writes) { 0 } else { record::length(writes) - 1 }
    }

    fn commit_overflow(&self, env: &E, region: Box<Writes>, extent: &Extent) -> Result<Ticket, Error> {
        let (space, writes) = (env.space(), region.entries());
        self.change_places(env, |journal| journal.commit_long(&self.shared, space, writes, extent))?;
        region.put_back();
        Ok(Ticket::DUE)
    }
}
