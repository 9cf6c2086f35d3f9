//! Every interleaving of a few actors, by depth-first search over whole states.
//!
//! An actor is a future that stops before each access. A schedule is a list of choices; the search runs a
//! scenario again from its start for each branch. A state is the shared words and, per actor, a digest of
//! the values that it has read: since actors are deterministic, states with equal keys have equal futures,
//! and the search leaves a state that it has seen. Labels ([`Memory::label`]) shorten that history. No
//! bound on preemptions, none on depth: a scenario is explored whole, or the search says that it gave up.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::memory::Memory;

/// What an actor will do when it is chosen: only waiting can be impossible.
#[derive(Clone, Copy)]
enum Next {
    Access,
    Wait(u64, fn(u64) -> bool),
}

/// The shared words of an explored run.
pub struct Explored {
    words: RefCell<Vec<u64>>,
    current: Cell<usize>,
    next: RefCell<Vec<Next>>,
    digests: RefCell<Vec<u128>>,
    failure: RefCell<Option<String>>,
}

/// One of the things that happen at the same time.
pub type Actor = Pin<Box<dyn Future<Output = ()>>>;

/// A run in the making: memory and actors.
pub struct Run {
    memory: Rc<Explored>,
    actors: Vec<Option<Actor>>,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explorations {
    /// Distinct states.
    pub states: u64,
    /// Runs that came to their end (or into a state that was known).
    pub runs: u64,
    /// The first broken invariant, with the choices that lead to it.
    pub failure: Option<Broken>,
    /// Whether every interleaving was covered.
    pub complete: bool,
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which one.
    pub what: String,
    /// The actors in the order of their steps.
    pub schedule: Vec<u8>,
}

fn mix(digest: u128, value: u64) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013B;
    let mixed = (digest ^ u128::from(value)).wrapping_mul(PRIME);
    (mixed ^ (mixed >> 61)).wrapping_mul(PRIME) ^ (mixed >> 83)
}

impl Explored {
    /// `words` words of zero for `actors` actors.
    #[must_use]
    pub fn new(words: usize, actors: usize) -> Rc<Self> {
        Rc::new(Explored {
            words: RefCell::new(vec![0; words]),
            current: Cell::new(0),
            next: RefCell::new(vec![Next::Access; actors]),
            digests: RefCell::new(vec![1; actors]),
            failure: RefCell::new(None),
        })
    }

    /// Writes a word before the run.
    pub fn set(&self, at: u64, value: u64) {
        self.words.borrow_mut()[at as usize] = value;
    }

    fn saw(&self, value: u64) {
        let digest = &mut self.digests.borrow_mut()[self.current.get()];
        *digest = mix(*digest, value);
    }

    /// Stops before an access, then performs it.
    async fn step<T>(&self, next: Next, access: impl FnOnce(&mut Vec<u64>) -> T) -> T {
        let mut chosen = false;
        poll_fn(|_| {
            if std::mem::replace(&mut chosen, true) {
                return Poll::Ready(());
            }
            self.next.borrow_mut()[self.current.get()] = next;
            Poll::Pending
        })
        .await;
        access(&mut self.words.borrow_mut())
    }
}

impl Memory for Rc<Explored> {
    async fn load(&self, at: u64) -> u64 {
        let value = self.step(Next::Access, |words| words[at as usize]).await;
        self.saw(value);
        value
    }

    async fn store(&self, at: u64, value: u64) {
        self.step(Next::Access, |words| words[at as usize] = value).await;
        self.saw(at);
    }

    async fn cas(&self, at: u64, old: u64, new: u64) -> Result<u64, u64> {
        let there = self
            .step(Next::Access, |words| {
                let there = words[at as usize];
                if there == old {
                    words[at as usize] = new;
                }
                there
            })
            .await;
        self.saw(there);
        if there == old { Ok(old) } else { Err(there) }
    }

    async fn wait(&self, at: u64, ready: fn(u64) -> bool) -> u64 {
        let value = self.step(Next::Wait(at, ready), |words| words[at as usize]).await;
        self.saw(value);
        value
    }

