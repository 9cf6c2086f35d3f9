//! The guidelines for 3D XPoint memory as a linter.
//!
//! | rule | evidence in the events | held against the machine's |
//! |---|---|---|
//! | small random stores | write runs shorter than the device's unit | media bytes in units written in part |
//! | temporal transfer | long runs of ordinary stores | media bytes of the site, and whether caches absorbed them |
//! | late flush | runs of a unit or more, flushes that came late | bytes that left the cache by eviction |
//! | crowded DIMM | – | writers per DIMM, 4 KiB collisions |
//! | redundant flush | line flushed again by the same thread, not stored in between | – |
//! | clean flush | line flushed that nobody stored to, or only around the cache | flushes that found no dirty line |
//! | useless fence | nothing stored or flushed since the thread's fence before | – |
//!
//! A **run** is what one write is to the device, however many instructions it took: stores of one thread
//! that continue, overlap or lie within a cache line of each other. Each thread follows
//! the eight runs it touched last, so that filling a node, a log and a stack frame at the same time is
//! three runs and not a hundred.
//!
//! When the program mapped persistent memory, the rules speak of that memory alone. When it mapped none, they
//! speak of all memory *as if* it were persistent, and no finding asks for a flush. If it does not flush
//! either, a long run's stores are looked at in bursts (`watch.rs`): all rules that then speak are about
//! distributions.
//!
//! # Memory
//! A [`Linter`] holds at most 7 MiB of line states (from the first persistent range or flush on), 1.5 KiB for each of up
//! to 4,096 threads, 16 B for each of up to 65,536 persistent ranges, and for each of up to 65,536 code sites 72 B and
//! 416 B per kind of write (ordinary or non-temporal, to persistent or other memory) that it did: 135 MiB at the very
//! worst, a few for real programs. Sites beyond the bound count as unknown. A source of blocks has as many
//! shapes as the program has straight pieces of code: 24 B for each, and 12 B for each store in it.

mod case;
mod crowding;
mod evidence;
mod fences;
mod late_flush;
mod lines;
mod linter;
mod options;
mod ranges;
mod sizes;
mod small_stores;
mod stores;
mod streams;
mod transfers;
mod wasted_flush;
mod watch;
mod withheld;
mod words;

pub use linter::Linter;
pub use options::Options;
pub use sizes::{SIZE_BUCKETS, SizeHistogram, WriteSizes, WritesByKind};
