//! Memory that fails, on any space.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::panicking;

use event::FlushKind;
use space::{Prestore, Space, Word};

/// A space one of whose fences panics.
pub(crate) struct Frail<S> {
    space: S,
    /// Fences that go well before one fails.
    fences: AtomicU64,
    /// Whether none goes well after it, as where a sync has failed. The memory keeps what was stored, and nothing more becomes durable for certain.
    for_good: AtomicBool,
    failed: AtomicBool,
}

impl<S> Frail<S> {
    /// One to which nothing happens for now.
    pub(crate) fn new(space: S) -> Self {
        Frail {
            space,
            fences: AtomicU64::new(u64::MAX),
            for_good: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }
    }

    pub(crate) fn into_inner(self) -> S {
        self.space
    }

    /// So many fences go well, and then one fails, or all do.
    pub(crate) fn fail_after(&self, fences: u64, for_good: bool) {
        self.for_good.store(for_good, Relaxed);
        self.fences.store(fences, Relaxed);
    }

    /// Whether a fence failed.
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Relaxed)
    }
}

impl<S: Space> Space for Frail<S> {
    type Observer = S::Observer;

    fn observer(&self) -> &S::Observer {
        self.space.observer()
    }
    fn len(&self) -> u64 {
        self.space.len()
    }
    fn flush_kind(&self) -> FlushKind {
        self.space.flush_kind()
    }
    #[track_caller]
    fn load_word<W: Word>(&self, offset: u64) -> W {
        self.space.load_word(offset)
    }
    #[track_caller]
    fn store_word<W: Word>(&self, offset: u64, value: W) {
        self.space.store_word(offset, value);
    }
    #[track_caller]
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        self.space.cas_u64(offset, old, new)
    }
    #[track_caller]
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        self.space.store_nt(offset, bytes);
    }
    #[track_caller]
    fn flush(&self, offset: u64, len: u64) {
        self.space.flush(offset, len);
    }
    #[track_caller]
    fn fence(&self) {
        let left = self.fences.load(Relaxed);
        if left != u64::MAX && !(left == 0 && self.for_good.load(Relaxed)) {
            self.fences.store(left.wrapping_sub(1), Relaxed);
        }
        if left > 0 {
            return self.space.fence();
        }
        self.failed.store(true, Relaxed);
        if !panicking() {
            resume_unwind(Box::new("the memory fails"));
        }
    }
    fn has_failed(&self) -> bool {
        self.failed()
    }
    fn prestore(&self, offset: u64, len: u64, hint: Prestore) {
        self.space.prestore(offset, len, hint);
    }
}
