//! `Mapped`: a space of real memory.

mod area;
pub(crate) mod backing;
mod error;
mod lock;
mod options;
mod own;
mod prefault;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use event::FlushKind;
use persistency::Domain;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, msync};
use space::{LINE, Prestore, Space, Word, check_range, check_whole_words, find_word, word_index};

use crate::isa::{self, Flush, Offer};
use crate::prestore::prestore_range;
use area::{Area, page};
pub use error::MapError;
use lock::Locked;
pub use options::Options;
use options::fits;
pub use own::own_words;

/// What becomes of data that was flushed and fenced in a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Durability {
    /// Where it is durable: [`Domain::Dax`] (the pages are the persistent device's own, mapped with `MAP_SYNC`),
    /// [`Domain::Sync`] (the page cache's: durable after [`Mapped::sync`]) or [`Domain::Volatile`] (anonymous memory, tmpfs).
    pub domain: Domain,
    /// The domain is not what the system reports but what the caller asserted ([`Options::force`]).
    pub forced: bool,
}

impl Durability {
    /// One word for it, as C and JSON have it: `forced`, or the domain's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        if self.forced { "forced" } else { self.domain.name() }
    }
}

impl From<Domain> for Durability {
    /// As the system reports it.
    fn from(domain: Domain) -> Self {
        Durability { domain, forced: false }
    }
}

/// Memory that was mapped into this process: anonymous, a file, or a DAX device. Accesses are the bare instructions.
///
/// A file is locked as long as it is mapped, so that two spaces never write one file. The lock is `flock`'s: it keeps out
/// who asks for it. While it is mapped, the file must not be truncated by anybody: an access behind its new end ends the
/// process with `SIGBUS`. A full disk is no such danger, because every block is reserved when the file is created, opened or
/// grown.
#[derive(Debug)]
pub struct Mapped {
    area: Area,
    /// Bytes that can be read. Only grows.
    len: AtomicU64,
    /// Bytes that can be stored to: as many, or none. Checked in place of `len`, so that opening for reading only costs
    /// stores nothing.
    storable: AtomicU64,
    flush: Flush,
    nt_is_sooner: bool,
    durability: Durability,
    /// The domain of the file, for whoever opens it to write.
    beneath: Domain,
    /// Where the file is; empty for anonymous memory.
    path: PathBuf,
    backing: Backing,
    /// Held by who makes the space longer.
    growing: Mutex<()>,
}

/// What is mapped, and what is mapped behind it when it grows.
#[derive(Debug)]
enum Backing {
    Anonymous,
    File {
        file: Locked,
        flags: MapFlags,
    },
    /// It never grows.
    Fixed {
        /// Keeps the lock, where there is one.
        _file: Option<Locked>,
        reason: &'static str,
    },
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
    /// As [`Options::anonymous`].
    pub fn anonymous(len: u64) -> Result<Self, MapError> {
        Options::new().anonymous(len)
    }

    /// A new file of `len` bytes of zero, every block reserved. If that fails, no file is left.
    ///
    /// # Errors
    /// As [`Options::create`].
    pub fn create(path: &Path, len: u64) -> Result<Self, MapError> {
        Options::new().create(path, len)
    }

