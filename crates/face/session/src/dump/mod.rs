//! The events of a trace as lines of text and of JSON.

mod json;
mod text;

pub use json::{line as json_line, operation};
pub use text::line as text_line;
