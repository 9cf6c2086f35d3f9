//! Where data is durable.

use std::fmt;
use std::str::FromStr;

use crate::name::{UnknownName, find};

/// The persistence domain: the point that a store has to reach to survive a power failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum Domain {
    /// Nothing survives a power failure (DRAM, a file on tmpfs). A file's contents survive the process.
    Volatile,
    /// The write queue of the memory controller (*asynchronous DRAM refresh*). Caches are lost.
    #[default]
    Adr,
    /// The caches and the write queue (*enhanced ADR*). No flush is needed.
    Eadr,
    /// The persistent device behind a mapping without page cache (`MAP_SYNC`, a DAX device). What is flushed and fenced
    /// is durable; whether the platform has ADR or eADR is unknown.
    Dax,
    /// The disk below a page cache. Data are durable after a sync (`msync`, `fsync`).
    #[cfg_attr(feature = "serde", serde(rename = "synced"))]
    Sync,
    /// A persistent device behind a fabric or a CXL switch. Data are durable when the device acknowledges them.
    Fabric,
    /// Another node's persistent memory. Data are durable when that node acknowledges them.
    Remote,
}

impl Domain {
    /// All domains.
    pub const ALL: [Domain; 7] = [
        Domain::Volatile,
        Domain::Adr,
        Domain::Eadr,
        Domain::Dax,
        Domain::Sync,
        Domain::Fabric,
        Domain::Remote,
    ];

    /// The name in options, configuration files and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Domain::Volatile => "volatile",
            Domain::Adr => "adr",
            Domain::Eadr => "eadr",
            Domain::Dax => "dax",
            Domain::Sync => "synced",
            Domain::Fabric => "fabric",
            Domain::Remote => "remote",
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Domain {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        find("persistence domain", name, &Domain::ALL, Domain::name)
    }
}
