//! `Env`: a space and the rest of the world that a structure may touch.

use std::ops::{Deref, DerefMut};

use crate::Space;

/// A space with its locks, threads, clock and randomness.
///
/// A structure that is generic over `Env` takes everything it needs from here and nothing from `std::thread`,
/// `std::sync` or `std::time`. So a seeded environment can decide which thread runs next and repeat the
/// run. The environment tells the space's [`crate::Observer`] of each lock, thread and clock read.
///
/// Locks are made by the environment and operated through it (`env.lock(&mutex)`), so that a lock needs no
/// way back to its environment, and a structure that holds one has no lifetime.
pub trait Env: Sync {
    /// The memory.
    type Space: Space;
    /// A mutual exclusion lock around a `T`.
    type Mutex<T: Send>: Send + Sync;
    /// Proof of holding a [`Env::Mutex`]; gives it up when dropped.
    type MutexGuard<'a, T: Send + 'a>: DerefMut<Target = T>
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

    /// The memory.
    fn space(&self) -> &Self::Space;

    /// Ends the environment and gives the memory back.
    fn into_space(self) -> Self::Space
    where
        Self: Sized;

    /// A mutex.
    fn mutex<T: Send>(&self, value: T) -> Self::Mutex<T>;

    /// Waits for the mutex and takes it. A thread that panicked while it held the mutex does not keep others
    /// out.
    #[track_caller]
    fn lock<'a, T: Send>(&'a self, mutex: &'a Self::Mutex<T>) -> Self::MutexGuard<'a, T>;

    /// A readers-writer lock.
    fn rw_lock<T: Send + Sync>(&self, value: T) -> Self::RwLock<T>;

    /// Waits until no writer holds the lock and takes it for reading.
    #[track_caller]
    fn read<'a, T: Send + Sync>(&'a self, lock: &'a Self::RwLock<T>) -> Self::ReadGuard<'a, T>;

    /// Waits until nobody holds the lock and takes it for writing.
    #[track_caller]
    fn write<'a, T: Send + Sync>(&'a self, lock: &'a Self::RwLock<T>) -> Self::WriteGuard<'a, T>;

    /// Runs `body(0)` to `body(count - 1)`, each on a thread of its own, and returns when all have ended.
    /// They may borrow from the caller. If one panics, so does this, after the others have ended.
    #[track_caller]
    fn threads(&self, count: u32, body: impl Fn(u32) + Sync);

    /// Nanoseconds on a clock that never goes back, from a start of the environment's choosing.
    fn now_ns(&self) -> u64;

    /// A random number, uniform over all values.
    fn random(&self) -> u64;
}