    async fn update(&self, at: u64, change: impl Fn(u64) -> u64) -> u64 {
        let old = self
            .step(Next::Access, |words| {
                let old = words[at as usize];
                words[at as usize] = change(old);
                old
            })
            .await;
        self.saw(old);
        old
    }

    fn poke(&self, at: u64, value: u64) {
        self.set(at, value);
    }

    fn peek(&self, at: u64) -> u64 {
        self.words.borrow()[at as usize]
    }

    fn label(&self, label: u64) {
        self.digests.borrow_mut()[self.current.get()] = mix(7, label);
    }

    fn fail(&self, what: String) {
        self.failure.borrow_mut().get_or_insert(what);
    }
}

impl Run {
    /// A run of `actors` on `memory`.
    #[must_use]
    pub fn new(memory: Rc<Explored>, actors: Vec<Actor>) -> Self {
        let mut run = Run { memory, actors: actors.into_iter().map(Some).collect() };
        // Each goes as far as its first access.
        for actor in 0..run.actors.len() {
            run.step(actor);
        }
        run
    }

    fn step(&mut self, actor: usize) {
        self.memory.current.set(actor);
        let Some(future) = &mut self.actors[actor] else { return };
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            self.actors[actor] = None;
        }
    }

    fn enabled(&self) -> Vec<u8> {
        let (words, next) = (self.memory.words.borrow(), self.memory.next.borrow());
        let can = |actor: usize| match next[actor] {
            Next::Access => true,
            Next::Wait(at, ready) => ready(words[at as usize]),
        };
        (0..self.actors.len()).filter(|&a| self.actors[a].is_some() && can(a)).map(|a| a as u8).collect()
    }

    fn key(&self) -> u128 {
        let mut key = 0x9E37_79B9_7F4A_7C15_u128;
        self.memory.words.borrow().iter().for_each(|&word| key = mix(key, word));
        for (actor, &digest) in self.actors.iter().zip(self.memory.digests.borrow().iter()) {
            let digest = if actor.is_some() { digest } else { 0 };
            key = mix(mix(key, digest as u64), (digest >> 64) as u64);
        }
        key
    }

    fn failure(&self) -> Option<String> {
        self.memory.failure.borrow().clone()
    }
}

/// Runs `scenario` in every interleaving, until an invariant breaks or `most` states are known. `last`
/// checks what a whole run has left behind.
#[must_use]
pub fn explore(most: u64, scenario: impl Fn() -> Run, last: impl Fn(&Rc<Explored>)) -> Explorations {
    let mut seen: HashSet<u128> = HashSet::new();
    let mut path: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut found = Explorations { states: 0, runs: 0, failure: None, complete: true };
    loop {
        let mut run = scenario();
        for (at, enabled) in &path {
            run.step(usize::from(enabled[*at]));
        }
        found.runs += 1;
        while run.failure().is_none() && seen.insert(run.key()) {
            let enabled = run.enabled();
            if enabled.is_empty() {
                let stuck = |actor: usize| run.actors[actor].is_some();
                match (0..run.actors.len()).find(|&actor| stuck(actor)) {
                    Some(actor) => run.memory.fail(format!("actor {actor} waits for ever")),
                    None => last(&run.memory),
                }
                break;
            }
            let first = usize::from(enabled[0]);
            path.push((0, enabled));
            run.step(first);
        }
        if let Some(what) = run.failure() {
            let schedule = path.iter().map(|(at, enabled)| enabled[*at]).collect();
            found.failure = Some(Broken { what, schedule });
            found.complete = false;
            break;
        }
        while path.last().is_some_and(|(at, enabled)| at + 1 == enabled.len()) {
            path.pop();
        }
        match path.last_mut() {
            Some((at, _)) => *at += 1,
            None => break,
        }
        if seen.len() as u64 >= most {
            found.complete = false;
            break;
        }
    }
    found.states = seen.len() as u64;
    found
}
