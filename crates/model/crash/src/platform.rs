//! What a platform promises about stores and crashes.

use std::fmt;
use std::str::FromStr;

use persistency::{Domain, FileModel, Model};

/// Which stores a crash may lose: where data is durable, and in which order it becomes so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Platform {
    domain: Domain,
    model: Model,
}

impl Platform {
    /// x86-64 whose memory controllers survive a power failure and whose caches do not. The stores to a line survive in
    /// their order. Flushed data are durable at the thread's next fence (`clflush`: at once). Non-temporal stores persist in
    /// any order until the next fence.
    pub const ADR: Platform = Platform { domain: Domain::Adr, model: Model::X86 };
    /// x86-64 whose caches survive too. A store is durable when it is visible; only non-temporal stores wait for a fence.
    pub const EADR: Platform = Platform { domain: Domain::Eadr, model: Model::X86 };
    /// Epoch persistency: see [`Model::Epoch`]. Fences order and never wait.
    pub const EPOCH: Platform = Platform { domain: Domain::Adr, model: Model::Epoch };
    /// Strand persistency: see [`Model::Strand`].
    pub const STRAND: Platform = Platform { domain: Domain::Adr, model: Model::Strand };
    /// Ordinary files on a file system that promises only what POSIX does: see [`crate::files`].
    pub const POSIX: Platform = Platform { domain: Domain::Sync, model: Model::File(FileModel::Posix) };
    /// Ordinary files on ext4 with its default mount options (`data=ordered`): see [`crate::files`].
    pub const EXT4: Platform = Platform { domain: Domain::Sync, model: Model::File(FileModel::Ext4) };

    /// Those of files.
    pub const OF_FILES: [Platform; 2] = [Platform::POSIX, Platform::EXT4];
    /// Those of memory.
    pub const ALL: [Platform; 4] = [Platform::ADR, Platform::EADR, Platform::EPOCH, Platform::STRAND];

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

    /// The name in options and tokens: the domain's for x86-64, else the model's.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.model {
            Model::X86 => self.domain.name(),
            Model::Arm | Model::Epoch | Model::Strand | Model::File(_) => self.model.name(),
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
        Platform { domain: Domain::Sync, model: Model::File(model) }
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
        Platform::ALL
            .into_iter()
            .chain(Platform::OF_FILES)
            .find(|platform| platform.name() == name)
            .ok_or_else(|| format!("`{name}` is no platform; there are adr, eadr, epoch and strand, and for files posix and ext4"))
    }
}
