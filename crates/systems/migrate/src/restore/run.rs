//! A restore, from the first check to the moment when the tree runs.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::memory::{self, Sources};
use super::{descriptions, process, spawn, threads};
use crate::copies::owned;
use crate::error::{Error, Result};
use crate::image::{Image, Process, Store, VmaKind, fault, hash};
use crate::proc::mappings;
use crate::remote::{self, Stopped};

/// A tree that runs again.
#[derive(Clone, Debug, Serialize)]
pub struct Restored {
    /// The root, a child of this process.
    pub pid: i32,
    /// Processes.
    pub processes: usize,
    /// Reading and checking the image, in seconds.
    pub check_s: f64,
    /// From then until the tree runs, in seconds.
    pub resume_s: f64,
}

/// Who brings pages on demand.
pub trait Pager {
    /// Called once for each process, when its memory is mapped and nothing has touched it yet: from now on its faults are
    /// served.
    ///
    /// # Errors
    /// If they cannot be served.
    fn begin(&self, stopped: &Stopped, process: &Process) -> Result<()>;
}

/// How to restore.
pub struct How<'a> {
    /// Who brings pages that the image does not have.
    pub pager: Option<&'a dyn Pager>,
    /// Called when all is made and nothing runs yet; with an error nothing is left of what was made.
    pub gate: &'a mut dyn FnMut() -> Result<()>,
    /// Open files that need not be made, by the index of their descriptions.
    pub given: HashMap<usize, OwnedFd>,
}

/// Restores the tree of `folder` as children of this process, under the numbers that it had.
///
/// # Errors
/// If the image is damaged or does not fit, or a number is taken. What had been made is killed.
pub fn restore(folder: &Path) -> Result<Restored> {
    let begin = Instant::now();
    let store = Store::new(folder);
    let image = store.read()?;
    if let Some(process) = image.processes.iter().find(|process| process.lazy.is_some()) {
        return Err(Error::Unfit(format!(
            "pages of process {} come on demand: restore it with --lazy",
            process.pid
        )));
    }
    restore_image(&store, &image, begin, How { pager: None, gate: &mut || Ok(()), given: HashMap::new() })
}

/// Restores the tree of an image that has been read; `begin` is when that began.
///
/// # Errors
/// As [`restore`].
pub fn restore_image(store: &Store, image: &Image, begin: Instant, how: How<'_>) -> Result<Restored> {
    if let Some(what) = fault(image) {
        return Err(Error::Unfit(what));
    }
    store.check(image)?;
    fits(image)?;
    let check_s = begin.elapsed().as_secs_f64();
    let root = &image.processes[0];
    if !spawn::numbers_free(image) {
        let what = format!(
            "process number {} or one of its threads' is in use here; --clones 1 gives it numbers of its own",
            root.pid
        );
        return Err(Error::Unfit(what));
    }
    let first = prepare_numbers(image)?;
    let opened = open(store, image, first, &how.given)?;
    let mut made = vec![spawn::root(root)?];
    let result = build(image, &mut made, &opened, how);
    if let Err(error) = result {
        for stopped in &made {
            remote::kill(stopped.tid);
        }
        let _ = remote::wait(root.pid);
        return Err(error);
    }
    let resume_s = begin.elapsed().as_secs_f64() - check_s;
    Ok(Restored { pid: root.pid, processes: image.processes.len(), check_s, resume_s })
}

/// Whether this machine has what the image needs.
fn fits(image: &Image) -> Result<()> {
    let own = std::process::id().cast_signed();
    let all = mappings(own)?;
    let vdso = all.iter().find(|one| one.name == "[vdso]").map_or((0, 0), |one| (one.start, one.end));
    let mut bytes = vec![0; (vdso.1 - vdso.0) as usize];
    remote::read_exact(own, vdso.0, &mut bytes)?;
    if hash(&bytes) != image.vdso {
        return Err(Error::Unfit(format!("its kernel {} has another vDSO than this one", image.kernel)));
    }
    for vma in image.processes.iter().flat_map(|process| &process.vmas) {
        let VmaKind::File { path, len, modified_ns, .. } = &vma.kind else { continue };
        let found = std::fs::metadata(path).map_err(|error| Error::file(path, "which it maps", error))?;
        let changed =
            found.mtime() * 1_000_000_000 + found.mtime_nsec() != *modified_ns || found.len() != *len;
        if changed && !vma.shared {
            return Err(Error::Unfit(format!("{path}, which it maps, has changed since")));
        }
    }
    Ok(())
}

/// Files that children need while they are restored.
struct Opened {
    sources: Sources,
    programs: Vec<i32>,
    /// Where the descriptions of the image are open, all above the numbers that it uses itself.
    descriptions: Vec<i32>,
    /// Keeps them open.
    _kept: Vec<OwnedFd>,
}

/// The number from which on files are opened here: above all those of the image.
fn prepare_numbers(image: &Image) -> Result<i32> {
    let fds = image.processes.iter().flat_map(|process| &process.fds);
    let first = fds.map(|fd| fd.fd).max().unwrap_or(0).max(999).saturating_add(1);
    // SAFETY: the structure outlives the calls.
    unsafe {
        let mut limit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) < 0 {
            return Err(Error::call(0, "to raise the limit of open files"));
        }
    }
    Ok(first)
}

