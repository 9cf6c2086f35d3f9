//! Folders that are gone when the work is over, also if the process ends in the middle of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

/// Those that are there.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A folder that is removed with this, or by [`abandon`].
#[derive(Debug)]
pub struct Temporary(TempDir);

impl Temporary {
    /// Makes one in `place`, whose name begins with `prefix`.
    pub fn new(prefix: &str, place: &Path) -> io::Result<Temporary> {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(place)?;
        made(|made| made.push(folder.path().to_owned()));
        Ok(Temporary(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        made(|made| made.retain(|path| path != self.0.path()));
    }
}

fn made<T>(with: impl FnOnce(&mut Vec<PathBuf>) -> T) -> T {
    with(&mut MADE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// For a process that is about to end in the middle of its work: kills the program that is being recorded,
/// and removes what it would have removed at its end.
pub fn abandon() {
    capture::abandon();
    for folder in made(std::mem::take) {
        fs::remove_dir_all(folder).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_gone_at_the_end_and_when_work_is_abandoned() {
        let place = tempfile::tempdir().expect("a folder");
        let kept = Temporary::new("a-", place.path()).expect("a folder");
        let ended = Temporary::new("b-", place.path()).expect("a folder").path().to_owned();
        assert!(kept.path().is_dir() && !ended.exists());
        fs::write(kept.path().join("file"), "").expect("it is written");
        abandon();
        assert!(!kept.path().exists());
    }
}
