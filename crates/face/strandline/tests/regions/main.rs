//! Pools under the crash checker: whatever a crash leaves, recovery finds all of a region or nothing, nothing
//! leaks, and an engine with a mistake is caught.

mod again;
mod caches;
mod chance;
mod damage;
mod desk;
mod failing;
mod flaws;
mod frail;
mod group;
mod growing;
mod killed;
mod long;
mod memory;
mod moving;
mod places;
mod reserved;
mod ssp;
mod write_back;

use std::cell::RefCell;

use region::{Atomicity, Error, MicroBuffer, Options, Redo, Shadow, Undo, Unprotected};
use space::sim::Schedule;
use space::{Env, Image, Recorded, Recording, Sim};
use strandline::check::{self, Check, Scene};
use strandline::crash::Platform;

use desk::*;

fn keeps_regions_whole<A: Atomicity>() {
    // Logs that are full every few regions, such as hold all of them, and longer chunks.
    for options in [&SMALL, &with_logs(1, 4096), &LONG_MAPS] {
        let (run, outcome) = check_notes::<A, A>(options);
        clean(&run, &outcome);
    }
    for (run, outcome) in [check_transfers::<A, A>(20), check_words::<A, A>(20)] {
        clean(&run, &outcome);
    }
}

region::for_each_engine!(tests keeps_regions_whole);

/// Lines of one record go to memory in another way there.
#[test]
fn where_non_temporal_stores_are_sooner_regions_are_whole() {
    on_processor(true, keeps_regions_whole::<Redo>);
    on_processor(true, keeps_regions_whole::<Undo>);
}

/// A record of one word is code of its own.
#[test]
fn a_word_that_is_not_durable_when_its_region_ends_is_caught() {
    let (_, outcome) = check_words::<Redo<region::flaw::LogNotFenced>, Redo>(4);
    assert!(!outcome.findings.is_empty(), "{} images", outcome.images);
}

/// What is not protected is not kept whole, and that is found.
#[test]
fn without_protection_regions_are_torn() {
    let (_, outcome) = check_transfers::<Unprotected, Unprotected>(4);
    assert!(!outcome.findings.is_empty(), "{} images", outcome.images);
}

fn threads_are_kept_apart<A: Atomicity>(options: &Options, seeds: u64) {
    for seed in 0..seeds {
        let (run, outcome) = on_processor(seed % 2 == 1, || check_threads::<A, A>(options, seed));
        clean(&run, &outcome);
    }
}

fn threads_do_not_disturb_each_other<A: Atomicity>() {
    threads_are_kept_apart::<A>(&SMALL, 6);
}

region::for_each_engine!(tests threads_do_not_disturb_each_other);

/// In logs in which there is hardly room for two records.
#[test]
fn threads_do_not_disturb_each_others_copies() {
    threads_are_kept_apart::<MicroBuffer>(&with_logs(2, 256), 3);
    threads_are_kept_apart::<Shadow>(&with_logs(2, 384), 3);
}

/// More regions than logs: they wait for each other.
#[test]
fn threads_share_a_log() {
    threads_are_kept_apart::<Undo>(&with_logs(1, 512), 3);
    threads_are_kept_apart::<MicroBuffer>(&with_logs(1, 512), 3);
    threads_are_kept_apart::<Shadow>(&with_logs(1, 512), 3);
}

/// Recovery may be cut short by another crash.
fn recovery_may_crash<A: Atomicity>() {
    let run = record::<A>(&SMALL, &Schedule::walk(1), |pool| {
        (0..7).for_each(|number| transfer(pool, number).expect("there is room"));
        STEPS[..2].iter().for_each(|&one| step(pool, 0, one).expect("there is room"));
    });
    // Images that recovery has much to do on, from all of the run.
    let images: RefCell<Vec<(Vec<u8>, usize)>> = RefCell::default();
    let seen = RefCell::new(0u64);
    Check::new(&run).run(|image, crash| {
        *seen.borrow_mut() += 1;
        if seen.borrow().is_multiple_of(5) && crash.begun() > 0 {
            images.borrow_mut().push((image.to_bytes(), count_ended(&crash)));
        }
        // The search varies what recovery reads.
        recovered::<A>(image).map(|_| ())
    });
    let images = images.into_inner();
    assert!(images.len() >= 20, "{}", images.len());
    // Each is a run to be checked: some, spread evenly.
    let step = images.len().div_ceil(40);
    for (bytes, ended) in images.into_iter().step_by(step) {
        let image = of_processor(Image::from_bytes(&bytes));
        let again = check::record_on(image, Platform::ADR, &Schedule::walk(1), |env| {
            Desks::<Scene, A>::open(env).expect("it can be recovered");
        });
        let again = again.unwrap_or_else(|error| panic!("{error}"));
        let outcome = Check::new(&again).run(|image, _| {
            let (found, [notes, _]) = recovered::<A>(image)?.ok_or("the pool is gone")?;
            let after =
                |count: usize| found.contains(&count.min(7)) && notes.contains(&count.saturating_sub(7));
            (after(ended) || after(ended + 1))
                .then_some(())
                .ok_or_else(|| format!("{ended} had ended, found {found:?}, {notes:?}"))
        });
        assert!(outcome.findings.is_empty(), "{}", Check::new(&again).story(&outcome));
    }
}

