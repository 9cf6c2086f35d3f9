//! Pages of stopped processes into files.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::parasite::Parasite;
use crate::error::{Error, Result};
use crate::image::{Image, Run, Shared, Vma, VmaKind, hash};
use crate::proc::{Pagemap, Range};
use crate::remote;
use fam::PAGE;

/// Bytes that are read, hashed and written at a time.
const PIECE: u64 = 2 << 20;
/// The same where pieces are held against earlier ones, aligned to themselves.
const FINE: u64 = 64 << 10;

/// Whose pages: a process's, or those of shared memory.
type Whose = (u64, u64);

/// The pieces that an earlier checkpoint in the folder has.
#[derive(Debug, Default)]
pub struct Known {
    files: Vec<String>,
    pieces: HashMap<(Whose, u64), Run>,
}

impl Known {
    /// Of the checkpoint `before` of the same tree; nothing if more than half of its files is no longer needed, so that the
    /// next checkpoint is a whole one and frees them.
    #[must_use]
    pub fn of(before: Option<&Image>, root: i32, now: &Image) -> Self {
        let same = |one: &&Image| {
            one.processes.first().is_some_and(|process| process.pid == root) && one.boot == now.boot
        };
        let Some(before) = before.filter(same) else { return Self::default() };
        let own = before
            .processes
            .iter()
            .flat_map(|process| process.pages.iter().map(|run| ((0, process.pid as u64), run)));
        let shared = before.shared.iter().flat_map(|shared| shared.pages.iter().map(|run| (shared.id, run)));
        let pieces: HashMap<_, _> =
            own.chain(shared).map(|(whose, run)| ((whose, run.address), *run)).collect();
        let live: u64 = pieces.values().map(|run| run.len).sum();
        let end = |file: usize| {
            pieces.values().filter(|run| run.file == file).map(|run| run.offset + run.len).max().unwrap_or(0)
        };
        let all: u64 = (0..before.page_files.len()).map(end).sum();
        if all > 2 * live + (1 << 20) {
            return Self::default();
        }
        Self { files: before.page_files.clone(), pieces }
    }
}

/// A file of pages that is being written.
#[derive(Debug)]
pub struct Writer {
    path: std::path::PathBuf,
    file: File,
    index: usize,
    offset: u64,
    buffer: Vec<u8>,
    known: Option<Known>,
    kept: u64,
    /// Offsets of runs whose hashes are not known yet.
    unhashed: HashSet<u64>,
}

impl Writer {
    /// Begins the file `path`, the one of number `index`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(path: &Path, index: usize) -> Result<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path);
        let file = file.map_err(|error| Error::file(path, "cannot be made", error))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            index,
            offset: 0,
            buffer: Vec::new(),
            known: None,
            kept: 0,
            unhashed: HashSet::new(),
        })
    }

    /// Does not write again what is known already. Its own file then comes behind those of what is known.
    #[must_use]
    pub fn knowing(mut self, known: Known) -> Self {
        self.index = known.files.len();
        self.known = Some(known);
        self
    }

    /// Bytes that were known.
    #[must_use]
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// The files that its runs name, its own last, under the name `own`.
    #[must_use]
    pub fn names(&self, own: String) -> Vec<String> {
        self.known.iter().flat_map(|known| known.files.iter().cloned()).chain([own]).collect()
    }

    /// Bytes written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
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
        whose: Whose,
        ranges: &[Range],
        mut read: impl FnMut(u64, &mut [u8]) -> Result<()>,
    ) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        for (start, end) in ranges {
            let mut address = *start;
            while address < *end {
                let len = match self.known {
                    Some(_) => (address / FINE + 1) * FINE - address,
                    None => PIECE,
                };
                let len = len.min(*end - address);
                self.buffer.resize(len as usize, 0);
                read(address, &mut self.buffer)?;
                let hash = hash(&self.buffer);
                let known = self.known.as_ref().and_then(|known| known.pieces.get(&(whose, address)));
                if let Some(run) = known.filter(|run| run.len == len && run.hash == hash) {
                    runs.push(*run);
                    self.kept += len;
                    address += len;
                    continue;
                }
                self.file
                    .write_all_at(&self.buffer, self.offset)
                    .map_err(|error| Error::file(&self.path, "cannot be written", error))?;
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
        self.write((0, pid as u64), ranges, |address, into| {
            let wanted = into.len();
            if remote::read(pid, address, into).is_ok_and(|len| len == wanted) {
                return Ok(());
            }
            // Pages that the process itself may not read.
            file.read_exact_at(into, address).map_err(|error| Error::file(&path, "cannot be read", error))
        })
    }

    /// Has a stopped process write its own pages; their hashes are not known before [`Writer::hash`]. What it
    /// cannot write is read by us.
    ///
    /// # Errors
    /// As [`Writer::process`].
    pub fn process_by(
        &mut self,
        parasite: Option<&Parasite<'_>>,
        pid: i32,
        ranges: &[Range],
    ) -> Result<Vec<Run>> {
        let Some(parasite) = parasite.filter(|_| !ranges.is_empty()) else {
            return self.process(pid, ranges);
        };
        if !parasite.write(&self.file, self.offset, ranges)? {
            return self.process(pid, ranges);
        }
        let mut runs = Vec::new();
        for (start, end) in ranges {
            for address in (*start..*end).step_by(PIECE as usize) {
                let len = PIECE.min(*end - address);
                runs.push(Run { address, len, file: self.index, offset: self.offset, hash: 0 });
                self.unhashed.insert(self.offset);
                self.offset += len;
            }
        }
        Ok(runs)
    }

    /// Hashes what processes have written themselves, out of the file; they may run again.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn hash(&mut self, image: &mut Image) -> Result<()> {
        let runs = image.processes.iter_mut().flat_map(|process| &mut process.pages);
        for run in runs.filter(|run| run.file == self.index && self.unhashed.contains(&run.offset)) {
            self.buffer.resize(run.len as usize, 0);
            self.file
                .read_exact_at(&mut self.buffer, run.offset)
                .map_err(|error| Error::file(&self.path, "cannot be read", error))?;
            run.hash = hash(&self.buffer);
        }
        Ok(())
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
        shared.pages = self.write(shared.id, &ranges, |offset, into| {
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
pub fn own_pages(pages: &Pagemap, vma: &Vma, whole: &[(u64, u64)]) -> Result<Vec<Range>> {
    if vma.shared || !matches!(vma.kind, VmaKind::Anonymous | VmaKind::File { .. }) {
        return Ok(Vec::new());
    }
    if whole.contains(&(vma.start, vma.end)) && vma.protection & libc::PROT_READ != 0 {
        return Ok(vec![(vma.start, vma.end)]);
    }
    pages.scan(vma.start, vma.end)
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
