//! `Mapped`: a space of real memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use event::FlushKind;
use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, mmap_anonymous, msync, munmap};
use space::{LINE, Prestore, Space, Word, check_range, check_whole_words, word_index};

use crate::isa::{self, Flush, Offer};
use crate::prestore::prestore_range;

/// What becomes of data that was flushed and fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// It survives power loss: the pages are the persistent device's own (DAX, mapped with `MAP_SYNC`).
    Dax,
    /// It survives the process, and power loss only after [`Mapped::sync`]: the pages belong to the page
    /// cache.
    PageCache,
    /// It does not survive power loss, and anonymous memory not even the process (a file on tmpfs does).
    Volatile,
}

/// Why memory can't be mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The system refused.
    #[error("can't {action} {}: {source}{remedy}", .path.display())]
    File {
        /// What was being done.
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the user can do, as a continuation of the message.
        remedy: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The file can't be a space.
    #[error("{}: {bytes} bytes are no space: it has a length above 0 that is a multiple of 8", .path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Its length, or the one asked for.
        bytes: u64,
    },
    /// Anonymous memory can't be had.
    #[error("can't map {bytes} bytes of anonymous memory: {source}")]
    Anonymous {
        /// Bytes asked for.
        bytes: u64,
        /// The system's error.
        source: io::Error,
    },
}

/// Memory that was mapped into this process: anonymous, or a file. Accesses are the bare instructions.
///
/// While it is mapped, the file must not be truncated by anybody: an access behind its new end ends the
/// process with
/// `SIGBUS`. A full disk is no such danger, because [`Mapped::create`] reserves every block.
#[derive(Debug)]
pub struct Mapped {
    base: NonNull<u8>,
    len: u64,
    flush: Flush,
    durability: Durability,
    /// Where the file is; empty for anonymous memory.
    path: PathBuf,
}

