//! Built-in workloads: small persistent programs to look at.
//!
//! A workload is written once against [`space::Env`]. What a run of it means is the caller's choice: on
//! `pmem::Os<Mapped>` it works on real memory, on [`space::Recorded`] every access becomes an event with the
//! line of source that made it. [`Workload::record`] does the latter and is what `strandline profile` uses.
//!
//! `btree-fill` is an ordinary persistent structure, [`BTree`], with its ordinary habits, good and bad.
//! `log-append` does what persistent memory likes best, `hash-scatter` what it likes least: what the reports
//! look like at either end. `index-fill`, `kv-fill` and `kv-log-fill` are the library's own
//! structures, as users have them.
//!
//! All randomness comes from the seed; with one thread the same parameters give the same events.
#![forbid(unsafe_code)]

mod btree;
mod fill;
mod library;
pub mod load;
mod log;
mod registry;
mod rng;
mod scatter;
pub mod transactions;

pub use btree::{BTree, TreeError};
pub use registry::{Outcome, Params, Workload, WorkloadError};
