//! Blocks that are reserved, filled without a region and published: a crash at any moment leaves the block
//! and the pointer to it, or neither, and leaks nothing.

use region::{Atomicity, flaw};
use space::sim::Schedule;
use strandline::check::{Check, Run};
use strandline::crash::Outcome;

use crate::desk::*;

fn published_blocks_are_whole<A: Atomicity>() {
    for options in [&SMALL, &LONG_MAPS] {
        let (run, outcome) = check_steps::<A, A>(options, step_reserved);
        clean(&run, &outcome);
    }
}

region::for_each_engine!(tests published_blocks_are_whole);

/// Notes that are reserved and published. A crash leaves what some regions left, and each block is reached.
fn pushed<S: Atomicity, A: Atomicity>() -> (Run, Outcome) {
    let run = record::<S>(&SMALL, &Schedule::walk(1), |pool| {
        (1..3).for_each(|text| step_reserved(pool, Step::Push(text)).expect("there is room"));
    });
    let outcome = Check::new(&run).run(|image, _| recovered::<A>(image).map(drop));
    (run, outcome)
}

#[test]
fn a_pointer_that_is_durable_before_its_block_is_taken_is_caught() {
    region::for_each_engine!(flaw flaw::PublishedEarly; S, A => {
        let (run, outcome) = pushed::<A, A>();
        assert!(outcome.findings.is_empty(), "{}: {}", A::NAME, Check::new(&run).story(&outcome));
        let (_, outcome) = pushed::<S, A>();
        assert!(!outcome.findings.is_empty(), "{}: not found in {} images", A::NAME, outcome.images);
    });
}
