//! Calls that change ordinary files: what they did, told in the order in which they did it.
//!
//! Only files that the user named (`--files`) are told of; where none was, every function here is the C library's behind
//! one comparison. Which file a descriptor is, the kernel is asked each time: nothing needs to be known of `dup`,
//! `close`, descriptors that were inherited or came over a socket, and a file that was renamed has its new name at once.
//!
//! Writes, and changes of names, are told when they are done, with one lock held around the call and its record
//! ([`order`]), so that the order of the records is the kernel's and the offset of an appended write is known. A sync is told
//! when it begins, as what is written while it lasts is not covered; one that fails is told all the same.
//!
//! Streams (`FILE *`) write within the C library; those of watched files are made to write through us (`streams.rs`; on
//! aarch64 without the lines of code, and without `dprintf`).
//!
//! Not seen: `splice`, asynchronous I/O, `syscall`, `sync` (complained of), links (likewise), and what other processes do that were
//! not built with our compiler driver.

mod behind;
mod calls;
mod copies;
#[cfg(target_arch = "x86_64")]
mod entries;
mod kernel;
mod names;
pub mod next;
mod order;
mod streams;
mod tell;

use core::ffi::c_int;

use crate::wire::file;

pub use kernel::{is_watched, status};
pub use order::{after_fork, hold};
pub use streams::flush;

/// Tells that a library has made the file that long, which we did not see, and has synced it.
pub fn made(pc: u64, fd: c_int, len: u64) {
    let _held = hold();
    if let Some(path) = kernel::Path::of(fd).and_then(kernel::Path::watched) {
        tell::tell(file::TRUNCATE, pc, &path, len);
        tell::tell(file::SYNC, pc, &path, 0);
    }
}

/// Looks up the functions behind ours.
pub fn prepare() {
    next::prepare();
    behind::prepare();
    #[cfg(target_arch = "x86_64")]
    entries::prepare();
}