/// Moves a file to number `at` or, if 0, to one from `least` on.
fn place(file: &impl std::os::fd::AsRawFd, least: i32) -> Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let moved = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) };
    owned(moved.into()).map_err(|error| Error::file("open files", "are too many", error))
}

fn open(store: &Store, image: &Image, first: i32, given: &HashMap<usize, OwnedFd>) -> Result<Opened> {
    let mut kept = Vec::new();
    let mut pages = Vec::new();
    let mut page_files = Vec::new();
    let least = first;
    for name in &image.page_files {
        let path = store.path(name);
        let file = File::open(&path).map_err(|error| Error::file(path, "cannot be opened", error))?;
        let moved = place(&file, least)?;
        pages.push(moved.as_raw_fd());
        kept.push(moved);
        page_files.push(file);
    }
    let mut memories = Vec::new();
    for one in &image.shared {
        let read = |run: &crate::image::Run| {
            let mut bytes = vec![0; run.len as usize];
            let file = &page_files[run.file];
            file.read_exact_at(&mut bytes, run.offset)
                .map_err(|error| Error::file("pages", "cannot be read", error))?;
            Ok(bytes)
        };
        memories.push(place(&memory::shared(one, read)?, least)?);
    }
    let mut numbers = Vec::new();
    for description in descriptions::open_all(image, &memories, given)? {
        let moved = place(&description, first)?;
        numbers.push(moved.as_raw_fd());
        kept.push(moved);
    }
    let mut files = HashMap::new();
    for vma in image.processes.iter().flat_map(|process| &process.vmas) {
        let VmaKind::File { path, writable, .. } = &vma.kind else { continue };
        let key = (path.clone(), vma.shared && *writable);
        if files.contains_key(&key) {
            continue;
        }
        let file = OpenOptions::new().read(true).write(key.1).open(path);
        let moved = place(&file.map_err(|error| Error::file(path, "cannot be mapped", error))?, least)?;
        files.insert(key, moved.as_raw_fd());
        kept.push(moved);
    }
    let mut programs = Vec::new();
    for process in &image.processes {
        let file =
            File::open(&process.exe).map_err(|error| Error::file(&process.exe, "its program", error))?;
        let moved = place(&file, least)?;
        programs.push(moved.as_raw_fd());
        kept.push(moved);
    }
    let shared = memories.iter().map(|one| one.as_raw_fd()).collect();
    kept.extend(memories);
    Ok(Opened { sources: Sources { pages, shared, files }, programs, descriptions: numbers, _kept: kept })
}

/// Makes all processes, then each one's memory, files, threads, and lets all go.
fn build(image: &Image, made: &mut Vec<Stopped>, opened: &Opened, how: How<'_>) -> Result<()> {
    let place = memory::free_place(made[0].tid, &image.processes)?;
    spawn::scratch(&mut made[0], place)?;
    for (index, process) in image.processes.iter().enumerate() {
        if index > 0 {
            let parent = made.iter().find(|one| one.tid == process.parent);
            let parent =
                parent.ok_or_else(|| Error::Unfit(format!("process {} has no parent", process.pid)))?;
            let child = spawn::child(parent, process.pid)?;
            made.push(child);
        }
        group(&made[index], process)?;
    }
    let mut all: Vec<Vec<Stopped>> = Vec::new();
    for ((stopped, saved), program) in made.iter_mut().zip(&image.processes).zip(&opened.programs) {
        threads::forget(stopped)?;
        memory::restore(stopped, saved, &opened.sources)?;
        if let Some(pager) = how.pager {
            pager.begin(stopped, saved)?;
        }
        process::attributes(stopped, saved, *program)?;
        process::files(stopped, saved, image, &opened.descriptions)?;
        let mut own = vec![*stopped];
        own.extend(spawn::threads(stopped, saved.threads[1..].iter().map(|thread| thread.tid))?);
        process::limits_and_timers(stopped, saved)?;
        for (stopped, thread) in own.iter().zip(&saved.threads) {
            threads::restore(stopped, thread)?;
            threads::signals(stopped, saved.pid, &thread.pending, false)?;
        }
        threads::signals(stopped, saved.pid, &saved.pending, true)?;
        all.push(own);
    }
    for (own, saved) in all.iter().zip(&image.processes) {
        own[0].call("to give back scratch memory", libc::SYS_munmap, &[own[0].scratch, remote::SCRATCH])?;
        for (stopped, thread) in own.iter().zip(&saved.threads) {
            threads::registers(stopped, thread)?;
        }
    }
    (how.gate)()?;
    for (own, saved) in all.iter().zip(&image.processes) {
        for stopped in own {
            remote::detach(stopped.tid, if saved.stopped { libc::SIGSTOP } else { 0 })?;
        }
    }
    Ok(())
}

/// Sessions and groups that the tree itself leads.
fn group(stopped: &Stopped, process: &Process) -> Result<()> {
    if process.session == process.pid {
        stopped.call("to lead its session", libc::SYS_setsid, &[])?;
    } else if process.group == process.pid {
        stopped.call("to lead its group", libc::SYS_setpgid, &[0, 0])?;
    } else {
        // A group of the tree, led by one that has been made before; another one stays outside.
        stopped.raw(libc::SYS_setpgid, &[0, process.group as u64])?;
    }
    Ok(())
}
