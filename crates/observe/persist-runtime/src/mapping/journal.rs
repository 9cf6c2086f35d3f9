//! The redo journal beside a file, `FILE.sl-journal`: [`sfr::journal`] on files.

use std::ffi::{CString, c_uint};
use std::io::{Error, ErrorKind, Result};
use std::ops::{Deref, DerefMut};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use sfr::journal::Range;
use sfr::journal::{Disk, Limits};

use super::file::{self, File};

/// A journal, locked for this process.
pub struct Journal {
    path: PathBuf,
    inner: sfr::journal::Journal<File>,
}

/// The name of a file's journal.
pub fn path_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".sl-journal");
    PathBuf::from(name)
}

impl Disk for File {
    fn read(&self, at: u64, to: &mut [u8]) -> Result<usize> {
        File::read(self, at, to)
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        File::write(self, at, from)
    }

    fn sync(&self) -> Result<()> {
        File::sync(self)
    }

    fn length(&self) -> Result<u64> {
        Ok(self.identity()?.1)
    }

    fn set_length(&self, length: u64) -> Result<()> {
        File::set_length(self, length)
    }
}

impl Journal {
    /// Opens a file's journal, makes it if `mode` says with which permissions, and copies what it has into the file;
    /// `None` if there is none. `WouldBlock` says that another process has it.
    pub fn open(of: &Path, data: &File, mode: Option<c_uint>) -> Result<Option<Journal>> {
        let path = path_of(of);
        let name = CString::new(path.as_os_str().as_bytes())?;
        let (file, new) = loop {
            let old = File::open(&name, libc::O_RDWR, 0);
            let (file, new) = match (old, mode) {
                (Ok(file), _) => (file, false),
                (Err(error), Some(mode)) if error.kind() == ErrorKind::NotFound => {
                    (File::open(&name, libc::O_RDWR | libc::O_CREAT, mode)?, true)
                }
                (Err(error), None) if error.kind() == ErrorKind::NotFound => return Ok(None),
                (Err(error), _) => return Err(error),
            };
            file.lock()?;
            // Who had it may have removed it meanwhile.
            if file::identity_of(&name).ok() == Some(file.identity()?.0) {
                break (file, new);
            }
        };
        let inner = sfr::journal::Journal::recover(file, data, Limits::default());
        let inner = inner.map_err(|error| match error.kind() {
            ErrorKind::InvalidData => Error::new(error.kind(), format!("{}: {error}", path.display())),
            _ => error,
        })?;
        if new {
            file::sync_directory_of(&path)?;
        }
        Ok(Some(Journal { path, inner }))
    }

    /// Removes it; it was retired.
    pub fn remove(self) {
        if let Ok(name) = CString::new(self.path.as_os_str().as_bytes()) {
            // One that stays has no records.
            _ = file::remove(&name);
        }
    }
}

impl Deref for Journal {
    type Target = sfr::journal::Journal<File>;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl DerefMut for Journal {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.inner
    }
}
