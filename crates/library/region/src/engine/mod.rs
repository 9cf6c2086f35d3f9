//! The seam between regions and the ways to make them failure-atomic.
//!
//! A crash keeps all writes of a failure-atomic region or none of them. An [`Atomicity`] names a way to do
//! that; its [`Engine`] does it. An engine begins a region, reads and writes words in it, commits or aborts
//! it, and recovers a pool after a crash. Allocator and types build on these words alone.
//!
//! # Committed is not yet durable
//! [`Engine::commit`] returns a [`Ticket`]. The region's writes are visible from then on, and durable once
//! the ticket is *due*: [`Engine::wait`] waits for one ticket, [`Engine::sync`] for all. After a crash a
//! prefix of the commit order survives, and every region whose ticket was due. A synchronous engine returns
//! [`Ticket::DUE`] and takes the three methods from [`due_at_commit!`](crate::due_at_commit).
//!
//! # What only some engines offer
//! is a trait of its own, reached by an accessor of [`Engine`] that returns `None` by default: [`Overflow`]
//! and [`ExtendLog`] for regions that are longer than a log, [`Consolidate`] for work in the background,
//! [`WriteBackThreshold`] for a parameter of the write-back. Accessors return a concrete type, so a call
//! through one is static.

pub mod flaw;
mod group;
mod health;
pub mod journal;
mod list;
pub mod long;
mod micro;
mod optional;
pub mod place;
mod record;
mod redo;
mod shadow;
mod ssp;
mod state;
mod ticket;
mod undo;
mod unprotected;

use space::{Env, Space};

use crate::{Change, Error};

pub use group::Group;
pub(crate) use list::name_of;
pub use list::{ENGINES, EngineInfo};
pub use micro::{MicroBuffer, MicroBufferEngine};
use optional::Without;
pub use optional::{Consolidate, ExtendLog, Overflow, WriteBackThreshold};
pub use redo::Redo;
pub use shadow::Shadow;
pub use ssp::Ssp;
#[cfg(test)]
pub(crate) use state::NUMBERS;
pub use ticket::Ticket;
pub use undo::Undo;
pub use unprotected::Unprotected;

/// Where a pool's logs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logs {
    /// Offset of the first one.
    pub base: u64,
    /// How many there are.
    pub count: u32,
    /// Bytes of each, a multiple of a line.
    pub bytes: u64,
    /// Offset of a word for the engine's own state, a line of its own.
    pub state: u64,
    /// Bytes of the pool: no word lies behind.
    pub end: u64,
}

impl Logs {
    /// Where each log begins.
    pub fn starts(&self) -> impl Iterator<Item = u64> + use<> {
        let Logs { base, bytes, count, .. } = *self;
        (0..u64::from(count)).map(move |number| base + number * bytes)
    }
}

/// An overflow extent: chunks of the heap that continue a log. No block lies in them, and no log names a word
/// of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset of each chunk.
    pub chunks: Vec<u64>,
    /// Bytes of each chunk.
    pub chunk_bytes: u64,
}

/// What recovery found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Committed regions whose writes were done (again).
    pub replayed: u64,
    /// Regions that were under way, and whose writes were taken back.
    pub undone: u64,
    /// Lines of logs that a crash left half written.
    pub torn_lines: u64,
    /// Lines that were at another offset than their own and were moved home.
    pub moved_lines: u64,
    /// The number of the next region.
    pub next: u64,
}

impl Recovered {
    /// Whether the pool was as a program leaves it that closes it.
    #[must_use]
    pub fn was_clean(&self) -> bool {
        self.replayed == 0 && self.undone == 0 && self.torn_lines == 0 && self.moved_lines == 0
    }
}

/// A way to make regions failure-atomic, named by a type such as [`Redo`].
pub trait Atomicity: 'static {
    /// Names it in a pool's header.
    const NUMBER: u32;
    /// Its name.
    const NAME: &'static str;
    /// What does it, in an environment.
    type Engine<E: Env>: Engine<E>;
}

/// What makes the regions of an open pool failure-atomic.
///
/// # Isolation
/// is the program's business, as in all systems that this is held against: two regions that are under way at
/// the same time must not write to the same 8-byte word, nor one read what the other writes, except by
/// [`Engine::change`]. Locks that a region needs are taken before it begins and given up after it ended.
///
/// # Memory that fails
/// panics in a fence. An engine lets no region commit after that, and stores nothing that recovery could take
/// for more than a crash would have left.
pub trait Engine<E: Env>: Sized + Send + Sync {
    /// A region under way.
    type Region;

    /// Whether a region writes in place at once, and recovery never repeats a committed region. A block that
    /// the region allocated is then written in place without a log, and the commit flushes it. Blocks that a
    /// region frees are allocated again once it is committed, so such an engine has to make a commit durable
    /// before it returns.
    const IN_PLACE: bool;

    /// Whether recovery goes by what may not be durable: a mistake, for tests.
    #[doc(hidden)]
    const NOT_CONFIRMED: bool = false;

