//! What a program did to files, with paths resolved.

use std::ops::Range;

use event::{Op, SiteId, ThreadId};

use super::names::Change;
use crate::{MarkKind, Place};

/// One thing that one thread did.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub thread: ThreadId,
    pub site: SiteId,
    pub what: What,
}

/// What a change of names is to the first of the files that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// The file was made by it.
    Made,
    /// The file took the place of another one.
    Replaces,
    /// It got a name that was free, or lost one.
    Name,
}

/// See [`Step`]. Ranges are of the bytes that were stored or written, all in one place.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Entries that lead or led to these files changed, all at once.
    Names { changes: Vec<Change>, about: About, files: Vec<u16> },
    /// A call wrote to a file.
    Write { file: u16, offset: u64, bytes: Range<usize> },
    /// A store to a mapping.
    Store { file: u16, offset: u64, bytes: Range<usize> },
    /// A word of a mapping was read that another thread had stored.
    Read { place: Place },
    /// A file's length was set.
    Truncate { file: u16, len: u64 },
    /// Bytes were taken out of a file, or zeros put into it.
    Shift { file: u16, offset: u64, len: u64, insert: bool },
    /// A file's sync.
    Sync { file: u16, data_only: bool },
    /// A folder's sync.
    SyncFolder { folder: u16 },
    /// A sync of some of a file's bytes.
    SyncRange { file: u16, from: u64, len: u64, data_only: bool },
    /// A sync of everything.
    SyncAll,
    /// Something that the program said.
    Mark(MarkKind),
    /// A synchronisation of threads.
    Synchronise(Op),
}
