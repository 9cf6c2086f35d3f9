//! The library that `strandline plan` and `strandline faults` preload into a program that was not built with `strandline cc`: which call stacks
//! allocate how much memory, and how often its pages are used.
//!
//! [`calls`] stands in front of `malloc` and `mmap`. Large allocations are all noted, small ones by a sample of the bytes; each
//! by its call stack ([`stack`], [`sites`]). A thread of the library's own ([`control`]) asks the kernel, for windows of a few
//! milliseconds, which pages were referenced ([`referenced`]), or written, or it protects a few pages and takes the time until
//! they are used ([`protect`]), or it
//! takes samples and regions that `strandline` sees from outside ([`feed`]). [`kinds`] carries a plan out: allocations of named sites go to a NUMA node. [`process`] begins,
//! forks and ends; [`report`] is the file that is left.
//!
//! For `strandline faults` it logs which large block lives when ([`log`]), and carries out what may save page faults
//! ([`remedies`]).
//!
//! The library's own memory comes from the C library's `malloc`, never from itself.

mod calls;
mod control;
mod feed;
// The same as the other library that is preloaded.
#[path = "../../wear-runtime/src/heap.rs"]
mod heap;
mod kinds;
#[path = "../../wear-runtime/src/lock.rs"]
mod lock;
mod log;
mod modules;
mod page;
mod pins;
mod process;
mod protect;
mod referenced;
mod remedies;
mod report;
mod settings;
mod sites;
mod stack;
