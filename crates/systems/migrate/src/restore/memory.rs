//! The memory of a restored process.

use std::collections::HashMap;
use std::io;

use crate::error::{Error, Result};
use crate::image::{Process, Vma, VmaKind};
use crate::pages::PAGE;
use crate::proc::mappings;
use crate::remote::{Batch, SCRATCH, Stopped};

/// Free address space in front of scratch memory for the vDSO and its data on their way.
const VDSO_ROOM: u64 = 64 << 10;

/// An address where nothing of the image lies and nothing of `pid` does, with room for scratch memory.
///
/// # Errors
/// If there is none.
pub fn free_place(pid: i32, processes: &[Process]) -> Result<u64> {
    let mut taken: Vec<(u64, u64)> = mappings(pid)?.iter().map(|one| (one.start, one.end)).collect();
    taken.extend(processes.iter().flat_map(|process| &process.vmas).map(|vma| (vma.start, vma.end)));
    taken.sort_unstable();
    let mut at = 1 << 24;
    for (start, end) in taken {
        // A stack may grow into what lies just before it.
        if start >= at + SCRATCH + VDSO_ROOM + (16 << 20) {
            return Ok(at + VDSO_ROOM);
        }
        at = at.max(end);
    }
    Err(Error::Unfit("there is no free place in the address space".to_owned()))
}

/// Files by which memory is restored, open in the process under these numbers.
#[derive(Debug)]
pub struct Sources {
    /// Files of pages.
    pub pages: Vec<i32>,
    /// Shared memory.
    pub shared: Vec<i32>,
    /// Mapped files, by path and whether they may be written.
    pub files: HashMap<(String, bool), i32>,
}

/// Replaces the memory of `stopped` by that of the image.
///
/// # Errors
/// If anything cannot be mapped or read.
pub fn restore(stopped: &mut Stopped, process: &Process, sources: &Sources) -> Result<()> {
    move_vdso(stopped, process)?;
    let mut batch = Batch::new(stopped);
    for vma in &process.vmas {
        map(&mut batch, vma, sources)?;
    }
    batch.run()?;
    let mut batch = Batch::new(stopped);
    for run in &process.pages {
        let Some(fd) = sources.pages.get(run.file) else { continue };
        batch.call(
            "to read its pages",
            libc::SYS_pread64,
            &[*fd as u64, run.address, run.len, run.offset],
        )?;
    }
    batch.run()?;
    let mut batch = Batch::new(stopped);
    for vma in &process.vmas {
        finish(&mut batch, vma)?;
    }
    batch.run().map(drop)
}

/// Unmaps all that is not ours, and puts the vDSO and its data where the image has them.
fn move_vdso(stopped: &mut Stopped, process: &Process) -> Result<()> {
    let pid = stopped.tid;
    let special = |name: &str| name.starts_with("[vvar") || name == "[vdso]";
    let all = mappings(pid)?;
    let mut batch = Batch::new(stopped);
    for one in all.iter().filter(|one| !special(&one.name) && one.name != "[vsyscall]") {
        if one.start != stopped.scratch && !(stopped.scratch..stopped.scratch + SCRATCH).contains(&one.start)
        {
            batch.call("to unmap", libc::SYS_munmap, &[one.start, one.end - one.start])?;
        }
    }
    batch.run()?;
    let here: Vec<(u64, u64)> =
        all.iter().filter(|one| special(&one.name)).map(|one| (one.start, one.end - one.start)).collect();
    let there: Vec<(u64, u64)> = process
        .vmas
        .iter()
        .filter(|vma| matches!(vma.kind, VmaKind::Vdso | VmaKind::Vvar))
        .map(|vma| (vma.start, vma.end - vma.start))
        .collect();
    let lengths = |parts: &[(u64, u64)]| parts.iter().map(|part| part.1).collect::<Vec<_>>();
    if lengths(&here) != lengths(&there) {
        return Err(Error::Unfit("its kernel's vDSO has another shape".to_owned()));
    }
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
    let mut batch = Batch::new(stopped);
    let mut at = stopped.scratch - VDSO_ROOM;
    let mut middle = Vec::new();
    for (start, len) in &here {
        batch.call("to move the vDSO", libc::SYS_mremap, &[*start, *len, *len, flags, at])?;
        middle.push(at);
        at += len;
    }
    for (from, (start, len)) in middle.iter().zip(&there) {
        batch.call("to move the vDSO", libc::SYS_mremap, &[*from, *len, *len, flags, *start])?;
    }
    batch.run()?;
    let old = stopped.instruction;
    for ((from, len), (to, _)) in here.iter().zip(&there) {
        if (*from..from + len).contains(&old) {
            stopped.instruction = old - from + to;
        }
    }
    Ok(())
}

