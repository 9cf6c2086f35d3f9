//! An environment without an operating system: threads run one after the other.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use space::{Env, Space};

pub struct Serial<S>(pub S);

impl<S: Space> Env for Serial<S> {
    type Space = S;
    type Mutex<T: Send> = Mutex<T>;
    type MutexGuard<'a, T: Send + 'a>
        = MutexGuard<'a, T>
    where
        Self: 'a;
    type RwLock<T: Send + Sync> = RwLock<T>;
    type ReadGuard<'a, T: Send + Sync + 'a>
        = RwLockReadGuard<'a, T>
    where
        Self: 'a;
    type WriteGuard<'a, T: Send + Sync + 'a>
        = RwLockWriteGuard<'a, T>
    where
        Self: 'a;

    fn space(&self) -> &S {
        &self.0
    }
    fn into_space(self) -> S {
        self.0
    }
    fn mutex<T: Send>(&self, value: T) -> Mutex<T> {
        Mutex::new(value)
    }
    fn lock<'a, T: Send>(&'a self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn rw_lock<T: Send + Sync>(&self, value: T) -> RwLock<T> {
        RwLock::new(value)
    }
    fn read<'a, T: Send + Sync>(&'a self, lock: &'a RwLock<T>) -> RwLockReadGuard<'a, T> {
        lock.read().unwrap_or_else(PoisonError::into_inner)
    }
    fn write<'a, T: Send + Sync>(&'a self, lock: &'a RwLock<T>) -> RwLockWriteGuard<'a, T> {
        lock.write().unwrap_or_else(PoisonError::into_inner)
    }
    fn threads(&self, count: u32, body: impl Fn(u32) + Sync) {
        (0..count).for_each(body);
    }
    fn now_ns(&self) -> u64 {
        0
    }
    fn random(&self) -> u64 {
        0
    }
}
