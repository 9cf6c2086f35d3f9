//! `LogTree`.

use index::log_structured::{Flaw, LogTree, Options};
use index::{Error, Whole};
use space::Env;

use crate::desk::{Opened, Subject, caught, emptied, holds, holds_again, mixed};
use crate::killed::holds_killed;

#[derive(Clone, Copy)]
struct Small {
    flaw: Flaw,
    /// Bytes of garbage at which writers collect.
    garbage: u64,
}

const SOUND: Small = Small { flaw: Flaw::None, garbage: 1 << 20 };
/// One that collects all the time.
const COLLECTS: Small = Small { garbage: 1 << 10, ..SOUND };

impl Small {
    fn options(self) -> Options {
        Options {
            logs: 2,
            node: 96,
            chunk: 1024,
            cached: 2,
            garbage: self.garbage,
            inline: true,
            threads: 1,
            flaw: self.flaw,
        }
    }
}

impl Subject for Small {
    fn create<E: Env>(self, env: &E) -> Result<Opened<'_>, Error> {
        let whole = Whole::create(env.space(), 2 << 10)?;
        Ok(Box::new(LogTree::<_, u64, u64, _>::create(env, whole, &self.options())?))
    }

    fn open<E: Env>(self, env: &E) -> Result<Opened<'_>, Error> {
        let whole = Whole::open(env.space())?;
        Ok(Box::new(LogTree::<_, u64, u64, _>::open(env, whole, &self.options())?))
    }
}

#[test]
fn every_crash_leaves_what_had_ended() {
    for seed in 1..4 {
        holds(SOUND, &mixed(1, 60, 20, seed), seed);
        holds(COLLECTS, &mixed(1, 80, 20, seed), seed);
    }
    holds(SOUND, &emptied(33), 1);
}

#[test]
fn so_do_crashes_of_several_threads() {
    for seed in 1..4 {
        holds(SOUND, &mixed(2, 30, 12, seed), seed);
        holds(COLLECTS, &mixed(3, 20, 8, seed), seed);
    }
}

#[test]
fn a_second_crash_takes_nothing_back() {
    holds_again(SOUND, &mixed(1, 60, 24, 5), 5);
    holds_again(COLLECTS, &mixed(1, 80, 24, 6), 6);
}

#[test]
fn a_killed_process_leaves_nothing_that_is_lost_later() {
    holds_killed(SOUND, &mixed(1, 60, 12, 5));
    holds_killed(COLLECTS, &mixed(1, 60, 12, 6));
}

#[test]
fn mistakes_are_caught() {
    let scenarios = [mixed(1, 80, 12, 1), mixed(1, 80, 30, 2), mixed(2, 40, 8, 3)];
    for flaw in [Flaw::NotFenced, Flaw::HeadEarly, Flaw::LinkedEarly, Flaw::Unchecked] {
        caught(&format!("{flaw:?}"), Small { flaw, ..COLLECTS }, &scenarios);
    }
}
