//! A process is killed, and later the power fails: the next process finds all that the first one stored, and
//! goes by it, but not all of that is durable.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use region::{Atomicity, Error, Layout, MicroBuffer, Options, Pool, Ptr, Redo, Shadow, Ssp, Undo, flaw};
use space::sim::Schedule;
use space::{Env, Image};
use strandline::check::{self, Check, Run};
use strandline::crash::{Outcome, Platform};

use crate::desk::{BYTES, SMALL, with_logs};
use crate::desk::{of_processor, on_processor};
use crate::frail::Frail;

/// A number, in several places.
pub(crate) struct Tally;
region::persistent! { Tally:
    pub(crate) struct Root { values: [u64; 9], leaf: Ptr<u64, Tally> }
}
impl Layout for Tally {
    const NAME: &'static str = "tally";
    type Root = Root;
}

pub(crate) type Tallies<'e, E, A> = Pool<&'e E, Tally, A>;

/// Writes the next number everywhere: to two lines of the root, and to a new leaf.
pub(crate) fn count<E: Env, A: Atomicity>(pool: &Tallies<'_, E, A>, next: u64) -> Result<(), Error> {
    pool.region(|tx| {
        let values = Root::values(tx.root());
        let leaf = Root::leaf(tx.root());
        let old = tx.get(leaf);
        let new = tx.alloc(next)?;
        tx.set(leaf, new)?;
        [0, 4, 8].into_iter().try_for_each(|at| tx.set(values.element(at), next))?;
        if old.get().is_some() { tx.free(old) } else { Ok(()) }
    })
}

/// The number.
pub(crate) fn number<E: Env, A: Atomicity>(pool: &Tallies<'_, E, A>) -> Result<u64, String> {
    let Root { values, leaf } = pool.get(pool.root());
    let value = values[0];
    let noted = leaf.get().map_or(0, |leaf| pool.get(leaf));
    if [values[4], values[8], noted] != [value; 3] {
        return Err(format!("{values:?}, and the leaf is {noted}"));
    }
    let (blocks, expected) = (pool.blocks().len(), if value == 0 { 1 } else { 2 });
    (blocks == expected).then_some(value).ok_or_else(|| format!("{blocks} blocks at {value}"))
}

/// A process that has opened the pool.
#[derive(Clone, Copy, Debug)]
struct Life {
    /// Regions that had begun, and that had ended, when it opened the pool.
    begun: u64,
    ended: u64,
    /// The number that it found.
    found: u64,
}

/// Processes one after the other; all but the last one are killed after so many changes of memory. The last
/// one counts up three times.
fn lives<S, A>(options: &Options, kills: &[u64]) -> (Run, Outcome)
where
    S: Atomicity,
    A: Atomicity,
{
    let mut lives = Vec::new();
    let scenario = |env: &space::Sim<Frail<_>>| {
        let memory = env.space().inner();
        drop(Tallies::<_, S>::create(env, options).expect("a pool can be made"));
        let (mut begun, mut ended) = (0, 0);
        for kill in kills.iter().copied().map(Some).chain([None]) {
            memory.kill_after(kill.unwrap_or(u64::MAX));
            let killed = catch_unwind(AssertUnwindSafe(|| {
                let (pool, _) = Tallies::<_, S>::open(env).expect("it is whole");
                let found = number(&pool).expect("it is whole");
                lives.push(Life { begun, ended, found });
                for next in (found + 1..).take(if kill.is_some() { 50 } else { 3 }) {
                    begun += 1;
                    count(&pool, next).expect("there is room");
                    ended += 1;
                }
            }));
            assert_eq!(killed.is_err(), kill.is_some());
            memory.revive();
        }
    };
    let schedule = Schedule::walk(1);
    let run = check::record_through(
        of_processor(Image::new(BYTES)),
        Platform::ADR,
        &schedule,
        Frail::new,
        Frail::into_inner,
        scenario,
    );
    let run = run.unwrap_or_else(|error| panic!("killed at {kills:?}: {error}"));
    let mut check = Check::new(&run);
    check.checker.bounds.per_cut = 24;
    let outcome = check.run(|image, crash| {
        let env = pmem::Os::new(image);
        let pool = match Tallies::<_, A>::open(&env) {
            Ok((pool, _)) => pool,
            Err(Error::NotAPool { .. }) if crash.begun() == 0 => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let number = number(&pool)?;
        count(&pool, number + 1).map_err(|error| error.to_string())?;
        // The last process that had begun a region says what there is.
        let (begun, ended) = (crash.begun(), crash.ended_regions().count() as u64);
        let life = lives.iter().rev().find(|life| life.begun < begun);
        let known = life.map_or(0, |life| life.found + ended - life.ended);
        let text = || format!("{ended} of {begun} regions had ended, and {number} is there, not {known}");
        (known..=known + 1).contains(&number).then_some(()).ok_or_else(text)
    });
    (run, outcome)
}

/// What a killed process left survives a power failure.
fn survives<A: Atomicity>() {
    for (options, step) in [(SMALL, 1), (with_logs(1, 1024), 17)] {
        // Wherever a region is, and all over those after it.
        let first = (3..200).chain((200..600).step_by(37)).map(|kill| vec![kill]);
        // The second one is killed while it recovers, or soon after.
        let twice = (10..300).step_by(29).map(|kill| vec![200 + kill % 90, kill]);
        for kills in first.chain(twice).step_by(step) {
            // Both kinds of processors in turn.
            let (run, outcome) = on_processor(kills[0] / 2 % 2 == 1, || lives::<A, A>(&options, &kills));
            let story = || Check::new(&run).story(&outcome);
            assert!(outcome.findings.is_empty(), "{}, killed at {kills:?}: {}", A::NAME, story());
        }
    }
}

/// A log that goes on in a chunk: what an earlier region left there may be zeros in memory and not on the
/// medium.
#[test]
fn what_a_region_that_was_longer_than_its_log_left_survives_a_power_cut() {
    fn survives_long<A: Atomicity>(kills: impl Iterator<Item = u64>) {
        for kill in kills {
            let past_cache = kill / 2 % 2 == 1;
            let (run, outcome) = on_processor(past_cache, || lives::<A, A>(&with_logs(1, 256), &[kill]));
            let story = || Check::new(&run).story(&outcome);
            assert!(outcome.findings.is_empty(), "{}, killed at {kill}: {}", A::NAME, story());
        }
    }
    // By the others, so few writes fit into the log.
    survives_long::<Undo>(20..320);
    survives_long::<Shadow>((20..320).step_by(9));
}

region::for_each_engine!(tests survives);

/// The second process is killed wherever its recovery is: what it stored last stands there for the third one,
/// durable or not.
fn survives_recovery<A: Atomicity>(first: u64, most: u64) {
    let options = with_logs(1, 640);
    for second in 0..most {
        let (run, outcome) = lives::<A, A>(&options, &[first, second]);
        let story = || Check::new(&run).story(&outcome);
        assert!(outcome.findings.is_empty(), "{}, killed at {first}, {second}: {}", A::NAME, story());
    }
}

#[test]
fn what_a_killed_recovery_left_survives_a_power_cut() {
    region::for_each_engine!(sound A => survives_recovery::<A>(70, 200));
}

/// The pool in a space, or a new one if there is none.
fn open_or_create<E: Env, A: Atomicity>(env: &E) -> Result<Tallies<'_, E, A>, Error> {
    match Tallies::open(env) {
        Err(Error::NotAPool { empty: true, .. }) => Tallies::create(env, &SMALL),
        opened => opened.map(|(pool, _)| pool),
    }
}

