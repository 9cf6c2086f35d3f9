//! What the scheduler knows: which threads there are, what they wait for, who holds what, and what was
//! decided.
//!
//! Nothing here waits or wakes. Every method changes the state as one event does and says who goes on.

use std::collections::BTreeMap;
use std::panic::Location;
use std::thread::Thread;

use super::chooser::{Choice, Chooser, stay};
use super::failure::{Divergence, Failure, Waiting, place};
use super::rng::{Rng, Use};
use super::sampling::Sampling;
use super::schedule::{Exception, Schedule};
use super::seen::{Decision, Seen};

pub(super) type At = &'static Location<'static>;

/// A lock or condition variable of the environment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thing {
    /// Counts from 0, all kinds together.
    pub number: u64,
    /// What it is called in a report.
    pub kind: &'static str,
    /// Where it was made.
    pub made: At,
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    Lock { lock: Thing, shared: bool, at: At },
    Notification { condvar: Thing, at: At },
    End { thread: u32, at: At },
}

/// What asks for a decision. The numbers are part of what a token says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Access = 0,
    Lock = 1,
    Unlock = 2,
    Wait = 3,
    Notify = 4,
    Spawn = 5,
    End = 6,
    Join = 7,
    Clock = 8,
    Woken = 9,
}

#[derive(Clone, Copy, Debug)]
enum Status {
    Ready,
    Waits(Wait),
    Ended,
}

#[derive(Debug)]
struct Simulated {
    status: Status,
    /// The OS thread that carries it, once it is known.
    carrier: Option<Thread>,
    /// It waits in the middle of a panic, so it can't be stopped.
    unwinding: bool,
    random: Rng,
}

/// Who holds a lock, and since where.
#[derive(Debug)]
struct Held {
    shared: bool,
    by: Vec<(u32, At)>,
}

#[derive(Debug)]
pub(super) struct State {
    threads: Vec<Simulated>,
    /// Threads that have not ended, in the order of their numbers.
    live: Vec<u32>,
    pub current: u32,
    held: BTreeMap<u64, Held>,
    chooser: Chooser,
    schedule: Schedule,
    /// How many of the schedule's exceptions are behind us.
    exceptions_done: usize,
    seen: Seen,
    /// The decisions that are not those of [`super::Strategy::Stay`].
    unforced: Vec<Exception>,
    pub failure: Option<Failure>,
    pub sampling: Sampling,
    candidates: Vec<u32>,
}

impl State {
    pub fn new(schedule: &Schedule) -> Self {
        let mut state = State {
            threads: Vec::new(),
            live: Vec::new(),
            current: 0,
            held: BTreeMap::new(),
            chooser: Chooser::new(schedule),
            schedule: schedule.clone(),
            exceptions_done: 0,
            seen: Seen::default(),
            unforced: Vec::new(),
            failure: None,
            sampling: Sampling::new(schedule),
            candidates: Vec::new(),
        };
        state.add_thread();
        state
    }

    /// A thread that is ready to go on.
    pub fn add_thread(&mut self) -> u32 {
        let number = u32::try_from(self.threads.len()).expect("fewer than 2^32 threads in a run");
        let random = Rng::new(self.schedule.seed, Use::Thread(number));
        self.threads.push(Simulated { status: Status::Ready, carrier: None, unwinding: false, random });
        self.live.push(number);
        self.chooser.add_thread();
        number
    }

    pub fn set_carrier(&mut self, thread: u32, carrier: Thread) {
        self.threads[thread as usize].carrier = Some(carrier);
    }

    pub fn carrier(&self, thread: u32) -> Option<&Thread> {
        self.threads[thread as usize].carrier.as_ref()
    }

    /// Whether no thread but the first is alive.
    pub fn is_alone(&self) -> bool {
        self.live.len() == 1
    }

    /// The current thread's next random number.
    pub fn random(&mut self) -> u64 {
        self.threads[self.current as usize].random.next()
    }

    /// The schedule, held to what was decided so far.
    pub fn token(&self) -> Schedule {
        Schedule { seen: Some(self.seen.clone()), ..self.schedule.clone() }
    }

