//! The library that `strandline wear run` preloads into a program: large allocations come from memory that
//! wears, whose pages are levelled and, where the program writes too fast, moved to DRAM.
//!
//! [`calls`] stands in front of `malloc`: allocations from a size on are runs of pages ([`runs`]) of the
//! memory given as persistent ([`memory`]): a file, a `memfd`, or a NUMA node. A thread of the library's own
//! ([`control`]) asks the kernel which pages were written (`pmem::levelled::Watcher`), counts the lines that
//! changed, and moves pages under the program's threads. [`process`] begins, forks and ends.
//!
//! The library's own memory comes from the C library's `malloc`, never from itself ([`heap`]).

mod calls;
mod control;
mod heap;
mod lock;
mod memory;
mod process;
mod results;
mod runs;
mod settings;
