//! A file that the program maps: its bytes, privately, in an area of the window.
//!
//! A byte of the file has one place in the area, whatever mappings of the program show it, so that all of them see
//! each other's stores, and a mapping grows where it is.

use std::ffi::{c_int, c_void};
use std::io::{Error, Result};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use super::dirty::{self, Dirty, LINE, PAGE};
use super::file::{File, Identity};
use super::journal::{self, Journal};
use crate::real::real;

/// What all images did.
pub struct Counts {
    pub commits: AtomicU64,
    pub ranges: AtomicU64,
    pub data_bytes: AtomicU64,
}

pub static COUNTS: Counts =
    Counts { commits: AtomicU64::new(0), ranges: AtomicU64::new(0), data_bytes: AtomicU64::new(0) };

pub struct Image {
    pub identity: Identity,
    pub path: PathBuf,
    file: File,
    journal: Option<Journal>,
    /// Where the file's first byte is, or would be.
    pub area: usize,
    /// Bytes of the area.
    pub room: usize,
    /// The program's mappings, in bytes of the file, whole pages, in order of their making.
    mappings: Vec<Range<usize>>,
    /// Why nothing is made durable any more.
    failed: Option<c_int>,
}

impl Image {
    /// The image of an open file; copies what a journal has into it first.
    pub fn new(fd: c_int, identity: Identity, path: PathBuf, mode: u32) -> Result<Image> {
        let file = File::again(fd)?;
        let journal = Journal::open(&path, &file, Some(mode))?;
        Ok(Image { identity, path, file, journal, area: 0, room: 0, mappings: Vec::new(), failed: None })
    }

    /// Whether the program maps it.
    pub fn is_mapped(&self) -> bool {
        !self.mappings.is_empty()
    }

    /// Bytes of the file that no mapping shows.
    fn gaps(&self, of: Range<usize>) -> Vec<Range<usize>> {
        let mut gaps = vec![of];
        for mapping in &self.mappings {
            let parts = gaps
                .iter()
                .flat_map(|gap| [gap.start..gap.end.min(mapping.start), gap.start.max(mapping.end)..gap.end]);
            gaps = parts.filter(|part| part.start < part.end).collect();
        }
        gaps
    }

    /// Maps bytes of the file; their address.
    pub fn map(&mut self, range: Range<usize>, protection: c_int, kind: c_int) -> Result<usize> {
        let real = real!(c"mmap64", fn(usize, usize, c_int, c_int, c_int, i64) -> *mut c_void);
        let kept = kind & (libc::MAP_POPULATE | libc::MAP_LOCKED | libc::MAP_NONBLOCK);
        let kind = libc::MAP_PRIVATE | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE | kept;
        for gap in self.gaps(range.clone()) {
            let (at, bytes, fd) = (self.area + gap.start, gap.len(), self.file.descriptor());
            // SAFETY: nothing that is mapped is touched.
            let got = unsafe { real(at, bytes, protection, kind, fd, gap.start as i64) };
            if got == libc::MAP_FAILED {
                return Err(Error::last_os_error());
            }
        }
        if protection & libc::PROT_WRITE != 0 {
            // What another mapping shows may be there to read only.
            // SAFETY: the image's own pages, which get more permissions.
            unsafe { libc::mprotect((self.area + range.start) as *mut c_void, range.len(), protection) };
        }
        self.mappings.push(range.clone());
        Ok(self.area + range.start)
    }

    /// Takes bytes out of the latest mapping that has them. What none shows any more is written to the file and goes.
    pub fn unmap(&mut self, range: Range<usize>) -> Result<()> {
        let before = self.mappings.clone();
        self.take_out(range.clone());
        let hidden: Vec<_> = before.iter().flat_map(|mapping| self.gaps(common(mapping, &range))).collect();
        for part in hidden {
            if let Err(error) = self.commit(part.clone()) {
                self.mappings = before;
                return Err(error);
            }
            let real = real!(c"munmap", fn(usize, usize) -> c_int);
            // SAFETY: the image's own pages, which the program gives up.
            unsafe { real(self.area + part.start, part.len()) };
            dirty::forget(self.area + part.start, part.len());
        }
        Ok(())
    }

