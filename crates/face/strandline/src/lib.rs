//! Strandline: a toolkit for memory that is not plain DRAM.
//!
//! This crate is the facade: it re-exports the parts that programs use. The command line, `strandline`,
//! is its binary; the repository's README shows it, ARCHITECTURE.md explains how the parts fit.
#![forbid(unsafe_code)]

pub mod check;
pub mod pool;

pub use advise;
pub use crash;
pub use event;
pub use machine;
pub use pmem;
pub use pmem::prestore;
pub use region;
pub use session;
pub use space;
pub use trace;
pub use workload;
