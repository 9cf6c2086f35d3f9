//! `/proc`, read.

mod maps;
mod pagemap;
mod status;

pub use maps::{Mapping, mapping_named, mappings, mappings_after};
pub use pagemap::{Range, WRITTEN, scan};
pub use status::{Status, children, read_text, stat_words, threads};
