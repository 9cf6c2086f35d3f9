//! Redis's data types and commands on an ordered map of byte strings.
//!
//! # For a newcomer
//! Everything rests on [`Records`], an ordered map with atomic batches: a record for each key, and one for
//! each element of a hash, list, set or sorted set (`data/layout.rs`). A command reads and writes through a
//! transaction (`data/tx.rs`), whose changes are one batch, so a crash leaves all of a command, or of a
//! `MULTI`, or nothing. [`Core`] runs commands one at a time, as Redis does; it knows neither sockets
//! nor clocks.
//!
//! A command that gives an error has changed nothing: it looks at all its arguments first. Each file of
//! `commands/` has those of one type.
#![forbid(unsafe_code)]

mod commands;
mod context;
mod core;
mod data;
mod glob;
pub mod number;
mod reply;

pub use crate::core::Core;
pub use context::{Client, Queue, REDIS, Replies, Session, Settings, Shared, Stats, Waiting};
pub use data::keyspace::Keyspace;
pub use data::records::{Change, InMemory, Records, Trouble};
pub use reply::{Reply, Version};
