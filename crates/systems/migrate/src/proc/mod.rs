//! `/proc`, read.

mod maps;
mod pagemap;
mod status;

pub use maps::{Mapping, mapping_lines, mapping_named, mappings, mappings_after};
pub use pagemap::{Pagemap, Range};
pub use status::{Status, auxiliary, children, read_text, stat_words, threads};