// SAFETY: the mapping belongs to this value alone until it is dropped; nothing in it is tied to a thread.
unsafe impl Send for Mapped {}
// SAFETY: all accesses through `&self` are atomic, or instructions that read and write memory outside of what
// Rust allocates; none hands out a reference.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// `len` bytes of zero that no file backs.
    ///
    /// # Errors
    /// If `len` is 0, not a multiple of 8, or more than the system gives.
    pub fn anonymous(len: u64) -> Result<Self, MapError> {
        let error = |source| MapError::Anonymous { bytes: len, source };
        let bytes = usize::try_from(len).ok().filter(|_| fits(len));
        let bytes = bytes.ok_or_else(|| error(io::ErrorKind::InvalidInput.into()))?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) };
        let base = base.map_err(|errno| error(errno.into()))?;
        Ok(Self::over(base.cast(), len, Durability::Volatile, PathBuf::new()))
    }

    /// A new file of `len` bytes of zero, every block reserved. If that fails, no file is left.
    ///
    /// # Errors
    /// If the file exists, `len` is 0 or not a multiple of 8, or the disk has not that much room.
    pub fn create(path: &Path, len: u64) -> Result<Self, MapError> {
        if !fits(len) {
            return Err(MapError::Length { path: path.to_owned(), bytes: len });
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(path).map_err(|source| {
            let remedy = match source.kind() {
                io::ErrorKind::AlreadyExists => "; open it, or remove it first",
                io::ErrorKind::NotFound => "; its directory does not exist",
                _ => "",
            };
            MapError::File { action: "create", path: path.to_owned(), remedy, source }
        })?;
        let mapped = reserve(&file, len)
            .map_err(|source| {
                let remedy = "; make room on that file system or ask for less";
                MapError::File { action: "reserve space for", path: path.to_owned(), remedy, source }
            })
            .and_then(|()| Self::map(&file, path, len));
        if mapped.is_err() {
            // The first error is the one to tell; a file that can't be removed is at most empty space.
            let _ = std::fs::remove_file(path);
        }
        mapped
    }

    /// An existing file, at its length.
    ///
    /// # Errors
    /// If the file is not there, is not a regular file, can't be written, or has a length that no space has.
    pub fn open(path: &Path) -> Result<Self, MapError> {
        let error = |action, remedy, source| MapError::File { action, path: path.to_owned(), remedy, source };
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|source| {
            let remedy = match source.kind() {
                io::ErrorKind::NotFound => "; create it first",
                io::ErrorKind::PermissionDenied => "; it must be readable and writable",
                _ => "",
            };
            error("open", remedy, source)
        })?;
        let metadata = file.metadata().map_err(|source| error("examine", "", source))?;
        if !metadata.is_file() {
            return Err(error("map", "; it is not a regular file", io::ErrorKind::InvalidInput.into()));
        }
        if !fits(metadata.len()) {
            return Err(MapError::Length { path: path.to_owned(), bytes: metadata.len() });
        }
        Self::map(&file, path, metadata.len())
    }

    /// Maps all of `file`, with `MAP_SYNC` if the file system takes it: then a page is only ever writable
    /// when its block is durably part of the file, so that flushes suffice.
    fn map(file: &File, path: &Path, len: u64) -> Result<Self, MapError> {
        let error = |source| MapError::File { action: "map", path: path.to_owned(), remedy: "", source };
        let bytes = usize::try_from(len).map_err(|_| error(io::ErrorKind::InvalidInput.into()))?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let map = |flags| unsafe { mmap(ptr::null_mut(), bytes, protection, flags, file, 0) };
        let (base, durability) = match map(MapFlags::SHARED_VALIDATE | MapFlags::SYNC) {
            Ok(base) => (base, Durability::Dax),
            // Refused by the file system, or by a kernel before 4.15.
            Err(Errno::OPNOTSUPP | Errno::INVAL) => {
                let base = map(MapFlags::SHARED).map_err(|errno| error(errno.into()))?;
                let durability = if in_memory(file) { Durability::Volatile } else { Durability::PageCache };
                (base, durability)
            }
            Err(errno) => return Err(error(errno.into())),
        };
        Ok(Self::over(base.cast(), len, durability, path.to_owned()))
    }

    pub(crate) fn over(base: *mut u8, len: u64, durability: Durability, path: PathBuf) -> Self {
        assert!(base.addr().is_multiple_of(4096), "a mapping starts at a page");
        let base = NonNull::new(base).expect("the kernel never maps address 0 unasked");
        Mapped { base, len, flush: Offer::of_this_cpu().flush, durability, path }
    }

    /// What becomes of data that was flushed and fenced.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Where it is mapped.
    #[must_use]
    pub fn address(&self) -> usize {
        self.base.as_ptr().addr()
    }

    /// Waits until everything that was stored before is on the disk below. On DAX and volatile memory there
    /// is nothing to wait for.
    ///
    /// # Errors
    /// If the disk fails; what was written since the last success may then be lost.
    pub fn sync(&self) -> Result<(), MapError> {
        if self.durability != Durability::PageCache {
            return Ok(());
        }
        // SAFETY: the range is exactly the mapping.
        unsafe { msync(self.base.as_ptr().cast(), self.len as usize, MsyncFlags::SYNC) }.map_err(|errno| {
            let remedy = "; treat what was written since the last sync as lost";
            MapError::File { action: "sync", path: self.path.clone(), remedy, source: errno.into() }
        })
    }

    /// The address of `offset`, which is inside the mapping or its end.
    #[inline(always)]
    pub(crate) fn at(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset <= self.len);
        // SAFETY: inside the mapping or one past its end.
        unsafe { self.base.as_ptr().add(offset as usize) }
    }

    /// Runs `act` on the address of each line that the range touches.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn each_line(&self, offset: u64, len: u64, act: impl Fn(*const u8)) {
        check_range(self.len, offset, len);
        let mut line = offset & !(LINE - 1);
        let end = if len == 0 { line } else { offset + len };
        while line < end {
            act(self.at(line));
            line += LINE;
        }
    }
}

