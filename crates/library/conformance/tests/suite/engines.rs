//! The engines of the library run the suite, and what it must notice it does.

use std::panic::catch_unwind;

use region::{Atomicity, Shadow, flaw};

#[test]
fn each_engine_conforms() {
    region::for_each_engine!(sound A => conformance::engine::<A>());
}

#[test]
fn pools_without_protection_conform() {
    conformance::pools::<region::Unprotected>();
}

/// Mistakes of an engine with copies behind its records: an engine from outside has no other test of them.
#[test]
fn copies_that_are_not_durable_in_time_are_noticed() {
    fn noticed<A: Atomicity>() -> bool {
        catch_unwind(conformance::power_failures::<A>).is_err()
    }
    assert!(noticed::<Shadow<flaw::CopiesNotFlushed>>(), "copies that are not flushed");
    assert!(
        noticed::<Shadow<flaw::SwitchedEarly>>(),
        "a record that is written before its copies are durable"
    );
}
