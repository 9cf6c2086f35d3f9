//! The locks of a simulated environment.
//!
//! Whether a lock is free the scheduler knows, and who must wait for it, waits there. Inside each is a lock
//! of the standard library all the same: it lends the value out without `unsafe`, and is never contended.

use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync;

use super::scheduler::Scheduler;
use super::state::Thing;
use crate::Observer;

/// The mutex of a [`super::Sim`].
#[derive(Debug)]
pub struct SimMutex<T> {
    pub(super) id: u64,
    pub(super) thing: Thing,
    pub(super) inner: sync::Mutex<T>,
}

/// The readers-writer lock of a [`super::Sim`].
#[derive(Debug)]
pub struct SimRwLock<T> {
    pub(super) id: u64,
    pub(super) thing: Thing,
    pub(super) inner: sync::RwLock<T>,
}

/// The condition variable of a [`super::Sim`].
#[derive(Debug)]
pub struct SimCondvar {
    pub(super) thing: Thing,
}

/// A held lock of a [`super::Sim`]; `G` is the guard of the lock within.
///
/// Fields are dropped in this order: the release is reported, the inner lock is released, then others may go
/// on.
#[derive(Debug)]
pub struct SimGuard<'a, G, O: Observer> {
    pub(super) report: LockReport<'a, O>,
    pub(super) guard: G,
    pub(super) release: Release<'a, O>,
}

/// A held [`SimMutex`].
#[derive(Debug)]
pub struct SimMutexGuard<'a, T, O: Observer> {
    pub(super) held: SimGuard<'a, sync::MutexGuard<'a, T>, O>,
    pub(super) mutex: &'a SimMutex<T>,
}

/// Reports to the observer, when dropped, that a lock is about to be released.
#[derive(Debug)]
pub(super) struct LockReport<'a, O: Observer> {
    pub id: u64,
    pub observer: &'a O,
}

impl<O: Observer> Drop for LockReport<'_, O> {
    fn drop(&mut self) {
        self.observer.unlocking(self.id);
    }
}

/// Gives a lock back to the scheduler.
#[derive(Debug)]
pub(super) struct Release<'a, O: Observer> {
    pub scheduler: &'a Scheduler,
    pub thing: Thing,
    pub observer: &'a O,
}

impl<O: Observer> Drop for Release<'_, O> {
    fn drop(&mut self) {
        self.scheduler.release(self.thing, self.observer, Location::caller());
    }
}

impl<G: Deref, O: Observer> Deref for SimGuard<'_, G, O> {
    type Target = G::Target;
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut, O: Observer> DerefMut for SimGuard<'_, G, O> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

impl<T, O: Observer> Deref for SimMutexGuard<'_, T, O> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T, O: Observer> DerefMut for SimMutexGuard<'_, T, O> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.held
    }
}