    /// An existing file, at its length, or a DAX device.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: &Path) -> Result<Self, MapError> {
        Options::new().open(path)
    }

    /// An existing file or DAX device to read only. Stores panic.
    ///
    /// # Errors
    /// As [`Options::open_read_only`].
    pub fn open_read_only(path: &Path) -> Result<Self, MapError> {
        Options::new().open_read_only(path)
    }

    /// An existing file whose changes are seen by this process alone, and are gone with it.
    ///
    /// # Errors
    /// As [`Options::open_private`].
    pub fn open_private(path: &Path) -> Result<Self, MapError> {
        Options::new().open_private(path)
    }

    /// A mapping of `len` bytes that somebody else made and nobody else unmaps.
    pub(crate) fn over(base: *mut u8, len: u64, durability: Durability, path: PathBuf) -> Self {
        let backing = Backing::Fixed { _file: None, reason: "it was made with the length that it has" };
        Self::assemble(Area::of(base, len as usize), len, len, durability, path, backing)
    }

    fn assemble(
        area: Area,
        len: u64,
        storable: u64,
        durability: Durability,
        path: PathBuf,
        backing: Backing,
    ) -> Self {
        assert!(area.bytes() as u64 >= len, "the space lies in its area");
        Mapped {
            area,
            len: AtomicU64::new(len),
            storable: AtomicU64::new(storable),
            flush: Offer::of_this_cpu().flush,
            nt_is_sooner: Offer::of_this_cpu().nt_is_sooner,
            durability,
            beneath: durability.domain,
            path,
            backing,
            growing: Mutex::new(()),
        }
    }

    /// Makes the space at least `len` bytes long. The new bytes are zero; those before stay where they are, and other
    /// threads may go on using them meanwhile. On a disk, every new block is reserved and the new length durable when this
    /// returns.
    ///
    /// # Errors
    /// If `len` is not a multiple of 8 or more than [`Mapped::max_len`], if the disk is full, or if the space is a device or
    /// open to read only. The space is then as long as before.
    pub fn grow(&self, len: u64) -> Result<(), MapError> {
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.len.load(Ordering::Relaxed);
        if len <= old {
            return Ok(());
        }
        let path = || self.path.clone();
        if let Backing::Fixed { reason, .. } = self.backing {
            return Err(MapError::Fixed { path: path(), reason });
        }
        if !fits(len) {
            return Err(MapError::Length { path: path(), bytes: len });
        }
        if len > self.max_len() {
            return Err(MapError::Limit { path: path(), bytes: len, max: self.max_len() });
        }
        match &self.backing {
            Backing::File { file, flags } => {
                let error = |remedy, source| MapError::File { action: "grow", path: path(), remedy, source };
                backing::extend(file, old, len).map_err(|source| {
                    error("; make room on that file system, the space is as it was", source)
                })?;
                file.sync_all().map_err(|source| {
                    let _ = file.set_len(old);
                    MapError::Sync { path: path(), source }
                })?;
                let protection = ProtFlags::READ | ProtFlags::WRITE;
                self.area.put_file(&**file, old, len, protection, *flags).map_err(|errno| {
                    // Nobody has seen the new part. If it can't be cut off, the file is longer than it is used.
                    let _ = file.set_len(old);
                    error("; the system lacks memory for it", errno.into())
                })?;
            }
            Backing::Anonymous => self
                .area
                .put_anonymous(old, len)
                .map_err(|errno| MapError::Anonymous { bytes: len, source: errno.into() })?,
            Backing::Fixed { .. } => unreachable!("refused above"),
        }
        // Who sees the new length finds the mapping, since that is made by now.
        self.len.store(len, Ordering::Release);
        self.storable.store(len, Ordering::Release);
        Ok(())
    }

    /// The bytes that the space can grow to while it is open.
    #[must_use]
    pub fn max_len(&self) -> u64 {
        match self.backing {
            Backing::Fixed { .. } => self.len(),
            _ => self.area.bytes() as u64,
        }
    }

    /// Whether it was opened to read only.
    #[must_use]
    #[inline(always)]
    pub fn is_read_only(&self) -> bool {
        self.storable.load(Ordering::Relaxed) == 0
    }

    /// Where the file is; empty for anonymous memory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What becomes of data that was flushed and fenced.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// As [`Mapped::durability`], for whoever opens the file to write and forces nothing. It differs for a space of this process alone
    /// ([`Mapped::open_private`]), and for one that was forced.
    #[must_use]
    pub fn durability_of_file(&self) -> Domain {
        self.beneath
    }

    /// The descriptor that holds the file's lock, if there is one. A child of `fork` that gives the memory up may close it there:
    /// the lock then goes with the parent, as it should, and not with its last child.
    #[must_use]
    pub fn descriptor(&self) -> Option<i32> {
        use std::os::fd::AsRawFd as _;
        match &self.backing {
            Backing::Anonymous => None,
            Backing::File { file, .. } => Some(file.as_raw_fd()),
            Backing::Fixed { _file: file, .. } => file.as_ref().map(|file| file.as_raw_fd()),
        }
    }

    /// Where it is mapped.
    #[must_use]
    pub fn address(&self) -> usize {
        self.area.base().addr()
    }

    /// Waits until everything that was stored before is on the disk below. On DAX and volatile memory there
    /// is nothing to wait for.
    ///
    /// # Errors
    /// If the disk fails; what was written since the last success may then be lost.
    pub fn sync(&self) -> Result<(), MapError> {
        self.sync_range(0..self.len())
            .map_err(|errno| MapError::Sync { path: self.path.clone(), source: errno.into() })
    }

    /// As [`Mapped::sync`], for the pages that hold a byte of the range.
    pub(crate) fn sync_range(&self, range: Range<u64>) -> rustix::io::Result<()> {
        if self.durability.domain != Domain::Sync {
            return Ok(());
        }
        let (from, len) = self.pages_of(range);
        // SAFETY: the pages are mapped.
        unsafe { msync(from.cast(), len, MsyncFlags::SYNC) }
    }

    /// Start and length of the pages that hold a byte of the range, which is inside the space.
    fn pages_of(&self, range: Range<u64>) -> (*mut u8, usize) {
        let page = page() as u64;
        let from = range.start - range.start % page;
        (self.at(from), (range.end.next_multiple_of(page) - from) as usize)
    }

    /// The address of `offset`, which is inside the mapping or its end.
    #[inline(always)]
    pub(crate) fn at(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset <= self.len());
        // SAFETY: inside the mapping or one past its end.
        unsafe { self.area.base().add(offset as usize) }
    }

    /// The index of a word that is to be stored.
    #[inline(always)]
    #[track_caller]
    fn store_index<W: Word>(&self, offset: u64) -> usize {
        match find_word::<W>(self.storable.load(Ordering::Relaxed), offset) {
            Some(index) => index,
            None => self.refuse_word::<W>(offset),
        }
    }

    /// Panics, saying why the word can't be stored. If the space has grown this moment, it can.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn refuse_word<W: Word>(&self, offset: u64) -> usize {
        let index = word_index::<W>(self.len(), offset);
        self.refuse(offset, W::BYTES);
        index
    }

    /// Checks that `count` bytes at `offset` can be stored to.
    ///
    /// # Panics
    /// If they can't.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn check_storable(&self, offset: u64, count: u64) {
        let end = self.storable.load(Ordering::Relaxed);
        if offset > end || count > end - offset {
            self.refuse(offset, count);
        }
    }

    /// Panics, saying why the bytes can't be stored to. If the space has grown this moment, they can.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn refuse(&self, offset: u64, count: u64) {
        check_range(self.len(), offset, count);
        assert!(
            count == 0 || !self.is_read_only(),
            "store of {count} bytes at offset {offset:#x} of {}, which was opened for reading only",
            self.path.display()
        );
    }

    /// Runs `act` on the address of each line that the range touches.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn each_line(&self, offset: u64, len: u64, act: impl Fn(*const u8)) {
        check_range(self.len(), offset, len);
        let mut line = offset & !(LINE - 1);
        let end = if len == 0 { line } else { offset + len };
        while line < end {
            act(self.at(line));
            line += LINE;
        }
    }
}

