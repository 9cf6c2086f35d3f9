//! The table: changes and lookups in batches on an accelerator, and by CPU threads on the same words.

mod batches;
mod cpu;

pub use batches::Table;
pub use cpu::CpuTable;

use crate::Error;

/// No location: not found, or any in a deletion.
pub const NONE: u32 = u32::MAX;

/// Results as kernels write them.
pub(crate) mod code {
    pub const INSERTED: u32 = 0;
    pub const REPLACED: u32 = 1;
    pub const FULL: u32 = 2;
    pub const DELETED: u32 = 3;
    pub const MISSING: u32 = 4;
}

/// A change of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Inserts a key's signature with a location below [`NONE`], or replaces its location.
    Insert(u32),
    /// Deletes a key's signature if it has this location; with any for [`NONE`].
    Delete(u32),
}

impl Change {
    /// Refuses a location that means that there is none.
    pub(crate) fn check(self) -> Result<(), Error> {
        if self != Change::Insert(NONE) {
            return Ok(());
        }
        let got = NONE.to_string();
        Err(Error::Request { what: "location to insert", got, expected: "at most 4294967294" })
    }
}

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was new.
    Inserted,
    /// It was there.
    Replaced,
    /// There was no room within five evictions; nothing changed.
    Full,
    /// It was there and is gone.
    Deleted,
    /// There was nothing to delete.
    Missing,
}

/// A change's outcome with the location that the signature had, or [`NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What came of it.
    pub outcome: Outcome,
    /// The location before.
    pub former: u32,
}

impl Answer {
    pub(crate) fn of(code: u32, former: u32) -> Answer {
        let outcome = match code {
            code::INSERTED => Outcome::Inserted,
            code::REPLACED => Outcome::Replaced,
            code::FULL => Outcome::Full,
            code::DELETED => Outcome::Deleted,
            _ => Outcome::Missing,
        };
        Answer { outcome, former }
    }
}
