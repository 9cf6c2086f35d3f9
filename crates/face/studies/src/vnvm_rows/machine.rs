//! The source's machine as far as it matters here: memory by its bandwidth, one SATA disk that four
//! processes share.
//!
//! A host whose files have no contents: what redo reads and write-back writes is counted, and takes its time
//! on the disk. A run of neighbouring pages is one
//! request of the disk, as the system's read-ahead and our own write-back make it.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use ::vnvm::{Backing, Host, Mode, View};
use pmem::Os;
use space::Image;

/// Bytes per nanosecond that one core copies between DRAM and NVM, which is DRAM there.
pub const COPY: f64 = 4.0;
/// The disk, by its maker's sheet: a read's latency and bandwidth, a write's.
const READ_NS: f64 = 90_000.0;
const READ: f64 = 0.54;
const WRITE_NS: f64 = 50_000.0;
const WRITE: f64 = 0.48;

/// The disk of all processes.
#[derive(Debug, Default)]
pub struct Disk {
    /// When it is free, and how long the present step has to wait for it, in nanoseconds.
    free_ns: AtomicU64,
    waited_ns: AtomicU64,
    now_ns: AtomicU64,
    /// Where the last read of each file ended.
    ends: Mutex<Vec<u64>>,
    writes: AtomicU64,
}

impl Disk {
    /// A step begins.
    pub fn begin(&self, now: f64) {
        self.now_ns.store(now as u64, Ordering::Relaxed);
        self.waited_ns.store(0, Ordering::Relaxed);
    }

    /// How long the step had to wait for the disk so far.
    pub fn waited(&self) -> f64 {
        self.waited_ns.load(Ordering::Relaxed) as f64
    }

    /// A request of the present step.
    fn request(&self, ns: f64) {
        let now = self.now_ns.load(Ordering::Relaxed) + self.waited_ns.load(Ordering::Relaxed);
        let end = self.free_ns.load(Ordering::Relaxed).max(now) + ns as u64;
        self.free_ns.store(end, Ordering::Relaxed);
        self.waited_ns.fetch_add(end - now, Ordering::Relaxed);
    }

    fn read(&self, file: u64, offset: u64, bytes: u64) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let files = ends.len().max(file as usize + 1);
        ends.resize(files, u64::MAX);
        let follows = std::mem::replace(&mut ends[file as usize], offset + bytes) == offset;
        drop(ends);
        self.request(bytes as f64 / READ + if follows { 0.0 } else { READ_NS });
    }

    fn write(&self, bytes: u64) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        // The latency is hidden by other requests of the same batch, but for its sync's.
        self.request(bytes as f64 / WRITE);
    }

    fn sync(&self) {
        self.request(WRITE_NS);
    }
}

/// One process.
pub struct Process<'m> {
    pub env: Os<&'m Image>,
    pub shared: &'m Image,
    pub disk: &'m Disk,
    pub slot: u32,
}

/// A file without contents.
pub struct File<'m> {
    disk: &'m Disk,
    number: u64,
}

impl Backing for File<'_> {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.disk.read(self.number, offset, bytes.len() as u64);
        Ok(())
    }
    fn write(&self, _: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write(bytes.len() as u64);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        self.disk.sync();
        Ok(())
    }
    fn identity(&self) -> [u64; 2] {
        [0, self.number]
    }
}

/// Memory that nobody looks at.
pub struct Memory;

impl View for Memory {
    fn apply(&self, _: u64, _: &[u8]) {}
    fn read(&self, _: u64, _: &mut [u8]) {}
    fn sync(&self, _: Range<u64>) -> io::Result<()> {
        Ok(())
    }
    fn address(&self) -> usize {
        0
    }
}

impl<'m> Host for Process<'m> {
    type Env = Os<&'m Image>;
    type Shared = &'m Image;
    type Guard<'a>
        = Cell<()>
    where
        Self: 'a;
    type File = File<'m>;
    type View = Memory;

    fn env(&self) -> &Os<&'m Image> {
        &self.env
    }
    fn shared(&self) -> &&'m Image {
        &self.shared
    }
    fn slot(&self) -> u32 {
        self.slot
    }
    fn pid(&self) -> u64 {
        1 + u64::from(self.slot)
    }
    /// One process is at work at a time.
    fn lock(&self, _: u32) -> (Cell<()>, bool) {
        (Cell::new(()), false)
    }
    fn dead(&self) -> Vec<u32> {
        Vec::new()
    }
    fn retire(&self, _: u32) {}
    fn open(&self, path: &Path, _: Option<u64>) -> io::Result<File<'m>> {
        let number = path.to_string_lossy().parse().map_err(|_| io::ErrorKind::NotFound)?;
        Ok(File { disk: self.disk, number })
    }
    fn view(&self, _: &File<'m>, _: u64, _: Mode) -> io::Result<Memory> {
        Ok(Memory)
    }
}
