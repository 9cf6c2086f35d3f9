//! Language-level persistency: a program with ordinary locks and atomics becomes crash-consistent.
//!
//! A *synchronisation-free region* (SFR) is the code of one thread between two synchronisation operations or
//! system calls. Persistent data lives in a [`Pool`]. After a crash the pool is as it was at a *frontier*:
//! one point between two SFRs of each thread, such that whatever an SFR before the frontier could have seen
//! lies before the frontier, too (thesis on language-level persistency, chapter IV).
//!
//! # How
//! Each thread has a log in the pool. Before a thread stores, the old bytes go into a log entry of one cache
//! line, which is flushed and fenced ([`Thread::will_store`]): a store that survives can always be undone. A
//! log has a durable *head*. Entries before the head are committed, all others are undone by recovery, the
//! newest first. So an SFR is committed by moving the head behind its entries, once the lines that it stored
//! to have been flushed. Two questions remain, and the designs differ in their answers:
//!
//! - *When is an SFR committed?* `coupled` does it at the release that ends the SFR, before the release
//!   becomes visible. Nobody can then depend on what is not committed. The other designs only note the end of
//!   the SFR in ordinary memory; a pruner thread ([`Pool::prune`]) commits many at once, off the program's
//!   way.
//! - *Which SFRs may be committed together?* Those that are closed under happens-before. Every
//!   synchronisation object hashes to one of [`BUCKETS`] buckets, which counts releases. A release takes the
//!   next number *before* the operation, an acquire reads the number *after* it, so an acquire that saw a
//!   release has at least its number. The pruner crosses an acquire with number `s` when all releases up to
//!   `s` are crossed, and a release when the one before it is. The heads of all logs then move in one step:
//!   they stand in one of two vectors, and a word says which of them counts.
//!
//! *In which order does recovery undo?* Two SFRs that store to the same bytes are ordered by happens-before.
//! A Lamport clock, carried by threads and buckets, stamps each entry, so that the later store has the higher
//! stamp. Recovery undoes by falling stamp. It writes heads last, so a crash in recovery repeats it.
//!
//! A synchronisation operation *in the pool* ([`Thread::atomic`]) is a region of its own, logged and done
//! under its bucket's latch, so that racing operations are logged in the order in which they happen.
//!
//! # Designs
//! | [`Design`] | an SFR is committed | data is flushed | unit |
//! |---|---|---|---|
//! | `Coupled` | at its release | there | SFR |
//! | `Decoupled` | by a pruner | by the pruner | SFR |
//! | `Strand` | by a pruner | after each store, awaited at the end of the SFR | SFR |
//! | `Atlas` | by a pruner | at the end of the section | outermost critical section |
//! | `None` | never: no recovery | never | – |
//!
//! `Strand` is the mapping of strand persistency (chapter V) onto flushes and fences of today: log and update
//! of one store are ordered, pairs among each other are not. `Atlas` protects critical sections alone: stores
//! outside them are neither logged nor ordered. With [`Options::locks_only`] it is as it was published:
//! atomics order nothing, and a section goes on where it waits for a condition.
//!
//! # Memory
//! A block carries its state in a word of its own in front of its bytes, and that word is logged like data:
//! an SFR that is undone has neither allocated nor freed. A freed block is given out again only after the SFR
//! that freed it is committed.
//!
//! ```
//! use pmem::Os;
//! use sfr::{Design, Options, Pool};
//! use space::{Image, Space};
//!
//! let env = Os::new(Image::new(1 << 20));
//! let pool = Pool::create(&env, &Options { root: 8, ..Options::new(Design::Decoupled) })?;
//! let lock = pool.lock();
//! let mut thread = pool.thread()?;
//! let at = thread.alloc(16)?;
//! thread.store_u64(pool.root(), at);
//! {
//!     let mut section = thread.enter(&lock);
//!     section.store_u64(at, 1);
//!     section.store_u64(at + 8, 2); // with the store before it, or not at all
//! }
//! thread.sync(); // and durable from here on
//! # Ok::<(), sfr::Error>(())
//! ```

#![forbid(unsafe_code)]

mod blocks;
mod commit;
mod cut;
mod design;
mod entry;
mod error;
mod guard;
mod heap;
pub mod journal;
mod layout;
mod order;
mod pool;
mod queue;
mod recovery;
mod ring;
mod sync;
mod thread;

pub use commit::Ticket;
pub use design::{Design, Flaw, Options, Steps, UnknownDesign};
pub use error::Error;
pub use guard::{Lock, Section};
pub use layout::{HEADER_BYTES, LOGS_MAX, NAME_MAX, POOL_MIN};
pub use order::BUCKETS;
pub use pool::{Pool, Stats};
pub use recovery::{Overlap, Recovered};
pub use sync::Kind;
pub use thread::Thread;
