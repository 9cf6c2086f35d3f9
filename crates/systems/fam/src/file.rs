//! The lazy-page file: one per process in fabric-attached memory.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | magic `SLFAMPG1` |
//! | 8 | 4 | version |
//! | 16 | 8 | pid of the owner |
//! | 24 | 8 | start of the owner, clock ticks since boot |
//! | 32 | 8 | vectors |
//! | 40 | 8 | offset of the first page |
//! | 48 | 8 | bytes of the file |
//! | 56 | 4 | CRC-32 of the table's constant parts |
//! | 60 | 4 | CRC-32 of bytes 0 to 60 |
//! | 64 | 8 | state: `FILLING.` or `COMPLETE` |
//! | 72 | 8 | progress: exclusive end address of what the background thread has written |
//! | 4096 | 32 each | table: start, offset, bytes (4), CRC-32 of the pages (4), done (4), 0 (4) |
//!
//! Pages are in place and fenced before *done* and *progress* say so; *state* becomes complete after the last. A reader
//! therefore never takes a page that is half-written, whatever is killed when.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use super::Error;
use super::layout::{Layout, Region, VECTOR, Vector};
use super::memory::Memory;
use super::uffd::PAGE;

/// Version of the format.
pub const VERSION: u32 = 1;
const MAGIC: u64 = u64::from_le_bytes(*b"SLFAMPG1");
const FILLING: u64 = u64::from_le_bytes(*b"FILLING.");
const COMPLETE: u64 = u64::from_le_bytes(*b"COMPLETE");
/// Pages of the vector are there, not yet their checksum.
pub(crate) const PRESENT: u32 = 0x5052_4553;
/// Pages and checksum are there.
const DONE: u32 = 0x444f_4e45;
const STATE: u64 = 64;
const PROGRESS: u64 = 72;
pub(crate) const TABLE: u64 = 4096;
pub(crate) const ENTRY: u64 = 32;

/// Whose pages a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Process.
    pub pid: u32,
    /// When it started, in clock ticks since boot: a pid alone is used again.
    pub start: u64,
}

impl Owner {
    /// A process that runs.
    ///
    /// # Errors
    /// There is none with this pid.
    pub fn of(pid: u32) -> Result<Owner, Error> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .map_err(Error::os(format!("process {pid}")))?;
        let after = stat.rfind(')').map_or("", |at| &stat[at + 1..]);
        let start = after.split_ascii_whitespace().nth(19).and_then(|word| word.parse().ok());
        Ok(Owner { pid, start: start.ok_or_else(|| Error::Protocol(format!("/proc/{pid}/stat")))? })
    }
}

/// A lazy-page file, mapped.
#[derive(Debug)]
pub struct FamFile {
    path: PathBuf,
    file: File,
    memory: Memory,
    layout: Layout,
    owner: Owner,
}

/// Room in FAM for a file whose regions are not known yet: taken and mapped while the process still runs.
#[derive(Debug)]
pub struct Room {
    path: PathBuf,
    file: File,
    memory: Memory,
}

impl Room {
    /// Takes `bytes` under a name.
    ///
    /// # Errors
    /// [`Error::Full`], after which no file is left behind; the file can't be made.
    pub fn take(path: &Path, bytes: u64) -> Result<Room, Error> {
        let bytes = bytes.max(TABLE).next_multiple_of(PAGE);
        let named = |what: &str| format!("{}: {what}", path.display());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(Error::os(named("create")))?;
        file.set_len(bytes).map_err(Error::os(named("set length")))?;
        // SAFETY: system call on our descriptor.
        let rc = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as i64) };
        if rc != 0 {
            let free = free_bytes(path);
            let _ = std::fs::remove_file(path);
            return Err(match rc {
                libc::ENOSPC | libc::EDQUOT => Error::Full { path: path.to_owned(), need: bytes, free },
                rc => Error::Os { what: named("reserve"), source: std::io::Error::from_raw_os_error(rc) },
            });
        }
        let memory = Memory::map(&file, bytes)?;
        memory.populate();
        Ok(Room { path: path.to_owned(), file, memory })
    }

    /// Makes it the file of these regions. Where they do not fit, more room is taken, which takes time.
    ///
    /// # Errors
    /// As [`Room::take`].
    pub fn lay_out(self, owner: Owner, regions: &[Region]) -> Result<FamFile, Error> {
        self.lay_out_with(owner, regions, 0)
    }

    /// As [`Room::lay_out`], with place in the table for `spare` vectors more.
    ///
    /// # Errors
    /// As [`Room::take`].
    pub fn lay_out_with(self, owner: Owner, regions: &[Region], spare: u64) -> Result<FamFile, Error> {
        let vectors = vectors_most(regions) + spare;
        // Where the pages begin decides how much is left out before those that are aligned.
        let layout = Layout::new(regions, TABLE + vectors * ENTRY);
        let need = layout.end();
        let Room { path, file, memory } =
            if need > self.memory.bytes() { Room::take(&self.path, need)? } else { self };
        let this = FamFile { path, file, memory, layout, owner };
        this.write_header(vectors);
        Ok(this)
    }
}

