//! Persistent memory of another machine: a replicated log by one-sided writes, what it costs, and what it may lose.

mod log;
pub mod timing;

pub use log::{Losses, Way, losses, replicated_log};
