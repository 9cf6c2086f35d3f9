//! What can be wrong with a trace file.

use event::SinkError;

use super::format::VERSION;

/// Why a trace can't be read. Every message names the file, the place in it and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system refused to open or read the file.
    #[error("{file}: can't read at byte {offset}: {source}")]
    Io {
        /// The trace.
        file: String,
        /// Where.
        offset: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is something else.
    #[error(
        "{file}: not a Strandline trace (no magic at byte 0); \
         `strandline record` makes one, `strandline trace import` converts Valgrind lackey's output"
    )]
    Foreign {
        /// The file.
        file: String,
    },
    /// The file was written by a later version of Strandline.
    #[error(
        "{file}: trace format version {version} at byte {offset}, this Strandline reads {VERSION}; \
         read it with the Strandline that wrote it, or update"
    )]
    Newer {
        /// The file.
        file: String,
        /// Where the version stands.
        offset: u64,
        /// The file's version.
        version: u16,
    },
    /// The file was written by an earlier version of Strandline.
    #[error(
        "{file}: trace format version {version} at byte {offset}, this Strandline reads {VERSION}; \
         read it with the Strandline that wrote it, or record again"
    )]
    Older {
        /// The file.
        file: String,
        /// Where the version stands.
        offset: u64,
        /// The file's version.
        version: u16,
    },
    /// The file ends before its header does.
    #[error(
        "{file}: ends at byte {offset}, within the header; \
         the recording was stopped before its first event: record again"
    )]
    NoHeader {
        /// The file.
        file: String,
        /// The file's length.
        offset: u64,
    },
    /// Bytes are not what was written.
    #[error(
        "{file}: corrupt at byte {offset}: {what}; \
         take the file from its origin again, or record again"
    )]
    Corrupt {
        /// The file.
        file: String,
        /// Where the damaged part (header, block, trailer) starts.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// The trace has no such thread.
    #[error("{file}: no events of thread {thread}; `strandline trace info` lists the threads")]
    NoThread {
        /// The file.
        file: String,
        /// The thread asked for.
        thread: u32,
    },
    /// The consumer of the events stopped.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// Bytes that can't be what an encoder wrote; becomes [`TraceError::Corrupt`] where the place is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub &'static str);
