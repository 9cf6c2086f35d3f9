//! C and C++ programs into events: compiler driver, assembler wrapper, collector.
mod collect;
mod error;
mod session;
pub mod symbols;
pub mod wire;

pub use collect::{Counted, Options, Outcome, Progress, ThreadOutcome, Warning, count, record};
pub use error::CaptureError;
pub use symbols::instrumented;
