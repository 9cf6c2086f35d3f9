//! Results by their addresses, a file each.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::NamedTempFile;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::SweepError;

/// The folder of results if nobody says.
pub const STORE: &str = ".strandline-sweep";
/// Where results are written before they get their names.
const UNFINISHED: &str = "new";
/// Seconds after which a result that has no name yet belongs to no process: it was killed.
const ABANDONED_S: u64 = 3600;

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
        let new = folder.join(UNFINISHED);
        fs::create_dir_all(&new).map_err(SweepError::file("create", &new))?;
        let store = Store { folder };
        store.forget_abandoned();
        Ok(store)
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

    /// Removes what killed processes left. Other sweeps may be at work: what is young stays.
    fn forget_abandoned(&self) {
        let new = self.folder.join(UNFINISHED);
        let changed = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
        // The file system's clock, which may be another computer's.
        let Ok(probe) = tempfile::NamedTempFile::new_in(&new) else { return };
        let Some(now) = changed(probe.path()) else { return };
        for entry in fs::read_dir(&new).into_iter().flatten().flatten() {
            let age = changed(&entry.path()).and_then(|then| now.duration_since(then).ok());
            if age.is_some_and(|age| age.as_secs() > ABANDONED_S) {
                fs::remove_file(entry.path()).ok();
            }
        }
    }

    /// A result, if it is there, whole and unchanged.
    #[must_use]
    pub fn get(&self, address: &str) -> Option<Value> {
        let text = fs::read_to_string(self.path(address)).ok()?;
        let (result, sum) = text.strip_suffix('\n')?.split_once('\n')?;
        if sum != sum_of(address, result) {
            return None;
        }
        let value: Value = serde_json::from_str(result).ok()?;
        value.is_object().then_some(value)
    }

    /// Keeps a result: whole, or not at all.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn put(&self, address: &str, result: &Value) -> Result<(), SweepError> {
        let path = self.path(address);
        let failed = || SweepError::file("write", &path);
        fs::create_dir_all(path.parent().unwrap_or(&self.folder)).map_err(failed())?;
        let mut file = beside(&self.folder.join(UNFINISHED)).map_err(failed())?;
        let result = result.to_string();
        write!(file, "{result}\n{}\n", sum_of(address, &result)).map_err(failed())?;
        file.persist(&path).map_err(|error| failed()(error.error))?;
        Ok(())
    }
}

/// A new file of a folder, to be renamed, that others may read as the process's mask says.
pub(crate) fn beside(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(folder)
}

/// The hash of a result under its address: what was damaged, or has another name, is none.
fn sum_of(address: &str, result: &str) -> String {
    format!("{:032x}", xxh3_128(format!("{address}\n{result}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ADDRESS: &str = "00112233445566778899aabbccddeeff";

    #[test]
    fn a_damaged_result_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path()).expect("a store");
        let result = json!({ "elapsed_ns": 12_345.5, "error": "ü" });
        store.put(ADDRESS, &result).expect("written");
        assert_eq!(store.get(ADDRESS), Some(result));
        let path = store.path(ADDRESS);
        let whole = fs::read(&path).expect("a file");
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).expect("written");
            assert_eq!(store.get(ADDRESS), None, "byte {at}");
            fs::write(&path, &whole[..at]).expect("written");
            assert_eq!(store.get(ADDRESS), None, "{at} bytes");
        }
        // A whole result under another name, and a folder.
        let other = ADDRESS.replace("ff", "fe");
        fs::write(store.path(&other), &whole).expect("written");
        assert_eq!(store.get(&other), None);
        fs::remove_file(&path).expect("ours");
        fs::create_dir(&path).expect("made");
        assert_eq!(store.get(ADDRESS), None);
    }

    #[test]
    fn what_a_killed_process_left_is_removed_when_it_is_old() {
        let folder = tempfile::tempdir().expect("a folder");
        let new = folder.path().join(UNFINISHED);
        fs::create_dir(&new).expect("made");
        let (old, young) = (new.join("old"), new.join("young"));
        fs::write(&young, "half").expect("written");
        let file = fs::File::create(&old).expect("created");
        file.set_modified(std::time::UNIX_EPOCH).expect("an old file");
        Store::open(folder.path()).expect("a store");
        assert!(young.exists() && !old.exists());
        assert_eq!(fs::read_dir(&new).expect("a folder").count(), 1);
    }
}
