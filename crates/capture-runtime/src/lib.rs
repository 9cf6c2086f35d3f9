//! The runtime that programs built by `strandline cc` load: answers the compiler's hooks and stands in front of the C
//! library's functions that the observer wants to know of.
//!
//! Each thread writes *records* into a *chunk* of memory that it shares with the collector (layout in `wire.rs`, shared
//! with the `capture` crate). Recording is appending words at a thread-local cursor; nothing is encoded, no file is opened,
//! and between two chunks there is no system call. What the program wrote is the collector's already, so a
//! program may end however it likes.
//!
//! ```text
//!   code in line, __tsan_*, malloc, pthread_*, ...     access atomic memory strings alloc map files lock thread signal ...
//!       |  append a record
//!   stream: cursor, limit of this thread               stream, local (the thread-local symbol)
//!       |  full
//!   next chunk, or count, or start over                session (shared), count, scratch (private)
//! ```
//!
//! The rules that everything here keeps:
//! - **Whatever is called from a hook is async-signal-safe**: no allocation, no lock that is slept on, no `errno`. There is
//!   no allocator in this library at all.
//! - **Never through an interposed symbol.** The kernel is called directly (`sys.rs`), memory of our own is from the
//!   C library's heap by its `__libc_` names, everything else by the next definition (`real.rs`, `heap.rs`).
//! - **First room, then a position.** A position in the global order of synchronisation is taken when there
//!   is room for the record that tells it: a thread that held one and slept would hold up everybody.
//! - **Without a session a program just runs**: records go round in private memory.
//!
//! On aarch64 there is no code in line and there are no hooks before single instructions; all else is the same.
// Unwinding is compiled in only for `cargo test`, which runs the library in other programs and so does not mind `std`.
#![cfg_attr(panic = "abort", no_std)]

mod access;
mod alloc;
mod atomic;
mod before;
#[cfg(target_arch = "x86_64")]
mod by_hand;
mod channel;
mod children;
mod count;
mod file_lock;
mod files;
#[cfg(target_arch = "x86_64")]
mod format;
mod glob;
mod heap;
#[cfg(target_arch = "x86_64")]
mod hooks;
mod jump;
mod kin;
mod kinds;
mod late;
mod library;
mod local;
mod lock;
mod map;
mod marks;
mod memory;
mod module;
mod omp;
mod once;
mod own_handler;
mod pmem;
mod pmem2;
mod process;
mod real;
mod received;
mod scratch;
mod session;
mod signal;
mod signalled;
#[cfg(target_arch = "x86_64")]
mod sort;
mod stream;
mod strings;
mod sys;
mod thread;
mod told;
mod turn;
mod wide;
mod wide_strings;
#[path = "../../capture/src/wire.rs"]
mod wire;

/// A broken invariant of ours: says where, and ends the program.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let file = info.location().map_or("?", core::panic::Location::file);
    sys::complain(&[b"strandline: broken invariant in the capture runtime, ", file.as_bytes(), b"\n"]);
    sys::abort()
}
