//! The vocabulary that every part of Strandline shares: the **memory event**.
//!
//! A program, real or synthetic, is one stream of events per thread: loads, stores, non-temporal
//! stores, flushes, demotions, fences, acquires and releases, locks, thread lives, allocations,
//! mappings, region boundaries, phases, and what is done to files. Each [`Event`] carries the code [`SiteId`] that caused it
//! and the number of instructions that its thread executed since the event before.
//!
//! What produces events knows nothing of what consumes them. Between the two stands the [`Sink`]:
//! a producer first states what it can see ([`Source`]), then names things ([`Definition`]) and
//! pushes [`Batch`]es; a consumer that lacks what it needs refuses by name ([`SinkError::Lacks`]).
//!
//! A producer that knows the program's code need not spell out every event: [`RunBatch`] tells straight pieces of
//! code by the addresses of their accesses, and [`Told`] hands them on as that code wrote them.
//!
//! A stream can be kept in a file and replayed from it ([`trace`]), and foreign traces come in through
//! importers ([`lackey`]).
#![forbid(unsafe_code)]

mod compared;
pub mod lackey;
pub mod map;
mod op;
mod run;
mod sink;
mod site;
mod source;
mod told;
pub mod trace;
mod upper;

pub use compared::{COMPARED, Compared, copy_and_compare};
pub use op::{Event, FenceKind, FlushKind, Op, Order, StrandMark, ThreadId};
pub use run::{AccessKind, EVENT, HEAD, RunAccess, RunBatch, RunItem, RunShape};
pub use sink::{Batch, Collected, Counts, Definition, Discard, Sink, SinkError, Tee};
pub use site::{Frame, NameId, Site, SiteId, SiteTable};
pub use source::{Capabilities, InstructionCounts, Sampling, Source};
pub use told::{Heads, TOLD_WORDS, Taken, Told, Words, told_address};
