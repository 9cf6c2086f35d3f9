//! Memory that fails, and a process that is killed, on any space.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::panicking;

use event::FlushKind;
use space::{Prestore, Space, Word};

/// A space one of whose fences panics, or which one day changes no more.
pub(crate) struct Frail<S> {
    space: S,
    /// Fences that go well before one fails.
    fences: AtomicU64,
    /// Whether none goes well after it, as where a sync has failed. The memory keeps what was stored, and
    /// nothing more becomes durable for certain.
    for_good: AtomicBool,
    failed: AtomicBool,
    /// Stores, flushes and fences before the process is dead.
    changes: AtomicU64,
    dead: AtomicBool,
    fence_writes: bool,
}

impl<S> Frail<S> {
    /// One to which nothing happens for now.
    pub(crate) fn new(space: S) -> Self {
        Frail {
            space,
            fences: AtomicU64::new(u64::MAX),
            for_good: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            changes: AtomicU64::new(u64::MAX),
            dead: AtomicBool::new(false),
            fence_writes: false,
        }
    }

    /// One that says of itself that its fences write, as those of a synced file.
    pub(crate) fn of_file(space: S) -> Self {
        Frail { fence_writes: true, ..Frail::new(space) }
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

    /// So many stores, flushes and fences happen, and then the process is dead: whatever it still does has no
    /// effect.
    pub(crate) fn kill_after(&self, changes: u64) {
        self.changes.store(changes, Relaxed);
    }

    /// Whether it is dead.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    /// Another process begins.
    pub(crate) fn revive(&self) {
        self.changes.store(u64::MAX, Relaxed);
        self.dead.store(false, Relaxed);
    }

    /// Whether a change happens. A thread of a dead process ends.
    fn lives(&self) -> bool {
        match self.changes.load(Relaxed) {
            u64::MAX => return true,
            0 => self.dead.store(true, Relaxed),
            left => self.changes.store(left - 1, Relaxed),
        }
        if self.is_dead() && !panicking() {
            resume_unwind(Box::new("killed"));
        }
        !self.is_dead()
    }
}

impl<S: Space> Space for Frail<S> {
    type Observer = S::Observer;

    fn fence_writes(&self) -> bool {
        self.fence_writes || self.space.fence_writes()
    }
    fn nt_is_sooner(&self) -> bool {
        self.space.nt_is_sooner()
    }
    fn has_failed(&self) -> bool {
        self.failed() || self.space.has_failed()
    }
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
        if self.lives() {
            self.space.store_word(offset, value);
        }
    }
    #[track_caller]
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        if self.lives() { self.space.cas_u64(offset, old, new) } else { Ok(old) }
    }
    #[track_caller]
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        if self.lives() {
            self.space.store_nt(offset, bytes);
        }
    }
    #[track_caller]
    fn flush(&self, offset: u64, len: u64) {
        if self.lives() {
            self.space.flush(offset, len);
        }
    }
    #[track_caller]
    fn fence(&self) {
        if !self.lives() {
            return;
        }
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
    fn prestore(&self, offset: u64, len: u64, hint: Prestore) {
        self.space.prestore(offset, len, hint);
    }
}
