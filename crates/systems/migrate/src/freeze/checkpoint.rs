//! A checkpoint, from the first look to the last page.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::collect::collect;
use super::contents;
use super::dump::{Known, Writer, own_pages};
use super::parasite::{By, Parasite};
use super::stop::{Frozen, freeze};
use crate::error::{Error, Result};
use crate::image::{FileKind, Image, PAGES_SUFFIX, Shared, Store, VmaKind, hash};
use crate::inspect::{
    Files, Layout, Options, Report, check_process, inspect, look_again, look_at_files, tree,
};
use crate::proc::{Mapping, Pagemap, mappings};
use crate::remote;

/// How to take a checkpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checkpoint {
    /// The tree goes on afterwards; otherwise it is killed once the image is whole.
    pub leave_running: bool,
    /// What to do with what cannot move.
    pub options: Options,
    /// Do not wait for the disk.
    pub no_sync: bool,
    /// Write only what differs from the checkpoint that the folder has; pages are read by us then.
    pub incremental: bool,
    /// How pages get out of the processes.
    pub by: By,
}

/// What a checkpoint took.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Times {
    /// Processes saved.
    pub processes: usize,
    /// Threads saved.
    pub threads: usize,
    /// Which checkpoint in its folder this is, from 1 on.
    pub generation: u64,
    /// Bytes of pages written.
    pub bytes: u64,
    /// Bytes of pages that an earlier checkpoint in the folder has already.
    pub kept_bytes: u64,
    /// Looking for what cannot move, before anything is stopped, in seconds.
    pub inspect_s: f64,
    /// Stopping, in seconds.
    pub freeze_s: f64,
    /// From the first stop until the tree went on, or until everything had been read, in seconds.
    pub downtime_s: f64,
    /// All of it, in seconds.
    pub total_s: f64,
    /// What moves, but not as it was.
    pub notes: Vec<String>,
}

/// Saves the tree of process `root` in `folder`.
///
/// # Errors
/// If something cannot move, or anything fails: the tree then goes on.
pub fn checkpoint(root: i32, folder: &Path, how: &Checkpoint) -> Result<Times> {
    checkpoint_then(root, folder, how, &mut |_| Ok(()))
}

/// As [`checkpoint`]; `then` gets the image when it is whole in its folder and before the tree is ended.
///
/// # Errors
/// As [`checkpoint`], and those of `then`: the tree then goes on.
pub fn checkpoint_then(
    root: i32,
    folder: &Path,
    how: &Checkpoint,
    then: &mut dyn FnMut(&Image) -> Result<()>,
) -> Result<Times> {
    let begin = Instant::now();
    let seen = inspect(root, &how.options)?;
    if !seen.obstacles.is_empty() {
        return Err(Error::Obstacles { pid: root, obstacles: seen.obstacles });
    }
    let store = Store::new(folder);
    store.make()?;
    // What is there stays as it is until the new one is whole.
    let before = store.read().ok().filter(|before| before.migration.is_none());
    let generation = store.generation(before.as_ref())? + 1;
    let inspected = begin.elapsed();
    let looks = look_before(root)?;
    let frozen = freeze(root)?;
    let stopped = begin.elapsed();
    let (mut image, layouts) = state(root, &frozen, &how.options, &looks)?;
    image.generation = generation;
    let mut writer = Writer::new(&store.path(&format!("{generation}{PAGES_SUFFIX}")), 0)?;
    if how.incremental {
        writer = writer.knowing(Known::of(before.as_ref(), root, &image));
    }
    let path = store.path(&format!("{generation}{PAGES_SUFFIX}"));
    let by = if how.incremental { By::Read } else { how.by };
    pages(&frozen, &mut image, &layouts, &mut writer, (by, &path))?;
    image.page_files = writer.names(format!("{generation}{PAGES_SUFFIX}"));
    let mut times = Times {
        processes: image.processes.len(),
        threads: image.processes.iter().map(|process| process.threads.len()).sum(),
        generation,
        bytes: writer.bytes(),
        kept_bytes: writer.kept(),
        inspect_s: inspected.as_secs_f64(),
        freeze_s: (stopped - inspected).as_secs_f64(),
        notes: seen.notes,
        ..Times::default()
    };
    let mut kept = Some(frozen);
    if how.leave_running {
        drop(kept.take());
    }
    times.downtime_s = (begin.elapsed() - inspected).as_secs_f64();
    writer.hash(&mut image)?;
    if !how.no_sync {
        writer.sync()?;
        store.sync()?;
    }
    store.write(&image, !how.no_sync)?;
    store.clean(&image);
    then(&image)?;
    if let Some(frozen) = kept {
        frozen.kill();
    }
    times.total_s = begin.elapsed().as_secs_f64();
    Ok(times)
}

/// The mappings that processes had before they were stopped.
pub type Looks = HashMap<i32, Vec<Mapping>>;

/// Looks at the mappings of a tree that runs, so that less is to be asked for when it stands.
///
/// # Errors
/// If the root is gone.
pub fn look_before(root: i32) -> Result<Looks> {
    // One that ends meanwhile is none of the tree's any more.
    let look = |pid: i32| Some((pid, mappings(pid).ok()?));
    Ok(tree(root)?.into_iter().filter_map(look).collect())
}

