//! What contests, contenders and results speak of.

use std::path::PathBuf;

use serde::Serialize;

use crate::record::KeyKind;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Maps of fixed-size pairs.
    Index,
    /// Key-value stores.
    Kv,
}

impl Subject {
    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Kv => "kv",
        }
    }
}

/// Whose a contender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// One of this project.
    Ours,
    /// Something simple to compare with.
    Baseline,
    /// Somebody else's.
    Peer,
}

/// One that did not take part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: String,
    /// What to install so that it does.
    pub package: Option<String>,
}

/// What is promised of a write that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// It was flushed and fenced: durable if the memory is.
    Flushed,
    /// The file was synced.
    Synced,
    /// Nothing.
    Not,
}

impl Durability {
    /// In words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Flushed => "each insert durable: flush+fence",
            Self::Synced => "each insert durable: synced",
            Self::Not => "not durable",
        }
    }

    /// Whether each write is durable when it returns.
    #[must_use]
    pub fn is_durable(self) -> bool {
        self != Self::Not
    }
}

/// What contenders are made for.
#[derive(Clone, Debug)]
pub struct Setup {
    /// A folder of the contest's own; files go there.
    pub folder: PathBuf,
    /// Whether a flush and a fence are all that files in the folder can be asked for: they are memory, or on
    /// persistent memory.
    pub memory: bool,
    /// What keys are.
    pub key: KeyKind,
    /// Bytes of a value.
    pub value: usize,
    /// Records that there can be at most.
    pub records: u64,
    /// Threads of the load.
    pub threads: u32,
    /// Reads that are handed over at once where that is possible.
    pub many: usize,
}
