//! Calls that change ordinary files: what they did, recorded in the order in which they did it.
//!
//! Only files that the user named (`--files`) are recorded; where none was, every function here is the C
//! library's behind one comparison. Which file a descriptor is, the kernel is asked each time: nothing needs
//! to be known of `dup`, `close`, descriptors that were inherited or came over a socket, and a file that was
//! renamed has its new name at once.
//!
//! Writes, and changes of names, are recorded when they are done, with one lock held around the call and its
//! record ([`order_lock`]), so that the order of the records is the kernel's and the offset of an appended
//! write is known. A sync is recorded when it begins, as what is written while it lasts is not covered; one
//! that fails is recorded all the same.
//!
//! Streams (`FILE *`) write within the C library; those of watched files are made to write through us
//! (`streams.rs`; those of `freopen`, which are looked at afterwards, `reopened.rs`; on aarch64 without the lines of code, and without `dprintf`).
//!
//! Calls that are made by their numbers (`syscall`) are recorded as those of the same name (`process/by_number.rs`).
//!
//! Complained of and not recorded: asynchronous I/O (`around.rs`), extended attributes (`attributes.rs`),
//! wide characters (`wide.rs`). Not seen: what other processes do that were not built with our compiler driver.

pub mod around;
pub mod attributes;
#[cfg(target_arch = "x86_64")]
pub mod by_instruction;
pub mod caller;
pub mod contents;
pub mod copies;
#[cfg(target_arch = "x86_64")]
pub mod entries;
pub mod named;
pub mod names;
pub mod order_lock;
pub mod record;
pub mod reopened;
pub mod streams;
pub mod syncs;
pub mod wide;
