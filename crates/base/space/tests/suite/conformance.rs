//! The spaces of this crate keep the contract.

use event::Discard;
use space::conformance::{Answers, Probe};
use space::sim::{self, Schedule};
use space::{Env, Image, Recorded, Recording, conformance};

fn recording(values: bool) -> Recording {
    Recording { producer: "test".to_owned(), persistent: Some("space".to_owned()), values }
}

#[test]
fn image() {
    conformance::all(Image::new);
}

#[test]
fn recorded_image() {
    for values in [false, true] {
        conformance::all(|len| {
            Recorded::new(Image::new(len), Discard, &recording(values)).expect("the sink takes everything")
        });
    }
}

fn recorded(space: Probe) -> Recorded<Probe, Discard> {
    Recorded::new(space, Discard, &recording(false)).expect("the sink takes everything")
}

/// A wrapper that hides a failed sync lets regions commit that are not durable.
#[test]
fn wrappers_forward_a_failed_sync_and_what_a_fence_is() {
    conformance::forwards(|probe| probe);
    conformance::forwards(|probe| &*Box::leak(Box::new(probe)));
    conformance::forwards(recorded);
    for answers in Answers::each() {
        let run = sim::run(Probe::new(answers), &Schedule::walk(1), |env| Answers::of(env.space()));
        assert_eq!(run.result.expect("it ran"), answers);
    }
}