    /// Makes a mapping end later.
    pub fn grow(&mut self, range: Range<usize>, end: usize) -> Result<()> {
        self.map(range.end..end, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        self.mappings.pop();
        self.take_out(range.clone());
        self.mappings.push(range.start..end);
        Ok(())
    }

    fn take_out(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let Some(index) = self.mappings.iter().rposition(|mapping| !common(mapping, &range).is_empty())
        else {
            return;
        };
        let mapping = self.mappings.remove(index);
        let taken = common(&mapping, &range);
        let rest = [mapping.start..taken.start, taken.end..mapping.end];
        self.mappings.extend(rest.into_iter().filter(|rest| !rest.is_empty()));
        self.take_out(range.start..taken.start);
        self.take_out(taken.end..range.end);
    }

    /// Makes what was stored to in these bytes durable, and copies it into the file.
    pub fn commit(&mut self, range: Range<usize>) -> Result<()> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        if let Some(errno) = self.failed {
            return Err(Error::from_raw_os_error(errno));
        }
        let length = self.file.identity()?.1;
        let dirty = dirty::collect(self.area + range.start, range.len());
        let (ranges, data, pages) = copy(&dirty, self.area, length);
        if ranges.is_empty() {
            return Ok(());
        }
        let written = (|| {
            if journal.is_full() {
                journal.retire(&self.file)?;
            }
            journal.append(&ranges, &data, length)
        })();
        let written = written.and_then(|()| write(&self.file, self.area, length, &pages, &data));
        if let Err(error) = written {
            // Whether it is durable is unknown, so nothing may be built on it.
            dirty::put_back(&dirty);
            self.failed = Some(error.raw_os_error().unwrap_or(libc::EIO));
            return Err(error);
        }
        COUNTS.commits.fetch_add(1, Ordering::Relaxed);
        COUNTS.ranges.fetch_add(ranges.len() as u64, Ordering::Relaxed);
        COUNTS.data_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The same for all of the file.
    pub fn commit_all(&mut self) -> Result<()> {
        (0..self.mappings.len()).try_for_each(|index| self.commit(self.mappings[index].clone()))
    }

    /// Others will change these bytes of the file: no record may undo that.
    pub fn release(&mut self, offset: u64, bytes: u64) -> Result<()> {
        match &mut self.journal {
            Some(journal) if journal.speaks_of(offset, bytes) => journal.retire(&self.file),
            _ => Ok(()),
        }
    }

    /// Others have changed these bytes of the file: pages that do not show it by themselves get them.
    pub fn refresh(&mut self, offset: u64, bytes: u64) {
        let end = offset.saturating_add(bytes).min(self.room as u64) as usize;
        let mut at = offset as usize;
        while at < end {
            let next = end.min((at / PAGE + 1) * PAGE);
            let shown = self.mappings.iter().any(|mapping| mapping.contains(&at));
            if shown && dirty::is_own(self.area + at) {
                // SAFETY: mapped, and stored to by the program before. That other threads may store there meanwhile
                // is theirs to know, as of any `write`.
                let to = unsafe { std::slice::from_raw_parts_mut((self.area + at) as *mut u8, next - at) };
                // What can't be read stays as it is.
                _ = self.file.read(at as u64, to);
            }
            at = next;
        }
    }

    /// The end: everything goes into the file, and there is no journal any more.
    pub fn close(&mut self) -> Result<()> {
        self.commit_all()?;
        if let Some(mut journal) = self.journal.take() {
            journal.retire(&self.file)?;
            journal.remove();
        }
        Ok(())
    }

    /// The same, but for mappings that go on: the file has got another name, or none.
    pub fn rename(&mut self, path: Option<PathBuf>, mode: u32) -> Result<()> {
        if let Some(mut journal) = self.journal.take() {
            journal.retire(&self.file)?;
            journal.remove();
        }
        if let Some(path) = path {
            self.journal = Journal::open(&path, &self.file, Some(mode))?;
            self.path = path;
        }
        Ok(())
    }

    /// Leaves the image to the parent process: what is stored there is a fault.
    pub fn abandon(self) {
        for mapping in &self.mappings {
            let at = (self.area + mapping.start) as *mut c_void;
            // SAFETY: the image's own pages.
            unsafe { libc::mprotect(at, mapping.len(), libc::PROT_READ) };
        }
    }
}

/// What two ranges have in common.
fn common(one: &Range<usize>, other: &Range<usize>) -> Range<usize> {
    let start = one.start.max(other.start);
    start..one.end.min(other.end).max(start)
}

/// A page with lines that were stored to, and where these begin in what was copied of them.
struct Page {
    offset: u64,
    lines: u64,
    from: usize,
}

/// Copies lines out of an area, as far as the file reaches.
fn copy(dirty: &Dirty, area: usize, length: u64) -> (Vec<journal::Range>, Vec<u8>, Vec<Page>) {
    let mut ranges: Vec<journal::Range> = Vec::new();
    let mut data = Vec::new();
    let mut pages = Vec::with_capacity(dirty.len());
    for &(page, lines) in dirty {
        let begin = (crate::window::BEGIN + page * PAGE - area) as u64;
        pages.push(Page { offset: begin, lines, from: data.len() });
        for (offset, bytes) in runs(begin, lines, length) {
            copy_words(area + offset as usize, bytes as usize, &mut data);
            match ranges.last_mut() {
                Some(last) if last.offset + last.bytes == offset => last.bytes += bytes,
                _ => ranges.push(journal::Range { offset, bytes }),
            }
        }
    }
    (ranges, data, pages)
}

/// Lines of a page that lie side by side, as far as the file reaches: offsets and lengths.
fn runs(begin: u64, lines: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = lines.checked_shr(at)?;
        if rest == 0 {
            return None;
        }
        let first = at + rest.trailing_zeros();
        let count = (lines >> first).trailing_ones();
        at = first + count;
        let offset = begin + u64::from(first) * LINE as u64;
        let bytes = (u64::from(count) * LINE as u64).min(length.saturating_sub(offset));
        (bytes > 0).then_some((offset, bytes))
    })
}

