//! Pages that come when they are touched: out of a lazy-page file in fabric-attached memory, out of a checkpoint's files,
//! or by a socket.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fam::uffd::{self, Uffd};
use fam::{Fam, FamFile, Install, Medium, Region, Served, Space, Step, Stream, Throttle, Transport};

use crate::copies::Copies;
use crate::error::{Error, Result};
use crate::image::{Image, Process, Run, Store, Vma, VmaKind, hash};
use crate::live::decided;
use crate::live::map::Mapped;
use crate::remote::Stopped;
use crate::restore::{How, Pager, Restored, restore_image};

/// How pages come.
#[derive(Clone, Debug)]
pub struct Lazy {
    /// After so long without a fault the remaining pages are installed unasked.
    pub timer: Duration,
    /// Bytes that a fault brings.
    pub grain: u64,
    /// Pages in fabric-attached memory are mapped instead of copied, where they lie in a file in memory.
    pub map: bool,
    /// What fabric-attached memory, or the network, is to be as slow as.
    pub medium: Medium,
    /// Once all pages are there, they become pages of 2 MiB where that is possible.
    pub huge: bool,
}

impl Default for Lazy {
    fn default() -> Self {
        let (timer, grain) = (Duration::from_millis(100), 64 << 10);
        Self { timer, grain, map: false, medium: Medium::DRAM, huge: false }
    }
}

/// Whether pages of a mapping may come on demand: memory of its own that the kernel does not keep resident.
#[must_use]
pub fn may_wait(vma: &Vma) -> bool {
    !vma.shared && !vma.locked && vma.kind == VmaKind::Anonymous
}

/// Serves the faults of all processes of a tree, each on a thread of its own.
#[derive(Default)]
pub struct LazyPages {
    waiting: Mutex<HashMap<i32, Waiting>>,
    serving: Mutex<Vec<(i32, Receiver<Served>, Serving)>>,
    how: Lazy,
    /// Where the order of faults is kept.
    folder: PathBuf,
}

/// The pages of a process that is not made yet.
type Waiting = (Vec<Region>, Box<dyn Transport>, Option<Mapped>);
/// The fault server of one that is.
type Serving = JoinHandle<std::result::Result<Served, fam::Error>>;

impl LazyPages {
    /// For the images of a folder.
    #[must_use]
    pub fn new(folder: &Path, how: Lazy) -> Self {
        Self { how, folder: folder.to_owned(), ..Self::default() }
    }

    /// The pages of process `pid`: the regions that there are, and where they come from.
    pub fn add(&self, pid: i32, regions: Vec<Region>, transport: Box<dyn Transport>) {
        self.add_mapped(pid, regions, transport, None);
    }

    /// The same, some of them mapped.
    pub fn add_mapped(
        &self,
        pid: i32,
        regions: Vec<Region>,
        transport: Box<dyn Transport>,
        mapped: Option<Mapped>,
    ) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(pid, (regions, transport, mapped));
    }

    /// The pages of process `process` out of its lazy-page file, mapped where that was asked for.
    pub fn add_fam(&self, process: &Process, file: FamFile, source: Option<Stream>) {
        let regions = file.layout().regions().to_vec();
        let mapped = self.how.map.then(|| Mapped::plan(process, &file));
        let mapped = mapped.filter(|mapped| !mapped.pieces.is_empty());
        let install = Install::Copy { grain: self.how.grain };
        let throttle = Arc::new(Throttle::new(self.how.medium));
        let transport = match source {
            Some(stream) => Fam::new(file, stream, throttle, install),
            None => Fam::complete(file, throttle, install),
        };
        let transport = match &mapped {
            Some(mapped) => transport.mapping(mapped.regions()),
            None => transport,
        };
        self.add_mapped(process.pid, regions, Box::new(transport), mapped);
    }

    /// Waits until all pages of all processes are there: sums over them.
    ///
    /// # Errors
    /// The first that could not be had; its process has been killed.
    pub fn wait(&self) -> Result<Served> {
        let mut sum = Served::default();
        let all = std::mem::take(&mut *self.serving.lock().unwrap_or_else(PoisonError::into_inner));
        let mut failed = None;
        for (pid, complete, thread) in all {
            // Where memory is mapped the thread goes on until the process ends.
            let served = match complete.recv() {
                Ok(one) => Ok(Ok(one)),
                Err(_) => thread.join(),
            };
            match served {
                Ok(Ok(one)) => {
                    sum.faults += one.faults;
                    sum.pages_by_fault += one.pages_by_fault;
                    sum.pages_pushed += one.pages_pushed;
                    sum.spaces += one.spaces;
                    sum.resume_s = sum.resume_s.max(one.resume_s);
                    let first = one.first_fault_s.into_iter().chain(sum.first_fault_s);
                    sum.first_fault_s = first.min_by(f64::total_cmp);
                    if !one.order.is_empty() {
                        let _ = fam::order::save(&order_of(&self.folder, pid), &one.order);
                    }
                }
                // It has ended before it needed all of its memory.
                Ok(Err(fam::Error::TargetLost)) => {}
                Ok(Err(error)) => failed = Some(error.into()),
                Err(_) => failed = Some(Error::Unfit(format!("the fault server of process {pid} ended"))),
            }
        }
        failed.map_or(Ok(sum), Err)
    }
}

