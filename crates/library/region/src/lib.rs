//! Pools, an allocator and failure-atomic regions, on any [`space::Space`].
//!
//! # For a newcomer
//! A *pool* is memory that survives the program: a header that says what it is, a heap, and a *root object*
//! from which everything is reached. Inside it there are offsets and never addresses ([`Ptr`]), because it
//! lies elsewhere next time. Memory that survives keeps whatever a crash left of it, so what belongs together
//! is written in a *failure-atomic region* ([`Pool::region`]): after a crash all of a region's writes are
//! there, or none, and all if the region had ended. Allocating and freeing are writes of the region, too, so
//! nothing leaks.
//!
//! What regions do **not** do is isolate: two of them that run at the same time must not touch the same
//! words. Locks see to that, as they do in any program with threads.
//!
//! How a region is made atomic is an [`Atomicity`]'s business. [`Redo`] writes down what a region wants,
//! waits once, and then does it. [`Undo`] writes down what was there, waits, and changes it, word by word.
//! [`MicroBuffer`] writes down what a region wants, waits, does it and waits again, after which nothing is
//! left to do. [`Shadow`] keeps what a region wants in copies beside its log. [`Ssp`] writes lines to another
//! page and notes which lines are where. [`Unprotected`] does without, for comparison. What such an engine
//! has to do is small: to read and write words, and to commit them. The allocator stands on top of it and has
//! no log of its own.
//!
//! ```
//! use region::{Layout, Options, Pool, Ptr, Redo};
//! # use space::{Image, Sim, sim::Schedule};
//!
//! struct Books;
//! region::persistent! { Books:
//!     struct Book { year: u64, next: Ptr<Book, Books> }
//! }
//! impl Layout for Books {
//!     const NAME: &'static str = "books, 1";
//!     type Root = Ptr<Book, Books>;
//! }
//!
//! # space::sim::run(Image::new(1 << 20), &Schedule::walk(1), |env| {
//! let pool: Pool<_, Books, Redo> = Pool::create(env, &Options::default())?;
//! pool.region(|tx| {
//!     let book = tx.alloc(Book { year: 1969, next: tx.get(tx.root()) })?;
//!     tx.set(tx.root(), book)
//! })?;
//! assert_eq!(pool.get(pool.get(pool.root())).year, 1969);
//! # Ok::<(), region::Error>(()) }).result.expect("it ran").expect("it worked");
//! ```
//!
//! # Processes
//! A child of `fork` has its parent's memory and a copy of what the parent knew of the pool: where logs go
//! on, which blocks are free. Neither hears of what the other does from then on, so a child that used the
//! pool would destroy it, and nothing looks for that here: it would cost each region something. A child has
//! to leave its parent's pools and [`Tx`]s alone and end without dropping those, as by `_exit` or by
//! executing a program: a [`Tx`] that is dropped is aborted, in the memory that both have. Dropping a
//! [`Pool`] changes nothing in it. The C interface refuses a child its parent's pools.
//!
//! # Damage
//! The header has two copies and checksums. Logs, the table of chunks, the maps of slabs and the place of the
//! root object are guarded so that a changed byte is an [`Error`] or does no harm; outside of the logs so is
//! a line that has become zeros, as what was lost reads as a rule. Where more of a line of a log is changed,
//! in the lowest bytes of its words, or it is zeros, the line can look like one that a crash tore: if it is
//! of the first or the last record of its log, that counts as never committed, whatever of it is in its
//! places already. [`Pool::checkpoint`] leaves no such record behind with [`Redo`]. Of small pools that a
//! crash had left, in which up to eight bytes of one line of a log were then changed by chance (8,000 for
//! each engine, logs of eight lines; the tests of regions do 1,500 and print what they find), 1.0 % held
//! something else than the crash could have left with [`Redo`], 0.1 % with [`Undo`], 0.3 % with
//! [`MicroBuffer`], none with [`Shadow`], 4.0 % with [`Ssp`], whose journal had four lines; 3.0, 0.5, 1.1, 0
//! and 13 % if all changed bytes were the lowest of words; none if one byte was changed or no lowest one. In
//! longer logs the first and the last record are a smaller part. A log of which nothing is left at all looks
//! like an empty one. With [`Redo`] it is missed if another one has later regions and at least as many are
//! gone as there are logs: a crash may hide one in each.
//!
//! Lines and pages do not say of which moment they are. A pool in which some were exchanged for others of it,
//! or for what they were at another time, as in half of a backup, can be whole to all appearances and hold
//! what it never held. What objects hold is the program's: a byte that changed there is not found.
#![forbid(unsafe_code)]

mod damage;
mod engine;
mod error;
#[cfg(test)]
mod format_page;
pub mod guarded;
mod header;
mod heap;
mod inspect;
mod log;
mod moving;
mod pointer;
mod pool;
mod reach;
mod reserve;
mod tx;
mod untyped;
mod writes;

#[doc(hidden)]
pub use engine::flaw;
#[doc(hidden)]
pub use pointer::EachFieldMay;
#[doc(hidden)]
pub use zerocopy;

pub use damage::Damage;
pub use engine::{
    Atomicity, Consolidate, ENGINES, Engine, EngineInfo, ExtendLog, Extent, Group, Logs, MicroBuffer,
    MicroBufferEngine, Overflow, Recovered, Redo, Shadow, Ssp, Ticket, Undo, Unprotected, WriteBackThreshold,
};
pub use error::Error;
pub use header::{Geometry, Header, NAME_MAX, VERSION};
pub use heap::Usage;
pub use inspect::{Inspection, inspect};
pub use moving::{Moving, Sparse};
pub use pointer::{Layout, Persistent, Ptr};
pub use pool::{Options, Pool};
pub use reach::unreached;
pub use reserve::Reserved;
pub use tx::Tx;
pub use untyped::{Untyped, UntypedReserved, UntypedTx};
pub use writes::{Change, Write, Writes};

/// The journal: what engines share that log a region, carry it out at once and need its log no longer.
/// `docs/new-engine.md` explains how to build an engine on it.
pub mod journal {
    pub use crate::engine::journal::{Journal, Log, Plan, Shape};
    pub use crate::engine::long::OverflowRecord;
    pub use crate::engine::place::{apply, flush, flush_all};
}
