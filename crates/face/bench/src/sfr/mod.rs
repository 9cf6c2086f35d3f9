//! Language-level persistency: C programs, recompiled, under every design (`bench sfr`).

mod contest;
mod page;
mod programs;
mod results;
mod run;
mod text;
mod variant;

pub use contest::SfrContest;
pub use results::{Counters, SfrResults, SfrRow, StepRow, Summary};
pub use variant::SfrVariant;
