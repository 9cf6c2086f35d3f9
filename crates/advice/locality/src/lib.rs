//! What a program does to the caches, TLBs and allocators that every machine has.
//!
//! A [`Watcher`] is an [`event::Sink`]. It follows each thread through a small first-level cache and TLB of its own, all
//! threads through one table of lines, and allocations by their addresses; `rules` turn what was seen into
//! [`advise::Finding`]s, a file each. Counts are of accesses and lines, not of time: what a fault costs on a machine is the
//! model's to say.
//!
//! | rule | evidence | silent when |
//! |---|---|---|
//! | false sharing | threads that are alive at once use different bytes of a line, one writes | the line would seldom move |
//! | true sharing | the same, and the same bytes | as above, or the bytes are a lock |
//! | contended lock | as true sharing, at a variable that synchronises | as above |
//! | lock beside data | such a line, a fifth of whose accesses are to other bytes | as above |
//! | unused bytes | bytes of a line touched before it leaves, at a constant stride | lines stay to the end, or are looked up |
//! | against the rows | a constant stride of lines, then the next column | the walk goes nowhere near its start |
//! | pointer chase | misses from block to block of one allocation site, and no pointer read elsewhere in between | chains are short |
//! | dead store | bytes stored, stored again unread by another line of code or at once, and read later | nobody seen ever reads them |
//! | overwritten unread | the same, of stores of 32 B and more | as above, or it happens once |
//! | silent store | the bytes stored are those that were there | the source has no values |
//! | allocation churn | blocks freed within few accesses | they live long |
//! | leak | blocks at the end, much older than those that were freed, and not used | none or all were freed |
//! | TLB reach | pages missed by a TLB of 4 KiB pages, and not by one of 2 MiB | large pages would not help |
//! | conflict misses | misses that a cache with hashed sets does not have | capacity explains them |
//! | straddled lines | two misses on neighbouring lines for bytes less than a line apart | a walk goes on to the next line |
//! | late prefetch | misses of lines that a prefetch asked for a few accesses before | the distance covers the latency |
//! | missing prefetch | misses right after an array is read in order, at addresses that follow no stride | the model's window covers them |
//! | lives too long | blocks used for the last time before most memory is in use, and freed after | little memory, or a small part of it |
//! | bandwidth bound | slices of the modelled run that move three quarters of what all cores can | memory is not short |
//! | wrong node | misses to pages that a thread of another node touched first | there is one node |
//! | wrong tier | few bytes that have most misses, on memory slower than DRAM | all memory is alike |
//!
//! [`try_out`] applies remedies to accesses that were kept and runs them on the modelled machine with time; what gains
//! nothing is withdrawn.
//!
//! # Bounds
//! The table has 65,536 lines of 128 B, a thread 24 KiB (up to 256 threads; others share), a code site 220 B (up to 65,536), a live block
//! 56 B (up to 1,048,576), an allocation site 900 B (up to 4,096), contested lines 4,096 of up to 3 KiB.
//! 262,144 accesses of 56 B are kept for trials. The first 8,388,608 events are looked at, then an eighth, in
//! bursts; allocations and locks always.
#![forbid(unsafe_code)]

mod asked;
mod bandwidth;
mod cache;
mod calls;
mod contest;
mod cures;
mod fields;
mod heap;
mod lines;
mod nodes;
mod options;
mod outside;
mod pairs;
mod reuse;
mod rules;
mod sites;
mod streams;
mod tape;
mod tlb;
mod trial;
mod watch;
mod watcher;

pub use calls::Calls;
pub use fields::{FieldUse, Uses};
pub use heap::{HEAT, Structure};
pub use options::Options;
pub use reuse::Reuse;
pub use trial::{Trials, Tried, is_slow, try_out};
pub use watcher::{Names, Watcher};
