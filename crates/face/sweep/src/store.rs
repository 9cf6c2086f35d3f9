//! Results by their addresses, a file each.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::NamedTempFile;

use crate::error::SweepError;

/// A folder of results. Several processes may use it at the same time.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The store in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Store, SweepError> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(SweepError::file("create", &folder))?;
        Ok(Store { folder })
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, address: &str) -> PathBuf {
        // Some file systems are slow with many files in one folder.
        let (head, rest) = address.split_at_checked(2).unwrap_or(("", address));
        self.folder.join(head).join(format!("{rest}.json"))
    }

    /// A result, if it is there and whole.
    #[must_use]
    pub fn get(&self, address: &str) -> Option<Value> {
        let bytes = fs::read(self.path(address)).ok()?;
        let value: Value = serde_json::from_slice(&bytes).ok()?;
        value.is_object().then_some(value)
    }

    /// Keeps a result: whole, or not at all.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn put(&self, address: &str, result: &Value) -> Result<(), SweepError> {
        let path = self.path(address);
        let folder = path.parent().unwrap_or(&self.folder);
        let failed = || SweepError::file("write", &path);
        fs::create_dir_all(folder).map_err(failed())?;
        let mut file = beside(folder).map_err(failed())?;
        file.write_all(result.to_string().as_bytes()).map_err(failed())?;
        file.persist(&path).map_err(|error| failed()(error.error))?;
        Ok(())
    }
}

/// A new file of a folder, to be renamed, that others may read as the process's mask says.
pub(crate) fn beside(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(folder)
}
