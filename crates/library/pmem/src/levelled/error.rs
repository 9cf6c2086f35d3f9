//! Why memory can't be levelled.

use std::io;

use crate::MapError;

/// Why memory can't be levelled. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LevelError {
    /// The file can't be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// Sizes that no levelled space has.
    #[error("{pages} pages of {page} bytes: use a power of two from 4 KiB to 1 GiB, and two pages or more")]
    Shape {
        /// Pages asked for.
        pages: u64,
        /// Bytes of each.
        page: u64,
    },
    /// What stands at the start is no header.
    #[error("no levelled space: at offset {offset} stands {found:#x}, not {expected:#x}")]
    Foreign {
        /// Where.
        offset: u64,
        /// What stands there.
        found: u64,
        /// What should.
        expected: u64,
    },
    /// The table names a frame twice, or one that does not exist.
    #[error("the table at offset {offset} is damaged: page {page} lies in frame {frame}; restore the file")]
    Damaged {
        /// Where the entry is.
        offset: u64,
        /// The page.
        page: u64,
        /// What its entry says.
        frame: u64,
    },
    /// The space is shorter than its header says.
    #[error(
        "the space has {found} bytes, and its header says {expected}: the file was cut; restore it from a copy"
    )]
    Short {
        /// Bytes there are.
        found: u64,
        /// Bytes there should be.
        expected: u64,
    },
    /// The system can't exchange mappings here.
    #[error("can't {action}: {source}")]
    System {
        /// What was being done.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}
