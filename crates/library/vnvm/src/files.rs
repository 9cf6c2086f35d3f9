//! File records: which file a number in the log or the cache stands for.
//!
//! | word | what |
//! |---|---|
//! | 0 | state: the mode, sealed; written last, cleared first |
//! | 1 | who uses it: a bit per slot |
//! | 2 | bytes that are mapped |
//! | 3 | link to the first committed transaction of a shared region |
//! | 4, 5 | which file it is (device and inode) |
//! | 6 | bytes of the path |
//! | 7 | check |
//! | 8.. | the path |

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use space::Space;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{Error, Result};
use crate::host::Mode;
use crate::layout::{Layout, PATH_MAX};
use crate::words::{Kind, seal, unseal};

/// A file record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub mode: Mode,
    pub users: u64,
    pub len: u64,
    pub identity: [u64; 2],
    pub path: PathBuf,
}

/// Where the link to a shared region's list is.
pub(crate) fn head(layout: &Layout, file: u16) -> u64 {
    layout.record(file) + 24
}

impl Record {
    /// The record, if there is one.
    ///
    /// # Errors
    /// If it is damaged.
    pub(crate) fn load<S: Space>(space: &S, layout: &Layout, file: u16) -> Result<Option<Record>> {
        let at = layout.record(file);
        let Some(state) = unseal(Kind::Record, at, space.load_u64(at))? else { return Ok(None) };
        let damaged = |found| Error::Damaged { offset: at, what: "a file record", found };
        let mode = match state {
            1 => Mode::Private,
            2 => Mode::Shared,
            3 => Mode::Atomic,
            _ => return Err(damaged(state)),
        };
        let words = [16, 32, 40, 48].map(|word| space.load_u64(at + word));
        if words[3] > PATH_MAX as u64 {
            return Err(damaged(words[3]));
        }
        let mut path = vec![0; words[3] as usize];
        space.load(at + 64, &mut path);
        if check_of(state, words, &path) != space.load_u64(at + 56) {
            return Err(damaged(words[0]));
        }
        Ok(Some(Record {
            mode,
            users: space.load_u64(at + 8),
            len: words[0],
            identity: [words[1], words[2]],
            path: PathBuf::from(OsStr::from_bytes(&path)),
        }))
    }

    /// Makes the record durable: its state last.
    ///
    /// # Errors
    /// If the path is too long.
    pub(crate) fn store<S: Space>(&self, space: &S, layout: &Layout, file: u16) -> Result<()> {
        let at = layout.record(file);
        let path = self.path.as_os_str().as_bytes();
        if path.len() > PATH_MAX {
            return Err(Error::Path { path: self.path.clone(), max: PATH_MAX });
        }
        let state = match self.mode {
            Mode::Private => 1,
            Mode::Shared => 2,
            Mode::Atomic => 3,
        };
        let words = [self.len, self.identity[0], self.identity[1], path.len() as u64];
        space.store_words(at + 8, &[self.users, words[0], 0, words[1], words[2], words[3]]);
        space.store_u64(at + 56, check_of(state, words, path));
        space.store(at + 64, path);
        space.flush(at, 64 + path.len() as u64);
        space.fence();
        space.store_u64(at, seal(Kind::Record, state));
        space.persist(at, 8);
        Ok(())
    }

    /// Takes the record away, durably.
    pub(crate) fn remove<S: Space>(space: &S, layout: &Layout, file: u16) {
        let at = layout.record(file);
        space.store_u64(at, 0);
        space.persist(at, 8);
    }

    /// Changes who uses it.
    pub(crate) fn store_users<S: Space>(space: &S, layout: &Layout, file: u16, users: u64) {
        let at = layout.record(file) + 8;
        space.store_u64(at, users);
        space.persist(at, 8);
    }

    /// All records that there are.
    ///
    /// # Errors
    /// If one is damaged.
    pub(crate) fn all<S: Space>(space: &S, layout: &Layout) -> Result<Vec<(u16, Record)>> {
        let mut all = Vec::new();
        for file in 0..layout.sizes.files as u16 {
            if let Some(record) = Record::load(space, layout, file)? {
                all.push((file, record));
            }
        }
        Ok(all)
    }

    /// An error of the file.
    pub(crate) fn failed(path: &Path, action: &'static str, source: std::io::Error) -> Error {
        let remedy = match source.kind() {
            std::io::ErrorKind::StorageFull => "make room on that disk and try again",
            std::io::ErrorKind::NotFound => "put the file back where it was and try again",
            std::io::ErrorKind::PermissionDenied => "it must be readable and writable",
            _ => "try again when the disk works",
        };
        Error::Backing { action, path: path.to_owned(), remedy, source }
    }
}

fn check_of(state: u64, words: [u64; 4], path: &[u8]) -> u64 {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_le_bytes()).chain(path.iter().copied()).collect();
    xxh3_64_with_seed(&bytes, state)
}