fn map(batch: &mut Batch<'_>, vma: &Vma, sources: &Sources) -> Result<()> {
    let len = vma.end - vma.start;
    let what = format!("to map {:x}-{:x}", vma.start, vma.end);
    let mut flags = libc::MAP_FIXED | if vma.shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
    if vma.grows_down {
        flags |= libc::MAP_GROWSDOWN;
    }
    if vma.no_reserve {
        flags |= libc::MAP_NORESERVE;
    }
    let writable = (vma.protection | libc::PROT_WRITE) as u64;
    match &vma.kind {
        VmaKind::Anonymous => {
            let flags = (flags | libc::MAP_ANONYMOUS) as u64;
            batch.call(what, libc::SYS_mmap, &[vma.start, len, writable, flags, u64::MAX, 0])
        }
        VmaKind::File { path, offset, writable: may_write, .. } => {
            let key = (path.clone(), vma.shared && *may_write);
            let fd = sources.files.get(&key).copied().unwrap_or(-1) as u64;
            let protection = if vma.shared { vma.protection as u64 } else { writable };
            batch.call(what, libc::SYS_mmap, &[vma.start, len, protection, flags as u64, fd, *offset])
        }
        VmaKind::Shared { index, offset } => {
            let fd = sources.shared.get(*index).copied().unwrap_or(-1) as u64;
            batch.call(
                what,
                libc::SYS_mmap,
                &[vma.start, len, vma.protection as u64, flags as u64, fd, *offset],
            )
        }
        VmaKind::Vdso | VmaKind::Vvar => Ok(()),
    }
}

fn finish(batch: &mut Batch<'_>, vma: &Vma) -> Result<()> {
    let len = vma.end - vma.start;
    if matches!(vma.kind, VmaKind::Vdso | VmaKind::Vvar) {
        return Ok(());
    }
    if !vma.shared && vma.protection & libc::PROT_WRITE == 0 {
        let what = format!("to protect {:x}-{:x}", vma.start, vma.end);
        batch.call(what, libc::SYS_mprotect, &[vma.start, len, vma.protection as u64])?;
    }
    for advice in &vma.advice {
        batch.attempt(libc::SYS_madvise, &[vma.start, len, *advice as u64])?;
    }
    if vma.locked {
        batch.attempt(libc::SYS_mlock, &[vma.start, len])?;
    }
    Ok(())
}

/// Makes the shared memory of an image, filled, in this process.
///
/// # Errors
/// If it cannot be made or read.
pub fn shared(
    shared: &crate::image::Shared,
    read: impl Fn(&crate::image::Run) -> Result<Vec<u8>>,
) -> Result<std::os::fd::OwnedFd> {
    use std::os::unix::fs::FileExt as _;
    let name =
        std::ffi::CString::new(shared.name.trim_start_matches('/').replace('/', "-")).unwrap_or_default();
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let fail = |source: io::Error| Error::file(&shared.name, "cannot be made", source);
    // SAFETY: `name` outlives the call.
    let made = i64::from(unsafe { libc::memfd_create(name.as_ptr(), flags) });
    let file = std::fs::File::from(crate::copies::owned(made).map_err(fail)?);
    file.set_len(shared.len.next_multiple_of(PAGE)).map_err(fail)?;
    for run in &shared.pages {
        file.write_all_at(&read(run)?, run.address).map_err(fail)?;
    }
    file.set_len(shared.len).map_err(fail)?;
    Ok(file.into())
}
