//! Persistency hardware: the designs by name, what a program becomes on each, and what a crash may leave.
//!
//! `machine` has the designs with time, a file each. This crate has what they share with users and with the search for lost data:
//!
//! - [`named`]: the names of `strandline simulate --persistency`, and what each changes of a machine.
//! - [`mapping`]: from marked regions to log entries, flushes and strand marks, by language.
//! - [`litmus`]: litmus tests, axioms and state machines of every design, and a hunt for disagreement.
//! - [`ssp`]: the durable protocol of shadow sub-paging, tried with every crash.
//! - [`remote`]: a log replicated by one-sided writes: what it costs, and what it may lose.
//! - [`cost`]: sizes in hardware.
#![forbid(unsafe_code)]

pub mod cost;
pub mod litmus;
pub mod mapping;
pub mod named;
pub mod remote;
pub mod ssp;

pub use mapping::{Language, Mapped, Mapping};
pub use named::{DESIGNS, Named, UnknownDesign};
