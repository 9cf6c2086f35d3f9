//! Persistency designs: what a core does at stores, flushes, fences and marks, one file each.
//!
//! `docs/new-design.md` says step by step how to add one.

mod as_tso;
mod battery;
mod eager;
mod hops;
mod list;
mod marked;
mod persistency;
mod redo;
#[cfg(test)]
mod skeleton;
mod ssp;
mod strand;
#[cfg(test)]
mod tests;
mod tso;
mod undo;
mod weak;
mod write_set;

pub use list::Design;
pub(crate) use list::build;
pub(crate) use persistency::{Notice, Persistency, RegionMark};
