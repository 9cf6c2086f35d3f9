//! Pre-stores: which data to write back, move down or write around the caches, before somebody has to wait for it.
//!
//! A processor keeps what a program stores for as long as it can. On two kinds of memory that is too long. Where the
//! device works in units larger than a cache line, lines that were written one after the other are evicted in another
//! order, and every unit is written several times. Where the processor may keep stores to itself, a fence has to wait
//! until all of them have travelled to memory that is far away. A *pre-store* sends them on their way early: **clean** writes
//! a line back and keeps it, **demote** moves it down a level, **skip** does not put it into the cache at all.
//!
//! A pre-store in the wrong place costs more than a missing one gains, so the advisor follows the three steps of
//! DirtBuster and is silent in doubt:
//!
//! 1. **Who stores much?** A program whose stores are less than a tenth of its accesses is left alone, and so is
//!    a function with less than a tenth of the stores. A copy belongs to the code that asked for it. A program that marks
//!    its phases is judged by phase, so that loading a table does not count as using it.
//! 2. **In what pattern?** Stores are gathered into *contexts*, regions written from one end to the other (`contexts.rs`),
//!    whose sizes tell a matrix from a temporary; and for each thread the distance from its stores to its next fence is
//!    measured (`fences.rs`). Contexts do not leave the allocation that they began in; where there are too many small
//!    allocations to follow, pages stand in for them (`allocations.rs`). What is written from one source line is added up
//!    by size, so objects from the same code are one class however many there are.
//! 3. **What happens to the data next?** For each line that was written, the instructions until the same bytes are first read
//!    again, and until they are written again (`lines.rs`). Bytes, not lines: `u(i) = u(i) + …` reads the next element from the
//!    line it has just written to, and that is no use of what it wrote.
//!
//! `decision.rs` has the table that turns this into advice, and what the target machine has to do with it. Advice can
//! then be tried: `apply.rs` changes the events as the programmer would change the code, and `trial.rs` compares what a model
//! says of both. What gains nothing there is withdrawn.
//!
//! # Where this differs from the method as published
//!
//! - A fence counts as near if most of a place's bytes are stored shortly before one; the bare minimum distance is
//!   reported, but it would be short for every loop that ends in a barrier.
//! - A line counts as used again when its *bytes* are, and a class when half of its lines are. The published
//!   mean over whichever lines are used again lets a few border elements speak for a matrix.
//! - Data are gone from the caches after `reuse_distance` instructions; later uses count as none.
//! - All functions are watched, so a use in another function is seen.
//!
//! # Memory and speed
//!
//! One pass. 64 MiB for lines, 50 MiB for contexts, at most 50 MiB for allocations, 14 KiB for each of up to
//! 4,096 threads that store without fences, 150 B and the size classes for each of up to 65,536 places.

mod allocations;
mod apply;
mod contexts;
mod decision;
mod fences;
mod lines;
mod options;
mod places;
mod text;
mod trial;
mod watcher;

pub use apply::Apply;
pub use decision::{Advice, Choice, PhaseAdvice, PlaceAdvice, SizeRow, Target};
pub use options::Options;
pub use trial::{Cost, Trial, alternatives};
pub use watcher::Watcher;
