//! What a platform promises about stores and crashes.

use std::fmt;
use std::str::FromStr;

use persistency::{Domain, FileModel, Model};

/// Which stores a crash may lose: where data is durable, and in which order it becomes so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Platform {
    domain: Domain,
    model: Model,
    /// What the disk below a file system writes whole.
    sector: Sector,
}

/// What a disk writes whole: the bytes of a sector are never torn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sector {
    /// 512 bytes: most disks, also those that have 4,096 inside and take parts of them.
    #[default]
    Bytes512,
    /// 4,096 bytes: disks with large sectors alone.
    Bytes4096,
}

impl Sector {
    /// Its length in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Sector::Bytes512 => 512,
            Sector::Bytes4096 => 4096,
        }
    }
}

impl FromStr for Sector {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "512" | "512B" => Ok(Sector::Bytes512),
            "4096" | "4096B" | "4KiB" => Ok(Sector::Bytes4096),
            _ => Err(format!("`{text}` is no size of a sector; there are 512 and 4096")),
        }
    }
}

/// At the end of the name of a platform whose disk has large sectors.
const LARGE: &str = "-4k";

impl Platform {
    /// x86-64 whose memory controllers survive a power failure and whose caches do not. The stores to a line survive in
    /// their order. Flushed data are durable at the thread's next fence (`clflush`: at once). Non-temporal stores persist in
    /// any order until the next fence.
    pub const ADR: Platform = Platform::of_memory(Domain::Adr, Model::X86);
    /// x86-64 whose caches survive too. A store is durable when it is visible; only non-temporal stores wait for a fence.
    pub const EADR: Platform = Platform::of_memory(Domain::Eadr, Model::X86);
    /// Epoch persistency: see [`Model::Epoch`]. Fences order and never wait.
    pub const EPOCH: Platform = Platform::of_memory(Domain::Adr, Model::Epoch);
    /// Strand persistency: see [`Model::Strand`].
    pub const STRAND: Platform = Platform::of_memory(Domain::Adr, Model::Strand);
    /// Ordinary files on a file system that promises only what POSIX does: see [`crate::files`].
    pub const POSIX: Platform = Platform::of_file_system(FileModel::Posix);
    /// Ordinary files on ext4 with its default mount options (`data=ordered`): see [`crate::files`].
    pub const EXT4: Platform = Platform::of_file_system(FileModel::Ext4);
    /// Ordinary files on ext4 with `data=writeback`.
    pub const EXT4_WRITEBACK: Platform = Platform::of_file_system(FileModel::Ext4Writeback);
    /// Ordinary files on XFS.
    pub const XFS: Platform = Platform::of_file_system(FileModel::Xfs);
    /// Ordinary files on Btrfs.
    pub const BTRFS: Platform = Platform::of_file_system(FileModel::Btrfs);
    /// Ordinary files on ZFS.
    pub const ZFS: Platform = Platform::of_file_system(FileModel::Zfs);

    /// Those of files, on a disk with sectors of 512 bytes.
    pub const OF_FILES: [Platform; 6] = [
        Platform::POSIX,
        Platform::EXT4,
        Platform::EXT4_WRITEBACK,
        Platform::XFS,
        Platform::BTRFS,
        Platform::ZFS,
    ];
    /// Those of memory.
    pub const ALL: [Platform; 4] = [Platform::ADR, Platform::EADR, Platform::EPOCH, Platform::STRAND];

    const fn of_memory(domain: Domain, model: Model) -> Self {
        Platform { domain, model, sector: Sector::Bytes512 }
    }

    const fn of_file_system(model: FileModel) -> Self {
        Platform { domain: Domain::Sync, model: Model::File(model), sector: Sector::Bytes512 }
    }

    /// The same file system on a disk with such sectors. Btrfs and ZFS never write in place, so it is nothing
    /// to them, nor to memory.
    #[must_use]
    pub fn with_sector(self, sector: Sector) -> Self {
        match self.of_files() {
            None | Some(FileModel::Btrfs | FileModel::Zfs) => self,
            Some(_) => Platform { sector, ..self },
        }
    }

    /// What the disk below a file system writes whole.
    #[must_use]
    pub fn sector(self) -> Sector {
        self.sector
    }

    /// Where data is durable.
    #[must_use]
    pub fn domain(self) -> Domain {
        self.domain
    }

    /// In which order data becomes durable.
    #[must_use]
    pub fn model(self) -> Model {
        self.model
    }

    /// The name in options and tokens: the domain's for x86-64, else the model's; with `-4k` behind it on a
    /// disk with sectors of 4,096 bytes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match (self.model, self.sector) {
            (Model::X86, _) => self.domain.name(),
            (Model::File(FileModel::Posix), Sector::Bytes4096) => "posix-4k",
            (Model::File(FileModel::Ext4), Sector::Bytes4096) => "ext4-4k",
            (Model::File(FileModel::Ext4Writeback), Sector::Bytes4096) => "ext4-writeback-4k",
            (Model::File(FileModel::Xfs), Sector::Bytes4096) => "xfs-4k",
            (model, _) => model.name(),
        }
    }

    /// The model of files, if it is one of [`Platform::OF_FILES`].
    #[must_use]
    pub fn of_files(self) -> Option<FileModel> {
        match self.model {
            Model::File(model) => Some(model),
            Model::X86 | Model::Arm | Model::Epoch | Model::Strand => None,
        }
    }

    /// Whether it is one of [`Platform::OF_FILES`].
    #[must_use]
    pub fn is_files(self) -> bool {
        self.of_files().is_some()
    }

    /// Whether a store is durable as soon as it is visible.
    pub(crate) fn caches_persist(self) -> bool {
        self.domain == Domain::Eadr
    }
}

impl From<FileModel> for Platform {
    fn from(model: FileModel) -> Self {
        Platform::of_file_system(model)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Platform {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let (plain, sector) = match name.strip_suffix(LARGE) {
            Some(plain) => (plain, Sector::Bytes4096),
            None => (name, Sector::Bytes512),
        };
        let mut all = Platform::ALL.into_iter().chain(Platform::OF_FILES);
        let known =
            all.find(|platform| platform.name() == plain).map(|platform| platform.with_sector(sector));
        known.filter(|platform| platform.sector() == sector).ok_or_else(|| {
            format!(
                "`{name}` is no platform; there are adr, eadr, epoch and strand, and for files posix, ext4, \
                 ext4-writeback, xfs, btrfs and zfs (with `-4k` behind one: on a disk with sectors of 4,096 bytes)"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Platform, Sector};

    #[test]
    fn every_name_is_its_platforms() {
        for platform in Platform::ALL.into_iter().chain(Platform::OF_FILES) {
            for sector in [Sector::Bytes512, Sector::Bytes4096] {
                let platform = platform.with_sector(sector);
                assert_eq!(platform.name().parse(), Ok(platform));
            }
        }
        assert_eq!(Platform::XFS.with_sector(Sector::Bytes4096).name(), "xfs-4k");
        assert!("zfs-4k".parse::<Platform>().is_err() && "adr-4k".parse::<Platform>().is_err());
        assert!("4K".parse::<Sector>().is_err());
    }
}