/// The file of a mapping with the flags that map it, where there is one that can be mapped piece by piece.
pub(crate) fn backing_of(mapped: &Mapped) -> Option<(&std::fs::File, MapFlags)> {
    match &mapped.backing {
        Backing::File { file, flags } => Some((file, *flags)),
        _ => None,
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
        self.len.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn flush_kind(&self) -> FlushKind {
        self.flush.kind()
    }

    #[inline(always)]
    fn fence_writes(&self) -> bool {
        false
    }

    #[inline(always)]
    fn nt_is_sooner(&self) -> bool {
        self.nt_is_sooner
    }

    /// An instruction does not fail.
    #[inline(always)]
    fn has_failed(&self) -> bool {
        false
    }

    #[inline(always)]
    #[track_caller]
    fn load_word<W: Word>(&self, offset: u64) -> W {
        let index = word_index::<W>(self.len(), offset);
        // SAFETY: `word_index` checked bounds and alignment, and the memory is only ever accessed atomically.
        // Atomics of different widths can race here, if the program ignores the contract of `Space`. Rust's
        // model does not define that; LLVM and both instruction sets do (unspecified bytes), and the memory
        // is none of Rust's.
        W::load(unsafe { &*self.area.base().cast::<W::Atomic>().add(index) })
    }

    #[inline(always)]
    #[track_caller]
    fn store_word<W: Word>(&self, offset: u64, value: W) {
        let index = self.store_index::<W>(offset);
        // SAFETY: as in `load_word`.
        W::store(unsafe { &*self.area.base().cast::<W::Atomic>().add(index) }, value);
    }

    #[inline(always)]
    #[track_caller]
    fn store_words(&self, offset: u64, words: &[u64]) {
        // One check for all of them.
        self.check_storable(offset, 8 * words.len() as u64);
        let (pairs, rest) = if offset.is_multiple_of(16) { words.as_chunks() } else { (&[][..], words) };
        for (at, &[first, second]) in (offset..).step_by(16).zip(pairs) {
            // SAFETY: the pair is inside the range that was checked, and aligned, as the mapping is.
            unsafe { isa::store_pair(self.at(at), first.to_le(), second.to_le()) };
        }
        for (at, &word) in (offset + 16 * pairs.len() as u64..).step_by(8).zip(rest) {
            self.store_word(at, word);
        }
    }

    #[inline(always)]
    #[track_caller]
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        let index = self.store_index::<u64>(offset);
        // SAFETY: as in `load_word`.
        let word = unsafe { &*self.area.base().cast::<AtomicU64>().add(index) };
        word.compare_exchange(old.to_le(), new.to_le(), Ordering::AcqRel, Ordering::Acquire)
            .map(u64::from_le)
            .map_err(u64::from_le)
    }

    #[inline(always)]
    #[track_caller]
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        self.check_storable(offset, bytes.len() as u64);
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
    #[track_caller]
    fn flush_line(&self, line: u64) {
        check_range(self.len(), line, 1);
        // SAFETY: the address lies inside the mapping; the instruction is one that this processor has.
        unsafe { self.flush.line(self.at(line)) }
    }

    #[inline(always)]
    fn fence(&self) {
        isa::fence();
    }

    #[inline(always)]
    #[track_caller]
    fn prestore(&self, offset: u64, len: u64, hint: Prestore) {
        check_range(self.len(), offset, len);
        // SAFETY: the range is inside the mapping, which starts at a page, so its lines are, too.
        unsafe { prestore_range(self.at(offset), len as usize, hint) }
    }

    #[inline(always)]
    fn prefetch(&self, offset: u64) {
        // A hint, wherever that is.
        isa::prefetch(self.area.base().wrapping_add(offset as usize));
    }
}
