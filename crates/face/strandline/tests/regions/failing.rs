//! Memory that fails: the region panics, no other commits after it, nobody waits for ever, and recovery finds
//! what a crash at that moment leaves.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use region::{Atomicity, Error, Geometry, Layout, MicroBuffer, Options, Pool, Redo, Shadow, Undo, flaw};
use space::sim::{Schedule, run};
use space::{Env, Image};
use strandline::check::{self, Check, Run, RunError};
use strandline::crash::{Outcome, Platform};

use crate::desk::*;
use crate::frail::Frail;

struct Rows;
region::persistent! { Rows:
    struct Row { few: [u64; 4], many: [u64; MANY] }
}
impl Layout for Rows {
    const NAME: &'static str = "rows";
    type Root = Row;
}
/// More than a log holds, if each is written by itself.
const MANY: usize = 60;

/// Sets a few words, and every third time all.
fn set_row<E: Env, A: Atomicity>(pool: &Pool<&E, Rows, A>, value: u64) -> Result<(), Error> {
    let few = Row::few(pool.root());
    let many = Row::many(pool.root());
    pool.region(|tx| {
        tx.set(few, [value; 4])?;
        let count = if value.is_multiple_of(3) { MANY } else { 0 };
        (0..count).rev().try_for_each(|at| tx.set(many.element(at), value))
    })
}

