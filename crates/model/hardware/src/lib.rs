//! Persistency hardware: the designs by name, and what a program becomes on each.
//!
//! `machine` has the designs with time, a file each. This crate has what they share with users and with the crash checker:
//!
//! - [`named`]: the names of `strandline simulate --persistency`, and what each changes of a machine.
//! - [`litmus`]: litmus tests, axioms and state machines of every design, and a hunt for disagreement.
//! - [`mapping`]: from marked regions to log entries, flushes and strand marks, by language.
#![forbid(unsafe_code)]

pub mod litmus;
pub mod mapping;
pub mod named;

pub use mapping::{Language, Mapped, Mapping};
pub use named::{DESIGNS, Named, UnknownDesign};