    /// The decisions so far that are not [`super::Strategy::Stay`]'s.
    pub fn unforced(&self) -> &[Exception] {
        &self.unforced
    }

    /// Gives the lock to the current thread, if it is free.
    pub fn take(&mut self, lock: Thing, shared: bool, at: At) -> bool {
        let by = (self.current, at);
        match self.held.get_mut(&lock.number) {
            None => _ = self.held.insert(lock.number, Held { shared, by: vec![by] }),
            Some(held) if held.shared && shared => held.by.push(by),
            Some(_) => return false,
        }
        true
    }

    /// Takes the lock from the current thread; who waits for it may try again.
    pub fn give_up(&mut self, lock: Thing) {
        let current = self.current;
        if let Some(held) = self.held.get_mut(&lock.number) {
            let own = held.by.iter().position(|&(thread, _)| thread == current);
            // A reader's guard may have been dropped for another one of the same thread: they are alike.
            own.map(|own| held.by.remove(own));
            if held.by.is_empty() {
                self.held.remove(&lock.number);
            }
        }
        self.wake(|wait| matches!(wait, Wait::Lock { lock: other, .. } if other.number == lock.number));
    }

    /// Threads that wait for the condition variable.
    pub fn waiters(&self, condvar: Thing) -> Vec<u32> {
        let waits = |thread: &u32| match self.threads[*thread as usize].status {
            Status::Waits(Wait::Notification { condvar: other, .. }) => other.number == condvar.number,
            _ => false,
        };
        self.live.iter().copied().filter(waits).collect()
    }

    pub fn ready(&mut self, thread: u32) {
        self.threads[thread as usize].status = Status::Ready;
    }

    pub fn has_ended(&self, thread: u32) -> bool {
        matches!(self.threads[thread as usize].status, Status::Ended)
    }

    /// The current thread ends.
    pub fn end(&mut self) {
        let ended = self.current;
        self.threads[ended as usize].status = Status::Ended;
        self.live.retain(|&thread| thread != ended);
        self.wake(|wait| matches!(wait, Wait::End { thread, .. } if thread == ended));
    }

    /// The current thread can't go on.
    pub fn waits(&mut self, wait: Wait, unwinding: bool) {
        let current = &mut self.threads[self.current as usize];
        current.status = Status::Waits(wait);
        current.unwinding = unwinding;
    }

    fn wake(&mut self, wanted: impl Fn(Wait) -> bool) {
        for &thread in &self.live {
            let status = &mut self.threads[thread as usize].status;
            if matches!(*status, Status::Waits(wait) if wanted(wait)) {
                *status = Status::Ready;
            }
        }
    }

    /// Whether another thread than the current one could go on.
    pub fn others_ready(&self) -> bool {
        let ready = |thread: u32| matches!(self.threads[thread as usize].status, Status::Ready);
        self.live.iter().any(|&thread| thread != self.current && ready(thread))
    }

    /// Who goes on after an event of the current thread; somebody else, if it is `yielding` and there is one.
    pub fn decide(&mut self, kind: Kind, yielding: bool, clock: u64, at: At) -> u32 {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let ready = |thread: &u32| matches!(self.threads[*thread as usize].status, Status::Ready);
        candidates.extend(self.live.iter().copied().filter(ready));
        if yielding && candidates.len() > 1 {
            candidates.retain(|&thread| thread != self.current);
            self.chooser.falls_behind(self.current);
        }
        let chosen = if candidates.is_empty() {
            self.failure = Some(Failure::Deadlock(self.waiting()));
            self.next_to_unwind()
        } else {
            self.choose(kind, &candidates, clock, at)
        };
        self.candidates = candidates;
        chosen
    }

