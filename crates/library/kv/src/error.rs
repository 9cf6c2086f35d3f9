//! What can go wrong.

use std::path::PathBuf;

use pmem::MapError;

/// Why a store can't be opened, or can't do what was asked. Offsets are bytes from the beginning of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file can't be mapped, grown or synced.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A store in a file: what is wrong with it.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<Error>,
    },
    /// There is no header.
    #[error(
        "no key-value store: neither at offset 0 nor at {second:#x} is the mark of one{}; create it first, \
         or open another file",
        if *.empty { " (nothing is there yet)" } else { "" }
    )]
    NotAStore {
        /// Where the header's second copy would be.
        second: u64,
        /// Whether there is nothing but zeros.
        empty: bool,
    },
    /// There is something where a store was to be made.
    #[error(
        "the memory for a new store is not empty: found {found:#x} at offset {offset:#x}; give another file"
    )]
    NotEmpty {
        /// Where.
        offset: u64,
        /// The word that is there.
        found: u64,
    },
    /// The store is of another version of this library.
    #[error(
        "the store has format version {found} (offset {offset:#x}), and this library reads {supported}; use \
         the version that wrote it"
    )]
    Version {
        /// Where the version stands.
        offset: u64,
        /// What stands there.
        found: u64,
        /// What this library reads.
        supported: u64,
    },
    /// The store was made with another setting, which can't change.
    #[error("the store was made with {what} {found}, and {wanted} was asked for; open it as it was made")]
    Setting {
        /// Which setting.
        what: &'static str,
        /// What it was made with.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// The file is shorter than the store.
    #[error(
        "the store has {expected} bytes (offset {offset:#x}), but the file only {found}; it was cut: restore \
         it from a backup"
    )]
    Short {
        /// Where the size stands.
        offset: u64,
        /// The size that stands there.
        expected: u64,
        /// The length of the file.
        found: u64,
    },
    /// Something can't be what was written there.
    #[error(
        "damaged at offset {offset:#x}: expected {expected}, found {found:#x}; restore the file from a backup"
    )]
    Damaged {
        /// Where.
        offset: u64,
        /// What should be there.
        expected: &'static str,
        /// The word that is there.
        found: u64,
    },
    /// There is no room. The store is as before: reads and deletes go on.
    #[error(
        "the store is full: no room for {wanted} more bytes; delete something, or make room for \
         the file to grow"
    )]
    Full {
        /// Bytes that were asked for.
        wanted: u64,
    },
    /// A key or value is longer than a store takes.
    #[error("a {what} of {bytes} bytes: at most {most} are possible")]
    TooLong {
        /// A key, a value or a batch.
        what: &'static str,
        /// Its length.
        bytes: u64,
        /// The most.
        most: u64,
    },
    /// No store can be made with these settings.
    #[error("no store can be made so: {0}")]
    Options(&'static str),
    /// The disk failed before. What was not durable then may be lost.
    #[error(
        "a sync of the store's file failed: close the store and open it again; what was not acknowledged as \
             durable may be lost"
    )]
    Failed,
}

impl Error {
    pub(crate) fn damaged(offset: u64, expected: &'static str, found: u64) -> Error {
        Error::Damaged { offset, expected, found }
    }

    /// The same, with the file that it is about.
    pub(crate) fn of_file(self, path: &std::path::Path) -> Error {
        match self {
            Error::Map(_) | Error::File { .. } => self,
            _ => Error::File { path: path.to_owned(), source: Box::new(self) },
        }
    }
}
