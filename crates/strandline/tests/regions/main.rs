//! Pools under the crash checker: whatever a crash leaves, recovery finds all of a region or nothing, nothing leaks, and an engine with a
//! mistake is caught.

mod desk;
mod flaws;
mod ssp;

use std::cell::RefCell;

use region::{Atomicity, Error, Options, Redo, Undo, Unprotected};
use space::sim::Schedule;
use space::{Env, Image, Recorded, Recording};
use strandline::check::{self, Check, Scene};
use strandline::crash::Platform;

use desk::*;

fn keeps_regions_whole<A: Atomicity>() {
    let (run, outcome) = check_notes::<A, A>();
    clean(&run, &outcome);
    let (run, outcome) = check_transfers::<A, A>(20);
    clean(&run, &outcome);
}

#[test]
fn redo_keeps_regions_whole_and_blocks_accounted_for() {
    keeps_regions_whole::<Redo>();
}

#[test]
fn undo_keeps_regions_whole_and_blocks_accounted_for() {
    keeps_regions_whole::<Undo>();
}

/// What is not protected is not kept whole, and that is found.
#[test]
fn without_protection_regions_are_torn() {
    let (_, outcome) = check_transfers::<Unprotected, Unprotected>(4);
    assert!(!outcome.findings.is_empty(), "{} images", outcome.images);
}

#[test]
fn threads_do_not_disturb_each_other() {
    for seed in 0..6 {
        let (run, outcome) = check_threads::<Redo, Redo>(&SMALL, seed);
        clean(&run, &outcome);
        let (run, outcome) = check_threads::<Undo, Undo>(&SMALL, seed);
        clean(&run, &outcome);
    }
}

/// More regions than undo logs: they wait for each other.
#[test]
fn threads_share_a_log() {
    for seed in 0..3 {
        let (run, outcome) = check_threads::<Undo, Undo>(&with_logs(1, 512), seed);
        clean(&run, &outcome);
    }
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
    for (bytes, ended) in images {
        let again = check::record_on(Image::from_bytes(&bytes), Platform::Adr, &Schedule::walk(1), |env| {
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

#[test]
fn recovery_itself_may_crash() {
    recovery_may_crash::<Redo>();
    recovery_may_crash::<Undo>();
}

/// A region that does not fit into its log leaves nothing, even if it goes on after it was told; the next one finds the log free.
#[test]
fn a_region_that_is_too_long_is_taken_back() {
    let env = pmem::Os::new(Image::new(BYTES));
    let pool = Desks::<_, Undo>::create(&env, &with_logs(1, 256)).expect("a pool can be made");
    let too_long = Error::TooLong { words: 4, holds: 3 };
    assert_eq!(set_accounts(&pool, 5), Err(too_long.clone()));
    let stubborn = pool.region(|tx| {
        let accounts = tx.root().part(std::mem::offset_of!(Root, accounts), |root: &Root| &root.accounts);
        for at in 0..ACCOUNTS {
            _ = tx.set(accounts.element(at), 5);
        }
        Ok(())
    });
    assert_eq!(stubborn, Err(too_long));
    assert_eq!(pool.get(pool.root()).accounts, accounts(0));
    transfer(&pool, 0).expect("two words fit");
    assert_eq!(pool.get(pool.root()).accounts, accounts(1));
}

/// Fences of some regions that set so many words.
fn fences<A: Atomicity>(regions: u64, words: usize) -> u64 {
    let counts = event::Counts::default();
    let space = Recorded::new(Image::new(1 << 20), counts, &Recording::persistent("regions", "pool"))
        .expect("counts take it");
    let env = pmem::Os::new(space);
    {
        let pool = Desks::<_, A>::create(&env, &Options::default()).expect("a pool can be made");
        for value in 0..regions {
            let done = pool.region(|tx| {
                let accounts =
                    tx.root().part(std::mem::offset_of!(Root, accounts), |root: &Root| &root.accounts);
                (0..words).try_for_each(|at| tx.set(accounts.element(at), value))
            });
            done.expect("there is room");
        }
    }
    let (_, counts) = env.into_space().finish().expect("counts do not fail");
    counts.fences
}

/// What a region waits for: by redo its record, by undo each word's line, its words, and its end.
#[test]
fn fences_of_a_region() {
    for words in 1..=ACCOUNTS {
        assert_eq!(fences::<Redo>(5, words) - fences::<Redo>(0, words), 5, "redo, {words} words");
        let expected = 5 * (words as u64 + 2);
        assert_eq!(fences::<Undo>(5, words) - fences::<Undo>(0, words), expected, "undo, {words} words");
        assert_eq!(
            fences::<Unprotected>(5, words) - fences::<Unprotected>(0, words),
            5,
            "none, {words} words"
        );
    }
}