/// Copies bytes of whole words, or the file's last. Other threads may store meanwhile: a word at a time is whole.
fn copy_words(at: usize, bytes: usize, to: &mut Vec<u8>) {
    let words = bytes.div_ceil(8);
    to.reserve(words * 8);
    let begin = to.len();
    for word in 0..words {
        // SAFETY: mapped, in a page that the file reaches into; and there is room for it.
        unsafe {
            let copied = (at as *const u64).add(word).read_volatile();
            to.as_mut_ptr().add(begin).cast::<u64>().add(word).write_unaligned(copied);
        }
    }
    // SAFETY: so many were written.
    unsafe { to.set_len(begin + bytes) };
}

/// Bytes that are written at once, at most.
const PIECE: usize = 1 << 20;

/// Writes what a record has to the file: whole pages, of which nothing else was stored to since the last record.
fn write(file: &File, area: usize, length: u64, pages: &[Page], data: &[u8]) -> Result<()> {
    let (mut piece, mut begin) = (Vec::new(), 0);
    for page in pages {
        let end = begin + piece.len() as u64;
        if !piece.is_empty() && (end != page.offset || piece.len() >= PIECE) {
            file.write(begin, &piece)?;
            piece.clear();
        }
        let bytes = length.saturating_sub(page.offset).min(PAGE as u64) as usize;
        let before = piece.len();
        copy_words(area + page.offset as usize, bytes, &mut piece);
        if dirty::is_clean(area + page.offset as usize) {
            if before == 0 {
                begin = page.offset;
            }
            continue;
        }
        // Another thread may have stored beside our lines, or to them.
        piece.truncate(before);
        let mut from = page.from;
        for (offset, bytes) in runs(page.offset, page.lines, length) {
            file.write(offset, &data[from..from + bytes as usize])?;
            from += bytes as usize;
        }
    }
    if piece.is_empty() { Ok(()) } else { file.write(begin, &piece) }
}
