//! Runs of C and C++ programs into events: collector, symbols, sampling.
//!
//! [`record`] runs a program that was built with the crate `instrument`. Its runtime library
//! (`capture-runtime`) also stands in front of the C library's functions for memory, mappings, threads and
//! locks. Program and collector share memory, laid out in [`abi`]: each thread fills buffers of its own, and
//! the collector decodes full ones. What a piece of code accesses is described beside the code, in the
//! program's file, so a record is mostly addresses. Synchronisations carry positions in one global order, by
//! which the threads' streams are merged into one for an [`event::Sink`]. [`symbols`] gives code addresses
//! their functions and lines. [`count`] only counts; [`sample`] is for programs that were not instrumented,
//! which [`instrumented`] finds out.

mod collect;
mod error;
mod sampling;
mod session;
pub mod symbols;

pub use collect::{
    Counted, Interrupt, Interrupts, Missed, Options, Outcome, Progress, StackOutcome, ThreadOutcome, Warning,
    abandon, count, record,
};
pub use error::CaptureError;
pub use sampling::{
    Backing, Chase, CounterRun, Counts, EVERY, FaultCause, FaultRun, FaultSample, MissRun, ProcessorEvent,
    Reports, SampleKind, SampleProfile, StoreRun, count_events, count_faults, memory_sampling, sample,
    sample_faults, sample_misses, sample_stores, store_sampling, time_chase, time_first_uses, time_mapped,
    time_populated_use, time_reports, time_sampling, time_upgrades_beside, time_wakes,
};
pub use symbols::instrumented;
