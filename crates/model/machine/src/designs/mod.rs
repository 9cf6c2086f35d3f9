//! Persistency designs: what a core does at stores, flushes, fences and marks, one file each.
//!
//! `docs/new-design.md` says step by step how to add one.

mod eager;
mod hops;
mod list;
mod persistency;
#[cfg(test)]
mod tests;
mod tso;
mod weak;

pub use list::Design;
pub(crate) use list::build;
pub(crate) use persistency::{Notice, Persistency, RegionMark};
