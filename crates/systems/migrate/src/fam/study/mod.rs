//! Ratios between fabric-attached memory and a socket, on processes that are started for it.

pub mod app;
pub mod crash;
mod migration;

pub use migration::{By, Settings, Times, migrate};
