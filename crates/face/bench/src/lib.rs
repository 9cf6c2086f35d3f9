//! Maps and key-value stores under the same load: ours, plain memory as a baseline, and others' where they
//! are installed, at equal durability and saying which.
//!
//! A [`Contest`] says what is compared and under which load; [`Contest::run`] gives [`Results`], plain data
//! that renders as text and as a page. Each contender gets the same operations in the same order, made before
//! they are timed (`workload::load`).
//!
//! # The unit
//! Time on a shared machine says little, so every figure is also a ratio to a *unit*: one 8-byte store to a
//! random line of a 64 MiB shared mapping, flushed and fenced. A phase runs in slices, and between two slices
//! the unit is measured again, so that both see the same machine (`unit.rs`).
//!
//! # Others
//! Stores with a C interface run in a small program each, compiled when it is needed with the machine's
//! compiler and headers (`peers`). It takes the operations of a slice from a file and reports its own CPU
//! time. redb and fjall are compiled in with the feature `peers`.
//!
//! # Virtualised NVM
//! A [`VnvmContest`] measures `vnvm`: commits of many small writes beside bare logs and libpmemobj, and a store of large records
//! in mapped files beside one that has all of it in NVM (`vnvm/`).
//!
//! # Language-level persistency
//! An [`SfrContest`] compares the designs that make C programs crash-consistent by recompiling them (`sfr`):
//! the programs of `examples/c/sfr`, whose sources this crate carries. A [`MsyncContest`] compares failure-atomic msync
//! with a plain one and with manual write-ahead logging (`msync`).
#![forbid(unsafe_code)]

mod clock;
mod contenders;
mod contest;
mod error;
mod msync;
mod page;
mod peers;
mod record;
mod results;
mod runner;
mod sfr;
mod terms;
mod text;
mod unit;
mod vnvm;

pub use contenders::Known;
pub use contest::{Contest, Watch};
pub use error::Error;
pub use msync::{MsyncContest, MsyncResults, MsyncRow};
pub use record::KeyKind;
pub use results::{Latency, PhaseFigures, Results, Row};
pub use sfr::{Counters, SfrContest, SfrResults, SfrRow, SfrVariant, StepRow, Summary};
pub use terms::{Durability, Role, Skipped, Subject};
pub use vnvm::{CommitRow, RecordRow, VnvmContest, VnvmResults};
