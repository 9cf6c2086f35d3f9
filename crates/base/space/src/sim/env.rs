//! The environment itself.

use std::panic::{Location, resume_unwind};
use std::sync::{self, PoisonError};
use std::thread;

use super::failure::Failure;
use super::locks::{LockReport, Release, SimCondvar, SimGuard, SimMutex, SimMutexGuard, SimRwLock};
use super::schedule::{Schedule, Strategy, TokenError};
use super::scheduler::{Scheduler, gave_up};
use super::state::{At, Kind, Thing};
use super::stepped::Stepped;
use crate::{Env, Observer, Space};

/// A simulated environment around a space. See the [module](crate::sim).
///
/// Whoever makes it is thread 0; threads started by [`Env::threads`] are numbered in the order of their
/// start.
///
/// A failure (see [`Failure`]; a deadlock above all) unwinds the simulated threads and then panics in thread
/// 0. [`super::run`] makes a value of it instead.
#[derive(Debug)]
pub struct Sim<S> {
    space: Stepped<S>,
}

impl<S: Space> Sim<S> {
    /// How much later it is after an event.
    pub const EVENT_NS: u64 = 100;

    /// An environment in which `schedule` decides.
    pub fn new(space: S, schedule: &Schedule) -> Self {
        Sim { space: Stepped::new(space, Scheduler::new(schedule)) }
    }

    /// An environment in which all goes as in the run that the token is from.
    ///
    /// # Errors
    /// If it is no token.
    pub fn replay(space: S, token: &str) -> Result<Self, TokenError> {
        Ok(Sim::new(space, &token.parse()?))
    }

    /// The schedule of the run so far: replayed, it makes the same decisions, or says that it can't.
    pub fn token(&self) -> Schedule {
        self.scheduler().look(|state| state.token())
    }

    /// The same run as exceptions from [`Strategy::Stay`]: where a thread had to make way that could have
    /// gone on, and for whom. Take some away ([`Schedule::with_exceptions`]) to find those that matter;
    /// decisions behind one that was taken away may then have other numbers.
    pub fn explicit(&self) -> Schedule {
        self.scheduler().look(|state| {
            let (token, exceptions) = (state.token(), state.unforced().to_vec());
            Schedule { strategy: Strategy::Stay, exceptions, ..token }
        })
    }

    /// What went wrong, if anything did. At the end of a run, `ended` also holds it against its token.
    pub(super) fn failure(&self, ended: bool) -> Option<Failure> {
        self.scheduler().look(|state| {
            let failure = state.failure.clone();
            failure.or_else(|| if ended { state.check_end() } else { None })
        })
    }

    pub(super) fn scheduler(&self) -> &Scheduler {
        &self.space.scheduler
    }

    fn observer(&self) -> &S::Observer {
        self.space.observer()
    }

    fn point(&self, kind: Kind, at: At) {
        self.scheduler().point(kind, self.observer(), at);
    }

    /// Takes a lock that is in nobody's hands, so far as the scheduler knows.
    fn acquire(&self, lock: Thing, shared: bool, at: At) -> Release<'_, S::Observer> {
        self.scheduler().acquire(lock, shared, self.observer(), at);
        Release { scheduler: self.scheduler(), thing: lock, observer: self.observer() }
    }

    #[track_caller]
    fn report(&self, id: u64, shared: bool) -> LockReport<'_, S::Observer> {
        self.observer().locked(id, shared);
        LockReport { id, observer: self.observer() }
    }
}

/// The last steps of a thread, also when it panics.
struct Ending<'a, O: Observer> {
    scheduler: &'a Scheduler,
    observer: &'a O,
    at: At,
}

impl<O: Observer> Drop for Ending<'_, O> {
    fn drop(&mut self) {
        self.observer.thread_ending();
        self.scheduler.ended(self.at);
    }
}

impl<S: Space> Env for Sim<S> {
    type Space = Stepped<S>;
    type Base = S;
    type Mutex<T: Send> = SimMutex<T>;
    type MutexGuard<'a, T: Send + 'a>
        = SimMutexGuard<'a, T, S::Observer>
    where
        Self: 'a;
    type Latch<T: Send> = SimMutex<T>;
    type LatchGuard<'a, T: Send + 'a>
        = SimMutexGuard<'a, T, S::Observer>
    where
        Self: 'a;
    type RwLock<T: Send + Sync> = SimRwLock<T>;
    type ReadGuard<'a, T: Send + Sync + 'a>
        = SimGuard<'a, sync::RwLockReadGuard<'a, T>, S::Observer>
    where
        Self: 'a;
    type WriteGuard<'a, T: Send + Sync + 'a>
        = SimGuard<'a, sync::RwLockWriteGuard<'a, T>, S::Observer>
    where
        Self: 'a;
    type Condvar = SimCondvar;

    #[inline(always)]
    fn space(&self) -> &Stepped<S> {
        &self.space
    }

    fn into_space(self) -> S {
        self.space.into_inner()
    }

    #[track_caller]
    fn mutex<T: Send>(&self, value: T) -> SimMutex<T> {
        let thing = self.scheduler().new_thing("mutex", Location::caller());
        SimMutex { id: self.observer().new_lock(), thing, inner: sync::Mutex::new(value) }
    }

