//! Where a log-structured store keeps its newest pairs: a persistent skip list, or a log in front of a
//! volatile one.
//!
//! Both hold byte strings in the order of keys and only grow, until their owner has written their content
//! elsewhere and begins anew. Which one is faster depends on the memory. [`SkipList`] on persistent memory
//! writes a node and a few 8-byte links per pair, in lines all over the list. [`Logged`] writes one record
//! behind the last one and finds it again in a list that nobody flushes; after a crash it reads the log.

mod flex_log;
mod logged;
mod skip_list;

pub use flex_log::{FlexLog, LogFlaw, LogOptions};
pub use logged::Logged;
pub use skip_list::{Links, ListFlaw, ListOptions, SkipList};
