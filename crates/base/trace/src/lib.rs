//! The trace file `.slt`, and importers of other tools' traces ([`lackey`]).
//!
//! `docs/trace-format.md` describes it byte by byte. A file is a [`Header`], then *blocks*: each holds up to
//! 65,535 consecutive events of **one** thread, is checksummed, and decodes without any other. Blocks of
//! definitions (sites and names) stand before the first block that uses them. A file that was finished ends
//! with an index of its blocks and a trailer; without these, because the writer was killed, the [`Reader`]
//! finds the blocks by walking them and says so ([`Reader::truncated`]).
//!
//! Within a block the encoder predicts. It remembers what came after the same two events the last time, and
//! where; an event that repeats this costs one control byte, and a surprise costs what it
//! takes to correct the prediction. Straight-line code ([`event::BlockBatch`]) is kept as its words, each
//! compared with an earlier one. The bytes lie in columns by meaning, each compressed by itself.
//!
//! [`Writer`] is a [`event::Sink`], so recording is replaying into a file; it makes [`Sheet`]s, which a
//! [`Binder`] writes. [`Reader::replay`] is the way back, with all threads merged by the global order of
//! synchronisation and by time.
#![forbid(unsafe_code)]

mod binder;
mod bytes;
mod columns;
mod decode;
mod definitions;
mod encode;
mod error;
mod format;
mod index;
pub mod lackey;
mod merge;
mod ops;
mod predict;
mod reader;
mod thread;
mod words;
mod writer;

pub use binder::{Binder, Outlet, Sheet};
pub use columns::Compression;
pub use error::TraceError;
pub use format::{Header, VERSION};
pub use merge::Batches;
pub use reader::{Info, Reader, Truncation};
pub use thread::ThreadBatches;
pub use writer::Writer;
