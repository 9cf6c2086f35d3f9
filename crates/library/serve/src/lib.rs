//! A durable store behind Redis's protocol, RESP2 and RESP3.
//!
//! # For a newcomer
//! The commands are those of crate `keyspace`, which runs one at a time. Here are requests (`request.rs`),
//! connections (`server/connection.rs`) and what they share (`server/hub.rs`). Replies wait until what they
//! show is durable; one wait serves all clients.
//!
//! Requests are read by a parser of our own, and replies are written by code of our own. The protocol crates
//! that are kept, `redis-protocol` among them, recurse as deep as a client nests its arrays, know neither
//! requests in a line nor Redis's words for a malformed request, and have no null array for RESP2. The tests
//! hold both against that crate.
#![forbid(unsafe_code)]

mod request;
mod server;
mod store;

pub use kv::Engine;
pub use request::{Limits, Malformed, Parser};
pub use server::error::Error;
pub use server::run;
pub use server::settings::{Options, Tls};
pub use store::Store;
