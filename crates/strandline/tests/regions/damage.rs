//! Pools that a crash left, and of which a byte was changed then: an error, or what the crash could have left.

use std::cell::RefCell;

use region::{Atomicity, MicroBuffer, Redo, Shadow, Ssp, Undo};
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

/// State, logs, and the maps of the first chunks; of SSP not the spare pages, which hold what blocks hold.
fn guarded<A: Atomicity>(options: &region::Options) -> impl Iterator<Item = usize> {
    let geometry = options.geometry.expect("it is given");
    let bytes = (geometry.logs * geometry.log_bytes) as usize;
    let logs = if A::NUMBER == <Ssp as Atomicity>::NUMBER { bytes / 4 } else { bytes };
    (8192..8200).chain(8256..8272).chain(12288..12288 + logs).chain(16384..16384 + 40)
}

fn is_found_or_does_no_harm<A: Atomicity>(options: &region::Options) {
    let (mut told, mut harmless) = (0, 0);
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
                    Err(error) if error.contains("damaged") => told += 1,
                    Err(error) => panic!("{}: {flip:#x} at {place:#x}: {error}", A::NAME),
                }
            }
        }
    }
    assert!(told > 1000 && harmless > 1000, "{}: {told} errors, {harmless} did no harm", A::NAME);
}

#[test]
fn a_changed_byte_of_what_a_crash_left_is_found_or_does_no_harm() {
    is_found_or_does_no_harm::<Redo>(&SMALL);
    is_found_or_does_no_harm::<Undo>(&SMALL);
    is_found_or_does_no_harm::<Ssp>(&with_logs(1, 1024));
}

#[test]
fn a_changed_byte_of_a_crash_with_copies_is_found_or_does_no_harm() {
    for options in [&SMALL, &with_logs(1, 1024)] {
        is_found_or_does_no_harm::<MicroBuffer>(options);
        is_found_or_does_no_harm::<Shadow>(options);
    }
}
