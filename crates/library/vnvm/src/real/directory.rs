//! The NVM's directory: `nvm` (or a link to a DAX device), `shared`, `lock`, and a file per process.
//!
//! Whoever comes or goes holds `lock` with `flock`, which the system gives up for a process that dies. The
//! first one to come makes the files; if it finds an NVM that
//! nobody alive uses, it recovers that first. The last one to go removes them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use persistency::Domain;
use pmem::Mapped;
use rustix::fs::{FlockOperation, flock};

use super::owners::{Real, SHARED_FILE, begin, living};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::inspect::{Info, format, inspect};
use crate::layout::{HEADER, Layout, Sizes};
use crate::recover::{Recovered, recover};

/// How an NVM is made or joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Sizes, for whoever comes first.
    pub sizes: Sizes,
    /// A DAX device, or a file elsewhere, in place of the file `nvm` in the directory.
    pub nvm: Option<PathBuf>,
    /// Takes the memory for persistent although the system does not say so.
    pub force: bool,
    /// Protects the NVM against stray stores of the program, where the processor can.
    pub protect: bool,
}

impl Setup {
    /// With those sizes, in a file of the directory.
    #[must_use]
    pub fn new(sizes: Sizes) -> Setup {
        Setup { sizes, nvm: None, force: false, protect: true }
    }
}

/// The directory, locked against others that come or go.
pub(crate) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    pub(crate) fn lock(path: &Path, make: bool) -> Result<Directory> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Directory { action, path, source }
        };
        if make {
            fs::create_dir_all(path).map_err(failed("make", path))?;
        }
        let path = fs::canonicalize(path).map_err(failed("find", path))?;
        let name = path.join("lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let lock = options.open(&name).map_err(failed("open", &name))?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|errno| failed("lock", &name)(io::Error::from(errno)))?;
        Ok(Directory { path, _lock: lock })
    }

    pub(crate) fn nvm(&self) -> PathBuf {
        self.path.join("nvm")
    }

    pub(crate) fn shared(&self) -> PathBuf {
        self.path.join("shared")
    }

    /// The shared memory, if processes that live use it.
    fn in_use(&self) -> Result<Option<Mapped>> {
        // Who made it may have been killed before it had its length.
        if !has_bytes(&self.shared(), SHARED_FILE) {
            return Ok(None);
        }
        let shared = several().open(&self.shared())?;
        if living(&shared, &self.path).is_empty() {
            return Ok(None);
        }
        Ok(Some(shared))
    }

    /// New shared memory.
    fn new_shared(&self) -> Result<Mapped> {
        remove(&self.shared())?;
        let shared = several().create(&self.shared(), SHARED_FILE)?;
        begin(&shared);
        Ok(shared)
    }

    fn open_nvm(&self, force: bool) -> Result<Mapped> {
        let nvm = several().force(force).open(&self.nvm())?;
        if nvm.durability().domain == Domain::Sync {
            return Err(Error::NotPersistent { path: self.nvm() });
        }
        Ok(nvm)
    }

    /// An empty NVM of those sizes.
    fn make_nvm(&self, setup: &Setup) -> Result<Mapped> {
        let name = self.nvm();
        if let Some(device) = &setup.nvm {
            remove(&name)?;
            std::os::unix::fs::symlink(device, &name).map_err(|source| Error::Directory {
                action: "link",
                path: name.clone(),
                source,
            })?;
        }
        let is_link = fs::symlink_metadata(&name).is_ok_and(|found| found.file_type().is_symlink());
        let bytes = setup.sizes.bytes();
        if !is_link {
            remove(&name)?;
        }
        if !is_link || !name.exists() {
            let target = fs::read_link(&name).unwrap_or_else(|_| name.clone());
            drop(several().force(setup.force).create(&target, bytes)?);
        }
        let nvm = self.open_nvm(setup.force)?;
        format(&nvm, setup.sizes)?;
        Ok(nvm)
    }

    /// Recovers what nobody uses. The host that did it is gone again.
    fn recover(&self, force: bool) -> Result<Recovered> {
        // As above: a file that is shorter than a header was never used.
        if !is_device(&self.nvm()) && !has_bytes(&self.nvm(), HEADER) {
            return Ok(Recovered::default());
        }
        let host = Real::enter(self.open_nvm(force)?, self.new_shared()?, &self.path, false)?;
        let done = recover(&host, None);
        host.exit();
        done
    }

    /// Joins, or makes what is to be joined.
    pub(crate) fn enter(&self, setup: &Setup) -> Result<Real> {
        if let Some(shared) = self.in_use()? {
            return Real::enter(self.open_nvm(setup.force)?, shared, &self.path, setup.protect);
        }
        self.recover(setup.force)?;
        let nvm = self.make_nvm(setup)?;
        Real::enter(nvm, self.new_shared()?, &self.path, setup.protect)
    }

    /// The last process has gone.
    pub(crate) fn remove(&self) -> Result<()> {
        let is_link = fs::symlink_metadata(self.nvm()).is_ok_and(|found| found.file_type().is_symlink());
        if !is_link {
            remove(&self.nvm())?;
        }
        remove(&self.shared())
    }
}

/// Whether there is a file with at least so many bytes.
fn has_bytes(path: &Path, least: u64) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() >= least)
}

fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file())
}

fn several() -> pmem::Options {
    pmem::Options::new().several(true).max_len(1 << 40)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::Directory { action: "remove", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Recovers the NVM of a directory that no process uses, and removes it.
///
/// # Errors
/// If processes use it, it is damaged, or a file can't be written; it is as before then.
pub fn recover_directory(path: &Path, force: bool) -> Result<Recovered> {
    let directory = Directory::lock(path, false)?;
    if directory.in_use()?.is_some() {
        let what = "processes that live use this NVM: what dead ones left is adopted by these; recovery is for when nobody is there";
        return Err(Error::Busy { what });
    }
    let done = directory.recover(force)?;
    directory.remove()?;
    Ok(done)
}

/// What is in the NVM of a directory, and how many living processes use it. Nothing is changed.
///
/// # Errors
/// If there is none, or it is damaged.
pub fn inspect_directory(path: &Path) -> Result<(Option<Info>, u64)> {
    let directory = Directory::lock(path, false)?;
    let live = match directory.in_use()? {
        Some(shared) => living(&shared, &directory.path).len() as u64,
        None => 0,
    };
    if !is_device(&directory.nvm()) && !has_bytes(&directory.nvm(), HEADER) {
        return Ok((None, 0));
    }
    let nvm = pmem::Options::new().open_read_only(&directory.nvm())?;
    // What processes change while it is read looks damaged for a moment.
    let mut tries = if live > 0 { 20 } else { 1 };
    loop {
        tries -= 1;
        match inspect(&nvm) {
            Err(_) if tries > 0 => std::thread::sleep(std::time::Duration::from_millis(2)),
            info => return Ok((info?, live)),
        }
    }
}

/// Whether a host's NVM is one that `Layout` reads.
pub(crate) fn sizes_of(host: &Real) -> Result<Option<Sizes>> {
    use space::Env;
    Ok(Layout::read(host.env().space())?.map(|layout| layout.sizes))
}
