//! What can go wrong.

/// Why a structure can't do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no room; the structure is as before.
    #[error("no room for {wanted} more bytes: the space of {len} bytes is full")]
    Full {
        /// Bytes that were asked for.
        wanted: u64,
        /// Length of the space.
        len: u64,
    },
    /// What is there is not this structure.
    #[error("at offset {offset}: found {found:#x}, expected {expected:#x} ({what})")]
    Mismatch {
        /// Where, in the space.
        offset: u64,
        /// The word that is there.
        found: u64,
        /// The word that would be right.
        expected: u64,
        /// What that word says.
        what: &'static str,
    },
    /// It is this structure, but damaged.
    #[error("damaged at offset {offset}: {what}")]
    Damaged {
        /// Where, in the space.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// It can't be made with these settings.
    #[error("{0}")]
    Options(&'static str),
}
