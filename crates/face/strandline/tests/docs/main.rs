//! The book and the packages: every shell line of the book is run with the real binary, every page is in the book, and what
//! is packaged works where nothing else is.

#[path = "../common/mod.rs"]
mod common;

mod book;
mod packages;
mod shell;

use std::path::PathBuf;

/// The project's root.
fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../..")).canonicalize().expect("the root")
}
