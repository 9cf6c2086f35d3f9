//! Persistent key-value stores (Wu 2026, chapter 2).
//!
//! The source's testbed switches storage (logs or an allocator), index (DRAM or persistent memory), what is
//! persisted, and whether values are flushed. Here the storage is the library's engines themselves:
//! `engine.rs` records what 28 simulated threads do to a store's memory, `replay.rs` runs that on the
//! source's machine. What the engines keep in ordinary memory is not in a recording, and the source's index
//! is a B+-tree where the library's is a hash table: so index and allocator are added as the source
//! describes them (`index.rs`). `transactions.rs` has no engine: a pattern of accesses with index and
//! allocator in transactions.

mod choose;
mod engine;
mod index;
mod mixes;
mod recovery;
mod replay;
mod transactions;
mod updates;

pub(crate) use engine::Thread;
pub use mixes::ROWS as MIXES;
pub use recovery::ROWS as RECOVERY;
pub use transactions::ROWS as TRANSACTIONS;
pub use updates::ROWS as UPDATES;
