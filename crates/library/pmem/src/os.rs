//! `Os`: the environment of a real run.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::panic::resume_unwind;
use std::sync::{self, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::rand::{GetRandomFlags, getrandom};
use space::{Env, Observer, Space};

use crate::latch::{Raw, thread_number};

/// The operating system's locks, threads, clock and randomness around a space.
#[derive(Debug)]
pub struct Os<S> {
    space: S,
    start: Instant,
}

impl<S: Space> Os<S> {
    /// An environment whose clock starts now.
    pub fn new(space: S) -> Self {
        Os { space, start: Instant::now() }
    }
}

/// The mutex of [`Os`].
#[derive(Debug)]
pub struct OsMutex<T> {
    number: u64,
    inner: sync::Mutex<T>,
}

/// The latch of [`Os`].
pub struct OsLatch<T> {
    number: u64,
    inner: lock_api::Mutex<Raw, T>,
}

/// The readers-writer lock of [`Os`].
#[derive(Debug)]
pub struct OsRwLock<T> {
    number: u64,
    inner: sync::RwLock<T>,
}

/// A held lock of [`Os`]: the standard library's guard `G`, and who has to hear of its end.
///
/// Fields are dropped in this order: the release is recorded before the lock is released.
#[derive(Debug)]
pub struct Guard<'a, G, O: Observer> {
    reported: Reported<'a, O>,
    guard: G,
}

/// Tells the end of a held lock.
#[derive(Debug)]
struct Reported<'a, O: Observer> {
    number: u64,
    observer: &'a O,
}

impl<G: Deref, O: Observer> Deref for Guard<'_, G, O> {
    type Target = G::Target;
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut, O: Observer> DerefMut for Guard<'_, G, O> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

impl<O: Observer> Drop for Reported<'_, O> {
    fn drop(&mut self) {
        self.observer.unlocking(self.number);
    }
}

/// Tells the end of a thread, also when it panics.
struct Ending<'a, O: Observer>(&'a O);

impl<O: Observer> Drop for Ending<'_, O> {
    fn drop(&mut self) {
        self.0.thread_ending();
    }
}

impl<S: Space> Os<S> {
    /// Tells that a lock was obtained, and makes its guard.
    #[track_caller]
    fn guarded<G>(&self, number: u64, shared: bool, guard: G) -> Guard<'_, G, S::Observer> {
        let observer = self.space.observer();
        observer.locked(number, shared);
        Guard { reported: Reported { number, observer }, guard }
    }
}

impl<S: Space> Env for Os<S> {
    type Space = S;
    type Base = S;
    type Mutex<T: Send> = OsMutex<T>;
    type MutexGuard<'a, T: Send + 'a>
        = Guard<'a, sync::MutexGuard<'a, T>, S::Observer>
    where
        Self: 'a;
    type Latch<T: Send> = OsLatch<T>;
    type LatchGuard<'a, T: Send + 'a>
        = Guard<'a, lock_api::MutexGuard<'a, Raw, T>, S::Observer>
    where
        Self: 'a;
    type RwLock<T: Send + Sync> = OsRwLock<T>;
    type ReadGuard<'a, T: Send + Sync + 'a>
        = Guard<'a, sync::RwLockReadGuard<'a, T>, S::Observer>
    where
        Self: 'a;
    type WriteGuard<'a, T: Send + Sync + 'a>
        = Guard<'a, sync::RwLockWriteGuard<'a, T>, S::Observer>
    where
        Self: 'a;
    type Condvar = sync::Condvar;

    #[inline(always)]
    fn space(&self) -> &S {
        &self.space
    }

    fn into_space(self) -> S {
        self.space
    }

    fn mutex<T: Send>(&self, value: T) -> OsMutex<T> {
        OsMutex { number: self.space.observer().new_lock(), inner: sync::Mutex::new(value) }
    }

    #[track_caller]
    fn lock<'a, T: Send>(&'a self, mutex: &'a OsMutex<T>) -> Self::MutexGuard<'a, T> {
        let guard = mutex.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.guarded(mutex.number, false, guard)
    }

    fn latch<T: Send>(&self, value: T) -> OsLatch<T> {
        OsLatch { number: self.space.observer().new_lock(), inner: lock_api::Mutex::new(value) }
    }

    #[inline]
    #[track_caller]
    fn hold<'a, T: Send>(&'a self, latch: &'a OsLatch<T>) -> Self::LatchGuard<'a, T> {
        self.guarded(latch.number, false, latch.inner.lock())
    }

    fn rw_lock<T: Send + Sync>(&self, value: T) -> OsRwLock<T> {
        OsRwLock { number: self.space.observer().new_lock(), inner: sync::RwLock::new(value) }
    }

    #[track_caller]
    fn read<'a, T: Send + Sync>(&'a self, lock: &'a OsRwLock<T>) -> Self::ReadGuard<'a, T> {
        let guard = lock.inner.read().unwrap_or_else(PoisonError::into_inner);
        self.guarded(lock.number, true, guard)
    }

    #[track_caller]
    fn write<'a, T: Send + Sync>(&'a self, lock: &'a OsRwLock<T>) -> Self::WriteGuard<'a, T> {
        let guard = lock.inner.write().unwrap_or_else(PoisonError::into_inner);
        self.guarded(lock.number, false, guard)
    }

    fn condvar(&self) -> sync::Condvar {
        sync::Condvar::new()
    }

    #[track_caller]
    fn wait<'a, T: Send>(
        &'a self,
        condvar: &sync::Condvar,
        guard: Self::MutexGuard<'a, T>,
    ) -> Self::MutexGuard<'a, T> {
        let Guard { reported, guard } = guard;
        let number = reported.number;
        // Recorded here and not by the drop, so that the event has the caller's line.
        mem::forget(reported);
        self.space.observer().unlocking(number);
        let guard = condvar.wait(guard).unwrap_or_else(PoisonError::into_inner);
        self.guarded(number, false, guard)
    }

    fn notify_one(&self, condvar: &sync::Condvar) {
        condvar.notify_one();
    }

    fn notify_all(&self, condvar: &sync::Condvar) {
        condvar.notify_all();
    }

    #[track_caller]
    fn threads(&self, count: u32, body: impl Fn(u32) + Sync) {
        let (observer, body) = (self.space.observer(), &body);
        let panicked = thread::scope(|scope| {
            let start = |index| {
                let child = observer.spawning();
                let handle = scope.spawn(move || {
                    observer.thread_started(child);
                    let _ending = Ending(observer);
                    body(index);
                });
                (child, handle)
            };
            let children: Vec<_> = (0..count).map(start).collect();
            let mut panicked = None;
            for (child, handle) in children {
                panicked = panicked.or(handle.join().err());
                observer.joined(child);
            }
            panicked
        });
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
    }

    #[inline]
    fn thread_number(&self) -> u32 {
        // From 0, and at last around.
        (thread_number() - 1) as u32
    }

    fn now_ns(&self) -> u64 {
        self.space.observer().clock_read();
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        let got = getrandom(&mut bytes, GetRandomFlags::empty());
        assert_eq!(got.ok(), Some(bytes.len()), "the kernel gives up to 256 random bytes without fail");
        u64::from_ne_bytes(bytes)
    }
}