    /// One of the candidates; a decision, if there are several.
    pub fn choose(&mut self, kind: Kind, candidates: &[u32], clock: u64, at: At) -> u32 {
        if let [only] = *candidates {
            return only;
        }
        let (decision, current) = (self.seen.decisions, self.current);
        if let Some(seen) = &self.schedule.seen
            && decision >= seen.decisions
        {
            let longer = Divergence::Longer { decisions: seen.decisions, at: place(at) };
            return self.diverge(longer, candidates);
        }
        let choice = Choice { decision, current, candidates };
        let mut chosen = self.chooser.choose(&choice);
        if let Some(exception) = self.schedule.exceptions.get(self.exceptions_done)
            && exception.decision == decision
        {
            self.exceptions_done += 1;
            chosen = exception.thread;
            if !candidates.contains(&chosen) {
                let candidates = candidates.to_vec();
                let at = place(at);
                let other = Divergence::NotACandidate { decision, wanted: chosen, candidates, at };
                return self.diverge(other, choice.candidates);
            }
        }
        if chosen != stay(&choice) {
            self.unforced.push(Exception { decision, thread: chosen });
        }
        self.seen.add(&Decision { kind: kind as u8, current, candidates, chosen, clock });
        if self.seen.decisions.is_power_of_two()
            && let Some((same, different)) =
                self.schedule.seen.as_ref().and_then(|seen| seen.differs(&self.seen))
        {
            return self.diverge(Divergence::Decisions { same, different, at: place(at) }, candidates);
        }
        chosen
    }

    fn diverge(&mut self, divergence: Divergence, candidates: &[u32]) -> u32 {
        self.failure = Some(Failure::Diverged(divergence));
        if candidates.contains(&self.current) { self.current } else { self.next_to_unwind() }
    }

    /// What a token of a run that ended does not agree with.
    pub fn check_end(&self) -> Option<Failure> {
        let made = self.seen.decisions;
        if let Some(&Exception { decision, .. }) = self.schedule.exceptions.get(self.exceptions_done) {
            return Some(Failure::Diverged(Divergence::Unreached { made, decision }));
        }
        let seen = self.schedule.seen.as_ref()?;
        let decisions = seen.decisions;
        if made < decisions {
            return Some(Failure::Diverged(Divergence::Shorter { made, decisions }));
        }
        let (same, different) = seen.differs_at_end(&self.seen)?;
        let at = "the end".to_owned();
        Some(Failure::Diverged(Divergence::Decisions { same, different, at }))
    }

    /// Who gives up next after a failure. Children before parents, because a parent waits until its children
    /// are gone; one thread at a time, so that a failing run repeats like any other.
    pub fn next_to_unwind(&mut self) -> u32 {
        let eligible = |&&thread: &&u32| match self.threads[thread as usize].status {
            Status::Waits(Wait::End { thread: child, .. }) => self.has_ended(child),
            // It is in the middle of a panic and wants a lock: it can go on once that is free.
            Status::Waits(Wait::Lock { lock, .. }) if self.threads[thread as usize].unwinding => {
                !self.held.contains_key(&lock.number)
            }
            _ => true,
        };
        let last = self.live.iter().rev().find(eligible).or(self.live.last());
        last.copied().unwrap_or(self.current)
    }

    /// All threads that wait, for a report.
    fn waiting(&self) -> Vec<Waiting> {
        let waiting = |&thread: &u32| {
            let Status::Waits(wait) = self.threads[thread as usize].status else { return None };
            let (at, what) = match wait {
                Wait::Lock { lock, shared, at } => {
                    let share = if shared { " to read" } else { "" };
                    (at, format!("{}{share}{}", lock.describe(), self.holders(lock)))
                }
                Wait::Notification { condvar, at } => {
                    (at, format!("a notification of {}", condvar.describe()))
                }
                Wait::End { thread, at } => (at, format!("the end of thread {thread}")),
            };
            Some(Waiting { thread, at: place(at), what })
        };
        self.live.iter().filter_map(waiting).collect()
    }

    fn holders(&self, lock: Thing) -> String {
        let holders = self.held.get(&lock.number).map_or(&[][..], |held| &held.by);
        let holder = |&(thread, at): &(u32, At)| format!(", held by thread {thread} since {}", place(at));
        holders.iter().map(holder).collect()
    }
}

impl Thing {
    fn describe(&self) -> String {
        format!("{} {} (made at {})", self.kind, self.number, place(self.made))
    }
}
