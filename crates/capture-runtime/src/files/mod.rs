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
//! Not seen: what the C library does within itself (`FILE *`; opening one for writing is complained of), `sendfile`,
//! `copy_file_range`, `splice`, asynchronous I/O, `syscall`, `sync`, hard links, and what other processes do that were
//! not built with our compiler driver.

mod calls;
mod kernel;
mod names;
pub mod next;
mod order;
mod tell;

pub use kernel::{is_watched, status};
pub use next::prepare;
pub use order::{after_fork, hold};
