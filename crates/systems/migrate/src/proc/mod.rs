//! `/proc`, read.

mod maps;
mod pagemap;
mod status;

pub use maps::{Mapping, mappings};
pub use pagemap::{Range, WRITTEN, scan};
pub use status::{Status, children, read_text, stat_words, threads};
