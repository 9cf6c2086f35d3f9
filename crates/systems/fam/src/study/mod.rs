//! Ratios between fabric-attached memory and a socket, on processes that are started for it.

pub mod app;
pub mod crash;
mod migration;
mod plan;

pub use migration::{By, Settings, Times, migrate};
pub use plan::{Pair, Part, Rate, Sizes, Writes, calls, dumps, faults, leaves_time, pairs, stores, writes};