fn vectors_most(regions: &[Region]) -> u64 {
    regions.iter().map(|region| region.bytes / VECTOR + 2).sum()
}

/// Bytes that a file for these regions takes.
#[must_use]
pub fn room(regions: &[Region]) -> u64 {
    Layout::new(regions, TABLE + vectors_most(regions) * ENTRY).end()
}

impl FamFile {
    /// Makes the file and takes its room. Call it while the process still runs: this is what takes long where the memory is
    /// not there yet.
    ///
    /// # Errors
    /// [`Error::Full`], after which no file is left behind; the file can't be made.
    pub fn create(path: &Path, owner: Owner, regions: &[Region]) -> Result<FamFile, Error> {
        Room::take(path, room(regions))?.lay_out(owner, regions)
    }

    /// Lays the file out anew for what the process has now. Pages that were written stay where they are. None of them counts as
    /// present any more: [`FamFile::set_present`] says which are right. Where there is not enough room, all of it is begun again.
    ///
    /// # Errors
    /// As [`Room::take`].
    pub fn lay_out_again(self, regions: &[Region]) -> Result<FamFile, Error> {
        let capacity = (self.memory.load(40) - TABLE) / ENTRY;
        let layout = self.layout.again(regions);
        if layout.vectors().len() as u64 > capacity || layout.end() > self.memory.bytes() {
            let FamFile { path, file, memory, owner, .. } = self;
            return Room { path, file, memory }.lay_out(owner, regions);
        }
        let this = FamFile { layout, ..self };
        this.write_header(capacity);
        Ok(this)
    }

    fn write_header(&self, capacity: u64) {
        let memory = &self.memory;
        // Of a file that is used again: nothing in it counts from here on.
        memory.store(0, 0);
        memory.store(STATE, FILLING);
        memory.store(PROGRESS, 0);
        memory.fence();
        for (index, vector) in self.layout.vectors().iter().enumerate() {
            let at = TABLE + index as u64 * ENTRY;
            memory.store(at, vector.start);
            memory.store(at + 8, vector.offset);
            memory.store(at + 16, vector.bytes);
            memory.store(at + 24, 0);
        }
        memory.store(8, u64::from(VERSION));
        memory.store(16, u64::from(self.owner.pid));
        memory.store(24, self.owner.start);
        memory.store(32, self.layout.vectors().len() as u64);
        memory.store(40, TABLE + capacity * ENTRY);
        memory.store(48, memory.bytes());
        memory.store_half(56, table_checksum(self.layout.vectors()));
        memory.fence();
        memory.store(0, MAGIC);
        memory.store_half(60, memory.checksum(0, 60));
        memory.fence();
    }

    /// Opens a file and checks all of it except for the pages.
    ///
    /// # Errors
    /// It is no such file, of another version, of another owner, or damaged.
    pub fn open(path: &Path, expected: Option<Owner>) -> Result<FamFile, Error> {
        let named = |what: &str| format!("{}: {what}", path.display());
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(Error::os(named("open")))?;
        let length = file.metadata().map_err(Error::os(named("length")))?.len();
        let not_fam = || Error::NotFam { path: path.to_owned() };
        let damaged = |what: &str| Error::Damaged { path: path.to_owned(), what: what.to_owned() };
        if length < TABLE {
            return Err(not_fam());
        }
        let memory = Memory::map(&file, length)?;
        if memory.load(0) != MAGIC {
            return Err(not_fam());
        }
        let found = memory.load_half(8);
        if found != VERSION {
            return Err(Error::Version { path: path.to_owned(), found, expected: VERSION });
        }
        if memory.checksum(0, 60) != memory.load_half(60) {
            return Err(damaged("its header's checksum"));
        }
        if memory.load(48) != length {
            return Err(damaged("it is longer or shorter than its header says"));
        }
        let owner = Owner { pid: memory.load(16) as u32, start: memory.load(24) };
        if let Some(expected) = expected.filter(|expected| *expected != owner) {
            return Err(Error::Owner {
                path: path.to_owned(),
                found_pid: owner.pid,
                found_start: owner.start,
                expected_pid: expected.pid,
                expected_start: expected.start,
            });
        }
        let (count, first) = (memory.load(32), memory.load(40));
        if count > length / ENTRY || TABLE + count * ENTRY > first {
            return Err(damaged("its table"));
        }
        let vectors: Vec<Vector> = (0..count)
            .map(|index| TABLE + index * ENTRY)
            .map(|at| Vector {
                start: memory.load(at),
                offset: memory.load(at + 8),
                bytes: memory.load_half(at + 16).into(),
            })
            .collect();
        if table_checksum(&vectors) != memory.load_half(56) {
            return Err(damaged("its table's checksum"));
        }
        let layout = Layout::from_vectors(vectors, first, length).ok_or_else(|| damaged("its table"))?;
        Ok(FamFile { path: path.to_owned(), file, memory, layout, owner })
    }

