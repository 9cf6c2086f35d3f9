//! Every state that a crash could have left behind, from the events of one run.
//!
//! # The idea
//! A run stores bytes. A crash keeps some of the stores and loses others; the platform decides which it may lose. Caches
//! evict lines at any time, so a store may survive from the moment it is made. On x86 with ADR only flushed *and* fenced
//! stores must survive. The checker does not run the program again with faults: it computes from the events of one run which
//! stores may be missing at the same time.
//!
//! 1. [`History`] is a sink. It cuts stores to persistent memory into *atoms*, pieces of one aligned 8-byte word, which
//!    a crash keeps or loses whole, and reduces flushes and fences to *barriers*: a barrier names the atoms that must have survived
//!    before anything behind it can. [`Platform`] decides what makes a barrier.
//! 2. A *cut* is how far each thread has come when the crash falls. Everything that the barriers of the cut demand is
//!    durable; the cut's other atoms are *pending*.
//! 3. Pending atoms fall into *cells*: a cache line under x86, a word under epochs and strands. Within a cell
//!    atoms survive in order; cells are independent of each other. So an image is a cut and, per cell, how many of its
//!    atoms survived ([`Image`]).
//! 4. An [`Oracle`] recovers an image and says what is wrong with it. [`Checker`] chooses the images:
//!    all, random ones, or, if the oracle reports which lines recovery read, one of each set that recovery cannot distinguish.
//! 5. A failing image is shrunk to the fewest missing stores and reported as a [`Finding`], with a [`Token`] that repeats it.
//!
//! # Why only some cuts
//! An image that lacks an atom which barrier *b* demands contains nothing from behind *b*. So every image is found at a cut that stops
//! before a barrier, with all earlier barriers satisfied; cuts between barriers add nothing. With several threads
//! the others may be anywhere: how far they were in the observed run, or as far as they can get without having synchronised with what lies
//! behind *b*. The second is what finds bugs that the observed timing hides: that a thread uses another's data before these are
//! durable shows although the flush came a moment later in this run. An exhaustive search also lets each of the others wait before any barrier of its own.
//!
//! # What is order between threads
//! Locks, releases and acquires, thread starts and joins, and a load that read what another thread stored to persistent memory. Stores
//! that nothing of this orders may have happened the other way round, and the checker supposes that they did; for one line the order
//! of the stream is taken as it is. A locked instruction is recorded as several events with its fence last; it waits before it stores and publishes, and so
//! does its fence here.
//!
//! The platforms are those of x86, where each thread sees the stores of another in their order and no load is late. So a relaxed atomic
//! or volatile access that the source gives a position orders as much as any other release or acquire; that
//! programs which rely on it are wrong by the rules of C is not for this checker to find. Locks, semaphores and their like order threads and are no
//! fences: they promise nothing about flushes.
//!
//! # What it does not see
//! - Order that the source does not record: plain variables, signals, sleep. The source chooses an order for such stores.
//! - Stores that the source does not record: in libraries built without `strandline cc`, by the kernel.
//! - Other schedules: another schedule is another history (`space::Sim` makes them).
//! - All torn stores: words of one store that crosses a line are separate atoms; words of one store within a line survive
//!   from its low or from its high end, not in every combination.
//!
//! # Why to believe it
//! [`litmus`]: what each platform allows is defined a second time, by machines, and both agree on hand-written and random programs.
#![forbid(unsafe_code)]

mod explore;
pub mod files;
mod finding;
mod history;
pub mod lint;
pub mod litmus;
mod oracle;
mod picture;
mod platform;
mod regions;
mod story;
mod token;
mod words;

pub use explore::{Bounds, Checker, Outcome, Strategy};
pub use finding::{Finding, Missing, Reason, Witness};
pub use history::{Atom, Barrier, Difference, History, Left, Mark, MarkKind, Operation, Part, Recorder};
pub use oracle::{Change, Ending, Image, Oracle, Patience, Read};
pub use picture::{Fate, Picture, Step, What};
pub use platform::{Platform, Sector};
pub use regions::Regions;
pub use token::{Token, TokenError};
pub use words::{Contents, Place};
