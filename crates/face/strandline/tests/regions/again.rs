//! A crash, what the next process does, and another crash: what recovery leaves of the first one must not be
//! taken for anything of the second.

use std::cell::RefCell;
use std::collections::BTreeSet;

use region::{Atomicity, Options};
use space::sim::Schedule;
use space::{Env, Image};
use strandline::check::{self, Check, Crash, Run, Scene};
use strandline::crash::Platform;

use crate::desk::{BYTES, SMALL, with_logs};
use crate::killed::{Tallies, count, number};

/// Numbers that a process counts.
const COUNTED: u64 = 3;

/// What a crash left: the memory, and the number that recovery finds in it.
struct Left {
    bytes: Vec<u8>,
    found: u64,
    /// Whether recovery said that there was nothing to do.
    clean: bool,
}

/// The numbers of a process, and before them what it finds.
fn numbers(found: u64, process: u64) -> Vec<u64> {
    let own = (1..=COUNTED).map(|next| 100 * process + next);
    std::iter::once(found).chain(own).collect()
}

/// A process that opens the pool in `bytes` and counts.
fn counts_on<A: Atomicity>(bytes: &[u8], process: u64) -> Run {
    let run = check::record_on(Image::from_bytes(bytes), Platform::ADR, &Schedule::walk(1), |env| {
        let (pool, _) = Tallies::<Scene, A>::open(env).expect("it is whole");
        numbers(0, process)[1..].iter().for_each(|&next| count(&pool, next).expect("there is room"));
    });
    run.unwrap_or_else(|error| panic!("{error}"))
}

/// What is in memory that a crash of that process left; an error if that can't be.
fn recovered<A: Atomicity>(
    image: &space::Scratch,
    crash: &Crash<'_>,
    allowed: &[u64],
) -> Result<Left, String> {
    let bytes = image.to_bytes();
    let env = pmem::Os::new(image);
    let (pool, recovered) = Tallies::<_, A>::open(&env).map_err(|error| error.to_string())?;
    let (found, ended) = (number(&pool)?, crash.ended_regions().count());
    let text = || format!("{ended} regions had ended, and {found} is there, of {allowed:?}");
    let fits = allowed.iter().skip(ended).take(2).any(|number| *number == found);
    fits.then_some(Left { bytes, found, clean: recovered.was_clean() }).ok_or_else(text)
}

/// A pool that was opened after a process had ended without closing it: its logs are empty.
fn opened_twice<A: Atomicity>(options: &Options) -> Vec<u8> {
    let env = pmem::Os::new(Image::new(BYTES));
    {
        let pool = Tallies::<_, A>::create(&env, options).expect("it fits");
        numbers(0, 1)[1..].iter().for_each(|&next| count(&pool, next).expect("there is room"));
    }
    drop(Tallies::<_, A>::open(&env).expect("it is whole"));
    env.into_space().to_bytes()
}

/// All that crashes of a process may leave, once each.
fn all_left<A: Atomicity>(bytes: &[u8]) -> Vec<Left> {
    let run = counts_on::<A>(bytes, 2);
    let (left, seen) = (RefCell::new(Vec::new()), RefCell::new(BTreeSet::new()));
    let allowed = numbers(100 + COUNTED, 2);
    let outcome = Check::new(&run).run(|image, crash| {
        let one = recovered::<A>(image, &crash, &allowed)?;
        if seen.borrow_mut().insert(one.bytes.clone()) {
            left.borrow_mut().push(one);
        }
        Ok(())
    });
    assert!(outcome.findings.is_empty(), "{}: {}", A::NAME, Check::new(&run).story(&outcome));
    left.into_inner()
}

fn nothing_is_taken_for_later<A: Atomicity>(options: &Options) {
    let (clean, disordered): (Vec<Left>, Vec<Left>) =
        all_left::<A>(&opened_twice::<A>(options)).into_iter().partition(|left| left.clean);
    assert!(clean.len() + disordered.len() > 20, "{}", A::NAME);
    // Leftovers that no recovery tells of, and others, evenly.
    let some = |left: Vec<Left>| {
        let step = left.len().div_ceil(40).max(1);
        left.into_iter().step_by(step)
    };
    for Left { bytes, found, .. } in some(clean).chain(some(disordered)) {
        let run = counts_on::<A>(&bytes, 3);
        let mut check = Check::new(&run);
        check.checker.bounds.per_cut = 64;
        let allowed = numbers(found, 3);
        let outcome = check.run(|image, crash| recovered::<A>(image, &crash, &allowed).map(|_| ()));
        assert!(outcome.findings.is_empty(), "{}: {}", A::NAME, Check::new(&run).story(&outcome));
    }
}

#[test]
fn what_one_crash_left_is_not_taken_for_another_ones() {
    for options in [&SMALL, &with_logs(1, 640)] {
        region::for_each_engine!(sound A => nothing_is_taken_for_later::<A>(options));
    }
}
