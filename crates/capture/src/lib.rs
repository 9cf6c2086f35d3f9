//! C and C++ programs into events: compiler driver, assembler wrapper, collector.
pub mod assembler;
pub mod cc;
mod collect;
mod error;
mod sampling;
mod session;
pub mod symbols;
pub mod wire;

pub use collect::{Counted, Options, Outcome, Progress, ThreadOutcome, Warning, count, record};
pub use error::CaptureError;
pub use sampling::{SampleKind, SampleProfile, sample};
pub use symbols::instrumented;
