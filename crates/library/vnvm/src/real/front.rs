//! `Vnvm`: a process with its two workers.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pmem::Worker;
use space::Env;

use super::directory::{Directory, Setup, sizes_of};
use super::owners::Real;
use crate::error::{Error, Result};
use crate::host::{Host, Mode};
use crate::layout::Sizes;
use crate::options::Options;
use crate::process::{Process, Region, Stats};

/// How long an idle worker sleeps, at first (as in the source) and at most.
const PAUSE_MIN: Duration = Duration::from_micros(10);
const PAUSE_MAX: Duration = Duration::from_millis(1);
/// How long a worker waits after an error.
const PAUSE_FAILED: Duration = Duration::from_millis(20);
/// How often dead processes are looked for, and old transactions.
const LOOK_NS: u64 = 100_000_000;

/// A process that uses the NVM of a directory.
pub struct Vnvm {
    process: Arc<Process<Real>>,
    workers: Vec<Worker>,
    failure: Arc<Mutex<Option<String>>>,
    left: bool,
}

impl Vnvm {
    /// Joins the processes that use the NVM of a directory. The first one makes it; what an NVM holds that
    /// nobody alive uses is recovered before.
    ///
    /// # Errors
    /// If the directory or its NVM can't be used, is damaged, or is on a disk that is not persistent memory.
    pub fn open(directory: &Path, setup: &Setup, options: Options) -> Result<Vnvm> {
        let locked = Directory::lock(directory, true)?;
        let host = locked.enter(setup)?;
        let process = Arc::new(Process::join(host, options)?);
        drop(locked);
        let failure = Arc::new(Mutex::new(None));
        let workers = vec![redo_worker(&process, &failure)?, write_back_worker(&process, &failure)?];
        Ok(Vnvm { process, workers, failure, left: false })
    }

    /// The protocol's side of this process.
    #[must_use]
    pub fn process(&self) -> &Process<Real> {
        &self.process
    }

    /// The sizes of the NVM.
    ///
    /// # Errors
    /// If its header is damaged.
    pub fn sizes(&self) -> Result<Option<Sizes>> {
        sizes_of(self.process.host())
    }

    /// Maps a file; see [`Process::allocate`].
    ///
    /// # Errors
    /// As there.
    pub fn allocate(&self, path: &Path, len: u64, mode: Mode) -> Result<Arc<Region<Real>>> {
        self.process.allocate(&absolute(path)?, len, mode)
    }

    /// Ends a region; see [`Process::free`].
    ///
    /// # Errors
    /// As there.
    pub fn free(&self, region: &Arc<Region<Real>>) -> Result<()> {
        self.process.free(region)
    }

    /// Begins a transaction, which is aborted when it is dropped.
    #[must_use]
    pub fn begin(&self) -> Transaction<'_> {
        Transaction { vnvm: self, tid: self.process.begin(), open: true }
    }

    /// Commits what changed in an atomic region; see [`Process::sync`].
    ///
    /// # Errors
    /// As there.
    pub fn sync(&self, region: &Arc<Region<Real>>) -> Result<u64> {
        self.make_room()?;
        self.process.sync(region)
    }

    /// Figures so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.process.stats()
    }

    /// What a worker could not do when it tried last. It tries again; nothing is lost meanwhile.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Helps redo, for a writer that found the log full, or flushes shared regions; whether there was
    /// anything to do.
    fn make_room(&self) -> Result<bool> {
        let mut helped = false;
        while self.process.redo_step()? {
            helped = true;
        }
        if !helped {
            helped = self.process.flush_all()? > 0;
        }
        Ok(helped)
    }

    /// Leaves: everything committed is in the files. The last process removes the NVM.
    ///
    /// # Errors
    /// If a file can't be written: the process is still there, and may try again; if it ends instead,
    /// another one adopts what it leaves.
    pub fn close(&mut self) -> Result<()> {
        if self.left {
            return Ok(());
        }
        self.process.drain()?;
        let directory = Directory::lock(self.process.host().directory(), false)?;
        let last = self.process.leave()?;
        self.left = true;
        self.workers.clear();
        self.process.host().exit();
        if last {
            directory.remove()?;
        }
        Ok(())
    }
}

