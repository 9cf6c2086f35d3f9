//! Pools that a crash left, and of which a byte was changed then: an error, or what the crash could have
//! left.

use std::cell::RefCell;

use region::{Atomicity, Ssp};
use space::Scratch;
use space::sim::Schedule;
use strandline::check::Check;

use crate::desk::*;

/// Images of a run, each with the number of regions that had ended.
fn images<A: Atomicity>(options: &region::Options, count: usize) -> Vec<(Vec<u8>, usize)> {
    let run = record::<A>(options, &Schedule::walk(1), |pool| {
        for one in STEPS {
            _ = step(pool, 0, one);
        }
    });
    let images: RefCell<Vec<_>> = RefCell::default();
    Check::new(&run).run(|image, crash| {
        if crash.begun() > 0 {
            images.borrow_mut().push((image.to_bytes(), count_ended(&crash)));
        }
        recovered::<A>(image).map(|_| ())
    });
    let images = images.into_inner();
    let step = images.len().div_ceil(count);
    images.into_iter().step_by(step).collect()
}

/// What became of damaged pools.
#[derive(Debug, Default)]
struct Counts {
    reported: u64,
    harmless: u64,
    /// By number of changed bytes: pools that are not what the crash could have left.
    wrong: [u64; 9],
}

/// What is found in a damaged pool. It is wrong if it is not what the crash could have left.
fn judge<A: Atomicity>(damaged: &[u8], ended: usize) -> Result<bool, String> {
    match recovered::<A>(&Scratch::from_bytes(damaged)) {
        Ok(Some((_, [notes, _]))) => Ok(notes.iter().any(|n| (ended..=ended + 1).contains(n))),
        Ok(None) => Ok(false),
        Err(error) if error.contains("damaged") => Err(error),
        Err(_) => Ok(false),
    }
}

/// Changes up to eight bytes of one line of a log by chance, in many pools: of any places in it, of any but
/// the lowest of its words, or of the lowest alone.
fn several_bytes<A: Atomicity>(options: &region::Options, places: &[usize], rounds: u64) -> Counts {
    let geometry = options.geometry.expect("it is given");
    let bytes = (geometry.logs * geometry.log_bytes) as usize;
    let logs = if A::NUMBER == <Ssp as Atomicity>::NUMBER { bytes / 4 } else { bytes };
    let (images, mut counts, mut random) = (images::<A>(options, 24), Counts::default(), 1u64);
    let mut chance = |count: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % count
    };
    for _ in 0..rounds {
        let (image, ended) = &images[chance(images.len())];
        let line = 12288 + 64 * chance(logs / 64);
        let mut damaged = image.clone();
        let changed = (1 + chance(8)).min(places.len());
        let mut left = places.to_vec();
        for _ in 0..changed {
            let place = left.swap_remove(chance(left.len()));
            damaged[line + place] ^= 1 + chance(255) as u8;
        }
        match judge::<A>(&damaged, *ended) {
            Ok(true) => counts.harmless += 1,
            Ok(false) => counts.wrong[changed] += 1,
            Err(_) => counts.reported += 1,
        }
    }
    counts
}

/// Of a line more of which is damaged than a byte, the lowest bytes of words say whether it was written to
/// its end, so it can look torn. Nothing else can be wrong, and that seldom is: the line has to be of the
/// first or the last record of its log.
#[test]
fn several_changed_bytes_of_a_line_are_found_or_seldom_do_harm() {
    const ROUNDS: u64 = 1500;
    /// Of a thousand pools, so many may be wrong.
    fn are_found<A: Atomicity>(options: &region::Options, any_most: u64, lowest_most: u64) {
        let upper: Vec<usize> = (0..64).filter(|place| place % 8 != 0).collect();
        let lowest: Vec<usize> = (0..64).step_by(8).collect();
        let any: Vec<usize> = (0..64).collect();
        let counts = several_bytes::<A>(options, &upper, ROUNDS);
        assert_eq!(counts.wrong, [0; 9], "{}: {counts:?}", A::NAME);
        assert!(counts.reported > 100, "{}: {counts:?}", A::NAME);
        for (name, places, most) in [("any", any, any_most), ("lowest", lowest, lowest_most)] {
            let counts = several_bytes::<A>(options, &places, ROUNDS);
            println!("{}, {name} bytes, {ROUNDS} pools: {counts:?}", A::NAME);
            assert_eq!(counts.wrong[1], 0, "{}, {name} bytes: {counts:?}", A::NAME);
            let wrong = counts.wrong.iter().sum::<u64>();
            assert!(1000 * wrong <= most * ROUNDS, "{}, {name} bytes: {counts:?}", A::NAME);
        }
    }
    region::for_each_engine!(sound A => {
        let (options, any, lowest) = per_engine::<A, _>(&[
            ("redo", (SMALL, 20, 60)),
            ("undo", (SMALL, 8, 15)),
            ("micro-buffer", (SMALL, 10, 30)),
            ("shadow", (SMALL, 3, 6)),
            ("ssp", (with_logs(1, 1024), 70, 200)),
            ("group", (SMALL, 20, 60)),
        ]);
        are_found::<A>(&options, any, lowest);
    });
}

/// State, logs, and the maps of the first chunks; of SSP not the spare pages, which hold what blocks hold.
fn guarded<A: Atomicity>(options: &region::Options) -> impl Iterator<Item = usize> {
    let geometry = options.geometry.expect("it is given");
    let bytes = (geometry.logs * geometry.log_bytes) as usize;
    let logs = if A::NUMBER == <Ssp as Atomicity>::NUMBER { bytes / 4 } else { bytes };
    (8192..8200).chain(8256..8272).chain(12288..12288 + logs).chain(16384..16384 + 40)
}

fn is_found_or_does_no_harm<A: Atomicity>(options: &region::Options) {
    let (mut reported, mut harmless) = (0, 0);
    for (bytes, ended) in images::<A>(options, 24) {
        for place in guarded::<A>(options) {
            for flip in [1u8, 0x40, 0x81] {
                let mut damaged = bytes.clone();
                damaged[place] ^= flip;
                match recovered::<A>(&Scratch::from_bytes(&damaged)) {
                    Ok(Some((_, [notes, _]))) if notes.iter().any(|n| (ended..=ended + 1).contains(n)) => {
                        harmless += 1;
                    }
                    Ok(found) => {
                        panic!("{}: {flip:#x} at {place:#x}, {ended} had ended: {found:?}", A::NAME)
                    }
                    Err(error) if error.contains("damaged") => reported += 1,
                    Err(error) => panic!("{}: {flip:#x} at {place:#x}: {error}", A::NAME),
                }
            }
        }
    }
    assert!(reported > 1000 && harmless > 1000, "{}: {reported} errors, {harmless} did no harm", A::NAME);
}

fn a_changed_byte_is_found_or_does_no_harm<A: Atomicity>() {
    const FEW: region::Options = with_logs(1, 1024);
    let all = per_engine::<A, &[region::Options]>(&[
        ("redo", &[SMALL]),
        ("undo", &[SMALL]),
        ("micro-buffer", &[SMALL, FEW]),
        ("shadow", &[SMALL, FEW]),
        ("ssp", &[FEW]),
        ("group", &[SMALL]),
    ]);
    all.iter().for_each(is_found_or_does_no_harm::<A>);
}

region::for_each_engine!(tests a_changed_byte_is_found_or_does_no_harm);
