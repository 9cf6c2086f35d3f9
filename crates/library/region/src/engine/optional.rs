//! What only some engines offer, a trait each. An engine hands it out by an accessor of
//! [`Engine`](super::Engine).

use space::Env;

use super::{Extent, Ticket};
use crate::Error;

/// Commits regions that are longer than a log: their record continues in an overflow extent.
pub trait Overflow<E: Env, R> {
    /// Words of the region for which its log has no room: 0 if it fits.
    fn overflow_words(&self, region: &R) -> u64;

    /// As [`Engine::commit`](super::Engine::commit), with an extent each chunk of which has room for as many
    /// words as fit into it but one. No chunk of it is used for anything else before the next checkpoint.
    ///
    /// # Errors
    /// As `commit`.
    #[track_caller]
    fn commit_overflow(&self, env: &E, region: R, extent: &Extent) -> Result<Ticket, Error>;
}

/// Extends the log of a region under way. For engines that log while a region writes
/// ([`Engine::IN_PLACE`](super::Engine::IN_PLACE)).
pub trait ExtendLog<E: Env, R> {
    /// Continues the region's log in an extent of one chunk, after [`Error::Full`].
    #[track_caller]
    fn extend_log(&self, env: &E, region: &mut R, extent: Extent);

    /// Takes out all that [`ExtendLog::extend_log`] added. No chunk of it is used for anything else before
    /// the region has ended.
    fn take_extent(&self, region: &mut R) -> Option<Extent>;
}

/// Work that commits would have to stop for sooner or later, done ahead by a thread of the program's.
pub trait Consolidate<E: Env> {
    /// Does a little of it. Whether there is more to do at once.
    ///
    /// # Errors
    /// If the memory fails.
    #[track_caller]
    fn consolidate(&self, env: &E) -> Result<bool, Error>;
}

/// A threshold between write-back by stores and flushes, and by non-temporal stores.
pub trait WriteBackThreshold {
    /// Sets from how many bytes on a stretch of lines is written back by non-temporal stores.
    fn set_threshold(&self, bytes: u64);
}

/// The type of an accessor's `None`: no value of it exists.
pub(super) enum Without {}

impl<E: Env, R> Overflow<E, R> for Without {
    fn overflow_words(&self, _: &R) -> u64 {
        match *self {}
    }

    fn commit_overflow(&self, _: &E, _: R, _: &Extent) -> Result<Ticket, Error> {
        match *self {}
    }
}

impl<E: Env, R> ExtendLog<E, R> for Without {
    fn extend_log(&self, _: &E, _: &mut R, _: Extent) {
        match *self {}
    }

    fn take_extent(&self, _: &mut R) -> Option<Extent> {
        match *self {}
    }
}

impl<E: Env> Consolidate<E> for Without {
    fn consolidate(&self, _: &E) -> Result<bool, Error> {
        match *self {}
    }
}

impl WriteBackThreshold for Without {
    fn set_threshold(&self, _: u64) {
        match *self {}
    }
}