/// Whether `work` panics.
fn panics(work: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

/// Regions one after the other, of which one meets the fence that fails; then what the memory has, which the
/// program has not lost.
fn fails<A: Atomicity>(fence: u64, for_good: bool) {
    let what = format!("{}, fence {fence}, for good: {for_good}", A::NAME);
    let geometry = Some(Geometry { logs: 2, log_bytes: 512, chunk_bytes: 4096 });
    let worked = run(Frail::new(Image::new(32 << 10)), &Schedule::walk(0), |env| {
        let pool = Pool::<_, Rows, A>::create(env, &Options { geometry, bytes: None }).expect("it fits");
        env.space().inner().fail_after(fence, for_good);
        let (mut ended, mut failed) = (0, 0);
        for value in 1..=30 {
            if panics(|| set_row(&pool, value).expect("it fits")) {
                failed += 1;
            } else {
                assert_eq!(failed, 0, "{what}: region {value} ended after one that failed");
                ended = value;
            }
        }
        assert!(failed > 0, "{what}: no fence failed");
        // By redo places are durable only after their regions have ended. Nobody knows which are, so they are
        // not settled either.
        let settled = !panics(|| pool.checkpoint().expect("it panics"));
        assert!(!settled || A::NUMBER != <Redo as Atomicity>::NUMBER, "{what}: it is settled");
        ended
    });
    let ended = worked.result.unwrap_or_else(|failure| panic!("{what}: {failure}"));
    let opened = run(worked.space.into_inner(), &Schedule::walk(0), |env| {
        let (pool, _) = Pool::<_, Rows, A>::open(env).expect("it is whole");
        pool.get(pool.root())
    });
    let Row { few, many } = opened.result.unwrap_or_else(|failure| panic!("{failure}"));
    let whole = few == [few[0]; 4] && many == [few[0] / 3 * 3; MANY];
    assert!(whole && (ended..=ended + 1).contains(&few[0]), "{what}: {few:?} and {many:?} after {ended}");
}

#[test]
fn nobody_commits_after_a_region_that_failed() {
    for fence in 0..20 {
        for for_good in [false, true] {
            region::for_each_engine!(A => fails::<A>(fence, for_good));
        }
    }
}

/// Two threads on memory that fails, and all that a crash can leave from then on, and before.
fn check_failing<S, A>(options: &Options, fence: u64, for_good: bool) -> Result<(Run, Outcome), RunError>
where
    S: Atomicity,
    A: Atomicity,
{
    let schedule = Schedule::walk(fence);
    let scenario = |env: &space::Sim<Frail<_>>| {
        let pool = Desks::<_, S>::create(env, options).expect("a pool can be made");
        let memory = env.space().inner();
        memory.fail_after(fence, for_good);
        let transfers = env.mutex(0);
        env.threads(THREADS as u32, |thread| {
            for one in STEPS {
                let failed = panics(|| {
                    _ = step(&pool, thread as usize, one);
                    let mut transfers = env.lock(&transfers);
                    transfer(&pool, *transfers).expect("there is room");
                    *transfers += 1;
                    give_up_in_a_panic(&pool);
                });
                if failed || memory.failed() {
                    return;
                }
            }
        });
        if memory.failed() && for_good {
            let next = *env.lock(&transfers);
            assert!(panics(|| transfer(&pool, next).expect("there is room")));
        }
    };
    let run = check::record_through(
        Image::new(BYTES),
        Platform::ADR,
        &schedule,
        Frail::new,
        Frail::into_inner,
        scenario,
    )?;
    let outcome = Check::new(&run).run(|image, crash| {
        let ended = count_ended(&crash);
        match recovered::<A>(image)? {
            None if crash.begun() == 0 => Ok(()),
            None => Err("the pool is not there".to_owned()),
            Some((found, [a, b])) => {
                let notes = a.iter().flat_map(|a| b.iter().map(move |b| a + b));
                let mut regions = notes.flat_map(|notes| found.iter().map(move |found| notes + found));
                let text = || format!("{ended} regions had ended; found are {found:?}, {a:?} and {b:?}");
                let fits = regions.any(|regions| (ended..=ended + THREADS).contains(&regions));
                fits.then_some(()).ok_or_else(text)
            }
        }
    });
    Ok((run, outcome))
}

/// A region that the program gives up by a panic: then no fence can panic.
fn give_up_in_a_panic<E: Env, A: Atomicity>(pool: &Desks<'_, E, A>) {
    _ = catch_unwind(AssertUnwindSafe(|| {
        pool.region(|tx| -> Result<(), Error> {
            let accounts = Root::accounts(tx.root());
            tx.set(accounts, [99; ACCOUNTS])?;
            resume_unwind(Box::new("enough"))
        })
    }));
}

fn survives<A: Atomicity>(options: &Options, fences: impl Iterator<Item = u64>) {
    for fence in fences {
        for for_good in [false, true] {
            let what = format!("{}, fence {fence}, for good: {for_good}", A::NAME);
            let checked = check_failing::<A, A>(options, fence, for_good);
            let (run, outcome) = checked.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(outcome.findings.is_empty(), "{what}: {}", Check::new(&run).story(&outcome));
        }
    }
}

/// Every `step`th fence: a third of them, other ones at other runs, but all of them with `STRANDLINE_LONG`.
fn some(fences: Range<u64>, step: usize) -> impl Iterator<Item = u64> {
    let long = std::env::var_os("STRANDLINE_LONG").is_some();
    let (first, every) = if long { (0, 1) } else { (std::process::id() as usize % 3, 3) };
    println!("fences from {} on, every {}th", first * step, every * step);
    fences.step_by(step).skip(first).step_by(every)
}

/// The regions are there that had ended, and the one under way is whole or not there, wherever memory fails.
fn regions_survive_memory_that_fails<A: Atomicity>() {
    let (options, fences, step) = per_engine::<A, _>(&[
        ("redo", (SMALL, 40, 5)),
        ("undo", (SMALL, 150, 7)),
        ("micro-buffer", (SMALL, 80, 13)),
        ("shadow", (SMALL, 110, 13)),
        ("ssp", (with_logs(2, 1024), 60, 9)),
        ("group", (SMALL, 40, 5)),
    ]);
    survives::<A>(&options, some(0..fences, step));
}

region::for_each_engine!(tests regions_survive_memory_that_fails);

/// With one log.
#[test]
fn regions_that_share_a_log_survive_memory_that_fails() {
    let one = with_logs(1, 512);
    survives::<Undo>(&one, some(1..150, 11));
    survives::<MicroBuffer>(&one, some(1..80, 17));
    survives::<Shadow>(&one, some(1..110, 23));
}

/// An engine that goes on as if nothing had happened is found.
#[test]
fn who_goes_on_after_memory_failed_is_caught() {
    fn caught<S: Atomicity, A: Atomicity>() {
        // Or somebody waits for ever.
        let found = |fence| {
            let checked = check_failing::<S, A>(&SMALL, fence, fence % 2 == 0);
            !checked.is_ok_and(|(_, outcome)| outcome.findings.is_empty())
        };
        assert!((0..60).any(found), "{} was not found", A::NAME);
    }
    region::for_each_engine!(flaw flaw::FailureIgnored; S, A => caught::<S, A>());
}
