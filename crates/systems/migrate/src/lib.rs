//! Checkpoint, clone and migrate running processes of Linux, in user space.
//!
//! A process is frozen by `ptrace`; what `/proc` does not show of it, it says itself by system calls that the tracer
//! has it execute. Restoring is the same the other way round: a child with the same number executes the system calls that
//! make it the process of the image, and then goes on where that one was stopped.
//!
//! A checkpoint is the state (everything but pages) and, per process, pages by address. Pages that come on demand, out of
//! fabric-attached memory or a file, are the crate `fam`'s; `live` joins both.

pub mod copies;
pub mod error;
pub mod freeze;
pub mod image;
pub mod inspect;
pub mod live;
pub mod plot;
pub mod proc;
pub mod remote;
pub mod restore;

pub use error::{Error, Result};
