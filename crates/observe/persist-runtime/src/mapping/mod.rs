//! Failure-atomic `msync`, for programs that are built with `--persist=msync`: after a crash a mapped file is as at
//! the last `msync` that was completed, whatever was stored since.
//!
//! A file that the program maps shared and to store becomes an [`image`]: it is mapped *privately* in the window, so
//! that no store reaches the file by itself. The hooks mark which lines were stored to ([`dirty`]). `msync` copies these
//! into one record of a redo [`journal`] beside the file, makes that durable with one sync, and then copies them into the
//! file, which is synced before the journal begins anew. Whole records of a journal that is left are copied once more
//! when a program opens or maps the file.
//!
//! [`calls`] has the functions of the C library that map, sync and change files.

mod calls;
mod dirty;
mod file;
mod image;
mod journal;
mod process;
mod table;

pub use dirty::{catch_up, is_on, mark, show_again, shown};
pub use process::{enable, end, forked, stats};
