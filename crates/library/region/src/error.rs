//! What can go wrong with a pool.

use crate::Damage;

/// Why a pool can't be opened, or can't do what is asked. Offsets are bytes from the beginning of the pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no header.
    #[error(
        "no pool: neither at offset 0 nor at {second:#x} is the mark of one{}; create it first, or open another file",
        if *.empty { " (nothing is there yet)" } else { "" }
    )]
    NotAPool {
        /// Where the header's second copy would be.
        second: u64,
        /// Whether there is nothing: zeros, or what was left when making a pool was broken off.
        empty: bool,
    },
    /// Both copies of the header are damaged.
    #[error(
        "both copies of the header are damaged (checksums at offsets {first:#x} and {second:#x}); restore the file from a backup"
    )]
    HeaderDamaged {
        /// Where the first copy's checksum is.
        first: u64,
        /// Where the second copy's checksum is.
        second: u64,
    },
    /// The pool is of another version of this library.
    #[error(
        "the pool has format version {found} (offset {offset:#x}), and this library reads {supported}; use the version that wrote it"
    )]
    Version {
        /// Where the version stands.
        offset: u64,
        /// What stands there.
        found: u32,
        /// What this library reads.
        supported: u32,
    },
    /// The pool was made for another application.
    #[error(
        "the pool's layout is {found:?} (offset {offset:#x}), and {wanted:?} was asked for; open it with the program that made it"
    )]
    Layout {
        /// Where its name stands.
        offset: u64,
        /// The name found.
        found: String,
        /// The name asked for.
        wanted: String,
    },
    /// The pool's logs are of another engine.
    #[error(
        "the pool keeps its regions with {found:?} (offset {offset:#x}), and {wanted:?} was asked for; open it with that engine"
    )]
    Engine {
        /// Where the engine's number stands.
        offset: u64,
        /// The engine found.
        found: String,
        /// The engine asked for.
        wanted: &'static str,
    },
    /// The pool's logs are of an engine that this version does not have.
    #[error(
        "the pool's engine has the number {number} (offset {offset:#x}), which this version does not know; use the version that wrote it"
    )]
    UnknownEngine {
        /// Where the engine's number stands.
        offset: u64,
        /// What stands there.
        number: u32,
    },
    /// The file is shorter than the pool.
    #[error(
        "the pool has {expected} bytes (offset {offset:#x}), but the file only {found}; it was cut: restore it from a backup"
    )]
    Short {
        /// Where the size stands.
        offset: u64,
        /// The size that stands there.
        expected: u64,
        /// The length of the space.
        found: u64,
    },
    /// Something in the pool can't be what was written there.
    #[error("damaged: {0}; restore the file from a backup, or look at it with `strandline pool check`")]
    Damaged(Damage),
    /// The sizes asked for do not make a pool.
    #[error("no pool can be made so: {0}")]
    Options(&'static str),
    /// There is no room.
    #[error("the pool is full: no room for {wanted} bytes; free some, or let the pool grow")]
    Full {
        /// Bytes asked for.
        wanted: u64,
    },
    /// No pool with such chunks has room for the block, however long it is.
    #[error(
        "a block of this pool has at most {most} bytes, as its chunks have {chunk}, and {wanted} were asked for; take several blocks, or \
         make a pool with longer chunks, as one of 4 MiB or more has"
    )]
    TooLarge {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes of the longest block.
        most: u64,
        /// Bytes of a chunk.
        chunk: u64,
    },
    /// There is no room, and the memory can't be made longer.
    #[error("the pool is full and can't grow: {0}")]
    NoGrowth(String),
    /// The pool is open to read only.
    #[error("the pool is open to read only; open it for writing")]
    ReadOnly,
    /// All numbers of regions are used up.
    #[error("the pool has seen all the regions that it can number; copy its contents to a new one")]
    Exhausted,
    /// A pointer leads where nothing of its kind was allocated.
    #[error("nothing that could be used or freed was allocated at offset {offset:#x}")]
    NotAllocated {
        /// Where the pointer leads.
        offset: u64,
    },
    /// A reference does not lead to what may be accessed.
    #[error("the reference {reference:#x} (to {bytes} bytes) {why}")]
    Reference {
        /// The reference, the pool's mark above the offset.
        reference: u64,
        /// Bytes that were to be accessed there.
        bytes: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is no size from which on it writes back in another way.
    #[error("a pool with the engine {engine} has no threshold to measure; micro-buffer has one")]
    NoThreshold {
        /// Its engine.
        engine: &'static str,
    },
    /// The closure of a region gave up.
    #[error("the region was given up: {0}")]
    Aborted(String),
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Error {
        Error::Damaged(damage)
    }
}
