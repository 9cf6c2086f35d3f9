//! An image where recovery can work on it: of memory, or of ordinary files.

use std::io;
use std::path::{Path, PathBuf};

use crash::Change;

use super::laid::Folders;
use super::pools::Pools;
use super::run::Run;
use crate::error::Error;

/// One image, in a folder of its own.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // one for each job
pub enum Images {
    /// Of persistent memory.
    Pools(Pools),
    /// Of a file system.
    Folders(Folders),
}

impl Images {
    /// What the run found when it began.
    pub fn new(run: &Run) -> Result<Self, Error> {
        Ok(match &run.files {
            Some(files) => Images::Folders(Folders::new(files)?),
            None => Images::Pools(Pools::new(&run.history, &run.contents)?),
        })
    }

    /// Room for other files, outside the image.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// The folder of the image and of what belongs to it.
    pub fn folder(&self) -> PathBuf {
        match self {
            Images::Pools(images) => images.folder(),
            Images::Folders(images) => images.folder(),
        }
    }

    /// What recovery is to work on: a file, or a folder.
    pub fn pool(&self) -> PathBuf {
        match self {
            Images::Pools(images) => images.pool(),
            Images::Folders(images) => images.pool(),
        }
    }

    /// What recovery is to work on of a copy that [`Images::save`] made.
    pub fn pool_in(&self, folder: &Path) -> PathBuf {
        let pool = self.pool();
        match pool.strip_prefix(self.folder().join("image")) {
            Ok(inside) if !inside.as_os_str().is_empty() => folder.join(inside),
            _ => folder.to_owned(),
        }
    }

    /// The program's paths, and where recovery finds what is there.
    pub fn paths(&self) -> Vec<(String, PathBuf)> {
        match self {
            Images::Pools(images) => images.paths(),
            Images::Folders(images) => images.paths(),
        }
    }

    /// Takes over changes.
    pub fn apply(&mut self, changes: &[Change]) {
        match self {
            Images::Pools(images) => images.apply(changes),
            Images::Folders(images) => images.apply(changes),
        }
    }

    /// Sees that recovery finds the image; whatever an earlier recovery left there is gone.
    pub fn lay_out(&mut self) -> io::Result<()> {
        match self {
            Images::Pools(images) => images.lay_out(),
            Images::Folders(images) => images.lay_out(),
        }
    }

    /// Copies the image as recovery would find it.
    pub fn save(&self, folder: &Path) -> io::Result<()> {
        match self {
            Images::Pools(images) => images.save(folder),
            Images::Folders(images) => images.save(folder),
        }
    }
}
