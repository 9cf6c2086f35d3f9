//! The spaces of this crate keep the contract.

use event::Discard;
use space::{Image, Recorded, Recording, conformance};

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
