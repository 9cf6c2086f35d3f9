//! Backing files and their mappings.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use pmem::FileView;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::host::{Backing, Mode, View};

/// A file of the system's.
#[derive(Debug)]
pub struct RealFile {
    file: File,
    identity: [u64; 2],
}

impl RealFile {
    /// Opens a file; with a length, makes it if it is missing, and reserves so many bytes, so that
    /// write-back finds room on the disk.
    pub(crate) fn open(path: &Path, make: Option<u64>) -> io::Result<RealFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(make.is_some()).truncate(false);
        let file = options.open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        if let Some(len) = make {
            reserve(&file, len, found.len())?;
        }
        Ok(RealFile { file, identity: [found.dev(), found.ino()] })
    }

    /// Maps it.
    pub(crate) fn view(&self, len: u64, mode: Mode) -> io::Result<RealView> {
        FileView::map(&self.file, len, mode == Mode::Shared).map(|view| RealView { view, mode })
    }
}

fn reserve(file: &File, len: u64, old: u64) -> io::Result<()> {
    match rustix::io::retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, len)) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP) if old >= len => Ok(()),
        Err(Errno::OPNOTSUPP) => file.set_len(len),
        Err(errno) => Err(errno.into()),
    }
}

impl Backing for RealFile {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match self.file.read_at(&mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes[done..].fill(0);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn identity(&self) -> [u64; 2] {
        self.identity
    }
}

/// A region's memory.
#[derive(Debug)]
pub struct RealView {
    view: FileView,
    mode: Mode,
}

impl View for RealView {
    fn apply(&self, offset: u64, bytes: &[u8]) {
        self.view.store(offset, bytes);
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) {
        self.view.load(offset, bytes);
    }

    fn sync(&self, range: Range<u64>) -> io::Result<()> {
        self.view.sync(range)
    }

    fn changed(&self) -> Option<Vec<u64>> {
        if self.mode == Mode::Atomic { self.view.own_pages() } else { None }
    }

    fn address(&self) -> usize {
        self.view.address()
    }
}