    /// Opens a file from which a process can be restored without its source.
    ///
    /// # Errors
    /// As [`FamFile::open`]; [`Error::HalfWritten`].
    pub fn open_complete(path: &Path, expected: Option<Owner>) -> Result<FamFile, Error> {
        let file = FamFile::open(path, expected)?;
        let all = file.layout.vectors().len();
        let done = (0..all).filter(|index| file.is_done(*index)).count();
        match (file.memory.load(STATE), done == all) {
            (COMPLETE, true) => Ok(file),
            (FILLING, _) => Err(Error::HalfWritten { path: path.to_owned(), done, all }),
            _ => Err(Error::Damaged { path: path.to_owned(), what: "its state".into() }),
        }
    }

    /// Holds all pages against their checksums.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the first vector that differs.
    pub fn verify(&self) -> Result<(), Error> {
        (0..self.layout.vectors().len()).try_for_each(|index| self.verify_vector(index))
    }

    /// Holds the pages of one vector against their checksum.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn verify_vector(&self, index: usize) -> Result<(), Error> {
        let vector = &self.layout.vectors()[index];
        let wanted = self.memory.load_half(TABLE + index as u64 * ENTRY + 20);
        if self.is_done(index) && self.memory.checksum(vector.offset, vector.bytes) != wanted {
            let what = format!("the pages at {:#x}", vector.start);
            return Err(Error::Damaged { path: self.path.clone(), what });
        }
        Ok(())
    }

    /// Its name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose pages it holds.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Where each address lies.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The mapped file.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Whether all pages are there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.memory.load(STATE) == COMPLETE
    }

    /// Exclusive end address of what the background thread has written.
    #[must_use]
    pub fn progress(&self) -> u64 {
        self.memory.load(PROGRESS)
    }

    /// Whether a vector is there with its checksum.
    #[must_use]
    pub fn is_done(&self, vector: usize) -> bool {
        self.memory.load_half(TABLE + vector as u64 * ENTRY + 24) == DONE
    }

    /// Whether a vector's pages are there.
    #[must_use]
    pub fn is_present(&self, vector: usize) -> bool {
        matches!(self.memory.load_half(TABLE + vector as u64 * ENTRY + 24), PRESENT | DONE)
    }

    /// Says that a vector's pages are there; its checksum follows with [`FamFile::seal`].
    pub fn set_present(&self, vector: usize) {
        self.memory.fence();
        self.memory.store_half(TABLE + vector as u64 * ENTRY + 24, PRESENT);
    }

    /// Checksums a vector whose pages are there.
    pub fn seal(&self, vector: usize) {
        let Vector { offset, bytes, .. } = self.layout.vectors()[vector];
        let entry = TABLE + vector as u64 * ENTRY;
        self.memory.store_half(entry + 20, self.memory.checksum(offset, bytes));
        self.memory.fence();
        self.memory.store_half(entry + 24, DONE);
    }

    /// Publishes how far the background thread is.
    pub fn set_progress(&self, end: u64) {
        self.memory.fence();
        self.memory.store(PROGRESS, end);
    }

    /// Says that all pages are there, if they are.
    pub fn complete(&self) -> bool {
        let all = (0..self.layout.vectors().len()).all(|index| self.is_done(index));
        if all {
            self.memory.fence();
            self.memory.store(STATE, COMPLETE);
            self.memory.fence();
        }
        all
    }
}

impl AsFd for FamFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn table_checksum(vectors: &[Vector]) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    for vector in vectors {
        for word in [vector.start, vector.offset, vector.bytes] {
            hash.update(&word.to_le_bytes());
        }
    }
    hash.finalize()
}

/// Bytes free where a path lies; 0 if that can't be found out.
fn free_bytes(path: &Path) -> u64 {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let Ok(folder) = File::open(folder) else { return 0 };
    // SAFETY: a structure of plain numbers, filled by the call.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        if libc::fstatvfs(folder.as_raw_fd(), &raw mut found) != 0 {
            return 0;
        }
        found.f_bavail * found.f_frsize
    }
}
