//! What a platform promises about stores and crashes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which stores a crash may lose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Platform {
    /// x86-64 whose memory controllers survive a power failure and whose caches do not. The stores to a line survive in their order;
    /// what was flushed is durable at the thread's next fence (`clflush`: at once), what was stored past the cache is in any order until then.
    #[default]
    Adr,
    /// x86-64 whose caches survive too. A store is durable when it is visible; only non-temporal stores wait for a fence.
    Eadr,
    /// Epoch persistency: a fence separates epochs; stores of one epoch survive in any order, but none of a later epoch without
    /// all of the earlier. Flushes mean nothing, and nothing is ever waited for.
    Epoch,
    /// Strand persistency: persist barriers order the stores of one strand, a new strand starts without constraints, a join orders everything
    /// before it before everything behind it (Gogte, thesis, section 5.2). Flushes and fences mean nothing.
    Strand,
    /// Ordinary files on a file system of which nothing is supposed but what POSIX promises: see [`crate::files`].
    Posix,
    /// Ordinary files on ext4 as it is mounted by default (`data=ordered`): see [`crate::files`].
    Ext4,
}

impl Platform {
    /// Those of files.
    pub const OF_FILES: [Platform; 2] = [Platform::Posix, Platform::Ext4];
    /// Those of memory.
    pub const ALL: [Platform; 4] = [Platform::Adr, Platform::Eadr, Platform::Epoch, Platform::Strand];

    /// The name as options and tokens have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Platform::Adr => "adr",
            Platform::Eadr => "eadr",
            Platform::Epoch => "epoch",
            Platform::Strand => "strand",
            Platform::Posix => "posix",
            Platform::Ext4 => "ext4",
        }
    }
}

impl Platform {
    /// Whether it is one of [`Platform::OF_FILES`].
    #[must_use]
    pub fn is_files(self) -> bool {
        Self::OF_FILES.contains(&self)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
