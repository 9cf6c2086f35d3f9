//! Runs of unmodified programs into file events.
//!
//! A seccomp filter stops the program, its threads and its children only at system calls that change or order
//! files; `ptrace` shows each such call before and after. Which file a descriptor is, and where it stands, is
//! read from `/proc`, so that duplicates, relative paths and `O_APPEND` need no book-keeping (`opened.rs`).
//! Of a program with one thread only the beginning of most calls is seen; the files show whether they
//! succeeded (`expected.rs`). Files that are mapped shared and writable are compared with a copy at each call
//! that orders anything (`mapped.rs`), where the kernel watches them only the pages that were stored to
//! (`pages.rs`).
//!
//! A call's site is its name and the functions on its thread's stack (`stack.rs`).
//!
//! All calls stand in the order in which they returned; a sync is recorded where it began, if it succeeded.
//! Programs die with the tracer (`PTRACE_O_EXITKILL`): none is left stopped.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod aio;
mod begin;
mod calls;
mod decoded;
mod done;
mod emit;
mod expected;
mod filter;
mod look;
mod mapped;
mod opened;
mod pages;
mod proof;
mod reads;
mod run;
mod said;
mod stack;

pub use decoded::decoded;
pub use reads::{Reads, watch};
pub use run::{Options, Outcome, TracerError, record};
pub use said::Acks;
