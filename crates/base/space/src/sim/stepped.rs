//! `Stepped`: a space on which each access is a step that the scheduler knows of.

use event::FlushKind;

use super::scheduler::Scheduler;
use crate::{Prestore, Space, Word};

/// The space of a [`super::Sim`]: before an access another thread may go on; the access itself is never
/// interrupted.
#[derive(Debug)]
pub struct Stepped<S> {
    space: S,
    pub(super) scheduler: Scheduler,
}

impl<S: Space> Stepped<S> {
    pub(super) fn new(space: S, scheduler: Scheduler) -> Self {
        Stepped { space, scheduler }
    }

    /// The space within. What is done to it directly is no step.
    pub fn inner(&self) -> &S {
        &self.space
    }

    pub(super) fn into_inner(self) -> S {
        self.space
    }

    #[inline(always)]
    #[track_caller]
    fn step(&self) {
        self.scheduler.access(self.space.observer());
    }
}

impl<S: Space> Space for Stepped<S> {
    type Observer = S::Observer;

    #[inline(always)]
    fn observer(&self) -> &S::Observer {
        self.space.observer()
    }

    #[inline(always)]
    fn len(&self) -> u64 {
        self.space.len()
    }

    #[inline(always)]
    fn flush_kind(&self) -> FlushKind {
        self.space.flush_kind()
    }

    #[inline]
    #[track_caller]
    fn load_word<W: Word>(&self, offset: u64) -> W {
        self.step();
        self.space.load_word(offset)
    }

    #[inline]
    #[track_caller]
    fn store_word<W: Word>(&self, offset: u64, value: W) {
        self.step();
        self.space.store_word(offset, value);
    }

    /// One that fails will be tried again, and would fail for ever if nobody else went on: others do first.
    #[inline]
    #[track_caller]
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        self.step();
        let result = self.space.cas_u64(offset, old, new);
        if result.is_err() {
            self.scheduler.yields(self.space.observer(), std::panic::Location::caller());
        }
        result
    }

    #[inline]
    #[track_caller]
    fn load(&self, offset: u64, bytes: &mut [u8]) {
        self.step();
        self.space.load(offset, bytes);
    }

    #[inline]
    #[track_caller]
    fn store(&self, offset: u64, bytes: &[u8]) {
        self.step();
        self.space.store(offset, bytes);
    }

    #[inline]
    #[track_caller]
    fn copy(&self, src: u64, dst: u64, len: u64) {
        self.step();
        self.space.copy(src, dst, len);
    }

    #[inline]
    #[track_caller]
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        self.step();
        self.space.store_nt(offset, bytes);
    }

    #[inline]
    #[track_caller]
    fn flush(&self, offset: u64, len: u64) {
        self.step();
        self.space.flush(offset, len);
    }

    #[inline]
    #[track_caller]
    fn fence(&self) {
        self.step();
        self.space.fence();
    }

    #[inline(always)]
    fn fence_writes(&self) -> bool {
        self.space.fence_writes()
    }

    #[inline(always)]
    fn nt_is_sooner(&self) -> bool {
        self.space.nt_is_sooner()
    }

    #[inline(always)]
    fn has_failed(&self) -> bool {
        self.space.has_failed()
    }

    #[inline]
    #[track_caller]
    fn prestore(&self, offset: u64, len: u64, hint: Prestore) {
        self.step();
        self.space.prestore(offset, len, hint);
    }

    fn prefetch(&self, offset: u64) {
        self.space.prefetch(offset);
    }
}
