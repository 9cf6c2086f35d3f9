//! In which order data becomes durable.

use std::fmt;
use std::str::FromStr;

use crate::name::{UnknownName, find};

/// The persistency model: which orders of persists a platform allows.
///
/// The first four are promises of processors about stores to memory. Promises of file systems are [`Model::File`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Model {
    /// x86-64: total store order. The stores of one line persist in their order; those of several lines persist in any
    /// order until a flush and a fence make them durable.
    #[default]
    X86,
    /// Arm: stores become visible in any order that dependences and barriers allow. `dc cvap` and `dsb` make them
    /// durable.
    Arm,
    /// Epoch persistency: fences separate epochs. Stores of one epoch persist in any order, and none of an epoch before
    /// all of the epochs before it. Flushes mean nothing.
    Epoch,
    /// Strand persistency: persist barriers order the stores of one strand. Strands are unordered until a join (Gogte,
    /// thesis, section 5.2). Flushes and fences mean nothing.
    Strand,
    /// A file system's promises about ordinary files.
    File(FileModel),
}

/// The promises of a file system about ordinary files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileModel {
    /// Only what POSIX promises: nothing is ordered or durable before a sync.
    Posix,
    /// ext4 with default mount options (`data=ordered`): metadata in journal order, data before the metadata that
    /// refers to it.
    Ext4,
    /// ext4 with `data=writeback`: metadata in journal order, data at any time.
    Ext4Writeback,
    /// XFS: metadata in the order of the log, a length after the bytes that it covers.
    Xfs,
    /// Btrfs: blocks are copied on write, a length follows the bytes that it covers; names in any order.
    Btrfs,
    /// ZFS: names in order, and each file's contents in order.
    Zfs,
}

impl Model {
    /// The models of processors.
    pub const OF_MEMORY: [Model; 4] = [Model::X86, Model::Arm, Model::Epoch, Model::Strand];

    /// The name in options and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Model::X86 => "x86",
            Model::Arm => "arm",
            Model::Epoch => "epoch",
            Model::Strand => "strand",
            Model::File(model) => model.name(),
        }
    }
}

impl FileModel {
    /// All models of file systems.
    pub const ALL: [FileModel; 6] = [
        FileModel::Posix,
        FileModel::Ext4,
        FileModel::Ext4Writeback,
        FileModel::Xfs,
        FileModel::Btrfs,
        FileModel::Zfs,
    ];

    /// The name in options and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FileModel::Posix => "posix",
            FileModel::Ext4 => "ext4",
            FileModel::Ext4Writeback => "ext4-writeback",
            FileModel::Xfs => "xfs",
            FileModel::Btrfs => "btrfs",
            FileModel::Zfs => "zfs",
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for FileModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Model {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let all: Vec<Model> = Model::OF_MEMORY.into_iter().chain(FileModel::ALL.map(Model::File)).collect();
        find("persistency model", name, &all, Model::name)
    }
}

impl FromStr for FileModel {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        find("persistency model of files", name, &FileModel::ALL, FileModel::name)
    }
}