/// Everything but pages, of a stopped tree.
///
/// # Errors
/// If something cannot move after all.
pub fn state(root: i32, frozen: &Frozen, options: &Options, looks: &Looks) -> Result<(Image, Vec<Layout>)> {
    let mut report = Report::default();
    let pids: Vec<i32> = frozen.processes.iter().map(|process| process.pid).collect();
    let mut files = look_at_files(&pids, options, &mut report)?;
    let mut layouts = Vec::new();
    let mut shared: Vec<(Shared, String)> = Vec::new();
    for process in &frozen.processes {
        check_stopped(process.pid, &mut report)?;
        let scratch = process.leader().stopped.scratch;
        let before = looks.get(&process.pid).map_or(&[][..], Vec::as_slice);
        let ours = (scratch, scratch + remote::SCRATCH);
        let mut layout = look_again(process.pid, before, ours, options.own_watch, &mut report)?;
        layout.vmas.retain(|vma| !covers(vma, scratch));
        cut_scratch(&mut layout, scratch);
        merge(process.pid, &mut layout, &mut shared);
        layouts.push(layout);
    }
    if !report.obstacles.is_empty() {
        return Err(Error::Obstacles { pid: root, obstacles: report.obstacles });
    }
    contents::fill(&mut files)?;
    name_memories(&mut files, &mut shared);
    let (vdso_start, vdso_end) = layouts[0].vdso;
    let mut vdso = vec![0; (vdso_end - vdso_start) as usize];
    remote::read_exact(root, vdso_start, &mut vdso)?;
    let mut processes = Vec::new();
    let opened = std::mem::take(&mut files.fds).into_iter().zip(std::mem::take(&mut files.locks));
    for ((process, layout), fds) in frozen.processes.iter().zip(&layouts).zip(opened) {
        processes.push(collect(process, layout.vmas.clone(), fds)?);
    }
    let text = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let image = Image {
        kernel: text("/proc/sys/kernel/osrelease"),
        boot: text("/proc/sys/kernel/random/boot_id"),
        monotonic_ns: monotonic().as_nanos() as u64,
        vdso: hash(&vdso),
        processes,
        descriptions: files.descriptions,
        shared: shared.iter().map(|(shared, _)| shared.clone()).collect(),
        page_files: Vec::new(),
        generation: 0,
        migration: None,
    };
    let sources = shared.into_iter().map(|(_, source)| source).collect();
    layouts[0].sources = sources;
    Ok((image, layouts))
}

/// As [`check_process`], of a process that we ourselves trace.
fn check_stopped(pid: i32, report: &mut Report) -> Result<()> {
    let mut own = Report::default();
    check_process(pid, &mut own)?;
    own.obstacles.retain(|one| !one.what.contains("traced by") && !one.what.contains("by a debugger"));
    report.obstacles.append(&mut own.obstacles);
    Ok(())
}

fn covers(vma: &crate::image::Vma, scratch: u64) -> bool {
    vma.start >= scratch && vma.end <= scratch + remote::SCRATCH
}

/// Scratch memory may have become one mapping with a neighbour.
fn cut_scratch(layout: &mut Layout, scratch: u64) {
    let end = scratch + remote::SCRATCH;
    let mut rest = Vec::new();
    for vma in &mut layout.vmas {
        if vma.start < end && scratch < vma.end && vma.kind == VmaKind::Anonymous {
            let behind = crate::image::Vma { start: end.max(vma.start), ..vma.clone() };
            if behind.end > end {
                rest.push(behind);
            }
            vma.end = scratch.max(vma.start);
        }
    }
    layout.vmas.retain(|vma| vma.start < vma.end);
    layout.vmas.extend(rest);
    layout.vmas.sort_by_key(|vma| vma.start);
}

/// Numbers the shared memory of a process by that of the tree.
fn merge(pid: i32, layout: &mut Layout, all: &mut Vec<(Shared, String)>) {
    let sources = std::mem::take(&mut layout.sources);
    let numbers: Vec<usize> = layout
        .shared
        .iter()
        .zip(sources)
        .map(|(one, at)| number(all, one, || format!("/proc/{pid}/map_files/{at}")))
        .collect();
    for vma in &mut layout.vmas {
        if let VmaKind::Shared { index, .. } = &mut vma.kind {
            *index = numbers[*index];
        }
    }
}

fn name_memories(files: &mut Files, all: &mut Vec<(Shared, String)>) {
    let numbers: Vec<usize> =
        files.shared.iter().map(|(one, source)| number(all, one, || source.clone())).collect();
    for description in &mut files.descriptions {
        if let FileKind::Memory(index) = &mut description.kind {
            *index = numbers[*index];
        }
    }
}

fn number(all: &mut Vec<(Shared, String)>, one: &Shared, source: impl FnOnce() -> String) -> usize {
    all.iter().position(|(known, _)| known.id == one.id).unwrap_or_else(|| {
        all.push((one.clone(), source()));
        all.len() - 1
    })
}

/// Writes the pages of a stopped tree: its own per process, then those that processes share.
///
/// # Errors
/// If they cannot be read or written.
fn pages(
    frozen: &Frozen,
    image: &mut Image,
    layouts: &[Layout],
    writer: &mut Writer,
    (by, path): (By, &Path),
) -> Result<()> {
    for ((process, layout), saved) in frozen.processes.iter().zip(layouts).zip(&mut image.processes) {
        let stopped = &process.leader().stopped;
        let map = Pagemap::open(process.pid)?;
        let parasite = if by == By::Read { None } else { Some(Parasite::start(stopped, path, by)?) };
        let mut write = || -> Result<()> {
            for vma in &layout.vmas {
                let ranges = own_pages(&map, vma, &layout.whole)?;
                saved.pages.extend(writer.process_by(parasite.as_ref(), process.pid, &ranges)?);
            }
            Ok(())
        };
        let written = write();
        parasite.map_or(Ok(()), Parasite::end)?;
        written?;
    }
    for (shared, source) in image.shared.iter_mut().zip(&layouts[0].sources) {
        writer.shared(shared, source)?;
    }
    Ok(())
}

/// `CLOCK_MONOTONIC`.
#[must_use]
pub fn monotonic() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
