//! Power that fails anywhere, again and again, in long lives of a pool: what each process finds is what the
//! regions before it left. Which of the words that are not durable are there is left to chance: the checker
//! (`regions`) tries them all, on short runs.

#[path = "../../../../library/conformance/tests/common/field.rs"]
mod field;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::panicking;

use event::FlushKind;
use field::{BYTES, Fields, Step, Story, any_step, held, take};
use proptest::prelude::*;
use region::{Atomicity, Geometry, Options};
use space::sim::{self, Schedule};
use space::{Env, Image, Prestore, Sim, Space, Word};

const LINE: u64 = 64;

/// What happened to a line since all of it was durable.
#[derive(Default)]
struct Line {
    /// Words that were stored through the cache, in their order, and how many of them the next fence waits
    /// for.
    stored: Vec<(u64, u64)>,
    flushed: usize,
    /// Words that were stored past it.
    past: Vec<(u64, u64)>,
}

#[derive(Default)]
struct State {
    lines: BTreeMap<u64, Line>,
    /// Changes before the power fails.
    changes: u64,
    failed: bool,
}

/// Memory whose power fails.
struct Failing {
    space: Image,
    durable: Image,
    state: Mutex<State>,
}

impl Failing {
    fn new(bytes: &[u8], changes: u64) -> Self {
        let state = State { changes, ..State::default() };
        let [space, durable] = [bytes, bytes].map(Image::from_bytes);
        Failing { space, durable, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change, if there still is power.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        state.failed |= state.changes == 0;
        if !state.failed {
            state.changes -= 1;
            return change(&mut state);
        }
        drop(state);
        if !panicking() {
            resume_unwind(Box::new("the power fails"));
        }
    }

    /// What is there when it comes back: of each line, what was stored up to some moment; of what went past
    /// the cache, anything. Often all of a line, or nothing.
    fn left(&self, chance: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
        let left = Image::from_bytes(&self.durable.to_bytes());
        for line in self.state().lines.values() {
            let count = [0, line.stored.len(), chance(line.stored.len() + 1)][chance(3)];
            let kept = chance(3);
            let past: Vec<_> = line.past.iter().filter(|_| [false, true, chance(2) == 1][kept]).collect();
            line.stored[..count].iter().chain(past).for_each(|&(at, word)| left.store_u64(at, word));
        }
        left.to_bytes()
    }
}

impl Space for Failing {
    type Observer = ();

    fn observer(&self) -> &() {
        &()
    }
    fn len(&self) -> u64 {
        self.space.len()
    }
    fn flush_kind(&self) -> FlushKind {
        self.space.flush_kind()
    }
    fn fence_writes(&self) -> bool {
        self.space.fence_writes()
    }
    fn nt_is_sooner(&self) -> bool {
        self.space.nt_is_sooner()
    }
    fn has_failed(&self) -> bool {
        self.state().failed
    }
    fn load_word<W: Word>(&self, offset: u64) -> W {
        self.space.load_word(offset)
    }
    fn store_word<W: Word>(&self, offset: u64, value: W) {
        self.change(|state| {
            self.space.store_word(offset, value);
            let word = offset & !7;
            state.lines.entry(offset / LINE).or_default().stored.push((word, self.space.load_u64(word)));
        });
    }
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        let done = self.space.load_u64(offset);
        if done != old {
            return Err(done);
        }
        self.store_u64(offset, new);
        Ok(old)
    }
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        for (at, word) in (offset..).step_by(8).zip(bytes.as_chunks().0) {
            self.change(|state| {
                let word = u64::from_le_bytes(*word);
                self.space.store_u64(at, word);
                state.lines.entry(at / LINE).or_default().past.push((at, word));
            });
        }
    }
    fn flush(&self, offset: u64, len: u64) {
        self.change(|state| {
            let lines = offset / LINE..=(offset + len.max(1) - 1) / LINE;
            state.lines.range_mut(lines).for_each(|(_, line)| line.flushed = line.stored.len());
        });
    }
    fn fence(&self) {
        self.change(|state| {
            state.lines.retain(|_, line| {
                let flushed = line.stored.drain(..std::mem::take(&mut line.flushed));
                flushed.chain(line.past.drain(..)).for_each(|(at, word)| self.durable.store_u64(at, word));
                !line.stored.is_empty()
            });
        });
    }
    fn prestore(&self, _: u64, _: u64, _: Prestore) {}
}

/// A process: so many changes of memory before the power fails, what it does, and what chance is made of.
type Life = (u64, Vec<Step>, u64);

/// Opens the pool in `bytes`, of which `story` tells, and does so much of it as there is time for; what is
/// left then.
fn live<A: Atomicity>(bytes: &[u8], story: &mut Story, first: u64, (changes, steps, _): &Life) -> Failing {
    let what = || format!("{}, {changes} changes, {steps:?}", A::NAME);
    let run = sim::run(Failing::new(bytes, *changes), &Schedule::walk(1), |env: &Sim<Failing>| {
        let done = catch_unwind(AssertUnwindSafe(|| {
            let (mut pool, _) =
                Fields::<_, A>::open(env).unwrap_or_else(|error| panic!("{}: {error}", what()));
            let found = held(&pool).unwrap_or_else(|error| panic!("{}: {error}", what()));
            let fits = found == story.now || story.next.as_ref() == Some(&found);
            assert!(fits, "{}: found {found:?}, expected {story:?}", what());
            *story = Story { now: found, next: None };
            for (value, step) in (first..).zip(steps) {
                take(&pool, step, value, story);
                if let Step::Open = step {
                    drop(pool);
                    pool = Fields::open(env).unwrap_or_else(|error| panic!("{}: {error}", what())).0;
                }
            }
        }));
        match done {
            Err(panic) if !env.space().inner().state().failed => resume_unwind(panic),
            _ => {}
        }
    });
    run.result.unwrap_or_else(|failure| panic!("{failure}"));
    run.space
}

fn lives<A: Atomicity>(logs: u32, log_bytes: u32, lives: &[Life]) {
    let geometry = Some(Geometry { logs, log_bytes, chunk_bytes: 4096 });
    let made = sim::run(Image::new(BYTES), &Schedule::walk(1), |env: &Sim<Image>| {
        drop(Fields::<_, A>::create(env, &Options { geometry, bytes: None }).expect("it fits"));
    });
    let (mut bytes, mut story) = (made.space.to_bytes(), Story::default());
    for (number, life) in (1..).zip(lives) {
        let failed = live::<A>(&bytes, &mut story, number * 1000, life);
        let mut state = life.2;
        bytes = failed.left(&mut |count| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % count
        });
    }
    // And once more in peace.
    _ = live::<A>(&bytes, &mut story, 0, &(u64::MAX, Vec::new(), 0));
}

fn any_life() -> impl Strategy<Value = Life> {
    let changes = prop_oneof![2 => 0u64..40, 1 => 0u64..200, 2 => 200u64..1000];
    (changes, prop::collection::vec(any_step(), 1..30), any::<u64>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn what_ended_before_the_power_failed_is_there(
        geometry in prop::sample::select(vec![(1, 256), (2, 512), (1, 640), (1, 1536), (2, 2048)]),
        all in prop::collection::vec(any_life(), 1..12),
    ) {
        let (logs, bytes) = geometry;
        region::for_each_engine!(sound A => lives::<A>(logs, bytes, &all));
    }
}
