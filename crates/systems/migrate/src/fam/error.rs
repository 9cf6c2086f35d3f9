//! What can go wrong between a process, its lazy-page file and the machine it goes to.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// An error of the page path.
#[derive(Debug, Error)]
pub enum Error {
    /// A system call failed.
    #[error("{what}: {source}")]
    Os {
        /// What was attempted.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file is no lazy-page file.
    #[error("{}: not a lazy-page file", path.display())]
    NotFam {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by another version of the format.
    #[error("{}: lazy-page file of version {found}, this program reads version {expected}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version that is understood.
        expected: u32,
    },
    /// The file belongs to another process.
    #[error("{}: holds pages of process {found_pid} (started at tick {found_start}), not of process \
             {expected_pid} (started at tick {expected_start})", path.display())]
    Owner {
        /// The file.
        path: PathBuf,
        /// Whose pages it holds.
        found_pid: u32,
        /// When that process started, in clock ticks since boot.
        found_start: u64,
        /// Whose pages were asked for.
        expected_pid: u32,
        /// When that process started.
        expected_start: u64,
    },
    /// The source stopped before all pages were written.
    #[error("{}: half-written, {done} of {all} vectors are there; only a file that is complete restores", path.display())]
    HalfWritten {
        /// The file.
        path: PathBuf,
        /// Vectors that are complete.
        done: usize,
        /// All vectors.
        all: usize,
    },
    /// Bytes are not those that were written.
    #[error("{}: damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        what: String,
    },
    /// The fabric-attached memory has no room.
    #[error("{}: fabric-attached memory is full: {need} bytes are needed, {free} are free", path.display())]
    Full {
        /// The file that was to be made.
        path: PathBuf,
        /// Bytes needed.
        need: u64,
        /// Bytes free.
        free: u64,
    },
    /// The source is gone, and with it pages that were nowhere else.
    #[error(
        "the source is lost before its last pages were in fabric-attached memory ({missing} bytes are missing)"
    )]
    SourceLost {
        /// Bytes that are nowhere.
        missing: u64,
    },
    /// The restored process is gone.
    #[error("the restored process is gone; its pages are still in fabric-attached memory")]
    TargetLost,
    /// A message that makes no sense.
    #[error("unexpected message: {0}")]
    Protocol(String),
    /// The restored process touched an address that the checkpoint does not have.
    #[error("page fault at {0:#x}, which the checkpoint does not hold")]
    Stray(u64),
    /// What this kernel can't do.
    #[error("{0}")]
    Unsupported(String),
}

impl Error {
    /// The last error of the system.
    pub fn last(what: impl Into<String>) -> Error {
        Error::Os { what: what.into(), source: io::Error::last_os_error() }
    }

    /// An error of the system with its context.
    pub fn os(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Os { what, source }
    }

    /// The system's error number, if it is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Os { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
