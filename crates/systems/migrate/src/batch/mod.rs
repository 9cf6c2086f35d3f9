//! Writing a frozen process's memory out in few calls, and by which stores.
//!
//! - `gather`: one `writev` carries up to 0x7ffff000 bytes of non-contiguous ranges straight to the file; the other way is
//!   CRIU's, a `vmsplice` into a pipe and a `splice` to the file for each 2 MiB.
//! - `nt`: non-temporal stores, flushes, fences.
//! - `compare`: both ways, and the ways of storing, measured on this computer.

mod compare;
mod gather;
pub mod nt;

pub use compare::{Calls, Dumps, Stores, calls, dumps, saved_calls, stores};
pub use gather::{BY_CALL, PIECE, Range, splice_all, widen, write_all};
