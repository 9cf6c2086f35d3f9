//! The vocabulary that every part of Strandline shares: the **memory event**.
//!
//! A program, real or synthetic, is one stream of events per thread: loads, stores, non-temporal
//! stores, flushes, demotions, fences, acquires and releases, locks, thread lives, allocations,
//! mappings, region boundaries, phases, and what is done to files. Each [`Event`] carries the code [`SiteId`]
//! that caused it and the number of instructions that its thread executed since the event before.
//!
//! What produces events knows nothing of what consumes them. Between the two stands the [`Sink`]:
//! a producer first states what it can see ([`Source`]), then names things ([`Definition`]) and
//! pushes [`Batch`]es; a consumer that lacks what it needs refuses by name ([`SinkError::Lacks`]).
//!
//! A producer that knows the program's code need not spell out every event: a [`BlockBatch`] holds executions
//! of straight-line code as the addresses of their accesses, and [`RawBlocks`] are the words as that code
//! recorded them. A sink offers to take them with [`RunSink`]; an [`Unfolder`] gives a consumer their
//! accesses many at a time.
//!
//! Crate `trace` keeps a stream in a file and imports other tools' traces.
#![forbid(unsafe_code)]

mod block;
mod compared;
mod layout;
pub mod map;
mod note;
mod op;
mod printed;
mod ranges;
mod raw;
mod runs;
mod sink;
mod site;
mod source;
mod unfold;
mod upper;

pub use block::{AccessKind, BlockAccess, BlockBatch, BlockItem, BlockShape, EVENT, HEAD};
pub use compared::{COMPARED, Compared, copy_and_compare};
pub use layout::{Field, Layout, Variable};
pub use note::Note;
pub use op::{Event, FenceKind, FlushKind, Op, Order, StrandMark, ThreadId};
pub use printed::{acked, acked_name, printed, printed_name, printed_region};
pub use ranges::{RangeValue, Ranges};
pub use raw::{Consumed, HeadTable, RAW_WORDS_MAX, RawBlocks, RawWords, raw_address};
pub use runs::{AnySink, RunSink};
pub use sink::{Batch, Collected, Counts, Definition, Discard, Sink, SinkError, Tee};
pub use site::{Frame, NameId, OWN_LIBRARY, Site, SiteId, SiteTable};
pub use source::{Capabilities, InstructionCounts, Sampling, Source};
pub use unfold::{Select, Selected, Stop, Unfolder, Window};