region::for_each_engine!(tests recovery_may_crash);

/// A region for which the pool has no room leaves nothing, even if it goes on after the error; the next one
/// finds the log free.
fn a_region_that_finds_no_room_is_taken_back<A: Atomicity>() {
    // Simulated: a log that is not given back is found when somebody waits for it.
    let run = space::sim::run(Image::new(BYTES), &Schedule::walk(1), |env: &Sim<Image>| {
        finds_no_room(&Desks::<_, A>::create(env, &with_logs(1, 256)).expect("a pool can be made"));
    });
    run.result.unwrap_or_else(|failure| panic!("{}: {failure}", A::NAME));
}

fn finds_no_room<A: Atomicity>(pool: &Desks<'_, Sim<Image>, A>) {
    let words = pool.region(|tx| tx.alloc([1u64; 40])).expect("there is room");
    // All chunks that could be lent.
    while pool.region(|tx| tx.alloc([0u64; 512])).is_ok() {}
    let (blocks, usage) = (pool.blocks(), pool.usage());
    for stubborn in [false, true] {
        let too_long = pool.region(|tx| {
            tx.alloc([9u64; 40]).expect("there is room beside the other one");
            let mut result = Ok(());
            (0..40).rev().for_each(|at| result = result.clone().and(tx.set(words.element(at), 5)));
            if stubborn { Ok(()) } else { result }
        });
        assert!(matches!(too_long, Err(Error::Full { .. })), "{}: {too_long:?}", A::NAME);
        assert_eq!(pool.get(words), [1; 40], "{}", A::NAME);
        assert_eq!(pool.blocks(), blocks, "{}", A::NAME);
        assert_eq!(pool.usage(), usage, "{}: what the region took is free", A::NAME);
    }
    transfer(pool, 0).expect("two words fit");
    assert_eq!(pool.get(pool.root()).accounts, accounts(1));
}

#[test]
fn regions_that_find_no_room_are_taken_back() {
    region::for_each_engine!(sound A => a_region_that_finds_no_room_is_taken_back::<A>());
}

/// Fences of some regions that set so many words, each on a line of its own.
fn fences<A: Atomicity>(regions: u64, words: usize) -> u64 {
    let counts = event::Counts::default();
    let space = Recorded::new(Image::new(1 << 20), counts, &Recording::persistent("regions", "pool"))
        .expect("counts take it");
    let env = pmem::Os::new(space);
    {
        let pool = Desks::<_, A>::create(&env, &Options::default()).expect("a pool can be made");
        let lines = pool.region(|tx| tx.alloc([0u64; 8 * 64])).expect("there is room");
        for value in 0..regions {
            let done = pool.region(|tx| (0..words).try_for_each(|at| tx.set(lines.element(8 * at), value)));
            done.expect("there is room");
        }
    }
    let (_, counts) = env.into_space().finish().expect("counts do not fail");
    counts.fences
}

/// What a region waits for: by redo its record; by undo each word's line, its words, and its end; by
/// micro-buffering its record and its words; by shadow copy its copies, its record and its words.
#[test]
fn fences_of_a_region() {
    fn of<A: Atomicity>(words: usize) -> u64 {
        fences::<A>(9, words) - fences::<A>(0, words)
    }
    for words in [1, 4, 16, 64] {
        region::for_each_engine!(A => {
            let each = per_engine::<A, Option<u64>>(&[
                ("redo", Some(1)),
                ("undo", Some(words as u64 + 2)),
                ("none", Some(1)),
                ("micro-buffer", Some(2)),
                ("shadow", Some(3)),
                // Two, and those of pages that are brought home: see `ssp`.
                ("ssp", None),
                ("group", Some(1)),
            ]);
            if let Some(each) = each {
                assert_eq!(of::<A>(words), 9 * each, "{}, {words} words", <A as Atomicity>::NAME);
            }
        });
    }
}
