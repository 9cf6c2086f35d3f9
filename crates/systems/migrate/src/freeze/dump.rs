//! Pages of stopped processes into files.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::error::{Error, Result};
use crate::image::{Run, Shared, Vma, VmaKind, hash};
use crate::pages::PAGE;
use crate::proc::{Range, scan};
use crate::remote;

/// Bytes that are read, hashed and written at a time.
const PIECE: u64 = 2 << 20;

/// A file of pages that is being written.
#[derive(Debug)]
pub struct Writer {
    path: std::path::PathBuf,
    file: File,
    index: usize,
    offset: u64,
    buffer: Vec<u8>,
}

impl Writer {
    /// Begins the file `path`, the one of number `index`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(path: &Path, index: usize) -> Result<Self> {
        let file = File::create(path).map_err(|error| Error::file(path, "cannot be made", error))?;
        Ok(Self { path: path.to_owned(), file, index, offset: 0, buffer: Vec::new() })
    }

    /// Bytes written.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.offset
    }

    /// Waits until the file is on the disk.
    ///
    /// # Errors
    /// If it does not get there.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::file(&self.path, "cannot be made durable", error))
    }

    /// Writes the pages of `ranges`, each read by `read`.
    fn write(
        &mut self,
        ranges: &[Range],
        mut read: impl FnMut(u64, &mut [u8]) -> Result<()>,
    ) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        for (start, end) in ranges {
            let mut address = *start;
            while address < *end {
                let len = PIECE.min(*end - address);
                self.buffer.resize(len as usize, 0);
                read(address, &mut self.buffer)?;
                self.file
                    .write_all_at(&self.buffer, self.offset)
                    .map_err(|error| Error::file(&self.path, "cannot be written", error))?;
                let hash = hash(&self.buffer);
                runs.push(Run { address, len, file: self.index, offset: self.offset, hash });
                address += len;
                self.offset += len;
            }
        }
        Ok(runs)
    }

    /// Writes pages of process `pid`.
    ///
    /// # Errors
    /// If they cannot be read or written.
    pub fn process(&mut self, pid: i32, ranges: &[Range]) -> Result<Vec<Run>> {
        let path = format!("/proc/{pid}/mem");
        let file = File::open(&path).map_err(|error| Error::file(&path, "cannot be opened", error))?;
        self.write(ranges, |address, into| {
            let wanted = into.len();
            if remote::read(pid, address, into).is_ok_and(|len| len == wanted) {
                return Ok(());
            }
            // Pages that the process itself may not read.
            file.read_exact_at(into, address).map_err(|error| Error::file(&path, "cannot be read", error))
        })
    }

    /// Writes what shared memory holds, which `source` opens.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn shared(&mut self, shared: &mut Shared, source: &str) -> Result<()> {
        let fail = |error| Error::file(source, "cannot be read", error);
        let file = File::open(source).map_err(fail)?;
        shared.len = file.metadata().map_err(fail)?.len();
        shared.seals = seals(&file);
        let ranges = data(&file, shared.len);
        let len = shared.len;
        shared.pages = self.write(&ranges, |offset, into| {
            // The last page may lie half behind the end.
            let wanted = into.len().min((len - offset) as usize);
            into[wanted..].fill(0);
            file.read_exact_at(&mut into[..wanted], offset).map_err(fail)
        })?;
        Ok(())
    }
}

/// The pages that a mapping's process has of its own.
///
/// # Errors
/// If the kernel does not tell.
pub fn own_pages(pid: i32, vma: &Vma, whole: &[(u64, u64)]) -> Result<Vec<Range>> {
    if vma.shared || !matches!(vma.kind, VmaKind::Anonymous | VmaKind::File { .. }) {
        return Ok(Vec::new());
    }
    if whole.contains(&(vma.start, vma.end)) && vma.protection & libc::PROT_READ != 0 {
        return Ok(vec![(vma.start, vma.end)]);
    }
    scan(pid, vma.start, vma.end, false)
}

fn seals(file: &File) -> i32 {
    use std::os::fd::AsRawFd as _;
    // SAFETY: no memory is involved.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) }.max(0)
}

/// Where a file has data, by pages.
fn data(file: &File, len: u64) -> Vec<Range> {
    use std::os::fd::AsRawFd as _;
    // SAFETY: no memory is involved.
    let seek = |from: u64, how| unsafe { libc::lseek(file.as_raw_fd(), from as i64, how) };
    let mut found = Vec::new();
    let mut at = 0;
    while at < len {
        let Ok(start) = u64::try_from(seek(at, libc::SEEK_DATA)) else { break };
        let end = u64::try_from(seek(start, libc::SEEK_HOLE)).unwrap_or(len);
        let (start, end) = (start / PAGE * PAGE, end.next_multiple_of(PAGE));
        found.push((start, end));
        at = end;
    }
    found
}