    /// Mistakes that the allocator makes with this engine, for tests.
    #[doc(hidden)]
    const HEAP: flaw::HeapFlaw = flaw::HeapFlaw::None;

    /// Brings the pool's words into order after a crash, and empties the logs. May itself be interrupted by a
    /// crash, and be run again.
    ///
    /// # Errors
    /// If a log is damaged; nothing was changed then.
    fn recover(space: &E::Space, logs: &Logs) -> Result<Recovered, Error>;

    /// An engine for a pool that was recovered.
    fn new(env: &E, logs: Logs, recovered: &Recovered) -> Self;

    /// Begins a region.
    fn begin(&self, env: &E) -> Self::Region;

    /// The word at `offset` as the region sees it.
    #[track_caller]
    fn load(&self, env: &E, region: &Self::Region, offset: u64) -> u64;

    /// Reads the bytes at `offset` outside of any region. An engine that keeps committed words elsewhere
    /// looks there first.
    #[track_caller]
    #[inline]
    fn read(&self, env: &E, offset: u64, bytes: &mut [u8]) {
        env.space().load(offset, bytes);
    }

    /// Writes the word at `offset`, a multiple of 8 within the pool.
    ///
    /// # Errors
    /// If there is no room to log it. After [`Error::Full`] nothing has changed, and the call can be repeated
    /// after [`ExtendLog::extend_log`]; otherwise the region must be aborted.
    #[track_caller]
    fn store(&self, env: &E, region: &mut Self::Region, offset: u64, value: u64) -> Result<(), Error>;

    /// Writes words that follow each other, the first at `offset`. For engines that do not write [in
    /// place](Engine::IN_PLACE).
    ///
    /// # Errors
    /// If there is no room to remember them all; the region must be aborted then.
    #[track_caller]
    #[inline]
    fn store_run(
        &self,
        env: &E,
        region: &mut Self::Region,
        offset: u64,
        words: &[[u8; 8]],
    ) -> Result<(), Error> {
        let mut words = (offset..).step_by(8).zip(words);
        words.try_for_each(|(at, word)| self.store(env, region, at, u64::from_le_bytes(*word)))
    }

    /// Takes or gives bits of the word at `offset` and its complement behind it. Each bit is changed by one
    /// region at a time, at most once in it; a word can be changed by several. The region does not see the
    /// change.
    ///
    /// # Errors
    /// As [`Engine::store`].
    #[track_caller]
    fn change(&self, env: &E, region: &mut Self::Region, offset: u64, change: Change) -> Result<(), Error>;

    /// Commits a region: its writes are visible to others from now on, and survive a crash once the ticket is
    /// due. Tickets rise in commit order.
    ///
    /// # Errors
    /// If it can't be; nothing of the region is there then.
    #[track_caller]
    fn commit(&self, env: &E, region: Self::Region) -> Result<Ticket, Error>;

    /// Whether the region of that ticket, and each that was committed before it, is durable.
    fn is_due(&self, env: &E, ticket: Ticket) -> bool;

    /// Makes the region of that ticket durable, and each that was committed before it.
    ///
    /// # Errors
    /// If it can't be.
    #[track_caller]
    fn wait(&self, env: &E, ticket: Ticket) -> Result<(), Error>;

    /// Makes every region durable that was committed before the call.
    ///
    /// # Errors
    /// As [`Engine::wait`].
    #[track_caller]
    fn sync(&self, env: &E) -> Result<(), Error>;

    /// Takes back all that the region wrote.
    #[track_caller]
    fn abort(&self, env: &E, region: Self::Region);

    /// Writes one word, durably, that nobody else writes or reads meanwhile. Other regions of the same thread
    /// may be under way.
    ///
    /// # Errors
    /// If it can't be; the word is what it was then.
    #[track_caller]
    fn set_alone(&self, env: &E, offset: u64, value: u64) -> Result<(), Error>;

    /// Makes every committed region durable in place, so that recovery would change no word of it. Memory
    /// that is then written without a region stays as it is.
    ///
    /// # Errors
    /// If the memory fails.
    #[track_caller]
    fn checkpoint(&self, env: &E) -> Result<(), Error>;

    /// How the engine commits regions that are longer than a log.
    #[inline(always)]
    fn overflow(&self) -> Option<&impl Overflow<E, Self::Region>> {
        None::<&Without>
    }

    /// How the engine extends the log of a region under way.
    #[inline(always)]
    fn extension(&self) -> Option<&impl ExtendLog<E, Self::Region>> {
        None::<&Without>
    }

    /// What the engine does ahead of its commits.
    #[inline(always)]
    fn consolidation(&self) -> Option<&impl Consolidate<E>> {
        None::<&Without>
    }

    /// The engine's threshold between two ways to write back.
    #[inline(always)]
    fn write_back_threshold(&self) -> Option<&impl WriteBackThreshold> {
        None::<&Without>
    }
}

/// [`Engine::set_alone`] where no log names any word that is not in a region under way: one word is all there
/// or not at all.
#[track_caller]
fn set_in_place<S: Space>(space: &S, offset: u64, value: u64) {
    space.store_u64(offset, value);
    space.persist(offset, 8);
}
