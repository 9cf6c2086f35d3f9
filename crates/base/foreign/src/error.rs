//! Why an import stopped.

use event::SinkError;

/// Why an import stopped.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The system refused to read, or packed data is damaged.
    #[error("{file}:{line}: can't read: {source}")]
    Io {
        /// The file.
        file: String,
        /// Line, from 1; the number of a record in binary traces.
        line: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// The first lines are of no format that is known.
    #[error(
        "{file}: not a trace that is known: {text:?}; name its format with --format: {}",
        crate::Format::ALL.map(crate::Format::name).join(", ")
    )]
    Unknown {
        /// The file.
        file: String,
        /// How it starts.
        text: String,
    },
    /// The file has no byte.
    #[error("{file} is empty: there is no memory access in it")]
    Empty {
        /// The file.
        file: String,
    },
    /// It is packed by something else.
    #[error(
        "{file}: packed by {by}: unpack it first, as in `{by} -dc {file} | strandline trace import -o t.slt -`"
    )]
    Packed {
        /// The file.
        file: String,
        /// The program that packs like this.
        by: &'static str,
    },
    /// A line is none of the format's.
    #[error("{file}:{line}: not a line of {}: {text:?}", .format.what())]
    Line {
        /// The file.
        file: String,
        /// Line, from 1; the number of a record in binary traces.
        line: u64,
        /// The format.
        format: crate::Format,
        /// How the line starts.
        text: String,
    },
    /// Lackey's own importer stopped.
    #[error(transparent)]
    Lackey(#[from] trace::lackey::LackeyError),
    /// The consumer of the events stopped.
    #[error(transparent)]
    Sink(#[from] SinkError),
}
