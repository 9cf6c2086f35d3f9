//! Instruments C and C++ programs while they are built.
//!
//! [`compile`] runs the user's compiler with its thread-sanitizer pass switched on, so that the compiler
//! itself puts a call before each access to memory. [`assemble`] is the `as` that this compiler finds: it
//! [rewrites](rewrite()) the compiler's output, bytes in and bytes out, and hands it to the real assembler.
//! The calls become a few instructions in line that append addresses to a buffer; flushes, fences and
//! non-temporal stores, which the pass does not know, get hooks before them. What is linked gets the runtime
//! library (`capture-runtime`) in place of the sanitizer's.
//!
//! ```text
//!   compile ── runs ──▶ gcc, clang ── run ──▶ assemble ── runs ──▶ as        driver/: starts processes,
//!   reads the environment
//!                                                │
//!                                             rewrite                        rewrite/: a function of its
//!                                             input alone
//! ```
//!
//! `include/` has the headers that a program built this way may include.
#![forbid(unsafe_code)]

mod driver;
mod rewrite;

pub use driver::{
    ASSEMBLER_ENV, AssemblerError, CC_ENV, CXX_ENV, CcError, Language, PERSIST_RUNTIME, Runtimes,
    VERBOSE_ENV, assemble, compile,
};
pub use rewrite::{Atomics, Exports, rewrite, rewrite_logged, rewrite_shipped};