/// Processes that make a pool: the first, which makes one of another kind, is killed after so many changes,
/// the next makes its own. Whatever a crash leaves can be opened, or be made a pool. Nothing if the first one
/// is there already.
fn made<S: Atomicity, A: Atomicity>(options: &Options, kill: u64) -> Option<(Run, Outcome)> {
    let is_there = Cell::new(false);
    let scenario = |env: &space::Sim<Frail<_>>| {
        let memory = env.space().inner();
        memory.kill_after(kill);
        _ = catch_unwind(AssertUnwindSafe(|| Tallies::<_, S>::create(env, options).map(drop)));
        memory.revive();
        let pool: Tallies<'_, _, A> = match open_or_create(env) {
            Err(Error::Engine { .. }) => return is_there.set(true),
            made => made.expect("it can be made, or opened"),
        };
        (1..4).for_each(|next| count(&pool, next).expect("there is room"));
    };
    let run = check::record_through(
        Image::new(BYTES),
        Platform::ADR,
        &Schedule::walk(1),
        Frail::new,
        Frail::into_inner,
        scenario,
    );
    let run = run.unwrap_or_else(|error| panic!("killed at {kill}: {error}"));
    if is_there.get() {
        return None;
    }
    let mut check = Check::new(&run);
    check.checker.bounds.per_cut = 24;
    let outcome = check.run(|image, crash| {
        let env = pmem::Os::new(image);
        let pool: Tallies<'_, _, A> = open_or_create(&env).map_err(|error| error.to_string())?;
        let (number, ended) = (number(&pool)?, crash.ended_regions().count() as u64);
        count(&pool, number + 1).map_err(|error| error.to_string())?;
        let text = || format!("{ended} regions had ended, and {number} is there");
        (ended..=ended + 1).contains(&number).then_some(()).ok_or_else(text)
    });
    Some((run, outcome))
}

#[test]
fn a_pool_that_was_not_finished_is_made_again() {
    fn is_made<S: Atomicity, A: Atomicity>(options: &Options, kills: impl Iterator<Item = u64>) {
        let mut made_again = 0;
        for kill in kills {
            let Some((run, outcome)) = made::<S, A>(options, kill) else { continue };
            let story = || Check::new(&run).story(&outcome);
            assert!(outcome.findings.is_empty(), "{}, killed at {kill}: {}", A::NAME, story());
            made_again += 1;
        }
        assert!(made_again > 10, "{}: {made_again}", A::NAME);
    }
    is_made::<Redo, Redo>(&SMALL, (0..200).step_by(3));
    is_made::<Undo, Undo>(&SMALL, (0..200).step_by(7));
    is_made::<Ssp, Ssp>(&SMALL, (0..200).step_by(7));
    // What the other one has written to its logs stands where those of this one are.
    is_made::<Undo, Redo>(&with_logs(1, 1024), (0..200).step_by(3));
    is_made::<Redo, Undo>(&with_logs(1, 1024), (0..200).step_by(5));
    is_made::<Redo, Ssp>(&with_logs(1, 1024), (0..200).step_by(5));
    is_made::<Ssp, Shadow>(&with_logs(2, 640), (0..200).step_by(5));
}

/// Recovery that goes by what is not durable is found.
#[test]
fn what_is_not_confirmed_is_caught() {
    fn caught<S: Atomicity, A: Atomicity>() {
        let found = |kill| !lives::<S, A>(&SMALL, &[kill]).1.findings.is_empty();
        assert!((3..300).any(found), "{} was not found", A::NAME);
    }
    caught::<Redo<flaw::NotConfirmed>, Redo>();
    caught::<Undo<flaw::NotConfirmed>, Undo>();
    caught::<MicroBuffer<flaw::NotConfirmed>, MicroBuffer>();
    caught::<Shadow<flaw::NotConfirmed>, Shadow>();
    caught::<Ssp<flaw::NotConfirmed>, Ssp>();
}
