//! What is this memory really like: microbenchmarks after LATTester, the same on real and on modelled memory.
//!
//! A [`Task`] is one measurement in numbers: operation, pattern, sizes, threads, delays, fences. A [`Study`]
//! is a set of tasks that differ along an axis, as data ([`Study::all`]). A [`Bench`] carries tasks out:
//! [`Real`] on this machine's memory, [`Model`] on a machine description. Both give [`Figures`]; what one of
//! them can't do it skips, with the reason. [`Results`] keeps the points of a long sweep in a file that a
//! killed run takes up again.
//!
//! ```
//! use machine::Config;
//! use measure::{Bench, Model, Task};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut bench = Model::new(&Config::preset("xpoint")?).with_events(20_000);
//! let outcome = bench.measure(&Task { threads: 2, access_size: 256, ..Task::default() })?;
//! println!("{outcome:?}");
//! # Ok(())
//! # }
//! ```
//!
//! # What a measurement is
//!
//! Threads go over regions of their own, in the same order of [`Offsets`] on both kinds of memory. Sequential
//! threads start at random offsets, so that they do not walk over the DIMMs in step. A writing access ends
//! with a store fence. Warm-up comes first and is not counted. Idle latencies are of one access between two
//! full fences; latencies under load are those of one thread more, which measures while the others work.
//!
//! The model runs as many events as [`Model::with_events`] says, real memory as long as
//! [`Real::with_runtime`] says: their speeds are too far apart for a common measure.
#![forbid(unsafe_code)]

mod figures;
mod model;
mod offsets;
mod real;
mod results;
mod setting;
mod studies;
mod study;
mod task;

pub use figures::{Figures, Latency, Measurement, Outcome, Stalls};
pub use model::Model;
pub use offsets::{Interleave, Offsets, Random};
pub use real::{Real, RealMemory};
pub use results::{Header, Results, ResultsError};
pub use setting::{Parameter, Setting, SettingError};
pub use studies::sweep;
pub use study::{Point, Show, Study};
pub use task::{Kind, LINE, Locality, Mix, Op, Pattern, Raw, Task, WordError};

/// Something that tasks can be carried out on.
pub trait Bench {
    /// What is measured, in a few words.
    fn subject(&self) -> String;

    /// What a reader has to know before believing the figures, a sentence each.
    fn cautions(&self) -> Vec<String>;

    /// Carries out one task, or says why it can't be done here.
    ///
    /// # Errors
    /// If the task is none ([`Task::fault`]), memory can't be had, or the run fails.
    fn measure(&mut self, task: &Task) -> Result<Outcome, MeasureError>;
}

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// No machine can do that.
    #[error("{0}")]
    Task(String),
    /// The description has no timing, or is none.
    #[error(transparent)]
    Config(#[from] machine::ConfigError),
    /// The simulated run failed.
    #[error(transparent)]
    Run(#[from] event::SinkError),
    /// Memory can't be had.
    #[error(transparent)]
    Memory(#[from] pmem::MapError),
    /// Threads can't be had.
    #[error(transparent)]
    Team(#[from] pmem::probe::TeamError),
}
