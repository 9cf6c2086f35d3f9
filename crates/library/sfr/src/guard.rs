//! Locks for Rust: acquire and release as guards.

use std::ops::{Deref, DerefMut};

use space::Env;

use crate::Thread;

/// A lock in ordinary memory whose holders' SFRs are ordered. Made by [`crate::Pool::lock`].
pub struct Lock<E: Env> {
    object: u64,
    mutex: E::Mutex<()>,
}

impl<E: Env> Lock<E> {
    pub(crate) fn new(env: &E, object: u64) -> Self {
        Lock { object, mutex: env.mutex(()) }
    }
}

/// A held [`Lock`], and the thread that holds it: stores go through it. Dropping it ends the SFR and gives
/// the lock up. Further locks are taken through it, and given up before it.
pub struct Section<'t, 'p, 'e, E: Env> {
    thread: &'t mut Thread<'p, 'e, E>,
    object: u64,
    _held: E::MutexGuard<'t, ()>,
}

impl<'p, 'e, E: Env> Thread<'p, 'e, E> {
    /// Waits for a lock and takes it.
    pub fn enter<'t>(&'t mut self, lock: &'t Lock<E>) -> Section<'t, 'p, 'e, E> {
        let held = self.pool.env.lock(&lock.mutex);
        self.lock(lock.object);
        Section { thread: self, object: lock.object, _held: held }
    }
}

impl<'p, 'e, E: Env> Deref for Section<'_, 'p, 'e, E> {
    type Target = Thread<'p, 'e, E>;

    fn deref(&self) -> &Thread<'p, 'e, E> {
        self.thread
    }
}

impl<E: Env> DerefMut for Section<'_, '_, '_, E> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.thread
    }
}

impl<E: Env> Drop for Section<'_, '_, '_, E> {
    fn drop(&mut self) {
        // A region that panics is not ended: its thread's log keeps it for recovery.
        if !std::thread::panicking() {
            self.thread.unlock(self.object);
        }
    }
}
