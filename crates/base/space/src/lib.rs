//! The seam between our own structures and memory.
//!
//! A persistent B+-tree, a log, a hash table: each is written once, against two traits, and what a run of it
//! *means* is decided by one type parameter.
//!
//! [`Space`] is a byte-addressable memory: `load`, `store`, `copy`, `cas`, non-temporal store, `flush`,
//! `fence` and the pre-stores, all on `&self` and offsets. Plain stores go through it too, and it never hands
//! out a reference into the memory: a write that bypasses the trait would be invisible to model and checker
//! alike. Its contract, what survives a crash above all, stands at the trait.
//!
//! [`Env`] bundles a space with the rest of the outside world: locks, condition variables, threads, a clock,
//! randomness. `pmem::Os` is the real one. [`Sim`] is its seeded twin: one thread runs at a time, a
//! [`sim::Schedule`] decides which, and a run can be repeated from a token ([`sim`]).
//!
//! Five spaces exist. `pmem::Mapped` is real memory and the bare instructions, `pmem::Synced` is that with
//! fences that reach the disk below a page cache. [`Image`] is memory without instructions: atomic words that
//! can be copied out and in. [`Scratch`] is an image on which recovery can be tried and taken back, and which
//! knows what recovery read. [`Recorded`] wraps any of them and emits to an [`event::Sink`] one event per
//! access, with the line of source that asked for it. Locks, threads and phases reach the same stream through
//! [`Observer`], the space's ear for what is not a memory access; for a space that is not recorded it is
//! `()`, which the compiler removes.
//!
//! Dispatch is static, so on `Mapped` the seam costs nothing; the bench `seam` of `pmem` measures it.
//! [`conformance`] is the test suite that every space and every environment runs.
#![forbid(unsafe_code)]

pub mod conformance;
mod env;
mod image;
mod local;
mod observer;
mod recorded;
mod scratch;
pub mod sim;
mod sites;
mod space;
mod stream;
mod word;

pub use env::Env;
pub use image::Image;
pub use observer::Observer;
pub use recorded::{Recorded, Recording};
pub use scratch::{Scratch, Touched};
pub use sim::Sim;
pub use space::{LINE, Prestore, Space};
pub use word::{Word, check_range, check_whole_words, find_word, lines, word_index};
