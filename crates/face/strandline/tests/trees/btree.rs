//! `BTree`.

use index::btree::{Flaw, Options};
use index::{BTree, Error, Whole};
use space::Env;

use crate::desk::{Opened, Subject, caught, emptied, holds, holds_again, mixed};
use crate::killed::holds_killed;

#[derive(Clone, Copy)]
struct Small(Flaw);

impl Small {
    fn options(self) -> Options {
        Options { node: 256, latches: 5, batch: 4, threads: 1, flaw: self.0 }
    }
}

impl Subject for Small {
    fn create<E: Env>(self, env: &E) -> Result<Opened<'_>, Error> {
        let whole = Whole::create(env.space(), 2 << 10)?;
        Ok(Box::new(BTree::create(env, whole, &self.options())?))
    }

    fn open<E: Env>(self, env: &E) -> Result<Opened<'_>, Error> {
        Ok(Box::new(BTree::open(env, Whole::open(env.space())?, &self.options())?))
    }
}

#[test]
fn every_crash_leaves_what_had_ended() {
    for seed in 1..4 {
        holds(Small(Flaw::None), &mixed(1, 80, 30, seed), seed);
    }
    holds(Small(Flaw::None), &emptied(33), 1);
}

#[test]
fn so_do_crashes_of_several_threads() {
    for seed in 1..4 {
        holds(Small(Flaw::None), &mixed(2, 36, 14, seed), seed);
        holds(Small(Flaw::None), &mixed(3, 20, 8, seed), seed);
    }
}

#[test]
fn a_second_crash_takes_nothing_back() {
    holds_again(Small(Flaw::None), &mixed(1, 60, 24, 5), 5);
    holds_again(Small(Flaw::None), &emptied(33), 2);
}

#[test]
fn a_killed_process_leaves_nothing_that_is_lost_later() {
    holds_killed(Small(Flaw::None), &mixed(1, 60, 12, 5));
    holds_killed(Small(Flaw::None), &emptied(33));
}

#[test]
fn mistakes_are_caught() {
    let scenarios = [mixed(1, 80, 12, 1), emptied(33), mixed(1, 80, 30, 2), mixed(2, 30, 6, 3)];
    for flaw in [Flaw::ConstantTag, Flaw::LinkedEarly, Flaw::StaleKept, Flaw::OlderKept, Flaw::NotFenced] {
        caught(&format!("{flaw:?}"), Small(flaw), &scenarios);
    }
}
