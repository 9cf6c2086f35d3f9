//! The files of a checkpoint.
//!
//! `DIR/state` is one line of text (`strandline-image VERSION LENGTH HASH`) and then JSON of [`Image`]; it appears by
//! a rename, after everything that it names is on the disk. `DIR/*.pages` hold pages as they are, aligned, so that they can
//! be mapped. They are numbered: a new checkpoint writes a new file and names older ones for what has not changed, so the
//! last whole checkpoint is there at every moment. Files that no state names are removed after the rename.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::consistent::fault;
use super::state::{Image, Run};
use crate::error::{Error, Result};

/// What files of pages are called.
pub const PAGES_SUFFIX: &str = ".pages";
const MAGIC: &str = "strandline-image";
const VERSION: u32 = 1;
const AGAIN: &str = "take the checkpoint again, or restore an older one";

/// The hash of pages and of the state.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// A folder with a checkpoint.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The checkpoint in `folder`, which need not be there yet.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder, with access for its owner alone: pages hold secrets.
    ///
    /// # Errors
    /// If it cannot be made, or cannot be written.
    pub fn make(&self) -> Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .map_err(|error| Error::file(&self.folder, "cannot be made", error))
    }

    /// The path of the file `name`.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The number of the last checkpoint that left anything in the folder, 0 if there is none; `before` is what its state
    /// says.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn generation(&self, before: Option<&Image>) -> Result<u64> {
        let entries =
            fs::read_dir(&self.folder).map_err(|error| Error::file(&self.folder, "cannot be read", error))?;
        let names = entries.flatten().filter_map(|one| one.file_name().into_string().ok());
        let numbers = names.filter_map(|name| name.strip_suffix(PAGES_SUFFIX)?.parse().ok());
        Ok(numbers.chain(before.map(|before| before.generation)).max().unwrap_or(0))
    }

    /// Waits until the folder's names are on the disk.
    ///
    /// # Errors
    /// If they do not get there.
    pub fn sync(&self) -> Result<()> {
        let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| Error::file(&self.folder, "cannot be made durable", error))
    }

    /// Removes files of pages that the state, which is on the disk, does not name.
    pub fn clean(&self, image: &Image) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(PAGES_SUFFIX) && !image.page_files.contains(&name) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Writes the state: from then on the checkpoint is there. `sync` waits for the disk.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, image: &Image, sync: bool) -> Result<()> {
        let path = self.path("state");
        let fail = |error: io::Error| Error::file(&path, "cannot be written", error);
        let json = serde_json::to_vec(image).map_err(|error| fail(error.into()))?;
        let fresh = self.path("state.new");
        let mut file = File::create(&fresh).map_err(fail)?;
        let head = format!("{MAGIC} {VERSION} {} {:016x}\n", json.len(), hash(&json));
        file.write_all(head.as_bytes()).and_then(|()| file.write_all(&json)).map_err(fail)?;
        if sync {
            file.sync_all().map_err(fail)?;
        }
        fs::rename(&fresh, &path).map_err(fail)?;
        if sync {
            File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(fail)?;
        }
        Ok(())
    }

    /// Reads and checks the state.
    ///
    /// # Errors
    /// If there is none, or it is damaged or of another version.
    pub fn read(&self) -> Result<Image> {
        let path = self.path("state");
        let bytes = fs::read(&path).map_err(|error| Error::file(&path, "is no checkpoint", error))?;
        let damaged = |offset: usize, what: String, remedy| Error::Damaged {
            path: path.clone(),
            offset: offset as u64,
            what,
            remedy,
        };
        let end = bytes.iter().take(100).position(|byte| *byte == b'\n');
        let head = end.and_then(|end| std::str::from_utf8(&bytes[..end]).ok()).unwrap_or_default();
        let words: Vec<&str> = head.split(' ').collect();
        let [MAGIC, version, len, sum] = words[..] else {
            return Err(damaged(
                0,
                format!("does not begin with `{MAGIC}`"),
                "name a folder that checkpoint wrote",
            ));
        };
        if version != VERSION.to_string() {
            let what = format!("format {version}, and this program knows {VERSION}");
            return Err(damaged(MAGIC.len() + 1, what, "use the release of strandline that wrote it"));
        }
        let body = &bytes[end.unwrap_or(0) + 1..];
        if len.parse() != Ok(body.len()) {
            let what = format!("{} bytes of state, and {len} were written", body.len());
            return Err(damaged(bytes.len(), what, AGAIN));
        }
        if sum != format!("{:016x}", hash(body)) {
            return Err(damaged(head.len() + 1, "the state does not have its checksum".to_owned(), AGAIN));
        }
        let image = serde_json::from_slice(body)
            .map_err(|error| damaged(head.len() + 1, error.to_string(), AGAIN))?;
        match fault(&image) {
            None => Ok(image),
            Some(what) => Err(damaged(head.len() + 1, what, AGAIN)),
        }
    }

    /// Checks that every page that the state names is there and has its checksum.
    ///
    /// # Errors
    /// Naming the first that is not.
    pub fn check(&self, image: &Image) -> Result<()> {
        let own = image.processes.iter().flat_map(|process| &process.pages);
        let runs: Vec<&Run> = own.chain(image.shared.iter().flat_map(|shared| &shared.pages)).collect();
        let mut buffer = Vec::new();
        for (index, name) in image.page_files.iter().enumerate() {
            let path = self.path(name);
            // Also one of which nothing is needed any more: a restore opens all.
            let fail = |error| Error::file(&path, AGAIN, error);
            let file = File::open(&path).map_err(fail)?;
            let len = file.metadata().map_err(fail)?.len();
            for run in runs.iter().filter(|run| run.file == index) {
                let damaged = |what: String| Error::Damaged {
                    path: path.clone(),
                    offset: run.offset,
                    what,
                    remedy: AGAIN,
                };
                if len < run.offset + run.len {
                    return Err(damaged(format!("{} bytes of pages are behind its end", run.len)));
                }
                buffer.resize(run.len as usize, 0);
                file.read_exact_at(&mut buffer, run.offset).map_err(|error| {
                    damaged(format!("{} bytes of pages cannot be read ({error})", run.len))
                })?;
                if hash(&buffer) != run.hash {
                    return Err(damaged(format!(
                        "the pages of address {:#x} do not have their checksum",
                        run.address
                    )));
                }
            }
        }
        Ok(())
    }
}
