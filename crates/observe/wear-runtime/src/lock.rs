//! A lock that a process can hold across a fork, which none of the standard library can.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A value under a lock.
pub struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is looked at by who holds the lock.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Lock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock, and keeps it until [`Lock::unlock`].
    pub fn lock(&self) {
        while self.held.swap(true, Ordering::Acquire) {
            // SAFETY: touches no memory.
            unsafe { libc::sched_yield() };
        }
    }

    /// Gives the lock back.
    pub fn unlock(&self) {
        self.held.store(false, Ordering::Release);
    }

    /// Works on the value under the lock.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        self.lock();
        // SAFETY: under the lock.
        let result = work(unsafe { &mut *self.value.get() });
        self.unlock();
        result
    }

    /// The same for who holds the lock.
    ///
    /// # Safety
    /// The caller holds the lock, and works on the value nowhere else meanwhile.
    pub unsafe fn with_held<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the caller's promise.
        work(unsafe { &mut *self.value.get() })
    }
}
