//! What a load runs on.

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A new record.
    Insert,
    /// A new value for a record.
    Update,
    /// The value of a record.
    Read,
    /// Values of several records in the order of keys.
    Scan,
    /// A read, then an update of the same record.
    Modify,
    /// A record taken out.
    Delete,
    /// A read that may be made together with the next ones.
    ReadMany,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] =
        [Self::Insert, Self::Update, Self::Read, Self::Scan, Self::Modify, Self::Delete, Self::ReadMany];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Read => "read",
            Self::Scan => "scan",
            Self::Modify => "read-modify-write",
            Self::Delete => "delete",
            Self::ReadMany => "read-many",
        }
    }
}

/// Why a target could not do an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TargetError(pub String);

/// A map or store, for any number of threads. It makes a key of a record's id, and a value of the id and a
/// version: one that [`value_word`] begins, so that a read can be judged.
pub trait Target: Sync {
    /// Puts in a record that is not there.
    ///
    /// # Errors
    /// If it can't be put in.
    fn insert(&self, id: u64, version: u64) -> Result<(), TargetError>;

    /// Sets the value of a record that is there.
    ///
    /// # Errors
    /// If it can't be set.
    fn update(&self, id: u64, version: u64) -> Result<(), TargetError> {
        self.insert(id, version)
    }

    /// Reads a record's value; whether it is there.
    ///
    /// # Errors
    /// If it can't be read, or is another record's.
    fn get(&self, id: u64) -> Result<bool, TargetError>;

    /// Reads several; how many are there.
    ///
    /// # Errors
    /// As [`Target::get`].
    fn get_many(&self, ids: &[u64]) -> Result<u64, TargetError> {
        ids.iter().try_fold(0, |found, id| Ok(found + u64::from(self.get(*id)?)))
    }

    /// Reads up to `count` records in the order of keys, from that of the id on; how many.
    ///
    /// # Errors
    /// If they can't be read.
    fn scan(&self, id: u64, count: u32) -> Result<u64, TargetError>;

    /// Takes a record out; whether it was there.
    ///
    /// # Errors
    /// If it can't be taken out.
    fn delete(&self, id: u64) -> Result<bool, TargetError>;
}

/// The first word of a record's value: most of the id, and a little of the version.
#[must_use]
pub fn value_word(id: u64, version: u64) -> u64 {
    (id & !0xFFFF) | (version & 0xFFFF)
}

/// Whether a value with this first word is a value of the record.
#[must_use]
pub fn value_is_of(word: u64, id: u64) -> bool {
    (word ^ id) >> 16 == 0
}
