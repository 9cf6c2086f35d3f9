//! Traces of other tools as events.
//!
//! A [`Format`] is known by a file's first lines, or named. Files that gzip or zstd packed are opened. Each format says what it
//! can't see ([`Format::blind`]), and the [`event::Source`] of its events says so to consumers.
//!
//! ```
//! use event::Counts;
//!
//! let text = "0x7f21a3c1b0d3: R 0x7ffd1c8e2a18\n0x7f21a3c1b0d8: W 0x7ffd1c8e2a10\n#eof\n";
//! let mut counts = Counts::default();
//! let imported = foreign::import(text.as_bytes(), "pinatrace.out", None, &mut counts).expect("a trace");
//! assert_eq!((imported.format, counts.loads, counts.stores), (foreign::Format::Pinatrace, 1, 1));
//! ```
//!
//! A file per format is in `formats/`: a parser of one line. `import.rs` reads, numbers threads and sites, and makes batches.
//! Damaged input is an error that names the line; a last line that was cut is left out and reported.
#![forbid(unsafe_code)]

mod error;
mod format;
mod formats;
mod import;
mod line;
mod packed;

pub use error::ImportError;
pub use format::Format;
pub use import::{Imported, import};
