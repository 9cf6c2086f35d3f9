//! `HashTable`.

use std::marker::PhantomData;

use index::hash::{
    ConstantTag, ErasedEarly, ExtentEarly, Flaw, HashTable, LinkedEarly, MovedEarly, NotFenced, OldForgotten,
    Options, Sound,
};
use index::{Error, Whole};
use space::{Env, Image, Space};

use crate::desk::{Opened, Scenario, Step, Subject, caught, holds, holds_again, mixed};
use crate::killed::holds_killed;

/// Segments of 20 slots.
struct Small<F = Sound>(PhantomData<fn() -> F>);

impl<F> Clone for Small<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Small<F> {}

impl<F: Flaw> Subject for Small<F> {
    const SORTED: bool = false;

    /// Behind the first extent, what an earlier owner left: pairs, and words that claim hashes.
    fn space(self) -> Image {
        let image = Image::new(Self::BYTES);
        for at in ((2 << 10) + 256..Self::BYTES).step_by(8) {
            image.store_u64(at, 0x8101_0101_0101_0101);
        }
        image
    }

    fn create<E: Env>(self, env: &E) -> Result<Opened<'_>, Error> {
        let whole = Whole::create(env.space(), 2 << 10)?;
        let options = Options { buckets: 2, seed: Some(7) };
        Ok(Box::new(HashTable::<_, _, u64, u64, F>::create(env, whole, &options)?))
    }

    fn open<E: Env>(self, env: &E) -> Result<Opened<'_>, Error> {
        Ok(Box::new(HashTable::<_, _, u64, u64, F>::open(env, Whole::open(env.space())?)?))
    }
}

/// So many keys, in an order that splits segments all the time.
fn growing(keys: u64) -> Scenario {
    vec![(0..keys).map(|key| Step::Insert(key * 0x1_0101, key * 0x101 + 1)).collect()]
}

/// Fills a segment; then each key is updated and removed at once, and comes back.
fn rewritten(keys: u64) -> Scenario {
    let key = |number: u64| number * 0x1_0101;
    let mut steps: Vec<Step> = (0..keys).map(|number| Step::Insert(key(number), number + 1)).collect();
    for number in 0..keys {
        let insert = |value| Step::Insert(key(number), number + value);
        steps.extend([insert(100), Step::Remove(key(number)), insert(200)]);
    }
    vec![steps]
}

#[test]
fn every_crash_leaves_what_had_ended() {
    for seed in 1..4 {
        holds(Small::<Sound>(PhantomData), &mixed(1, 80, 40, seed), seed);
    }
    holds(Small::<Sound>(PhantomData), &growing(90), 1);
    holds(Small::<Sound>(PhantomData), &rewritten(13), 1);
}

#[test]
fn so_do_crashes_of_several_threads() {
    for seed in 1..4 {
        holds(Small::<Sound>(PhantomData), &mixed(2, 40, 20, seed), seed);
        holds(Small::<Sound>(PhantomData), &mixed(3, 24, 12, seed), seed);
    }
}

#[test]
fn a_second_crash_takes_nothing_back() {
    holds_again(Small::<Sound>(PhantomData), &mixed(1, 60, 24, 5), 5);
    holds_again(Small::<Sound>(PhantomData), &growing(50), 2);
}

#[test]
fn a_killed_process_leaves_nothing_that_is_lost_later() {
    holds_killed(Small::<Sound>(PhantomData), &mixed(1, 60, 12, 5));
    holds_killed(Small::<Sound>(PhantomData), &rewritten(8));
}

#[test]
fn mistakes_are_caught() {
    fn caught_in<F: Flaw>() {
        let scenarios = [mixed(1, 80, 12, 1), growing(60), rewritten(13), mixed(2, 40, 8, 3)];
        caught(std::any::type_name::<F>(), Small::<F>(PhantomData), &scenarios);
    }
    caught_in::<ConstantTag>();
    caught_in::<NotFenced>();
    caught_in::<ErasedEarly>();
    caught_in::<OldForgotten>();
    caught_in::<LinkedEarly>();
    caught_in::<MovedEarly>();
    caught_in::<ExtentEarly>();
}
