//! The source after the freeze: a background thread writes all vectors to FAM in order of addresses, requests of the target
//! come in between, and the process may be killed as soon as the last one is there.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::Error;
use super::delay::{Throttle, Way};
use super::file::FamFile;
use super::message::Frame;
use super::pages::Pages;
use super::stream::Stream;

/// How pages are stored in FAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// By the kernel straight from the process: right where FAM is coherent with the caches.
    #[default]
    Direct,
    /// By non-temporal stores: right where FAM keeps what has left the caches.
    NonTemporal,
}

/// What the source did.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Dumped {
    /// From the start until all pages were in FAM: the source's busy time, in seconds.
    pub busy_s: f64,
    /// Bytes written.
    pub bytes: u64,
    /// Vectors written because the target asked.
    pub on_demand: usize,
    /// Vectors in all.
    pub vectors: usize,
}

struct Shared {
    file: FamFile,
    pages: Box<dyn Pages>,
    throttle: Arc<Throttle>,
    store: Store,
    /// Held while a vector is written: the background thread and requests exclude each other.
    writing: Mutex<()>,
    /// Requests that wait: the background thread lets them go first.
    waiting: AtomicUsize,
    on_demand: AtomicUsize,
    stop: AtomicBool,
    outcome: Mutex<Option<Result<Dumped, Error>>>,
    ended: Condvar,
    listeners: Mutex<Vec<Stream>>,
}

/// The daemon of one process that migrates.
pub struct Source {
    shared: Arc<Shared>,
    background: Option<JoinHandle<()>>,
}

impl Source {
    /// Starts the background thread.
    #[must_use]
    pub fn start(file: FamFile, pages: Box<dyn Pages>, throttle: Arc<Throttle>, store: Store) -> Source {
        let shared = Arc::new(Shared {
            file,
            pages,
            throttle,
            store,
            writing: Mutex::new(()),
            waiting: AtomicUsize::new(0),
            on_demand: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            outcome: Mutex::new(None),
            ended: Condvar::new(),
            listeners: Mutex::new(Vec::new()),
        });
        let theirs = Arc::clone(&shared);
        let background = Some(std::thread::spawn(move || theirs.dump_all(Instant::now())));
        Source { shared, background }
    }

    /// Serves a target on a thread of its own, until it says goodbye or is gone.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn serve(&self, stream: impl Into<Stream>) -> Result<JoinHandle<()>, Error> {
        let mut stream = stream.into();
        let writer = stream.again().map_err(Error::os("connection to the target"))?;
        {
            let outcome = lock(&self.shared.outcome);
            let mut listeners = lock(&self.shared.listeners);
            listeners.push(writer);
            if let (Some(outcome), Some(listener)) = (outcome.as_ref(), listeners.last_mut()) {
                let _ = self.shared.last_word(outcome).send(listener);
            }
        }
        let index = lock(&self.shared.listeners).len() - 1;
        let shared = Arc::clone(&self.shared);
        Ok(std::thread::spawn(move || {
            while let Ok(Frame::Request { address }) = Frame::receive(&mut stream) {
                let answer = shared.on_demand(address);
                if answer.send(&mut lock(&shared.listeners)[index]).is_err() {
                    break;
                }
            }
        }))
    }

    /// The file that is being filled.
    #[must_use]
    pub fn file(&self) -> &FamFile {
        &self.shared.file
    }

    /// Whether all is written, or nothing more will be.
    #[must_use]
    pub fn ended(&self) -> bool {
        lock(&self.shared.outcome).is_some()
    }

    /// Waits until all pages are in FAM.
    ///
    /// # Errors
    /// A page could not be read or written.
    pub fn wait(mut self) -> Result<Dumped, Error> {
        if let Some(background) = self.background.take() {
            let _ = background.join();
        }
        lock(&self.shared.outcome).take().unwrap_or(Err(Error::SourceLost { missing: 0 }))
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(background) = self.background.take() {
            let _ = background.join();
            for listener in lock(&self.shared.listeners).iter() {
                listener.close();
            }
        }
    }
}

impl Shared {
    fn dump_all(&self, start: Instant) {
        let outcome = self.dump_each(start);
        let word = self.last_word(&outcome);
        let mut slot = lock(&self.outcome);
        *slot = Some(outcome);
        for listener in lock(&self.listeners).iter_mut() {
            let _ = word.send(listener);
        }
        drop(slot);
        self.ended.notify_all();
    }

    fn dump_each(&self, start: Instant) -> Result<Dumped, Error> {
        let count = self.file.layout().vectors().len();
        for index in 0..count {
            while self.waiting.load(Ordering::Acquire) > 0 {
                std::thread::sleep(Duration::from_micros(20));
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::SourceLost { missing: self.missing() });
            }
            let guard = lock(&self.writing);
            self.dump(index, true)?;
            drop(guard);
            self.file.set_progress(self.file.layout().vectors()[index].end());
        }
        if !self.file.complete() {
            return Err(Error::SourceLost { missing: self.missing() });
        }
        Ok(Dumped {
            busy_s: start.elapsed().as_secs_f64(),
            bytes: self.file.layout().bytes(),
            on_demand: self.on_demand.load(Ordering::Relaxed),
            vectors: count,
        })
    }

    /// Writes a vector that is not there yet. The caller holds the lock.
    fn dump(&self, index: usize, seal: bool) -> Result<(), Error> {
        let vector = self.file.layout().vectors()[index];
        if !self.file.is_present(index) {
            self.throttle.during(Way::Write, vector.bytes, || -> Result<(), Error> {
                match self.store {
                    Store::Direct => {
                        let memory = self.file.memory();
                        self.pages.read_to(vector.start, memory, vector.offset, vector.bytes)?;
                    }
                    Store::NonTemporal => {
                        let mut buffer = vec![0; vector.bytes as usize];
                        self.pages.read(vector.start, &mut buffer)?;
                        self.file.memory().write_nt(vector.offset, &buffer);
                    }
                }
                self.file.set_present(index);
                if seal {
                    self.file.seal(index);
                }
                Ok(())
            })?;
        } else if seal && !self.file.is_done(index) {
            self.file.seal(index);
        }
        Ok(())
    }

    fn on_demand(&self, address: u64) -> Frame {
        let Some(index) = self.file.layout().find(address) else {
            return Frame::Failed { missing: 0 };
        };
        let vector = self.file.layout().vectors()[index];
        if !self.file.is_present(index) {
            self.waiting.fetch_add(1, Ordering::AcqRel);
            let guard = lock(&self.writing);
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            let written = self.dump(index, false);
            drop(guard);
            if written.is_err() {
                return Frame::Failed { missing: self.missing() };
            }
            self.on_demand.fetch_add(1, Ordering::Relaxed);
        }
        Frame::Ack { progress: self.file.progress(), start: vector.start, end: vector.end() }
    }

    fn missing(&self) -> u64 {
        let vectors = self.file.layout().vectors();
        let missing = (0..vectors.len()).filter(|index| !self.file.is_present(*index));
        missing.map(|index| vectors[index].bytes).sum()
    }

    fn last_word(&self, outcome: &Result<Dumped, Error>) -> Frame {
        match outcome {
            Ok(_) => Frame::Done,
            Err(_) => Frame::Failed { missing: self.missing() },
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in one thread must not keep pages from the target.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
