//! The scheduler: hands the right to run from thread to thread.
//!
//! Of the OS threads that carry simulated ones, the one with the *baton* runs, and all others are parked. It
//! alone touches the state, so the lock around that is never contended; what one thread wrote is visible to
//! the next because the baton is released and acquired.
//!
//! # After a failure
//! A deadlock, or a token that does not fit, is found by the thread that runs. From then on nobody goes on
//! with the program: threads unwind one after the other (`Abandoned`), children before their parents, and the
//! first thread carries the failure out. Guards that are dropped on the way give up their locks as always,
//! but nothing is decided any more.

use std::panic::{Location, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use super::failure::{Failure, place};
use super::schedule::Schedule;
use super::state::{At, Kind, State, Thing, Wait};
use crate::Observer;

#[derive(Debug)]
pub(super) struct Scheduler {
    /// Events of the run so far.
    clock: AtomicU64,
    /// The event at which an access asks for a decision next.
    next_point: AtomicU64,
    /// The number of the thread that runs.
    baton: AtomicU32,
    failed: AtomicBool,
    /// A failure is looked up afterwards, so it need not be printed by a panic.
    quiet: AtomicBool,
    /// Locks and condition variables so far.
    things: AtomicU64,
    state: Mutex<State>,
}

/// What a thread that gives up after a failure unwinds with.
struct Abandoned;

impl Scheduler {
    pub fn new(schedule: &Schedule) -> Self {
        Scheduler {
            clock: AtomicU64::new(0),
            next_point: AtomicU64::new(schedule.events_max.unwrap_or(u64::MAX)),
            baton: AtomicU32::new(0),
            failed: AtomicBool::new(false),
            quiet: AtomicBool::new(false),
            things: AtomicU64::new(0),
            state: Mutex::new(State::new(schedule)),
        }
    }

    /// A failure is reported by whoever runs the scenario.
    pub fn be_quiet(&self) {
        self.quiet.store(true, Relaxed);
    }

    pub fn new_thing(&self, kind: &'static str, made: At) -> Thing {
        Thing { number: self.things.fetch_add(1, Relaxed), kind, made }
    }

    /// Events so far.
    pub fn clock(&self) -> u64 {
        self.clock.load(Relaxed)
    }

    /// The state as it is, whoever asks.
    pub fn look<R>(&self, at: impl FnOnce(&State) -> R) -> R {
        at(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The state, for the thread that runs.
    ///
    /// # Panics
    /// If the calling OS thread is not the one that carries it.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let caller = thread::current();
        let current = state.current;
        if state.carrier(current).is_none_or(|carrier| carrier.id() != caller.id()) {
            // Between two uses a run of one thread may have moved.
            assert!(state.is_alone(), "only threads that the environment started may use it");
            state.set_carrier(current, caller);
        }
        state
    }

    /// Counts an event.
    #[inline(always)]
    fn tick(&self) -> u64 {
        let clock = self.clock.load(Relaxed) + 1;
        self.clock.store(clock, Relaxed);
        clock
    }

    /// Before an access of the space.
    #[inline(always)]
    #[track_caller]
    pub fn access(&self, observer: &dyn Observer) {
        if self.tick() >= self.next_point.load(Relaxed) {
            self.access_point(observer, Location::caller());
        }
    }

    #[inline(never)]
    fn access_point(&self, observer: &dyn Observer, at: At) {
        self.turn(Kind::Access, false, observer, at);
        self.leave();
    }

    /// An event at which another thread may go on.
    pub fn point(&self, kind: Kind, observer: &dyn Observer, at: At) {
        self.tick();
        self.turn(kind, false, observer, at);
        self.leave();
    }

    /// The current thread gets nowhere until another has done something.
    pub fn yields(&self, observer: &dyn Observer, at: At) {
        self.turn(Kind::Access, true, observer, at);
        self.leave();
    }

    /// Decides who goes on, and returns when it is the caller's turn again. Never unwinds.
    fn turn(&self, kind: Kind, yielding: bool, observer: &dyn Observer, at: At) {
        let mut state = self.state();
        if state.failure.is_some() {
            return;
        }
        let clock = self.clock();
        if let Some(events) = state.sampling.over(clock) {
            let thread = state.current;
            state.failure = Some(Failure::Endless { events, thread, at: place(at) });
            self.plan(&mut state);
            return;
        }
        let yielding = yielding || !state.sampling.patient(clock);
        let next = state.decide(kind, yielding, clock, at);
        self.pass(state, next, observer);
    }

    /// Says at which access the next decision is, after anything that changed who is ready.
    fn plan(&self, state: &mut State) {
        if state.failure.is_some() {
            self.failed.store(true, Relaxed);
            self.next_point.store(0, Relaxed);
            return;
        }
        let others = state.others_ready();
        self.next_point.store(state.sampling.plan(self.clock(), others), Relaxed);
    }

    /// Gives the baton to `next` and returns when it has come back.
    fn pass(&self, mut state: MutexGuard<'_, State>, next: u32, observer: &dyn Observer) {
        let own = state.current;
        if next == own {
            self.plan(&mut state);
            return;
        }
        let carrier = self.hand_to(&mut state, next);
        drop(state);
        observer.pausing();
        self.baton.store(next, Release);
        carrier.unpark();
        self.await_turn(own);
    }

    /// Makes `next` the current thread.
    fn hand_to(&self, state: &mut State, next: u32) -> thread::Thread {
        state.current = next;
        state.ready(next);
        state.sampling.switched(self.clock());
        self.plan(state);
        state.carrier(next).cloned().expect("a thread has its carrier before it can be chosen")
    }

    fn await_turn(&self, own: u32) {
        while self.baton.load(Acquire) != own {
            thread::park();
        }
    }

    /// After a failure: gives up, unless the thread is giving up already.
    pub fn leave(&self) {
        if !self.failed.load(Relaxed) || thread::panicking() {
            return;
        }
        let (first, message) = self.look(|state| {
            let failure = state.failure.as_ref().map(Failure::to_string).unwrap_or_default();
            (state.current == 0, format!("{failure}\nthe schedule was {}", state.token()))
        });
        assert!(!first || self.quiet.load(Relaxed), "{message}");
        resume_unwind(Box::new(Abandoned));
    }

    /// Waits for the lock and takes it.
    pub fn acquire(&self, lock: Thing, shared: bool, observer: &dyn Observer, at: At) {
        loop {
            let mut state = self.state();
            if state.failure.is_some() && !thread::panicking() {
                drop(state);
                self.leave();
                return;
            }
            if state.take(lock, shared, at) {
                return;
            }
            self.block(state, Wait::Lock { lock, shared, at }, Kind::Lock, observer);
        }
    }

    /// Gives up the lock; the guard within is gone already. Called in drops, so it never unwinds.
    pub fn release(&self, lock: Thing, observer: &dyn Observer, at: At) {
        self.tick();
        self.state().give_up(lock);
        self.turn(Kind::Unlock, false, observer, at);
    }

    /// Gives up the lock and waits for a notification, in one step. The lock is still to be taken again.
    pub fn wait(&self, condvar: Thing, lock: Thing, observer: &dyn Observer, at: At) {
        self.tick();
        let mut state = self.state();
        state.give_up(lock);
        if let Some(failure) = &state.failure {
            let failure = failure.clone();
            drop(state);
            self.leave();
            panic!("waits for a notification that can't come, while giving up because of: {failure}");
        }
        self.block(state, Wait::Notification { condvar, at }, Kind::Wait, observer);
    }

    /// Wakes a waiting thread, if there is one, or all of them.
    pub fn notify(&self, condvar: Thing, all: bool, observer: &dyn Observer, at: At) {
        self.point(Kind::Notify, observer, at);
        let mut state = self.state();
        let waiters = state.waiters(condvar);
        if waiters.is_empty() || state.failure.is_some() {
            return;
        }
        if all {
            waiters.iter().for_each(|&thread| state.ready(thread));
        } else {
            let chosen = state.choose(Kind::Woken, &waiters, self.clock(), at);
            if state.failure.is_none() {
                state.ready(chosen);
            }
        }
        self.plan(&mut state);
        drop(state);
        self.leave();
    }

    /// Lets others go on until the current thread is ready again, or it all has failed.
    fn block(&self, mut state: MutexGuard<'_, State>, wait: Wait, kind: Kind, observer: &dyn Observer) {
        let (Wait::Lock { at, .. } | Wait::Notification { at, .. } | Wait::End { at, .. }) = wait;
        state.waits(wait, thread::panicking());
        let before = state.failure.clone();
        let next = match before {
            None => state.decide(kind, false, self.clock(), at),
            Some(_) => state.next_to_unwind(),
        };
        if let Some(failure) = before
            && next == state.current
        {
            drop(state);
            panic!("a destructor waits for ever, while giving up because of: {failure}");
        }
        self.pass(state, next, observer);
    }

    /// A new thread, ready to go on. It runs on whichever OS thread calls [`Scheduler::started`] with the
    /// number.
    pub fn spawned(&self) -> u32 {
        self.tick();
        self.state().add_thread()
    }

    /// The OS thread that carries `thread`.
    pub fn carried(&self, thread: u32, carrier: thread::Thread) {
        self.state().set_carrier(thread, carrier);
    }

    /// A thread was announced and can't be started after all.
    pub fn not_started(&self, thread: u32, reason: String) {
        let mut state = self.state();
        let parent = std::mem::replace(&mut state.current, thread);
        state.end();
        state.current = parent;
        state.failure.get_or_insert(Failure::NoThread { thread, reason });
        self.plan(&mut state);
    }

    /// Decides whether the new thread goes on at once. Does not unwind: children may still have to be waited
    /// for.
    pub fn spawn_point(&self, observer: &dyn Observer, at: At) {
        self.turn(Kind::Spawn, false, observer, at);
    }

    /// The new thread's first step: waits for its turn. Whether there is anything to do.
    pub fn started(&self, thread: u32) -> bool {
        self.await_turn(thread);
        !self.has_failed()
    }

    /// The current thread's last step: another one goes on.
    pub fn ended(&self, at: At) {
        self.tick();
        let mut state = self.state();
        state.end();
        let next = match state.failure {
            None => state.decide(Kind::End, false, self.clock(), at),
            Some(_) => state.next_to_unwind(),
        };
        let carrier = self.hand_to(&mut state, next);
        drop(state);
        self.baton.store(next, Release);
        carrier.unpark();
    }

    /// Waits for the end of `thread`. Does not unwind.
    pub fn join(&self, thread: u32, observer: &dyn Observer, at: At) {
        self.tick();
        self.turn(Kind::Join, false, observer, at);
        loop {
            let state = self.state();
            if state.has_ended(thread) {
                return;
            }
            self.block(state, Wait::End { thread, at }, Kind::Join, observer);
        }
    }

    pub fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// The current thread's next random number.
    pub fn random(&self) -> u64 {
        self.state().random()
    }
}

/// Whether a thread unwound because it was stopped.
pub(super) fn gave_up(panic: &(dyn std::any::Any + Send)) -> bool {
    panic.is::<Abandoned>()
}
