//! Pre-stores: which data to write back, move down or write around the caches, before somebody has to wait
//! for it.
//!
//! A processor keeps what a program stores for as long as it can. On two kinds of memory that is too long.
//! Where the device works in units larger than a cache line, lines that were written one after the other are
//! evicted in another order, and every unit is written several times. Where the processor may keep stores to
//! itself, a fence has to wait until all of them have travelled to memory that is far away. A *pre-store*
//! sends them on their way early: **clean** writes a line back and keeps it, **demote** moves it down a
//! level, **skip** does not put it into the cache at all.
//!
//! A pre-store in the wrong place costs more than a missing one gains, so the advisor follows the three steps
//! of DirtBuster and is silent in doubt:
//!
//! 1. **Who stores much?** A program whose stores are less than a tenth of its accesses is left alone, and so is
//!    a function with less than a tenth of the stored bytes or of all accesses. A copy belongs to the code that asked for it. A program
//!    that marks its phases is judged by phase, so that loading a table does not count as using it.
//! 2. **In what pattern?** Stores are gathered into *contexts*, regions written from one end to the other (`contexts.rs`),
//!    whose sizes tell a matrix from a temporary; and for each thread the distance from its stores to its next fence is
//!    measured (`fences.rs`). Contexts do not leave the allocation that they began in; where there are too many small
//!    allocations to follow, pages stand in for them (`allocations.rs`). What is written from one source line is added up
//!    by size, so objects from the same code are one class however many there are.
//! 3. **What happens to the data next?** For each line that was written, the instructions until the same bytes are first read
//!    again, and until they are written again (`lines.rs`). Bytes, not lines: `u(i) = u(i) + …` reads the next element from the
//!    line it has just written to, and that is no use of what it wrote. Who reads counts as well: what the functions of the
//!    first step soon read themselves never skips the cache, however little it is, for they would wait for it in their inner
//!    loops. What only others read must be half of the lines to count. What phases that prepare or examine read does not count at all:
//!    a check at the end reads each result that the caches still have, and the program as it is used would not.
//!
//! `decision.rs` has the table that turns this into advice, and what the target machine has to do with it.
//! Advice can then be tried: `apply.rs` changes the events as the programmer would change the code, and
//! `trial.rs` compares what a model says of both, in the phases that are judged and in the program's others,
//! which may wait for what a judged one skipped. What gains nothing there is withdrawn.
//!
//! # Where this differs from the method as published
//!
//! - A fence counts as near if most of a place's bytes are stored shortly before one; the bare minimum distance is
//!   reported, but it would be short for every loop that ends in a barrier. What the fence follows at once does not count: the published
//!   measurements gain nothing there, as nothing goes on meanwhile.
//! - Memory that is freed and allocated again lies in the same lines. Whoever writes there while a cache has them writes them again, whatever
//!   objects they belong to: a buffer that each call allocates is no stream to memory.
//! - A line counts as used again when its *bytes* are. The published mean is over whichever lines are read again by the functions that
//!   were chosen in the first step; here that decides between clean and skip, too (if it is the thread that wrote them that
//!   reads them: others read the borders of its part), but a class counts as written again only when half of its
//!   lines are, and what just anybody reads counts only when it is half of the lines of a place.
//! - Data are gone from the caches after the program touched `cache_bytes` of lines (`touched.rs`); later uses count as none. Instructions, in
//!   which distances are given, would make that depend on how well the code was optimised.
//! - What is written again *before* the fence that follows is not to be demoted: the fence waits for the last of the writes alone. Lines count here that were
//!   written again behind a fence of the thread that had written them.
//! - Lines that the program flushes or demotes itself, and stores around the caches, need no advice (`reuse.rs`): who followed it must not get it again.
//!   A skip is still advised where there is a clean.
//! - For a machine whose last cache holds all that the program touches there is no order of evictions to mend, only fences.
//! - All functions are watched, so a use in another function is seen.
//! - A streak must advance, and go on in time (`contexts.rs`).
//! - Passes of one function over the same data are judged together: where one of them reads soon what another wrote, none skips.
//!
//! # A doubt about the published example
//!
//! Multigrid is the method's example of a function to clean after (`resid`, whose data are read again) and of
//! one that should skip (`psinv`, whose data are not). The published report gives `resid` the smaller line
//! number, but in the program's sources `psinv` stands before `resid`: names and lines do not belong
//! together, and one pair may have been exchanged. Nor do the two differ where the grid is fine: each one's
//! matrix is read by the other a sweep later, when no cache holds it. They differ on the coarse grids, where
//! `psinv` reads at once what `resid` wrote, while what `psinv` wrote is read only by the interpolation,
//! which does less than a tenth of the program's accesses and so is none of the functions that the method
//! looks at (nor are these lines half of what `psinv` writes). That is what gives the published answer here,
//! and why a grid that fits into the cache as a whole gets *clean* for both.
//!
//! # Memory and speed
//!
//! One pass, or for a profile a small part of it (`bursts.rs`). 64 MiB for lines, a MiB for the clock of
//! lines and their number, 50 MiB for contexts, at most 50 MiB for allocations, 14 KiB for each of up to
//! 4,096 threads that store without fences, 450 B and the size classes for each of up to 65,536 places.

mod advice;
mod allocations;
mod apply;
mod bursts;
mod contexts;
mod decision;
mod fences;
mod functions;
mod lines;
mod options;
mod places;
mod reuse;
mod text;
mod touched;
mod trial;
mod watcher;

pub use advice::{Advice, Choice, PhaseAdvice, PlaceAdvice, SizeRow, Target};
pub use apply::Apply;
pub use bursts::Bursts;
pub use fences::GATHERED;
pub use options::Options;
pub use trial::{Cost, Trial, alternatives};
pub use watcher::Watcher;
