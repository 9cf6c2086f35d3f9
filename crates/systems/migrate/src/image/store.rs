//! The files of a checkpoint.
//!
//! `DIR/state` is one line of text (`strandline-image VERSION LENGTH HASH`) and then JSON of [`Image`]; it appears by
//! a rename, after everything that it names has been written. `DIR/*.pages` hold pages as they are, aligned, so that
//! they can be mapped.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

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
        serde_json::from_slice(body).map_err(|error| damaged(head.len() + 1, error.to_string(), AGAIN))
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
            let mine = runs.iter().filter(|run| run.file == index);
            let mut file = None;
            for run in mine {
                if file.is_none() {
                    file = Some(File::open(&path).map_err(|error| Error::file(&path, AGAIN, error))?);
                }
                let Some(file) = &file else { continue };
                buffer.resize(run.len as usize, 0);
                let damaged = |what: String| Error::Damaged {
                    path: path.clone(),
                    offset: run.offset,
                    what,
                    remedy: AGAIN,
                };
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
        if let Some(run) = runs.iter().find(|run| run.file >= image.page_files.len()) {
            let what = format!("pages of address {:#x} are in a file that it does not name", run.address);
            return Err(Error::Damaged { path: self.path("state"), offset: 0, what, remedy: AGAIN });
        }
        Ok(())
    }
}
