//! Figures of a store.

use crate::{Durable, Engine};

/// Figures of a store at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Where values are stored.
    pub engine: Engine,
    /// When changes are durable.
    pub durable: Durable,
    /// Keys that have a value.
    pub keys: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of a chunk.
    pub chunk: u64,
    /// Chunks that were ever used.
    pub chunks: u64,
    /// Those of them that are free.
    pub free_chunks: u64,
    /// Chunks that are logs.
    pub logs: u64,
    /// Bytes in logs that nobody needs.
    pub outdated_bytes: u64,
    /// Logs that wait for garbage collection.
    pub queued_logs: u64,
    /// Logs that were collected since the store was opened.
    pub collected_logs: u64,
    /// Bytes that garbage collection has copied since then.
    pub copied_bytes: u64,
    /// Records that opening read: none if the store was closed in order.
    pub recovered_records: u64,
    /// Bytes of ordinary memory that the index has.
    pub index_bytes: u64,
}