fn order_of(folder: &Path, pid: i32) -> PathBuf {
    folder.join(format!("{pid}.order"))
}

impl Pager for LazyPages {
    fn begin(&self, stopped: &Stopped, process: &Process) -> Result<()> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&process.pid);
        let Some((regions, mut transport, mapped)) = waiting.filter(|(regions, ..)| !regions.is_empty())
        else {
            return Ok(());
        };
        if let Some(mapped) = &mapped {
            mapped.apply(stopped)?;
        }
        let uffd = watch(stopped, process, &regions, mapped.as_ref())?;
        let (pid, huge) = (process.pid, self.how.huge);
        let (complete, completed) = channel();
        let options = fam::Options {
            timer: Some(self.how.timer),
            prefetch: fam::order::load(&order_of(&self.folder, pid)).unwrap_or_default(),
            process: Some(pid as u32),
            stay: mapped.is_some(),
            complete: Some(complete),
            ..fam::Options::default()
        };
        let large: Vec<Region> = if huge { large(process) } else { Vec::new() };
        let thread = std::thread::spawn(move || {
            let served = fam::serve(uffd.into_fd(), &regions, &mut *transport, options);
            if served.as_ref().is_err_and(|error| !matches!(error, fam::Error::TargetLost)) {
                // Its memory is lost: it must not go on with another content.
                crate::remote::kill(pid);
            }
            if served.is_ok() && mapped.is_none() {
                collapse(pid, &large);
            }
            served
        });
        self.serving.lock().unwrap_or_else(PoisonError::into_inner).push((pid, completed, thread));
        Ok(())
    }
}

/// Has a process open a userfaultfd for its own memory and hand it to us, with the regions' mappings registered.
fn watch(stopped: &Stopped, process: &Process, regions: &[Region], mapped: Option<&Mapped>) -> Result<Uffd> {
    let flags = (libc::O_CLOEXEC | libc::O_NONBLOCK) as u64;
    let theirs = stopped.call("to serve its page faults", libc::SYS_userfaultfd, &[flags])?;
    let ours = Copies::new(stopped.tid).and_then(|copies| copies.get(theirs as i32)).map_err(|source| {
        Error::Call { pid: stopped.tid, what: "to serve its page faults".to_owned(), source }
    })?;
    stopped.call("to close a file", libc::SYS_close, &[theirs])?;
    let features = if mapped.is_some() { uffd::EVENTS | uffd::SHMEM } else { uffd::EVENTS };
    let uffd = Uffd::adopt(ours, features)?;
    for vma in process.vmas.iter().filter(|vma| may_wait(vma)) {
        let mut inside =
            regions.iter().filter(|region| region.start < vma.end && vma.start < region.start + region.bytes);
        let Some(first) = inside.next() else { continue };
        let last = inside.next_back().unwrap_or(first);
        let start = first.start.max(vma.start);
        let end = (last.start + last.bytes).min(vma.end);
        uffd.register(start, end - start, uffd::MISSING)?;
    }
    for piece in mapped.iter().flat_map(|mapped| &mapped.pieces) {
        uffd.register(piece.start, piece.bytes, uffd::MISSING | uffd::MINOR)?;
    }
    Ok(uffd)
}

/// Ranges of a process that may have pages of 2 MiB.
fn large(process: &Process) -> Vec<Region> {
    const LARGE: u64 = fam::VECTOR;
    let refused = |vma: &Vma| vma.advice.contains(&libc::MADV_NOHUGEPAGE);
    let vmas = process.vmas.iter().filter(|vma| may_wait(vma) && !vma.grows_down && !refused(vma));
    let inner = vmas.map(|vma| (vma.start.next_multiple_of(LARGE), vma.end / LARGE * LARGE));
    inner
        .filter(|(start, end)| start < end)
        .map(|(start, end)| Region { start, bytes: end - start })
        .collect()
}

