//! `Synced`: a space whose fences reach the disk.

mod commit;

use std::io;
use std::ops::Range;
use std::thread;

use event::FlushKind;
use persistency::Domain;
use rustix::io::Errno;
use space::{Prestore, Space, Word, check_range};

use crate::isa;
use crate::mapped::{MapError, Mapped};
use commit::Group;

/// A [`Mapped`] on which the contract of [`Space`] holds for power loss, also where the page cache lies between memory
/// and disk.
///
/// There, a flush only notes what it covers, and a fence has the disk write all that was noted, with *one* sync of the
/// smallest range that holds it. Pages in between that were stored to, but not flushed, are written along; keep near
/// each other what is made durable together. Threads that wait for a fence at the same time share one sync. On persistent
/// memory, where durability is forced, and on volatile memory, flushes and fences are the bare instructions.
///
/// # When a sync fails
/// Then nobody knows what the disk has of the pages that it should have written; the system takes them for clean, so that
/// a later sync would succeed without them. So from the first failure on no fence succeeds: [`Space::fence`] panics
/// (except in a thread that panics already), [`Synced::try_fence`] and [`Synced::failed`] say why. Close the space and
/// recover from what the disk has; until the pages have left the page cache, reading the file may show what the disk lacks.
#[derive(Debug)]
pub struct Synced {
    memory: Mapped,
    /// None where instructions suffice.
    group: Option<Group>,
}

impl Synced {
    /// A space over `memory`.
    #[must_use]
    pub fn new(memory: Mapped) -> Synced {
        let group = (memory.durability().domain == Domain::Sync).then(Group::new);
        Synced { memory, group }
    }

    /// What is below.
    #[must_use]
    pub fn memory(&self) -> &Mapped {
        &self.memory
    }

    /// Gives back what is below. Nothing is synced.
    #[must_use]
    pub fn into_inner(self) -> Mapped {
        self.memory
    }

    /// How many syncs the fences have caused so far.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.group.as_ref().map_or(0, Group::syncs)
    }

    /// Why fences no longer succeed, if they do not.
    #[must_use]
    pub fn failed(&self) -> Option<MapError> {
        self.group.as_ref().and_then(Group::failed).map(|errno| self.error(errno))
    }

    /// [`Space::fence`] with an error in place of a panic.
    ///
    /// # Errors
    /// [`MapError::Sync`] if a sync fails, or failed before. What was stored since the last success may be lost.
    pub fn try_fence(&self) -> Result<(), MapError> {
        let Some(group) = &self.group else {
            self.memory.fence();
            return Ok(());
        };
        // Non-temporal stores are on their way until a fence.
        isa::fence();
        group.fence(|range| self.memory.sync_range(range)).map_err(|errno| self.error(errno))
    }

    /// Makes all of the file durable as it reads. What a process wrote that was killed is read as if it were there to stay, and is not; who goes by what is
    /// in a file asks for this first.
    ///
    /// # Errors
    /// As [`Synced::try_fence`].
    pub fn confirm(&self) -> Result<(), MapError> {
        if self.group.is_some() {
            self.flush(0, self.len());
        }
        self.try_fence()
    }

    /// As [`Mapped::grow`].
    ///
    /// # Errors
    /// As [`Mapped::grow`]. If the error is [`MapError::Sync`], no fence succeeds afterwards.
    pub fn grow(&self, len: u64) -> Result<(), MapError> {
        self.heed(self.memory.grow(len))
    }

    /// As [`Mapped::prefault`]. Worth its time before a log is written for the first time: the first sync of blocks that
    /// were only reserved has the file system write down, too, that they are in use now.
    ///
    /// # Errors
    /// As [`Mapped::prefault`]. If the error is [`MapError::Sync`], no fence succeeds afterwards.
    pub fn prefault(&self, offset: u64, len: u64) -> Result<(), MapError> {
        self.heed(self.memory.prefault(offset, len))
    }

    /// The system reports a failed sync once, to the caller that asked for it; from then on fences must not succeed either.
    fn heed(&self, result: Result<(), MapError>) -> Result<(), MapError> {
        if let (Err(MapError::Sync { source, .. }), Some(group)) = (&result, &self.group) {
            group.fail(Errno::from_io_error(source).unwrap_or(Errno::IO));
        }
        result
    }

    fn error(&self, errno: Errno) -> MapError {
        MapError::Sync { path: self.memory.path().to_owned(), source: io::Error::from(errno) }
    }

    /// Has the next sync cover the bytes, if it takes one.
    #[inline(always)]
    fn note(&self, range: Range<u64>) {
        if let Some(group) = &self.group
            && !range.is_empty()
        {
            group.note(range);
        }
    }
}

impl Space for Synced {
    type Observer = ();

    #[inline(always)]
    fn observer(&self) -> &() {
        &()
    }

    #[inline(always)]
    fn len(&self) -> u64 {
        self.memory.len()
    }

    #[inline(always)]
    fn flush_kind(&self) -> FlushKind {
        self.memory.flush_kind()
    }

    #[inline(always)]
    #[track_caller]
    fn load_word<W: Word>(&self, offset: u64) -> W {
        self.memory.load_word(offset)
    }

    #[inline(always)]
    #[track_caller]
    fn store_word<W: Word>(&self, offset: u64, value: W) {
        self.memory.store_word(offset, value);
    }

    #[inline(always)]
    #[track_caller]
    fn store_words(&self, offset: u64, words: &[u64]) {
        self.memory.store_words(offset, words);
    }

    #[inline(always)]
    #[track_caller]
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        self.memory.cas_u64(offset, old, new)
    }

    #[inline(always)]
    #[track_caller]
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        self.memory.store_nt(offset, bytes);
        self.note(offset..offset + bytes.len() as u64);
    }

    #[inline(always)]
    #[track_caller]
    fn flush(&self, offset: u64, len: u64) {
        if self.group.is_none() {
            return self.memory.flush(offset, len);
        }
        check_range(self.len(), offset, len);
        self.note(offset..offset + len);
    }

    #[inline(always)]
    #[track_caller]
    fn fence(&self) {
        if self.group.is_none() {
            return self.memory.fence();
        }
        match self.try_fence() {
            // A second panic would end the process before the first is reported.
            Err(error) if !thread::panicking() => panic!("{error}"),
            _ => {}
        }
    }

    #[inline(always)]
    fn fence_writes(&self) -> bool {
        self.group.is_some()
    }

    #[inline(always)]
    fn nt_is_sooner(&self) -> bool {
        // What a sync waits for is the disk.
        self.group.is_none() && self.memory.nt_is_sooner()
    }

    #[inline(always)]
    fn has_failed(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.failed().is_some())
    }

    #[inline(always)]
    #[track_caller]
    fn prestore(&self, offset: u64, len: u64, hint: Prestore) {
        self.memory.prestore(offset, len, hint);
    }

    #[inline(always)]
    fn prefetch(&self, offset: u64) {
        self.memory.prefetch(offset);
    }
}