/// Whether a space can have that length.
fn fits(len: u64) -> bool {
    len > 0 && len.is_multiple_of(8)
}

/// Gives `file` its length and every block of it.
fn reserve(file: &File, len: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, len) {
        Ok(()) => Ok(()),
        // A file system that can't reserve gets its blocks by being written.
        Err(Errno::OPNOTSUPP) => {
            let zeros = [0; 65536];
            let mut at = 0;
            while at < len {
                let count = (len - at).min(zeros.len() as u64);
                file.write_all_at(&zeros[..count as usize], at)?;
                at += count;
            }
            Ok(())
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Whether the file lives on tmpfs or ramfs.
fn in_memory(file: &File) -> bool {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    const RAMFS_MAGIC: i64 = 0x8584_58F6;
    #[allow(clippy::unnecessary_cast)] // the field's type depends on the platform
    fstatfs(file).is_ok_and(|stat| matches!(stat.f_type as i64, TMPFS_MAGIC | RAMFS_MAGIC))
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the range is exactly the mapping, and no reference into it outlives a method.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len as usize) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can always be unmapped");
    }
}

impl Space for Mapped {
    type Observer = ();

    #[inline(always)]
    fn observer(&self) -> &() {
        &()
    }

    #[inline(always)]
    fn len(&self) -> u64 {
        self.len
    }

    #[inline(always)]
    fn flush_kind(&self) -> FlushKind {
        self.flush.kind()
    }

    #[inline(always)]
    #[track_caller]
    fn load_word<W: Word>(&self, offset: u64) -> W {
        let index = word_index::<W>(self.len, offset);
        // SAFETY: `word_index` checked bounds and alignment, and the memory is only ever accessed atomically.
        // Atomics of different widths can race here, if the program ignores the contract of `Space`. Rust's
        // model does not define that; LLVM and both instruction sets do (unspecified bytes), and the memory
        // is none of Rust's.
        W::load(unsafe { &*self.base.as_ptr().cast::<W::Atomic>().add(index) })
    }

    #[inline(always)]
    #[track_caller]
    fn store_word<W: Word>(&self, offset: u64, value: W) {
        let index = word_index::<W>(self.len, offset);
        // SAFETY: as in `load_word`.
        W::store(unsafe { &*self.base.as_ptr().cast::<W::Atomic>().add(index) }, value);
    }

    #[inline(always)]
    #[track_caller]
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        let index = word_index::<u64>(self.len, offset);
        // SAFETY: as in `load_word`.
        let word = unsafe { &*self.base.as_ptr().cast::<AtomicU64>().add(index) };
        word.compare_exchange(old.to_le(), new.to_le(), Ordering::AcqRel, Ordering::Acquire)
            .map(u64::from_le)
            .map_err(u64::from_le)
    }

    #[inline(always)]
    #[track_caller]
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        check_range(self.len, offset, bytes.len() as u64);
        check_whole_words(offset, bytes.len());
        // SAFETY: the range is inside the mapping and consists of aligned words; nobody has references into
        // it.
        unsafe { isa::store_nt(self.at(offset), bytes.as_chunks::<8>().0, self.flush) }
    }

    #[inline(always)]
    #[track_caller]
    fn flush(&self, offset: u64, len: u64) {
        // SAFETY: `each_line` gives addresses inside the mapping; the instruction is one that this processor
        // has.
        self.each_line(offset, len, |line| unsafe { self.flush.line(line) });
    }

    #[inline(always)]
    fn fence(&self) {
        isa::fence();
    }

    #[inline(always)]
    #[track_caller]
    fn prestore(&self, offset: u64, len: u64, hint: Prestore) {
        check_range(self.len, offset, len);
        // SAFETY: the range is inside the mapping, which starts at a page, so its lines are, too.
        unsafe { prestore_range(self.at(offset), len as usize, hint) }
    }
}
