//! Content-addressed sets of runs: a grid of configurations in, one Parquet table out.
//!
//! A [`Grid`] is data, out of a TOML file or of JSON: inputs, machines, persistency designs, seeds and keys of the machines
//! with several values each. Its combinations are [`Run`]s. Each run has an address: a hash of everything that its result
//! depends on (the content of the trace or the workload with its parameters, the machine's whole description, what is set
//! in it, design, seed, and the version of the models). A [`Store`] keeps a result per address, a small file each, so that
//!
//! - a second sweep computes what is missing and nothing else, whatever grid the results came from;
//! - a sweep that was killed goes on: a result is there whole, or not at all;
//! - a result can be computed anywhere. [`Sweep::tasks`] are texts; whoever computes one ([`compute`]) hands back a text,
//!   which [`Sweep::keep`] stores. Threads of this process are one way ([`Sweep::run`]), processes of other machines another.
//!
//! A task has several runs of one input, which is decoded once for all of them.
//!
//! A configuration that no machine can have is a row with an `error`, and does not end the sweep. A wrong *name* does, before
//! anything runs.
//!
//! Rows of `reproduce` run through it as well (`row = ["xpoint-9"]`): a verdict and its reason are their result.
#![forbid(unsafe_code)]

mod compute;
mod error;
mod grid;
mod result;
mod run;
mod store;
mod table;
mod task;
mod version;

pub use compute::compute;
pub use error::SweepError;
pub use grid::Grid;
pub use run::{Machine, Run, Source};
pub use store::{STORE, Store};
pub use table::{Column, Data, Table};
pub use task::{Sweep, Tally};
pub use version::VERSION;
