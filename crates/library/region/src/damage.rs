//! What can be damaged in a pool.

/// What in a pool can't be what was written there. Offsets are bytes from the beginning of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The sizes in a header whose checksum is right.
    #[error(
        "the sizes in the header, from offset {offset:#x}: expected those of a possible pool, found \
         {found} bytes"
    )]
    HeaderSizes {
        /// Where the sizes begin.
        offset: u64,
        /// The pool's size.
        found: u64,
    },
    /// The word that holds the state of the pool's engine.
    #[error("the engine's state at offset {offset:#x}: expected a number and its guard, found {found:#x}")]
    EngineState {
        /// Where the word is.
        offset: u64,
        /// The word.
        found: u64,
    },
    /// The line that leads to the root object.
    #[error(
        "the root line at offset {offset:#x}: expected the offset of a block and its complement, found \
         {found:#x} and {complement:#x}"
    )]
    Root {
        /// Where the line is.
        offset: u64,
        /// Its first word.
        found: u64,
        /// Its second word.
        complement: u64,
    },
    /// A line of a log.
    #[error(
        "the log line at offset {offset:#x}: expected a line that its check confirms, found one that \
         begins with {found:#x}"
    )]
    LogLine {
        /// Where the line is.
        offset: u64,
        /// Its first word.
        found: u64,
    },
    /// The low-water mark of a log record.
    #[error(
        "the log record at offset {offset:#x}: expected a low-water mark as its first write, found {found:#x}"
    )]
    LowWaterMark {
        /// Where the record begins.
        offset: u64,
        /// Its first word.
        found: u64,
    },
    /// An address in a log record.
    #[error("the log at offset {offset:#x}: expected an address that regions write, found {found:#x}")]
    LogAddress {
        /// Where the log, or the record in it, begins.
        offset: u64,
        /// The address.
        found: u64,
    },
    /// A log record between two others.
    #[error(
        "the log at offset {offset:#x}: expected the record that follows the one before, found none that \
         is whole"
    )]
    MissingRecord {
        /// Where the record would begin.
        offset: u64,
    },
    /// More log records than a crash can hide.
    #[error("the logs from offset {offset:#x}: expected {expected} records or a few less, found {found}")]
    MissingRecords {
        /// Where the first log begins.
        offset: u64,
        /// Records that were written.
        expected: u64,
        /// Records that are whole.
        found: u64,
    },
    /// Two log records of one number.
    #[error("the logs from offset {offset:#x}: expected each record once, found record {number} twice")]
    RecordTwice {
        /// Where the first log, or the log with the second record, begins.
        offset: u64,
        /// The records' number.
        number: u64,
    },
    /// An overflow extent: the part of a log record that is not in the log.
    #[error(
        "the overflow extent of the log record at offset {offset:#x}: expected what its record describes, \
         found other words at {found:#x}"
    )]
    Overflow {
        /// Where the record, or the log with it, begins.
        offset: u64,
        /// Where the extent begins.
        found: u64,
    },
    /// The checksum of a shadow copy.
    #[error(
        "the shadow copy of the line at offset {offset:#x}: expected bytes that its record's check \
         confirms, found others"
    )]
    ShadowCopy {
        /// Where the line is.
        offset: u64,
    },
    /// The numbers of the records in a page journal.
    #[error("the page journal at offset {offset:#x}: expected record {expected}, found {found}")]
    JournalRecord {
        /// Where the journal begins.
        offset: u64,
        /// The number that comes next.
        expected: u64,
        /// The number that does.
        found: u64,
    },
    /// A page journal that holds words and pages.
    #[error(
        "the page journal at offset {offset:#x}: expected one record of words or records of pages, found both"
    )]
    JournalMixed {
        /// Where the journal begins.
        offset: u64,
    },
    /// A spare page's number in a page journal.
    #[error("the page journal at offset {offset:#x}: expected a spare page below {expected}, found {found}")]
    JournalSlot {
        /// Where the journal begins.
        offset: u64,
        /// Spare pages of the pool.
        expected: u64,
        /// The page's number.
        found: u64,
    },
    /// The address of a page in the journal or its table.
    #[error(
        "the page journal at offset {offset:#x}: expected pages that regions write, found one at {found:#x}"
    )]
    JournalPage {
        /// Where the journal begins.
        offset: u64,
        /// The page's address.
        found: u64,
    },
    /// A page with two spare pages.
    #[error(
        "the page journal at offset {offset:#x}: expected one spare page for each page, found two for the \
         one at {found:#x}"
    )]
    PageTwice {
        /// Where the journal begins.
        offset: u64,
        /// The page's address.
        found: u64,
    },
    /// A line of the table of pages.
    #[error(
        "the page table's line at offset {offset:#x}: expected a line that its check confirms, found one \
         that begins with {found:#x}"
    )]
    PageTable {
        /// Where the line is.
        offset: u64,
        /// Its first word.
        found: u64,
    },
    /// A word of the allocator's table of chunks.
    #[error(
        "the chunk table's word at offset {offset:#x}: expected a chunk's kind and its guard, found \
         {found:#x}"
    )]
    ChunkTable {
        /// Where the word is.
        offset: u64,
        /// The word.
        found: u64,
    },
    /// A pair of words of the allocator's map of a slab.
    #[error(
        "the slab map's words at offset {offset:#x}: expected bits of blocks and their complement, found \
         {found:#x} and {complement:#x}"
    )]
    SlabMap {
        /// Where the first word is.
        offset: u64,
        /// The first word.
        found: u64,
        /// The second word.
        complement: u64,
    },
}
