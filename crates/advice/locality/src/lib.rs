//! What a program does to the caches, TLBs and allocators that every machine has.
//!
//! A [`Watcher`] is an [`event::Sink`]. It follows each thread through a small first-level cache and TLB of its own, all
//! threads through one table of lines, and allocations by their addresses; `rules` turn what was seen into
//! [`advise::Finding`]s, a file each. Counts are of accesses and lines, not of time: what a fault costs on a machine is the
//! model's to say.
//!
//! | rule | evidence | silent when |
//! |---|---|---|
//! | false sharing | a line changes threads, none touches bytes that the one before wrote | the line changed hands seldom |
//! | true sharing | the same, and bytes written by the one before are touched | as above, or the bytes are a lock |
//! | contended lock | as true sharing, at a variable that synchronises | as above |
//! | unused bytes | bytes of a line touched before it leaves | lines stay to the end |
//! | against the rows | a constant stride of lines, then the next column | the walk goes nowhere near its start |
//! | pointer chase | a load goes from block to block of one allocation site, at one offset, missing | an array is read in between |
//! | dead store | bytes stored, not read, stored again by the same thread | the line left the table in between |
//! | overwritten unread | the same, of stores of 32 B and more | as above |
//! | silent store | the bytes stored are those that were there | the source has no values |
//! | allocation churn | blocks freed within few accesses | they live long |
//! | leak | blocks at the end although others of the site were freed | none or all were freed |
//! | TLB reach | pages missed by a TLB of 4 KiB pages, and not by one of 2 MiB | large pages would not help |
//! | conflict misses | lines that come back before the cache could have been filled once | capacity explains it |
//!
//! # Bounds
//! The table has 65,536 lines of 72 B, a thread 20 KiB (up to 256 threads; others share), a code site 200 B (up to 65,536), a live block
//! 40 B (up to 1,048,576), an allocation site 640 B (up to 4,096). The first 8,388,608 events are looked at, then an eighth,
//! in bursts; allocations and locks always.
#![forbid(unsafe_code)]

mod cache;
mod contest;
mod heap;
mod lines;
mod options;
mod rules;
mod sites;
mod tlb;
mod watch;
mod watcher;

pub use heap::{HEAT, Structure};
pub use options::Options;
pub use watcher::Watcher;
