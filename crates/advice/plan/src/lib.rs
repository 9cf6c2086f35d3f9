//! Which tiers, how much of each, how much cache: profiles, prediction, choice, packing.
//!
//! The source is Y. Ni, "Enabling Efficient Persistent Memory Systems", Santa Cruz 2022, chapter 4. A [`profile::Profiler`] takes
//! a run's events and counts, by data structure, what misses a last-level cache of each candidate's number of ways, and which misses
//! overlap. [`placed::Placed`] simulates the run with its data where a [`Placement`] says. From a profile and one run per tier and
//! one with little cache, a [`Model`] predicts every other configuration; [`choose`](mod@choose) prices them and takes one;
//! [`fleet`] packs virtual machines.
//!
//! | module | what it has |
//! |---|---|
//! | [`curve`] | miss curves: exact stack distances, SHARDS, UMON |
//! | [`profile`] | misses, write-backs and overlap by data structure |
//! | [`placed`], [`tiers`] | simulated runs; latency and bandwidth of both memories |
//! | [`model`] | the prediction, its interval, and when it is refused |
//! | [`prices`], [`choose`](mod@choose) | costs, Algorithm 1 |
//! | [`answer`] | what to rent, what lies where, what breaks first |
//! | [`search`] | exhaustive and random search, Bayesian optimisation |
//! | [`phases`](mod@phases) | where a run changes |
//! | [`sites`] | bounds for programs that were not recompiled |
//! | [`fleet`] | the cluster: scheduler, compact size |
#![forbid(unsafe_code)]

pub mod answer;
pub mod choose;
pub mod curve;
pub mod fleet;
pub mod model;
pub mod phases;
pub mod placed;
mod placement;
pub mod prices;
pub mod profile;
mod reference;
pub mod search;
pub mod sites;
pub mod tiers;

pub use model::{Model, ModelError, Prediction};
pub use placement::Placement;
pub use profile::Namer;
pub use reference::Reference;
