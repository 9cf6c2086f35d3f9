//! What sets file systems apart, as rules. `docs/file-systems.md` has the source of each.

use persistency::FileModel;

use crate::Platform;

/// What a file system writes back, and extends a file by.
pub(super) const PAGE: u64 = 4096;

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// Which changes of names survive in their order.
    pub names: Order,
    /// What of a file's contents survives in its order, and whole.
    pub unit: Unit,
    /// When a new length survives.
    pub lengths: Lengths,
    /// Whether a renaming that replaces a file brings the new one's contents along.
    pub replaces_with_contents: bool,
    /// Which names the sync of a file makes durable.
    pub by_sync: BySync,
    /// Whether what a truncation cuts off in the last block is zero on the disk as soon as the new length is
    /// there, so that a later, greater length never shows it again.
    pub zeros_with_length: bool,
    /// Whether bytes are taken out of a file, or put in, at once.
    pub shifts_at_once: bool,
}

/// See [`Rules::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// All, by a journal.
    All,
    /// Those of names that have to do with each other: one was renamed to the other.
    Connected,
    /// Those of the names of one file.
    OfFile,
}

/// See [`Rules::unit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Aligned pieces of so many bytes: a sector that is written in place, a block that is copied on write.
    Bytes(u64),
    /// All that calls write to a file, in order; stores to mappings page by page.
    File,
}

/// See [`Rules::lengths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lengths {
    /// At any time, whatever became of the bytes that it covers.
    Free,
    /// With the bytes that it covers, page by page.
    WithBytes,
    /// With the bytes that it covers of blocks that are new; at any time in the block that the file ended in
    /// before.
    WithNewBlocks,
}

/// See [`Rules::by_sync`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BySync {
    /// None.
    None,
    /// If something of the file is in the journal: all up to there.
    Journal,
    /// Its own, with the new folders above it.
    Own,
}

impl Rules {
    /// Those of a platform of files; of any other, those of POSIX.
    pub fn of(platform: Platform) -> Rules {
        let ext4 = Rules {
            names: Order::All,
            unit: Unit::Bytes(platform.sector().bytes()),
            lengths: Lengths::Free,
            replaces_with_contents: true,
            by_sync: BySync::Journal,
            zeros_with_length: true,
            shifts_at_once: true,
        };
        match platform.of_files().unwrap_or(FileModel::Posix) {
            FileModel::Posix => Rules {
                names: Order::Connected,
                replaces_with_contents: false,
                by_sync: BySync::None,
                zeros_with_length: false,
                shifts_at_once: false,
                ..ext4
            },
            FileModel::Ext4 => ext4,
            FileModel::Ext4Writeback => {
                Rules { replaces_with_contents: false, zeros_with_length: false, ..ext4 }
            }
            FileModel::Xfs => {
                Rules { lengths: Lengths::WithNewBlocks, replaces_with_contents: false, ..ext4 }
            }
            FileModel::Btrfs => Rules {
                names: Order::OfFile,
                unit: Unit::Bytes(PAGE),
                lengths: Lengths::WithBytes,
                replaces_with_contents: false,
                by_sync: BySync::Own,
                zeros_with_length: true,
                shifts_at_once: false,
            },
            FileModel::Zfs => {
                Rules { unit: Unit::File, lengths: Lengths::WithBytes, replaces_with_contents: false, ..ext4 }
            }
        }
    }

    /// What is written whole of a mapping.
    pub fn piece(self) -> u64 {
        match self.unit {
            Unit::Bytes(bytes) => bytes,
            Unit::File => PAGE,
        }
    }
}
