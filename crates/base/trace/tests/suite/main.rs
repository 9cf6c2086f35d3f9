//! The trace file and the importers, from outside.
#![allow(clippy::unwrap_used)] // helpers of tests may panic as they do

mod common;
mod damage;
mod made;
mod merge;
mod mutations;
mod roundtrip;
mod runs;
mod tree;
