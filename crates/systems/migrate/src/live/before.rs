//! Pre-copy: pages go to fabric-attached memory while the tree still runs.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use fam::precopy::{Precopied, Rounds, Watch, finish, rounds};
use fam::uffd::{self, Uffd};
use fam::{FamFile, Owner, Region, Remote, Room, Throttle};
use serde::{Deserialize, Serialize};

use super::lazy::may_wait;
use super::regions::regions;
use crate::copies::Copies;
use crate::error::{Error, Result};
use crate::freeze::{FrozenProcess, freeze};
use crate::inspect::{Layout, Report, look_at_memory};
use crate::remote::{Batch, kill_points};

/// Vectors that may come to be between the layout and the stop.
const SPARE: u64 = 16 << 10;
/// What is written at once after the stop instead of by the daemon.
const LITTLE: u64 = 1 << 20;

/// A flag of `userfaultfd(2)`.
const USER_MODE_ONLY: u64 = 1;

/// What pre-copy did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Before {
    /// How long the tree was stopped to begin with, in seconds.
    pub stopped_s: f64,
    /// All of it, in seconds.
    pub all_s: f64,
    /// Bytes written in each round, over all processes.
    pub rounds: Vec<u64>,
    /// Bytes that were left for after the stop.
    pub left_bytes: u64,
}

/// A process of which pages have been written while it ran.
pub struct Copied {
    watch: Option<Watch>,
    clean: Vec<Region>,
    file: FamFile,
    done: Precopied,
}

/// Watches the tree of `root` for writes, and writes all of its pages into `rooms`, round after round.
///
/// # Errors
/// If the kernel cannot watch, or a process is gone.
pub fn copy_before(
    root: i32,
    rooms: &mut HashMap<i32, Room>,
    throttle: &Arc<Throttle>,
    before: &mut Before,
) -> Result<HashMap<i32, Copied>> {
    let begin = Instant::now();
    let mut watches = watch(root)?;
    before.stopped_s = begin.elapsed().as_secs_f64();
    let mut copied = HashMap::new();
    for pid in rooms.keys().copied().collect::<Vec<_>>() {
        let (Some(fd), Ok(layout)) = (watches.remove(&pid), look_at_memory(pid, &mut Report::default()))
        else {
            continue;
        };
        let watched = watched(&layout);
        if watched.is_empty() {
            continue;
        }
        let now = regions(pid, &layout)?;
        let watch = Watch::start(pid as u32, fd, &watched, &now)?;
        let pages = Remote::of(pid as u32)?;
        let Some(room) = rooms.remove(&pid) else { continue };
        let file = room.lay_out_with(Owner::of(pid as u32)?, &now, SPARE)?;
        let done =
            rounds(&watch, &file, &pages, throttle, Rounds::default()).map_err(|error| match error {
                fam::Error::SourceLost { .. } => Error::Changed { pid, what: "ended".to_owned() },
                other => other.into(),
            })?;
        for (index, bytes) in done.rounds.iter().enumerate() {
            if before.rounds.len() <= index {
                before.rounds.push(0);
            }
            before.rounds[index] += bytes;
        }
        copied.insert(pid, Copied { watch: Some(watch), clean: Vec::new(), file, done });
    }
    before.all_s = begin.elapsed().as_secs_f64();
    Ok(copied)
}

/// The mappings whose pages may come on demand.
fn watched(layout: &Layout) -> Vec<Region> {
    let vmas = layout.vmas.iter().filter(|vma| may_wait(vma));
    vmas.map(|vma| Region { start: vma.start, bytes: vma.end - vma.start }).collect()
}

/// Has each process open a userfaultfd for its own memory; the tree is stopped meanwhile.
fn watch(root: i32) -> Result<HashMap<i32, Uffd>> {
    let frozen = freeze(root)?;
    let mut found = HashMap::new();
    for process in &frozen.processes {
        found.insert(process.pid, Uffd::adopt(watch_of(process)?, uffd::ASYNC_PROTECT)?);
    }
    Ok(found)
}

/// A userfaultfd that a stopped process opens, and closes again behind our copy: also if we are killed.
fn watch_of(process: &FrozenProcess) -> Result<OwnedFd> {
    let pid = process.pid;
    let fail = |source| Error::Call { pid, what: "to watch its stores".to_owned(), source };
    let flags = (libc::O_CLOEXEC | libc::O_NONBLOCK) as u64;
    // The kernel gives the lowest number that is free.
    let taken: HashSet<u64> = fs::read_dir(format!("/proc/{pid}/fd"))
        .map_err(fail)?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    let number = (0..).find(|number| !taken.contains(number)).unwrap_or(0);
    let mut last = io::Error::from_raw_os_error(libc::EMFILE);
    // Where its user may not watch the kernel's stores: they are seen all the same, since nobody waits for
    // them.
    for flags in [flags, flags | USER_MODE_ONLY] {
        let mut batch = Batch::new(&process.leader().stopped);
        batch.attempt(libc::SYS_userfaultfd, &[flags])?;
        batch.attempt(libc::SYS_close, &[number])?;
        let mut ours = Err(io::ErrorKind::NotFound.into());
        batch.run_between(&mut |theirs| {
            ours = if theirs < 0 {
                Err(io::Error::from_raw_os_error(-theirs as i32))
            } else {
                Copies::new(pid).and_then(|copies| copies.get(theirs as i32))
            };
            kill_points::changed();
            Ok(())
        })?;
        match ours {
            Ok(ours) => return Ok(ours),
            Err(error) => last = error,
        }
    }
    Err(fail(last))
}

impl Copied {
    /// After the stop: notes what is clean, and ends watching. The kernel counts addresses that were
    /// protected and whose page has gone as pages until then.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn end_watch(&mut self) -> Result<()> {
        if let Some(watch) = self.watch.take() {
            self.clean = watch.clean()?;
        }
        Ok(())
    }

    /// After the stop: the file, laid out for the pages that the process has now; what is in it counts.
    ///
    /// # Errors
    /// If the process is gone, or there is no room.
    pub fn finish(self, pid: i32, regions: &[Region], before: &mut Before) -> Result<FamFile> {
        let pages = Remote::of(pid as u32)?;
        let (file, left) = finish(&self.clean, self.file, &self.done, regions, &pages, LITTLE)?;
        before.left_bytes += left;
        Ok(file)
    }
}
