//! C and C++ programs into events: compiler driver, assembler wrapper, collector.
//!
//! A program is built with [`cc`], which runs the user's compiler with its thread-sanitizer pass switched on:
//! the compiler itself puts a call before each access to memory. What it writes goes through the [`assembler`] wrapper,
//! which turns these calls into a few instructions in line that note addresses only, and puts hooks before flushes,
//! fences and non-temporal stores, which the pass does not know. What is linked gets our runtime library
//! (`crates/capture-runtime`) in place of the sanitizer's; it also stands in front of the C library's functions for
//! memory, mappings, threads and locks.
//!
//! [`record`] runs such a program. Program and collector share memory, laid out in [`wire`]: each thread fills
//! buffers of its own, and the collector decodes full ones. What a piece of code accesses is described beside the
//! code, in the program's file, so a record is mostly addresses. Synchronisations carry positions in one
//! global order, by which the threads' streams are merged into one for an [`event::Sink`]. [`symbols`] gives code
//! addresses their functions and lines. [`count`] only counts; [`sample`] is for programs that were not built
//! with [`cc`], which [`instrumented`] can tell.

pub mod assembler;
mod behind;
pub mod cc;
mod collect;
mod error;
mod lane;
mod relay;
mod sampling;
mod session;
pub mod symbols;
pub mod wire;

pub use behind::Behind;
pub use collect::{
    Counted, Interrupt, Interrupts, Options, Outcome, Progress, ThreadOutcome, Warning, count, record,
};
pub use error::CaptureError;
pub use relay::{Relay, broadcast};
pub use sampling::{SampleKind, SampleProfile, sample};
pub use symbols::instrumented;
