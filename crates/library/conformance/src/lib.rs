//! The tests that every engine runs: the contract of [`Engine`](region::Engine) as code.
//!
//! An engine's own test calls [`engine`]; failures are panics, as in any test. The engines of this library
//! run more: crash images of the checker, damaged logs, memory that fails, killed processes.
//! `docs/new-engine.md` has the list.

#![forbid(unsafe_code)]

mod pools;
mod power;
mod words;

use region::Atomicity;

pub use pools::pools;
pub use power::power_failures;
pub use words::words;

/// Runs the whole suite for an engine whose regions are failure-atomic.
///
/// # Panics
/// If the engine breaks its contract.
pub fn engine<A: Atomicity>() {
    pools::<A>();
    words::<A>();
    power_failures::<A>();
}
