//! Memory that is mapped, not copied: the process maps the lazy-page file privately, reads it where it lies, and gets a page
//! of its own at its first store.

use std::os::fd::{AsFd as _, AsRawFd as _};

use fam::{FamFile, Region};

use super::lazy::may_wait;
use crate::error::Result;
use crate::image::{Process, Vma};
use crate::remote::{Batch, Stopped};

/// Below so many bytes copying takes less than a mapping of its own.
const LEAST: u64 = 256 << 10;
/// So many mappings at most: the kernel has a limit of 65530 for a process.
const MOST: usize = 8192;

/// A range of the process's memory that lies in one piece in the file.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// Where in the file.
    offset: u64,
    protection: i32,
    no_reserve: bool,
}

/// What of a process is mapped, and the file.
#[derive(Debug)]
pub struct Mapped {
    /// By address.
    pub pieces: Vec<Piece>,
    fd: i32,
}

/// Whether a mapping may be one of a file: no stack, and nothing that a fork treats in a way of its own.
fn fits(vma: &Vma) -> bool {
    let harmless = [libc::MADV_HUGEPAGE, libc::MADV_NOHUGEPAGE, libc::MADV_DONTDUMP];
    may_wait(vma) && !vma.grows_down && vma.advice.iter().all(|advice| harmless.contains(advice))
}

/// Whether the file lies in memory (tmpfs), whose faults the kernel reports; on another file system pages are copied.
fn in_memory(file: &FamFile) -> bool {
    // SAFETY: a structure of plain numbers, filled by the call.
    unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        libc::fstatfs(file.as_fd().as_raw_fd(), &raw mut found) == 0 && found.f_type == libc::TMPFS_MAGIC
    }
}

impl Mapped {
    /// What of a process may be mapped from its file. `file` stays open until the process has mapped it.
    #[must_use]
    pub fn plan(process: &Process, file: &FamFile) -> Self {
        let mut pieces: Vec<Piece> = Vec::new();
        let vmas: &[Vma] = if in_memory(file) { &process.vmas } else { &[] };
        for vma in vmas.iter().filter(|vma| fits(vma)) {
            let vectors = file.layout().vectors();
            let first = vectors.partition_point(|vector| vector.end() <= vma.start);
            for vector in vectors[first..].iter().take_while(|vector| vector.start < vma.end) {
                let (start, end) = (vector.start.max(vma.start), vector.end().min(vma.end));
                let offset = vector.offset + (start - vector.start);
                match pieces.last_mut() {
                    Some(last)
                        if last.start + last.bytes == start
                            && last.offset + last.bytes == offset
                            && last.start >= vma.start =>
                    {
                        last.bytes += end - start;
                    }
                    _ => pieces.push(Piece {
                        start,
                        bytes: end - start,
                        offset,
                        protection: vma.protection,
                        no_reserve: vma.no_reserve,
                    }),
                }
            }
        }
        pieces.retain(|piece| piece.bytes >= LEAST);
        if pieces.len() > MOST {
            pieces.sort_unstable_by_key(|piece| std::cmp::Reverse(piece.bytes));
            pieces.truncate(MOST);
            pieces.sort_unstable_by_key(|piece| piece.start);
        }
        Self { pieces, fd: file.as_fd().as_raw_fd() }
    }

    /// The same as regions.
    #[must_use]
    pub fn regions(&self) -> Vec<Region> {
        self.pieces.iter().map(|piece| Region { start: piece.start, bytes: piece.bytes }).collect()
    }

    /// Has the process map all of it.
    ///
    /// # Errors
    /// If it cannot.
    pub fn apply(&self, stopped: &Stopped) -> Result<()> {
        let mut batch = Batch::new(stopped);
        for piece in &self.pieces {
            let mut flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
            if piece.no_reserve {
                flags |= libc::MAP_NORESERVE;
            }
            let arguments = [
                piece.start,
                piece.bytes,
                piece.protection as u64,
                flags as u64,
                self.fd as u64,
                piece.offset,
            ];
            batch.call("to map fabric-attached memory", libc::SYS_mmap, &arguments)?;
        }
        batch.run().map(drop)
    }
}