/// Has the kernel put pages of 2 MiB in place of small ones. Helps only: what cannot be stays as it is.
fn collapse(pid: i32, regions: &[Region]) {
    /// Since Linux 6.1.
    const MADV_COLLAPSE: i32 = 25;
    // SAFETY: no memory is involved.
    let Ok(process) = crate::copies::owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) }) else {
        return;
    };
    for region in regions {
        for start in (region.start..region.start + region.bytes).step_by(fam::VECTOR as usize) {
            let range = libc::iovec { iov_base: start as *mut _, iov_len: fam::VECTOR as usize };
            let (fd, range) = (process.as_raw_fd(), &raw const range);
            // SAFETY: the kernel reads `range`; the memory is another process's, whose contents stay.
            unsafe { libc::syscall(libc::SYS_process_madvise, fd, range, 1, MADV_COLLAPSE, 0) };
        }
    }
}

/// Pages in the files of a checkpoint, each run held against its hash when it is first touched.
struct FromImage {
    files: HashMap<usize, (PathBuf, fam::Memory)>,
    runs: Vec<Run>,
    checked: Vec<bool>,
    grain: u64,
}

impl FromImage {
    fn put(&mut self, start: u64, bytes: u64, space: &mut Space) -> std::result::Result<Step, fam::Error> {
        let end = start + bytes;
        let mut at = start;
        while at < end {
            let after = self.runs.partition_point(|run| run.address <= at);
            let index = after.wrapping_sub(1);
            let Some(run) = self.runs.get(index).copied().filter(|run| at < run.address + run.len) else {
                return Err(fam::Error::Stray(at));
            };
            let Some((path, memory)) = self.files.get(&run.file) else { return Err(fam::Error::Stray(at)) };
            if !self.checked[index] {
                let mut buffer = vec![0; run.len as usize];
                memory.read(run.offset, &mut buffer);
                if hash(&buffer) != run.hash {
                    let what = format!("the pages of address {:#x} do not have their checksum", run.address);
                    return Err(fam::Error::Damaged { path: path.clone(), what });
                }
                self.checked[index] = true;
            }
            let now = end.min(run.address + run.len) - at;
            let from = memory.address(run.offset + (at - run.address), now);
            // SAFETY: `address` checked the range.
            match unsafe { space.copy(at, from, now) }? {
                Step::Done => at += now,
                other => return Ok(other),
            }
        }
        Ok(Step::Done)
    }
}

impl Transport for FromImage {
    fn fault(&mut self, page: u64, space: &mut Space) -> std::result::Result<Step, fam::Error> {
        match self.put(page, fam::PAGE, space)? {
            Step::Done => {}
            other => return Ok(other),
        }
        let Some(index) = space.layout().find(page) else { return Ok(Step::Done) };
        let vector = space.layout().vectors()[index];
        let start = (page / self.grain * self.grain).max(vector.start);
        let end = (page / self.grain * self.grain + self.grain).min(vector.end());
        self.put(start, end - start, space)
    }

    fn push(&mut self, start: u64, bytes: u64, space: &mut Space) -> std::result::Result<Step, fam::Error> {
        self.put(start, bytes, space)
    }
}

/// The files of pages that runs name, mapped.
fn mapped(store: &Store, files: &[String], runs: &[Run]) -> Result<HashMap<usize, (PathBuf, fam::Memory)>> {
    let mut found = HashMap::new();
    for (index, name) in files.iter().enumerate() {
        let Some(end) = runs.iter().filter(|run| run.file == index).map(|run| run.offset + run.len).max()
        else {
            continue;
        };
        let path = store.path(name);
        let open = OpenOptions::new().read(true).write(true).open(&path);
        let open = open.map_err(|error| Error::file(&path, "cannot be opened", error))?;
        let len = open.metadata().map_err(|error| Error::file(&path, "cannot be looked at", error))?.len();
        if len < end {
            let what = format!("it has {len} bytes, and {end} were written");
            let remedy = "take the checkpoint again, or restore an older one";
            return Err(Error::Damaged { path, offset: len, what, remedy });
        }
        let memory = fam::Memory::map(&open, len)?;
        found.insert(index, (path, memory));
    }
    Ok(found)
}

