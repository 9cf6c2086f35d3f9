//! Whether the parts of an image name only what is there: a checksum says that the state is what somebody wrote, not that
//! it makes sense.

use std::collections::HashSet;

use super::{FileKind, Image, Process, Run, VmaKind};
use fam::PAGE;

/// Longer runs than any file holds.
const RUN_MAX: u64 = 1 << 46;
/// No process has memory behind it.
const ADDRESS_END: u64 = 1 << 56;

/// The first thing in an image that cannot be; none if there is nothing of the kind.
#[must_use]
pub fn fault(image: &Image) -> Option<String> {
    if image.processes.is_empty() {
        return Some("it has no process".to_owned());
    }
    // Of a migration's process, and of no other, most pages lie in a file of its own.
    if image.processes.iter().any(|process| process.lazy.is_some() != image.migration.is_some()) {
        return Some("it is neither a migration's nor a checkpoint's".to_owned());
    }
    let names = image.processes.iter().filter_map(|process| process.lazy.as_ref()).chain(&image.page_files);
    if let Some(name) = names.into_iter().find(|name| !is_beside(name)) {
        return Some(format!("a file of pages is called `{}`", name.escape_debug()));
    }
    let mut numbers = HashSet::new();
    for process in &image.processes {
        let twice = process.threads.iter().find(|thread| thread.tid <= 0 || !numbers.insert(thread.tid));
        if let Some(thread) = twice {
            return Some(format!("two threads have number {}, or none may have it", thread.tid));
        }
        if let Some(what) = of_process(process, image) {
            return Some(format!("process {}: {what}", process.pid));
        }
    }
    let memories = image.shared.iter().find_map(|shared| {
        let what = of_runs(&shared.pages, image)?;
        Some(format!("shared memory `{}`: {what}", shared.name.escape_debug()))
    });
    memories.or_else(|| image.descriptions.iter().find_map(|one| of_description(&one.kind, image)))
}

/// A file in the folder itself.
fn is_beside(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

fn of_process(process: &Process, image: &Image) -> Option<String> {
    if process.threads.first().is_none_or(|thread| thread.tid != process.pid) {
        return Some("its first thread is another one".to_owned());
    }
    let mut before = 0;
    for vma in &process.vmas {
        let aligned = vma.start.is_multiple_of(PAGE) && vma.end.is_multiple_of(PAGE);
        let shared = match vma.kind {
            VmaKind::Shared { index, .. } => index < image.shared.len(),
            _ => true,
        };
        if vma.start < before || vma.end <= vma.start || vma.end > ADDRESS_END || !aligned || !shared {
            return Some(format!("the mapping {:x}-{:x} cannot be", vma.start, vma.end));
        }
        before = vma.end;
    }
    let mut open = HashSet::new();
    for fd in &process.fds {
        if fd.fd < 0 || fd.description >= image.descriptions.len() || !open.insert(fd.fd) {
            return Some(format!("file descriptor {} cannot be", fd.fd));
        }
    }
    if let Some(lock) = process.locks.iter().find(|lock| !open.contains(&lock.fd)) {
        return Some(format!("a lock of file descriptor {}, which is not open", lock.fd));
    }
    of_runs(&process.pages, image)
}

fn of_runs(runs: &[Run], image: &Image) -> Option<String> {
    let fits = |run: &&Run| {
        let whole = [run.address, run.len, run.offset].iter().all(|number| number.is_multiple_of(PAGE));
        let short = run.len > 0 && run.len <= RUN_MAX && run.offset <= RUN_MAX;
        whole && short && run.address.checked_add(run.len).is_some() && run.file < image.page_files.len()
    };
    let run = runs.iter().find(|run| !fits(run))?;
    Some(format!("pages of address {:#x} cannot lie where it says, in file {}", run.address, run.file))
}

fn of_description(kind: &FileKind, image: &Image) -> Option<String> {
    match kind {
        FileKind::Memory(index) if *index >= image.shared.len() => {
            Some(format!("an open file is shared memory {index}, which there is not"))
        }
        FileKind::SocketPair { inode, peer, .. } if *peer != 0 => {
            let is_peer =
                |kind: &FileKind| matches!(kind, FileKind::SocketPair { inode, .. } if inode == peer);
            let there = *inode != *peer && image.descriptions.iter().any(|one| is_peer(&one.kind));
            (!there).then(|| format!("the local socket {inode} has peer {peer}, which there is not"))
        }
        FileKind::Inherited { fd, .. } if !(0..=2).contains(fd) => {
            Some(format!("an open file is to become the restoring command's {fd}"))
        }
        _ => None,
    }
}
