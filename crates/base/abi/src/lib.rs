//! The memory layouts that processes share: constants, structures and the arithmetic of words, no behaviour.
//!
//! Three sides compile this crate: the collector (`capture`), the runtime inside the observed program
//! (`capture-runtime`) and the C library of pools (`capi`). All of one recording are of one build, so they
//! agree by construction.
//!
//! - [`session`]: the file that the collector and the program map
//! - [`record`]: the words in its chunks
//! - [`library`]: the table of functions by which `libstrandline` reports to the runtime
//! - [`kinds`]: names of kinds of memory in files of kinds
//!
//! The crate has no dependencies and needs no standard library, because the runtime has none.
#![no_std]
#![forbid(unsafe_code)]

pub mod kinds;
pub mod library;
pub mod record;
pub mod session;

pub use record::*;
pub use session::*;
