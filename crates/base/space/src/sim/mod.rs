//! `Sim`: the seeded twin of the operating system.
//!
//! Simulated threads, locks, condition variables and a clock around any space. One thread runs at a time, and
//! at every event (a lock taken or given up, a wait, a notification, a start, an end, a look at the clock,
//! and as many of the accesses of the space as the [`Schedule`] says) the scheduler decides who goes on. The
//! same schedule gives the same run, and on a [`Recorded`](crate::Recorded) space the same stream of events,
//! byte for byte.
//!
//! A schedule is a value ([`Schedule`]) and a *token*: one printable word that repeats a run in another
//! process. [`Sim::token`] gives the token of the run so far, [`Sim::replay`] takes one. A token says in
//! digests what was decided, so that a program that has changed does not silently run another schedule: the
//! replay ends with the decision at which it left the token's path. [`Sim::explicit`] gives the same run as a
//! list of switches, which can be changed.
//!
//! [`run`] runs a scenario and reports how it failed. A deadlock is found when the last thread that could go
//! on begins to wait; the report says who waits for what, and where whoever has it took it. [`twice`] runs a
//! scenario two times and reports the first event that differs: the order of a hash map, an address, the time
//! of day, whatever the program takes from elsewhere than its environment.
//!
//! ```
//! use space::sim::{Accesses, Failure, Schedule, run};
//! use space::{Env, Image, Space};
//!
//! // Two threads count to two, and lose one if a change falls between load and store.
//! let scenario = |env: &space::Sim<Image>| {
//!     env.threads(2, |_| env.space().store_u64(0, env.space().load_u64(0) + 1));
//!     assert_eq!(env.space().load_u64(0), 2);
//! };
//! let schedules = (0..100).map(|seed| Schedule::walk(seed).at_accesses(Accesses::Every));
//! let mut runs = schedules.map(|schedule| run(Image::new(64), &schedule, scenario));
//! let failing = runs.find(|run| run.result.is_err()).expect("one of them loses a count");
//! let token = failing.token.to_string();
//!
//! // Elsewhere, another day: the same run.
//! let again = run(Image::new(64), &token.parse()?, scenario);
//! assert!(matches!(again.result, Err(Failure::Panicked(_))));
//! # Ok::<(), space::sim::TokenError>(())
//! ```
//!
//! # What carries the threads
//! Each simulated thread has an OS thread of its own (`std::thread::scope`), parked while it is not its turn.
//! Fibres would switch faster, but a recording keeps its buffers in thread-locals, as do the programs that
//! run here, and switching stacks would need `unsafe`. That is why this module, alone in its crate, may start
//! threads. The bench `sim` says what a decision costs, and what a change of threads.
//!
//! # What is simulated, and what is not
//! - Every order of whole accesses and synchronisations, and nothing finer: memory is sequentially
//!   consistent. That a processor's store buffer lets a load overtake a store, or that a non-temporal store
//!   is seen late, does not happen here.
//! - An access of several words happens as a whole. On a machine another thread may see a part of it.
//! - A failed compare-and-swap lets others go on first, and so does a thread that has kept others waiting for
//!   10,000 events: whoever spins does not spin for ever.
//! - Condition variables do not wake without cause, and locks are given to whoever the scheduler lets try
//!   first.
//! - The clock counts events, [`Sim::EVENT_NS`] nanoseconds each, all threads together.
//! - Only the maker's thread and those started by [`Env::threads`](crate::Env::threads) may use the
//!   environment. What they wait for elsewhere (a lock of the standard library held across an access) the
//!   scheduler can't see, and the run hangs.

mod chooser;
mod env;
mod failure;
mod locks;
mod rng;
mod run;
mod sampling;
mod schedule;
mod scheduler;
mod seen;
mod state;
mod stepped;
mod twice;

pub use env::Sim;
pub use failure::{Divergence, Failure, Waiting};
pub use locks::{SimCondvar, SimGuard, SimMutex, SimMutexGuard, SimRwLock};
pub use run::{Run, run};
pub use schedule::{Accesses, Exception, Schedule, Strategy, TokenError};
pub use stepped::Stepped;
pub use twice::{Difference, twice};
