//! The seam between regions and the ways to make them failure-atomic.
//!
//! A region is a number of writes of which a crash keeps all or none, and all once it has ended. An [`Atomicity`] is a
//! way to do that. What its [`Engine`] is asked is always the same: to begin a region, to read and write words in it, to commit or abort it, and to
//! bring a pool into order after a crash. Allocator and types stand on top of these words and know nothing else.

#[cfg(test)]
mod contract;
pub mod flaw;
mod health;
mod journal;
mod long;
mod micro;
mod place;
mod record;
mod redo;
mod shadow;
mod ssp;
mod state;
mod undo;
mod unprotected;

use space::{Env, Space};

use crate::{Change, Error};

pub use micro::{MicroBuffer, MicroBufferEngine};
pub use redo::Redo;
pub use shadow::Shadow;
pub use ssp::Ssp;
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

/// Chunks of the heap that serve a commit. Nobody else has them, and no log names what is in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lent {
    /// Where they begin.
    pub chunks: Vec<u64>,
    /// Bytes of each.
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
    /// Lines that lay in another place than their own and were brought home.
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
/// is the program's business, as in all systems that this is held against: two regions that are under way at the same time must not
/// write to the same 8-byte word, nor one read what the other writes, except by [`Engine::change`]. Locks that a region needs are taken before it
/// begins and given up after it ended.
///
/// # Memory that fails
/// panics in a fence. An engine lets no region commit after that, and stores nothing that recovery could take for more than a crash would have left.
pub trait Engine<E: Env>: Sized + Send + Sync {
    /// A region under way.
    type Region;

    /// Whether writes are made in place at once, and what has ended is never done again. Then a block that a region took itself needs nothing to be
    /// remembered of it: it is written where it is and flushed, and the commit waits for it.
    const IN_PLACE: bool;

    /// Whether recovery goes by what may not be durable: a mistake, for tests.
    #[doc(hidden)]
    const NOT_CONFIRMED: bool = false;

    /// Mistakes that the allocator makes with this engine, for tests.
    #[doc(hidden)]
    const HEAP: flaw::HeapFlaw = flaw::HeapFlaw::None;

    /// Brings the pool's words into order after a crash, and empties the logs. May itself be interrupted by a crash, and be run again.
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

    /// Reads the bytes at `offset` outside of any region. An engine that keeps lines elsewhere than in their places looks there.
    #[track_caller]
    #[inline]
    fn read(&self, env: &E, offset: u64, bytes: &mut [u8]) {
        env.space().load(offset, bytes);
    }

    /// Writes the word at `offset`, a multiple of 8 within the pool.
    ///
    /// # Errors
    /// If there is no room to remember it. With [`Error::Full`] nothing has happened, and it can be asked for again after [`Engine::lengthen`]; otherwise
    /// the region must be aborted.
    #[track_caller]
    fn store(&self, env: &E, region: &mut Self::Region, offset: u64, value: u64) -> Result<(), Error>;

    /// Writes words that follow each other, the first at `offset`. For engines that do not write [in place](Engine::IN_PLACE).
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

    /// Takes or gives bits of the word at `offset` and its complement behind it. Each bit is changed by one region at a time, at most once in it; a
    /// word can be changed by several. The region does not see the change.
    ///
    /// # Errors
    /// As [`Engine::store`].
    #[track_caller]
    fn change(&self, env: &E, region: &mut Self::Region, offset: u64, change: Change) -> Result<(), Error>;

    /// Ends a region: when this returns, what it wrote survives and others may see it.
    ///
    /// # Errors
    /// If it can't be; nothing of the region is there then.
    #[track_caller]
    fn commit(&self, env: &E, region: Self::Region) -> Result<(), Error>;

    /// Words that the commit of a region needs room for in chunks beside the engine's logs: 0 if it needs none.
    fn surplus(&self, region: &Self::Region) -> u64 {
        let _ = region;
        0
    }

    /// [`Engine::commit`] with chunks, each of which has room for as many words as fit into it but one. They are used for nothing else until the logs are
    /// settled.
    ///
    /// # Errors
    /// As `commit`.
    #[track_caller]
    fn commit_with(&self, env: &E, region: Self::Region, lent: &Lent) -> Result<(), Error> {
        let _ = lent;
        self.commit(env, region)
    }

    /// Gives a region a chunk to remember more in, when it had no room. For engines that remember while a region writes ([`Engine::IN_PLACE`]).
    #[track_caller]
    fn lengthen(&self, env: &E, region: &mut Self::Region, lent: Lent) {
        let _ = (env, region, lent);
    }

    /// The chunks that [`Engine::lengthen`] gave it. They serve for nothing else before the region has ended.
    #[inline]
    fn lent(&self, region: &mut Self::Region) -> Option<Lent> {
        let _ = region;
        None
    }

    /// Takes back all that the region wrote.
    #[track_caller]
    fn abort(&self, env: &E, region: Self::Region);

    /// Writes one word, durably, that nobody else writes or reads meanwhile. Other regions of the same thread may be under way.
    ///
    /// # Errors
    /// If it can't be; the word is what it was then.
    #[track_caller]
    fn set_alone(&self, env: &E, offset: u64, value: u64) -> Result<(), Error>;

    /// Waits until recovery would have nothing to do to any word that was committed before. Memory that is then written without a region
    /// stays as it is.
    ///
    /// # Errors
    /// If the memory fails.
    #[track_caller]
    fn settle(&self, env: &E) -> Result<(), Error>;

    /// Does ahead some of what commits would have to stop for sooner or later. Whether there is more to do at once. An engine that leaves
    /// all of it to its commits does nothing.
    ///
    /// # Errors
    /// If the memory fails.
    #[track_caller]
    fn consolidate(&self, _env: &E) -> Result<bool, Error> {
        Ok(false)
    }

    /// Whether the engine writes long stretches back past the cache and others through it.
    fn has_threshold(&self) -> bool {
        false
    }

    /// Sets from how many bytes on a stretch is long, if so.
    fn set_threshold(&self, _bytes: u64) {}
}

/// [`Engine::set_alone`] where no log names any word that is not in a region under way: one word is all there or not at all.
#[track_caller]
fn set_in_place<S: Space>(space: &S, offset: u64, value: u64) {
    space.store_u64(offset, value);
    space.persist(offset, 8);
}

/// The name of the engine with that number.
pub(crate) fn name_of(number: u32) -> String {
    match number {
        1 => "redo".to_owned(),
        2 => "undo".to_owned(),
        3 => "none".to_owned(),
        4 => "micro-buffer".to_owned(),
        5 => "shadow".to_owned(),
        6 => "ssp".to_owned(),
        other => format!("engine {other}"),
    }
}
