//! `Env`: a space and the rest of the world that a structure may touch.

use std::ops::{Deref, DerefMut};

use crate::Space;

/// A space with its locks, threads, clock and randomness.
///
/// A structure that is generic over `Env` takes everything it needs from here and nothing from `std::thread`,
/// `std::sync` or `std::time`. So a seeded environment can decide which thread runs next and repeat the
/// run. The environment reports each lock, thread and clock read to the space's [`crate::Observer`].
///
/// Locks are made by the environment and operated through it (`env.lock(&mutex)`), so that a lock needs no
/// way back to its environment, and a structure that holds one has no lifetime.
pub trait Env: Sync {
    /// The memory as a program sees it.
    type Space: Space;
    /// The memory that the environment was made around; an environment may put something before it.
    type Base: Space;
    /// A mutual exclusion lock around a `T`.
    type Mutex<T: Send>: Send + Sync;
    /// Proof of holding a [`Env::Mutex`]; gives it up when dropped.
    type MutexGuard<'a, T: Send + 'a>: DerefMut<Target = T>
    where
        Self: 'a;
    /// A mutual exclusion lock for a moment: held over a few instructions and at most a fence, never while
    /// its holder waits for another thread (but a fence that is a sync may be another thread's). A thread
    /// that uses it alone takes it and gives it up with plain stores, so that the processor need not wait
    /// until earlier stores are done.
    type Latch<T: Send>: Send + Sync;
    /// Proof of holding a [`Env::Latch`]; gives it up when dropped.
    type LatchGuard<'a, T: Send + 'a>: DerefMut<Target = T>
    where
        Self: 'a;
    /// A lock around a `T` that any number of readers or one writer can hold.
    type RwLock<T: Send + Sync>: Send + Sync;
    /// Proof of holding a [`Env::RwLock`] for reading.
    type ReadGuard<'a, T: Send + Sync + 'a>: Deref<Target = T>
    where
        Self: 'a;
    /// Proof of holding a [`Env::RwLock`] for writing.
    type WriteGuard<'a, T: Send + Sync + 'a>: DerefMut<Target = T>
    where
        Self: 'a;
    /// A condition variable: where threads that hold a mutex wait for what others do under it.
    type Condvar: Send + Sync;

    /// The memory.
    fn space(&self) -> &Self::Space;

    /// Ends the environment and gives the memory back.
    fn into_space(self) -> Self::Base
    where
        Self: Sized;

    /// A mutex.
    #[track_caller]
    fn mutex<T: Send>(&self, value: T) -> Self::Mutex<T>;

    /// Waits for the mutex and takes it. A thread that panicked while it held the mutex does not keep others
    /// out.
    #[track_caller]
    fn lock<'a, T: Send>(&'a self, mutex: &'a Self::Mutex<T>) -> Self::MutexGuard<'a, T>;

    /// A latch.
    #[track_caller]
    fn latch<T: Send>(&self, value: T) -> Self::Latch<T>;

    /// Waits for the latch and takes it.
    #[track_caller]
    fn hold<'a, T: Send>(&'a self, latch: &'a Self::Latch<T>) -> Self::LatchGuard<'a, T>;

    /// A readers-writer lock.
    #[track_caller]
    fn rw_lock<T: Send + Sync>(&self, value: T) -> Self::RwLock<T>;

    /// Waits until no writer holds the lock and takes it for reading. A thread that holds it must not take it
    /// again: a writer may wait in between, and then both wait for ever.
    #[track_caller]
    fn read<'a, T: Send + Sync>(&'a self, lock: &'a Self::RwLock<T>) -> Self::ReadGuard<'a, T>;

    /// Waits until nobody holds the lock and takes it for writing.
    #[track_caller]
    fn write<'a, T: Send + Sync>(&'a self, lock: &'a Self::RwLock<T>) -> Self::WriteGuard<'a, T>;

    /// A condition variable.
    #[track_caller]
    fn condvar(&self) -> Self::Condvar;

    /// Gives up the mutex and waits for a notification, in one step, then takes the mutex again. May return
    /// without a notification, so what is waited for is looked at again. A condition variable goes with one
    /// mutex. The observer hears of it as of an unlock and a lock.
    #[track_caller]
    fn wait<'a, T: Send>(
        &'a self,
        condvar: &Self::Condvar,
        guard: Self::MutexGuard<'a, T>,
    ) -> Self::MutexGuard<'a, T>;

    /// Wakes one of the threads that wait, if there are any.
    #[track_caller]
    fn notify_one(&self, condvar: &Self::Condvar);

    /// Wakes all threads that wait.
    #[track_caller]
    fn notify_all(&self, condvar: &Self::Condvar);

    /// Runs `body(0)` to `body(count - 1)`, each on a thread of its own, and returns when all have ended.
    /// They may borrow from the caller. If one panics, so does this, after the others have ended.
    #[track_caller]
    fn threads(&self, count: u32, body: impl Fn(u32) + Sync);

    /// A number of the calling thread, always the same one. Threads that were started one after the other
    /// have numbers that follow each other: what there are a few of can be shared out by them.
    fn thread_number(&self) -> u32;

    /// Nanoseconds on a clock that never goes back, from a start of the environment's choosing.
    #[track_caller]
    fn now_ns(&self) -> u64;

    /// A random number, uniform over all values.
    fn random(&self) -> u64;
}
