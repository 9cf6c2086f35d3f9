//! The published trees that are durable.

use std::marker::PhantomData;

use index::tree::{FastFair, FastFairSp, Flaw, Options, PersistentUnsorted, Tree, Variant, Wal};
use index::{Error, Whole};
use space::Env;

use crate::desk::{Opened, Subject, caught, emptied, holds, holds_again, mixed};
use crate::killed::holds_killed;

/// A mistake, and whether groups are flushed.
struct Small<D>(Flaw, bool, PhantomData<D>);

impl<D> Clone for Small<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for Small<D> {}

fn small<D>(flaw: Flaw) -> Small<D> {
    Small(flaw, false, PhantomData)
}

impl<D> Small<D> {
    fn options(self) -> Options {
        Options { node: 256, latches: 5, logs: 2, batch: 4, group_flush: self.1, flaw: self.0 }
    }
}

impl<D: Variant> Subject for Small<D> {
    fn create<E: Env>(self, env: &E) -> Result<Opened<'_>, Error> {
        let whole = Whole::create(env.space(), 4 << 10)?;
        Ok(Box::new(Tree::<_, u64, u64, _, D>::create(env, whole, &self.options())?))
    }

    fn open<E: Env>(self, env: &E) -> Result<Opened<'_>, Error> {
        let whole = Whole::open(env.space())?;
        Ok(Box::new(Tree::<_, u64, u64, _, D>::open(env, whole, &self.options())?))
    }
}

fn survives<D: Variant>() {
    let tree = small::<D>(Flaw::None);
    holds(tree, &mixed(1, 70, 40, 1), 1);
    holds(tree, &mixed(1, 70, 12, 2), 2);
    holds(tree, &emptied(33), 1);
    for seed in 1..3 {
        holds(tree, &mixed(2, 30, 14, seed), seed);
        holds(tree, &mixed(3, 18, 8, seed), seed);
    }
    holds_again(tree, &mixed(1, 40, 16, 5), 5);
    holds_killed(tree, &mixed(1, 40, 16, 5));
    holds_killed(tree, &emptied(20));
}

#[test]
fn wal_survives() {
    survives::<Wal>();
}

#[test]
fn fast_fair_survives() {
    survives::<FastFair>();
}

#[test]
fn persistent_unsorted_survives() {
    survives::<PersistentUnsorted>();
}

#[test]
fn fast_fair_sp_survives() {
    survives::<FastFairSp>();
}

/// Flushing groups is not for durability and takes none away.
#[test]
fn group_flushing_survives() {
    let tree = Small::<Wal>(Flaw::None, true, PhantomData);
    holds(tree, &mixed(1, 70, 40, 1), 1);
    holds(tree, &emptied(33), 2);
    holds(tree, &mixed(2, 30, 14, 1), 1);
}

#[test]
fn mistakes_of_several_threads_are_caught() {
    let scenarios = [mixed(2, 40, 20, 1), mixed(3, 30, 14, 2), mixed(2, 40, 8, 3)];
    caught("FAST/FAIR without order", small::<FastFair>(Flaw::NotInOrder), &scenarios);
    caught("FAST/FAIR SP without order", small::<FastFairSp>(Flaw::NotInOrder), &scenarios);
    caught("a bit before its slot", small::<PersistentUnsorted>(Flaw::BitFirst), &scenarios);
    caught("a record that is not fenced", small::<Wal>(Flaw::LogNotFenced), &scenarios);
    caught("a sibling linked early", small::<Wal>(Flaw::LinkedEarly), &scenarios);
    caught("a sibling linked early", small::<FastFair>(Flaw::LinkedEarly), &scenarios);
    caught("a sibling linked early", small::<PersistentUnsorted>(Flaw::LinkedEarly), &scenarios);
}

#[test]
fn mistakes_are_caught() {
    let scenarios = [mixed(1, 70, 40, 1), emptied(33), mixed(1, 70, 12, 2)];
    caught("FAST/FAIR without order", small::<FastFair>(Flaw::NotInOrder), &scenarios);
    caught("FAST/FAIR SP without order", small::<FastFairSp>(Flaw::NotInOrder), &scenarios);
    caught("a bit before its slot", small::<PersistentUnsorted>(Flaw::BitFirst), &scenarios);
    caught("a record that is not fenced", small::<Wal>(Flaw::LogNotFenced), &scenarios);
    caught("a sibling linked early", small::<Wal>(Flaw::LinkedEarly), &scenarios);
    caught("a sibling linked early", small::<FastFair>(Flaw::LinkedEarly), &scenarios);
    caught("a sibling linked early", small::<PersistentUnsorted>(Flaw::LinkedEarly), &scenarios);
    let grouped = Small::<Wal>(Flaw::GroupTrusted, true, PhantomData);
    caught("a sibling whose slots alone were flushed", grouped, &scenarios);
}
