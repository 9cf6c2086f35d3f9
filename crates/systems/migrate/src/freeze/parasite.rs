//! Pages that a stopped process writes to a file itself: without a copy in between.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use crate::copies::Copies;
use crate::error::{Error, Result};
use crate::proc::Range;
use crate::remote::{self, Batch, Stopped};

/// How pages get out of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// We read them, and write them.
    #[default]
    Read,
    /// The process writes them, up to 1024 ranges and 2 GiB by a call.
    Writev,
    /// The process maps them into a pipe, and we move them on to the file, 2 MiB at a time, as CRIU does: the
    /// baseline.
    Splice,
}

/// What one call of the kernel writes at most.
const BY_CALL: u64 = fam::batch::BY_CALL as u64;
/// Ranges that one call takes.
const RANGES: usize = 1024;

/// A stopped process that writes its own pages.
pub struct Parasite<'a> {
    thread: &'a Stopped,
    /// In the process.
    fds: Vec<u64>,
    /// Ours: where its pages come out, and how many bytes go through at a time.
    pipe: Option<(OwnedFd, u64)>,
}

impl<'a> Parasite<'a> {
    /// Has it open the file, or make a pipe.
    ///
    /// # Errors
    /// If it may not, or has no file descriptor left.
    pub fn start(thread: &'a Stopped, path: &Path, by: By) -> Result<Self> {
        let mut parasite = Self { thread, fds: Vec::new(), pipe: None };
        if by == By::Writev {
            let path = std::path::absolute(path)
                .map_err(|error| Error::file(path, "has no absolute name", error))?;
            let mut batch = Batch::new(thread);
            let name = batch.text(&path.display().to_string())?;
            let flags = (libc::O_WRONLY | libc::O_CLOEXEC) as u64;
            batch.call("to open the file of pages", libc::SYS_open, &[name, flags])?;
            parasite.fds.extend(batch.run()?.first().map(|fd| *fd as u64));
            return Ok(parasite);
        }
        let mut batch = Batch::new(thread);
        let ends = batch.words(&[0])?;
        batch.call("to make a pipe", libc::SYS_pipe2, &[ends, libc::O_CLOEXEC as u64])?;
        batch.run()?;
        let mut bytes = [0; 8];
        remote::read_exact(thread.tid, ends, &mut bytes)?;
        let both = u64::from_ne_bytes(bytes);
        let (from, to) = (both & 0xffff_ffff, both >> 32);
        parasite.fds = vec![to, from];
        let fail = |source| Error::Call { pid: thread.tid, what: "to get a pipe".to_owned(), source };
        let ours = Copies::new(thread.tid).and_then(|copies| copies.get(from as i32)).map_err(fail)?;
        let room = fam::batch::widen(ours.as_raw_fd()) as u64;
        parasite.pipe = Some((ours, room));
        Ok(parasite)
    }

    /// Writes ranges of its memory to `file`, from `offset` on. Whether it could write all of them.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn write(&self, file: &File, offset: u64, ranges: &[Range]) -> Result<bool> {
        match &self.pipe {
            Some((from, room)) => self.splice(file, (from, *room), offset, ranges),
            None => self.writev(offset, ranges),
        }
    }

    fn writev(&self, mut offset: u64, ranges: &[Range]) -> Result<bool> {
        let mut batch = Batch::new(self.thread);
        let mut wanted = Vec::new();
        let mut send = |batch: &mut Batch<'_>, vectors: &mut Vec<u64>, bytes: &mut u64| -> Result<()> {
            if *bytes > 0 {
                let at = batch.words(vectors)?;
                let arguments = [self.fds[0], at, vectors.len() as u64 / 2, offset, 0];
                batch.attempt(libc::SYS_pwritev, &arguments)?;
                wanted.push(*bytes as i64);
                offset += *bytes;
                (*bytes, *vectors) = (0, Vec::new());
            }
            Ok(())
        };
        let (mut vectors, mut bytes) = (Vec::new(), 0);
        for (start, end) in ranges {
            let mut at = *start;
            while at < *end {
                if vectors.len() == 2 * RANGES || bytes == BY_CALL {
                    send(&mut batch, &mut vectors, &mut bytes)?;
                }
                let now = (*end - at).min(BY_CALL - bytes);
                vectors.extend([at, now]);
                (at, bytes) = (at + now, bytes + now);
            }
        }
        send(&mut batch, &mut vectors, &mut bytes)?;
        Ok(batch.run()? == wanted)
    }

    fn splice(
        &self,
        file: &File,
        (from, room): (&OwnedFd, u64),
        offset: u64,
        ranges: &[Range],
    ) -> Result<bool> {
        let mut offset = offset as i64;
        for (start, end) in ranges {
            let mut at = *start;
            while at < *end {
                let mut batch = Batch::new(self.thread);
                let vector = batch.words(&[at, (*end - at).min(room)])?;
                batch.attempt(libc::SYS_vmsplice, &[self.fds[0], vector, 1, 0])?;
                let Some(mut left) = batch.run()?.first().and_then(|moved| usize::try_from(*moved).ok())
                else {
                    return Ok(false);
                };
                at += left as u64;
                while left > 0 {
                    // SAFETY: descriptors of ours; `offset` outlives the call.
                    let moved = unsafe {
                        libc::splice(
                            from.as_raw_fd(),
                            std::ptr::null_mut(),
                            file.as_raw_fd(),
                            &raw mut offset,
                            left,
                            libc::SPLICE_F_MOVE,
                        )
                    };
                    match usize::try_from(moved) {
                        Ok(moved) if moved > 0 => left -= moved,
                        _ => {
                            return Err(Error::file(
                                "pages",
                                "cannot be written",
                                io::Error::last_os_error(),
                            ));
                        }
                    }
                }
            }
        }
        Ok(true)
    }

    /// Has it close what it opened.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn end(self) -> Result<()> {
        let mut batch = Batch::new(self.thread);
        for fd in &self.fds {
            batch.call("to close a file", libc::SYS_close, &[*fd])?;
        }
        batch.run().map(drop)
    }
}
