//! The library in a program that was built by `strandline cc --persist=DESIGN`: its pool survives a crash as
//! the design says.
//!
//! A pool is mapped into a *window* of the address space ([`window`]), at the address that it was made for,
//! so that pointers into it stay right. The compiler's hooks ([`hooks`]) come before each store; a store into
//! the window is announced to the thread's log (`sfr::Thread::will_store`), all others cost a comparison.
//! Calls by which threads synchronise are interposed ([`sync`], [`threads`], [`atomics`]): a release is
//! announced before the call, an acquire after it. System calls end the thread's region ([`calls`]), and what
//! the C library writes into the window is announced for it ([`calls`], [`strings`], [`format`]).
//!
//! The design `msync` has no pool: it maps the program's files into the window ([`mapping`]).
//!
//! [`pool`] has the functions that the program calls, [`local`] what each thread keeps, [`pruner`] the thread
//! that commits. Signals that come while a thread is in here wait until it leaves ([`signals`]). A child of
//! `fork` has no pool ([`process`]).

#[cfg(target_arch = "x86_64")]
mod arguments;
#[cfg(target_arch = "x86_64")]
mod assembly;
mod atomics;
mod calls;
mod containers;
#[cfg(target_arch = "x86_64")]
mod counts;
mod failure;
#[cfg(target_arch = "x86_64")]
mod format;
mod heap;
mod hooks;
mod large;
mod library;
mod local;
mod mapping;
mod omp;
mod pool;
mod process;
mod pruner;
mod real;
mod scan;
mod signals;
mod sorting;
mod strings;
mod sync;
mod tasks;
mod threads;
#[path = "../../capture-runtime/src/memory/wide.rs"]
mod wide;
mod window;
