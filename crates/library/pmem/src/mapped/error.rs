//! Why memory can't be mapped, grown or synced.

use std::io;
use std::path::{Path, PathBuf};

/// Why memory can't be mapped. Each message names the file, what is wrong with it and what helps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The system refused.
    #[error("can't {action} {}: {source}{remedy}", .path.display())]
    File {
        /// What was being done.
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the user can do, as a continuation of the message.
        remedy: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The disk failed, or is full.
    #[error("can't sync {}: {source}; treat what was written since the last sync as lost", .path.display())]
    Sync {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Somebody else has the file open as a space.
    #[error("{} is in use{}; close it there first", .path.display(), by(*.holder))]
    Locked {
        /// The file.
        path: PathBuf,
        /// The process that holds the lock, where `/proc/locks` tells.
        holder: Option<u32>,
    },
    /// The file can't be a space.
    #[error(
        "{}: its length of {bytes} bytes is that of no space, which has a multiple of 8 above 0; \
         give another file, or the right length when it is made",
        name(.path)
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// Its length, or the one asked for.
        bytes: u64,
    },
    /// The space would be longer than the address space that was set aside for it.
    #[error(
        "{}: {bytes} bytes are more than the {max} that it can grow to while it is open; \
         open it with a larger maximum (Options::max_len)",
        name(.path)
    )]
    Limit {
        /// The file; empty for anonymous memory.
        path: PathBuf,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes of address space that were set aside.
        max: u64,
    },
    /// The space has the length that it has.
    #[error("{} can't grow: {reason}", name(.path))]
    Fixed {
        /// The file.
        path: PathBuf,
        /// Why, and what helps.
        reason: &'static str,
    },
    /// Anonymous memory can't be had.
    #[error("can't map {bytes} bytes of anonymous memory: {source}")]
    Anonymous {
        /// Bytes asked for.
        bytes: u64,
        /// The system's error.
        source: io::Error,
    },
}

/// The continuation that names the process that holds a lock.
fn by(holder: Option<u32>) -> String {
    holder.map_or_else(String::new, |pid| format!(" by process {pid}"))
}

/// What a space without a file is called.
fn name(path: &Path) -> String {
    if path.as_os_str().is_empty() { "anonymous memory".to_owned() } else { path.display().to_string() }
}
