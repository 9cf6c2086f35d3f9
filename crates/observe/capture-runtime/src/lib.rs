//! The runtime that programs built by `strandline cc` load: answers the compiler's hooks and stands in front
//! of the C library's functions that the observer records.
//!
//! Each thread writes *records* into a *chunk* of memory that it shares with the collector (layout in the
//! crate `abi`). Recording is appending words at a thread-local cursor; nothing is encoded, no file is
//! opened, and between two chunks there is no system call. The collector already has what the program wrote,
//! so a program may end however it likes.
//!
//! Every file uses only files below it; within a folder there is no circle. A test reads this drawing:
//!
//! ```text
//!   process/   threads, signal handlers, forks, programs, calls by their numbers; the library's constructor and destructor
//!   mapping/   which mappings are persistent memory
//!   files/     calls that change ordinary files
//!   sync/      locks, barriers, pipes and sockets, signals, locks on files
//!   memory/    accesses, atomic operations, functions on bytes and strings, the heap, libpmem
//!   stream/    records: room, chunks, completion, the cold path
//!   real/      the functions that ours stand in front of
//!   state/     what each thread has, as data
//!   base/      the kernel, the session, the table of loaded code
//! ```
//!
//! On top of all stand `marks.rs` (what a program reports itself) and `library.rs` (what `libstrandline`
//! reports). Code in line and hooks append a record at the cursor (`stream/room.rs`). Where there is no room,
//! they come to the cold path (`stream/cold.rs`), which needs threads and signal handlers and therefore
//! registers itself below.
//!
//! The rules that everything here keeps:
//! - **Whatever is called from a hook is async-signal-safe**: no allocation, no lock that is slept on, no
//!   `errno`. There is no allocator in this library at all.
//! - **Never through an interposed symbol.** The kernel is called directly (`base/sys.rs`), memory of our own
//!   is from the C library's heap by its `__libc_` names, everything else by the next definition (`real/`).
//! - **First room, then a position.** A position in the global order of synchronisation is taken when there
//!   is room for its record: a thread that held one and slept would hold up everybody.
//! - **Without a session a program just runs**: records go round in private memory.
//!
//! On aarch64 there is no code in line and there are no hooks before single instructions; all else is the
//! same.
// Unwinding is compiled in only for `cargo test`, which runs the library in other programs and so does not
// mind `std`.
#![cfg_attr(panic = "abort", no_std)]

mod base;
mod files;
mod library;
mod mapping;
mod marks;
mod memory;
mod process;
mod real;
mod state;
mod stream;
mod sync;

/// A broken invariant of ours: says where, and ends the program.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let file = info.location().map_or("?", core::panic::Location::file);
    base::sys::complain(&[b"strandline: broken invariant in the capture runtime, ", file.as_bytes(), b"\n"]);
    base::sys::abort()
}
