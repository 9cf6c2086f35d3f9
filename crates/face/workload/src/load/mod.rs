//! Loads for maps and key-value stores: YCSB's and others' mixes of operations, made in advance from a seed,
//! and the driver that runs them on any [`Target`].
//!
//! A [`Mix`] says which share of the operations does what, a [`Distribution`] which records they touch. The
//! [`Planner`] makes operations from both, a slice at a time, for each thread, before the slice is timed: the
//! time of a slice is the target's and the clock's. [`drive`] runs a slice, as fast as it goes (*closed
//! loop*) or at arrival times that were fixed in advance (*open loop*), where latency counts from the moment
//! at which an operation should have started, so that a target which stalls can't hide it.
//!
//! Records are numbered in the order of their insertion. A record's *id* is a permutation of its number by
//! the seed, so ids are random and all different; targets make keys of ids.
mod choose;
mod drive;
mod mix;
mod plan;
mod target;

pub use choose::{Chooser, Distribution};
pub use drive::{Pace, Tally, drive};
pub use mix::{Mix, Shares};
pub use plan::{Op, Phase, Planner, Slice};
pub use target::{Kind, Target, TargetError, value_is_of, value_word};