impl Drop for Vnvm {
    fn drop(&mut self) {
        // Whoever wants to know closes it.
        _ = self.close();
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|source| Error::Directory {
        action: "find",
        path: path.to_owned(),
        source,
    })
}

fn note(failure: &Mutex<Option<String>>, error: Option<String>) {
    *failure.lock().unwrap_or_else(PoisonError::into_inner) = error;
}

fn started(worker: std::io::Result<Worker>) -> Result<Worker> {
    worker.map_err(|source| Error::Directory { action: "start a thread for", path: PathBuf::new(), source })
}

fn redo_worker(process: &Arc<Process<Real>>, failure: &Arc<Mutex<Option<String>>>) -> Result<Worker> {
    let (process, failure) = (process.clone(), failure.clone());
    let (mut pause, mut looked, mut failed) = (PAUSE_MIN, 0, false);
    started(Worker::start("vnvm redo", move || {
        let now = process.host().env().now_ns();
        if now - looked > LOOK_NS {
            looked = now;
            if let Err(error) = process.abort_old() {
                note(&failure, Some(error.to_string()));
            }
        }
        match process.redo_step() {
            Ok(true) => {
                pause = PAUSE_MIN;
                if std::mem::take(&mut failed) {
                    note(&failure, None);
                }
                Duration::ZERO
            }
            Ok(false) => {
                pause = PAUSE_MAX.min(pause * 2);
                pause
            }
            Err(error) => {
                failed = true;
                note(&failure, Some(error.to_string()));
                PAUSE_FAILED
            }
        }
    }))
}

fn write_back_worker(process: &Arc<Process<Real>>, failure: &Arc<Mutex<Option<String>>>) -> Result<Worker> {
    let (process, failure) = (process.clone(), failure.clone());
    let (mut looked, mut failed) = (0, false);
    started(Worker::start("vnvm write-back", move || {
        let now = process.host().env().now_ns();
        let mut step = || -> Result<usize> {
            if now - looked > LOOK_NS {
                looked = now;
                process.adopt()?;
            }
            let mut done = process.write_back_step(false)?;
            for region in process.wanting() {
                process.flush_region(&region)?;
                done += 1;
            }
            Ok(done)
        };
        match step() {
            Ok(done) => {
                if std::mem::take(&mut failed) {
                    note(&failure, None);
                }
                if done > 0 { Duration::ZERO } else { PAUSE_MAX }
            }
            Err(error) => {
                failed = true;
                note(&failure, Some(error.to_string()));
                PAUSE_FAILED
            }
        }
    }))
}

/// An open transaction.
pub struct Transaction<'v> {
    vnvm: &'v Vnvm,
    tid: u64,
    open: bool,
}

impl Transaction<'_> {
    /// Its number.
    #[must_use]
    pub fn tid(&self) -> u64 {
        self.tid
    }

    /// Writes all of the bytes, and helps redo where the log is full.
    ///
    /// # Errors
    /// As [`Process::write`]; and [`Error::LogFull`] if there is no more room even when all that was
    /// committed is replayed.
    pub fn write(&mut self, region: &Region<Real>, offset: u64, bytes: &[u8]) -> Result<()> {
        let process = &self.vnvm.process;
        let mut done = 0;
        let mut tries = 0;
        loop {
            let count = process.write(self.tid, region, offset + done as u64, &bytes[done..])?;
            done += count;
            if done == bytes.len() {
                return Ok(());
            }
            if count > 0 || self.vnvm.make_room()? {
                tries = 0;
                continue;
            }
            // Another thread of this process, or a flush, may be about to give pages back.
            tries += 1;
            if tries > 100 {
                let stats = process.stats();
                let page = process.layout.sizes.log_page;
                let needed = (bytes.len() - done) as u64;
                return Err(Error::LogFull { needed, share: stats.log_share * page });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Commits; see [`Process::commit`].
    ///
    /// # Errors
    /// As there.
    pub fn commit(mut self) -> Result<()> {
        self.open = false;
        self.vnvm.process.commit(self.tid)
    }

    /// Ends without effect.
    ///
    /// # Errors
    /// If the library has ended it already.
    pub fn abort(mut self) -> Result<()> {
        self.open = false;
        self.vnvm.process.abort(self.tid)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.open {
            // It had no effect, whether it was open still or not.
            _ = self.vnvm.process.abort(self.tid);
        }
    }
}
