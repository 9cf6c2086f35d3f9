//! One scenario, run to its end or to its failure.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::env::Sim;
use super::failure::Failure;
use super::schedule::Schedule;
use crate::{Env, Space};

/// What came of a run.
#[derive(Debug)]
pub struct Run<R, S> {
    /// The scenario's result, or why it has none.
    pub result: Result<R, Failure>,
    /// The token of the run.
    pub token: Schedule,
    /// The same run as switches that can be taken out ([`Sim::explicit`]).
    pub explicit: Schedule,
    /// The space as the run left it.
    pub space: S,
}

/// Runs `scenario` on a simulated environment around `space`. If the schedule is a token, the run is held
/// against it to the end.
pub fn run<S: Space, R>(space: S, schedule: &Schedule, scenario: impl FnOnce(&Sim<S>) -> R) -> Run<R, S> {
    let sim = Sim::new(space, schedule);
    sim.scheduler().be_quiet();
    let result = catch_unwind(AssertUnwindSafe(|| scenario(&sim)));
    let result = match (sim.failure(result.is_ok()), result) {
        (Some(failure), _) => Err(failure),
        (None, Ok(value)) => Ok(value),
        (None, Err(panic)) => Err(Failure::Panicked(message(&*panic))),
    };
    Run { result, token: sim.token(), explicit: sim.explicit(), space: sim.into_space() }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("with a value that is no text").to_owned()
}