    #[track_caller]
    fn lock<'a, T: Send>(&'a self, mutex: &'a SimMutex<T>) -> Self::MutexGuard<'a, T> {
        self.point(Kind::Lock, Location::caller());
        let release = self.acquire(mutex.thing, false, Location::caller());
        let guard = mutex.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let report = self.report(mutex.id, false);
        SimMutexGuard { held: SimGuard { report, guard, release }, mutex }
    }

    #[track_caller]
    fn latch<T: Send>(&self, value: T) -> SimMutex<T> {
        self.mutex(value)
    }

    #[track_caller]
    fn hold<'a, T: Send>(&'a self, latch: &'a SimMutex<T>) -> Self::LatchGuard<'a, T> {
        self.lock(latch)
    }

    #[track_caller]
    fn rw_lock<T: Send + Sync>(&self, value: T) -> SimRwLock<T> {
        let thing = self.scheduler().new_thing("readers-writer lock", Location::caller());
        SimRwLock { id: self.observer().new_lock(), thing, inner: sync::RwLock::new(value) }
    }

    #[track_caller]
    fn read<'a, T: Send + Sync>(&'a self, lock: &'a SimRwLock<T>) -> Self::ReadGuard<'a, T> {
        self.point(Kind::Lock, Location::caller());
        let release = self.acquire(lock.thing, true, Location::caller());
        let guard = lock.inner.read().unwrap_or_else(PoisonError::into_inner);
        SimGuard { report: self.report(lock.id, true), guard, release }
    }

    #[track_caller]
    fn write<'a, T: Send + Sync>(&'a self, lock: &'a SimRwLock<T>) -> Self::WriteGuard<'a, T> {
        self.point(Kind::Lock, Location::caller());
        let release = self.acquire(lock.thing, false, Location::caller());
        let guard = lock.inner.write().unwrap_or_else(PoisonError::into_inner);
        SimGuard { report: self.report(lock.id, false), guard, release }
    }

    #[track_caller]
    fn condvar(&self) -> SimCondvar {
        SimCondvar { thing: self.scheduler().new_thing("condition variable", Location::caller()) }
    }

    #[track_caller]
    fn wait<'a, T: Send>(
        &'a self,
        condvar: &SimCondvar,
        guard: Self::MutexGuard<'a, T>,
    ) -> Self::MutexGuard<'a, T> {
        let SimMutexGuard { held: SimGuard { report, guard, release }, mutex } = guard;
        // The scheduler gives up the lock itself, in one step with the wait; the caller's line is reported.
        std::mem::forget((report, release));
        self.observer().unlocking(mutex.id);
        drop(guard);
        self.scheduler().wait(condvar.thing, mutex.thing, self.observer(), Location::caller());
        let release = self.acquire(mutex.thing, false, Location::caller());
        let guard = mutex.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let report = self.report(mutex.id, false);
        SimMutexGuard { held: SimGuard { report, guard, release }, mutex }
    }

    #[track_caller]
    fn notify_one(&self, condvar: &SimCondvar) {
        self.scheduler().notify(condvar.thing, false, self.observer(), Location::caller());
    }

    #[track_caller]
    fn notify_all(&self, condvar: &SimCondvar) {
        self.scheduler().notify(condvar.thing, true, self.observer(), Location::caller());
    }

    #[track_caller]
    fn threads(&self, count: u32, body: impl Fn(u32) + Sync) {
        let (scheduler, observer, at) = (self.scheduler(), self.observer(), Location::caller());
        let body = &body;
        // Nothing in the scope unwinds before all children have ended: their scope would wait for them, and
        // they for their turn.
        let panicked = thread::scope(|scope| {
            let mut children = Vec::new();
            for index in 0..count {
                if scheduler.has_failed() {
                    break;
                }
                let (id, number) = (observer.spawning(), scheduler.spawned());
                let carrier = move || {
                    let go_on = scheduler.started(number);
                    observer.thread_started(id);
                    let _ending = Ending { scheduler, observer, at };
                    if go_on {
                        body(index);
                    }
                };
                match thread::Builder::new().spawn_scoped(scope, carrier) {
                    Ok(handle) => {
                        scheduler.carried(number, handle.thread().clone());
                        children.push((id, number, handle));
                        scheduler.spawn_point(observer, at);
                    }
                    Err(error) => scheduler.not_started(number, error.to_string()),
                }
            }
            let mut panicked = None;
            for (id, number, handle) in children {
                scheduler.join(number, observer, at);
                let result = handle.join();
                panicked = panicked.or(result.err().filter(|panic| !gave_up(&**panic)));
                observer.joined(id);
            }
            panicked
        });
        scheduler.leave();
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
    }

    fn thread_number(&self) -> u32 {
        self.scheduler().look(|state| state.current)
    }

    #[track_caller]
    fn now_ns(&self) -> u64 {
        self.point(Kind::Clock, Location::caller());
        self.observer().clock_read();
        self.scheduler().clock().saturating_mul(Self::EVENT_NS)
    }

    fn random(&self) -> u64 {
        self.scheduler().random()
    }
}