/// Takes out of an image the pages that may come on demand, and readies them in `pages`.
fn take_lazy(store: &Store, image: &mut Image, pages: &LazyPages) -> Result<()> {
    let files = image.page_files.clone();
    for process in &mut image.processes {
        let Process { vmas, pages: runs, .. } = process;
        let waits = |run: &Run| {
            let after = vmas.partition_point(|vma| vma.start <= run.address);
            after.checked_sub(1).is_some_and(|index| may_wait(&vmas[index]))
        };
        let (mut lazy, eager): (Vec<Run>, Vec<Run>) = runs.drain(..).partition(waits);
        *runs = eager;
        lazy.sort_unstable_by_key(|run| run.address);
        if lazy.is_empty() {
            continue;
        }
        let mapped = mapped(store, &files, &lazy)?;
        let regions = lazy.iter().map(|run| Region { start: run.address, bytes: run.len }).collect();
        let (checked, grain) = (vec![false; lazy.len()], pages.how.grain);
        pages.add(process.pid, regions, Box::new(FromImage { files: mapped, runs: lazy, checked, grain }));
    }
    Ok(())
}

/// Whether a folder's migration gave the tree to its target.
fn came(folder: &Path) -> Result<()> {
    let found = decided(folder);
    match found.as_deref() {
        Some("target") => Ok(()),
        Some("source") | None => {
            Err(Error::Unfit("its migration was broken off, and the process went on where it was".to_owned()))
        }
        Some(other) => Err(Error::Damaged {
            path: folder.join("decision"),
            offset: 0,
            what: format!(
                "`{}` is neither `source` nor `target`",
                other.escape_debug().take(40).collect::<String>()
            ),
            remedy: "restore a copy of the folder",
        }),
    }
}

/// The lazy-page file of a process, if it has one: all of it is there, and it is that process's.
fn complete(store: &Store, process: &Process) -> Result<Option<FamFile>> {
    let Some(name) = &process.lazy else { return Ok(None) };
    let file = FamFile::open_complete(&store.path(name), None)?;
    is_of(&file, process)?;
    Ok(Some(file))
}

/// Whether a lazy-page file is of a process, and not of another one that had its number.
///
/// # Errors
/// Both owners, if it is not.
pub fn is_of(file: &FamFile, process: &Process) -> Result<()> {
    let (found, start) = (file.owner(), process.started);
    if found.pid == process.pid as u32 && (start == 0 || found.start == start) {
        return Ok(());
    }
    Err(Error::Unfit(format!(
        "{} is of process {} (started at tick {}), not of {} (started at tick {start})",
        file.path().display(),
        found.pid,
        found.start,
        process.pid,
    )))
}

/// Restores a tree that runs at once and gets its pages on demand: of a checkpoint, or of a migration whose pages all lie
/// in fabric-attached memory. The [`LazyPages`] serve it as long as this process lives.
///
/// # Errors
/// As [`crate::restore::restore`]; the folder is of a migration that did not take place or whose pages are not all there.
pub fn restore_lazy(folder: &Path, how: Lazy) -> Result<(Restored, LazyPages)> {
    let begin = Instant::now();
    let store = Store::new(folder);
    let mut image = store.read()?;
    let pages = LazyPages::new(folder, how);
    if image.migration.is_some() {
        came(folder)?;
        for process in &image.processes {
            if let Some(file) = complete(&store, process)? {
                pages.add_fam(process, file, None);
            }
        }
    } else {
        take_lazy(&store, &mut image, &pages)?;
    }
    let how = How { pager: Some(&pages), gate: &mut || Ok(()), given: HashMap::new() };
    match restore_image(&store, &image, begin, how) {
        Ok(restored) => Ok((restored, pages)),
        // A process that is ended since its pages cannot be had is what the restore notices; this is the cause.
        Err(error) => Err(pages.wait().err().unwrap_or(error)),
    }
}

/// Holds all of a folder against its checksums, and says which checkpoint in it that is (0: a migration's).
///
/// # Errors
/// What does not fit; of a migration, what [`restore_lazy`] refuses.
pub fn check(folder: &Path) -> Result<u64> {
    let store = Store::new(folder);
    let image = store.read()?;
    store.check(&image)?;
    if image.migration.is_some() {
        came(folder)?;
    }
    for process in &image.processes {
        if let Some(file) = complete(&store, process)? {
            file.verify()?;
        }
    }
    Ok(image.generation)
}
