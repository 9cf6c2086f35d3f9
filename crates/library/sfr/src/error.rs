//! What goes wrong.

use thiserror::Error;

/// Why a pool can't be used, or an operation on it was refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The first bytes are not those of such a pool.
    #[error("offset 0: this is no pool of synchronisation-free regions (it begins with {found:02x?})")]
    NotAPool {
        /// What is there.
        found: [u8; 8],
    },
    /// A pool of a version that this library does not read.
    #[error("offset 8: the pool has format version {found}, this library reads version {known}")]
    Version {
        /// What the pool says.
        found: u32,
        /// What is known.
        known: u32,
    },
    /// The layout's name is too long.
    #[error("the layout's name has {bytes} bytes, at most {} are possible", crate::NAME_MAX)]
    Name {
        /// Bytes of the name.
        bytes: usize,
    },
    /// A pool of another application, or another version of it.
    #[error("the pool's layout is {found:?}, not {wanted:?}")]
    Layout {
        /// What the pool says.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// Something in the pool is not as it was written.
    #[error("offset {offset}: {what} is damaged; restore the pool from a copy")]
    Damaged {
        /// Where.
        offset: u64,
        /// What.
        what: &'static str,
    },
    /// The pool is longer than the memory it is in.
    #[error("the pool has {pool} bytes and only {there} are there: the file was cut")]
    Cut {
        /// What the header says.
        pool: u64,
        /// What there is.
        there: u64,
    },
    /// Too little memory for a pool.
    #[error("a pool has at least {} bytes, and these are {there}", crate::POOL_MIN)]
    TooSmall {
        /// What there is.
        there: u64,
    },
    /// What survived is not closed under happens-before (with [`crate::Options::strict`]).
    #[error(
        "offset {offset}: what survived is not closed under happens-before: a committed region overwrote \
         one that is not committed, which only a race in the program or a fault of the library can do"
    )]
    NotClosed {
        /// The bytes in question.
        offset: u64,
    },
    /// More threads than logs.
    #[error("{} threads store to the pool already, and there are no more logs", crate::LOGS_MAX)]
    Threads,
    /// No room for a block or a log.
    #[error("the pool has no room for {bytes} bytes")]
    Full {
        /// What was asked for.
        bytes: u64,
    },
    /// An offset that is no allocated block's.
    #[error("offset {offset}: no block is allocated there")]
    NoBlock {
        /// What was given.
        offset: u64,
    },
}
