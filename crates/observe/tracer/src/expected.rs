//! Calls whose end is not waited for.
//!
//! Half of what following a call costs is the second stop, at its end. Where only one thread is followed, nothing else
//! changes the files until that thread stops again: whether a call succeeded is then read from the files. That needs
//! one stop per call. A call that is not understood so far is waited for.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use event::{SiteId, ThreadId};
use nix::unistd::Pid;

use crate::calls::{Before, Call, Deed};
use crate::filter::TMPFILE;
use crate::look;
use crate::opened::Open;
use crate::run::{Run, TracerError};

/// Longest write whose end is not waited for: comparing a long one costs more than a stop.
const LONGEST: u64 = 256 << 10;
/// Bytes that are compared at once.
const PIECE: usize = 64 << 10;

/// What a call does if it succeeds, and how that shows.
#[derive(Debug)]
pub struct Expected {
    thread: ThreadId,
    site: SiteId,
    deed: Deed,
    proof: Proof,
}

#[derive(Debug)]
enum Proof {
    /// The file has the bytes of the write; its length was this.
    Bytes(Rc<File>, u64),
    /// Something is at the path.
    Present(String),
    /// Nothing is at the path any more.
    Absent(String),
    /// The file at the path has this length.
    Length(String, u64),
}

/// What is known of a call before it runs.
enum Outlook {
    /// Its end has to be waited for.
    Unclear,
    /// It changes no file, whatever it returns.
    Nothing,
    /// This, if it succeeds.
    Shows(Deed, Proof),
}

impl Run<'_> {
    /// Whether the end of a call need not be waited for.
    pub fn expects(
        &mut self,
        pid: Pid,
        call: &Call,
        before: &Before,
        open: Option<&Open>,
    ) -> Result<bool, TracerError> {
        if !self.expecting || self.tracees.len() != 1 || before.says.is_some() {
            return Ok(false);
        }
        let Some(thread) = self.tracees.get(&pid.as_raw()).map(|tracee| tracee.thread) else {
            return Ok(false);
        };
        let outlook = match open {
            Some(open) => self.write(pid, call, open),
            None => named(call, before),
        };
        match outlook {
            Outlook::Unclear => return Ok(false),
            Outlook::Nothing => {}
            Outlook::Shows(deed, proof) => {
                let site = self.site(pid, call.name())?;
                self.expected = Some(Expected { thread, site, deed, proof });
            }
        }
        Ok(true)
    }

    fn write(&self, pid: Pid, call: &Call, open: &Open) -> Outlook {
        let Open { name, position, flags, len, file } = open;
        let special = libc::O_DIRECT | libc::O_SYNC | libc::O_DSYNC;
        if flags & libc::O_ACCMODE == libc::O_RDONLY {
            return Outlook::Nothing;
        }
        let Some(file) = file.as_ref().filter(|_| flags & special == 0 && !self.mapped.has(name)) else {
            return Outlook::Unclear;
        };
        let [_, buffer, count, given, ..] = call.arguments;
        let (offset, bytes) = match call.number {
            libc::SYS_write | libc::SYS_pwrite64 if (1..=LONGEST).contains(&count) => {
                let bytes = look::memory(pid, buffer, count as usize);
                if bytes.len() as u64 != count {
                    return Outlook::Unclear;
                }
                (if call.number == libc::SYS_write { *position } else { given }, bytes)
            }
            libc::SYS_writev | libc::SYS_pwritev => {
                let Some(bytes) = look::vector(pid, buffer, count, LONGEST).filter(|it| !it.is_empty())
                else {
                    return Outlook::Unclear;
                };
                (if call.number == libc::SYS_writev { *position } else { given }, bytes)
            }
            _ => return Outlook::Unclear,
        };
        // Linux appends whatever the offset is.
        let offset = if flags & libc::O_APPEND != 0 { *len } else { offset };
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
            return Outlook::Unclear;
        }
        Outlook::Shows(Deed::Write(name.clone(), offset, bytes), Proof::Bytes(Rc::clone(file), *len))
    }

    /// The thread stands again: what its last call did.
    pub fn confirm(&mut self) -> Result<(), TracerError> {
        let Some(Expected { thread, site, mut deed, proof }) = self.expected.take() else { return Ok(()) };
        let happened = match &proof {
            Proof::Present(path) => look::is_there(path),
            Proof::Absent(path) => !look::is_there(path),
            Proof::Length(path, len) => look::length(path) == Some(*len),
            Proof::Bytes(file, len) => match &mut deed {
                Deed::Write(path, offset, bytes) => {
                    let written = written(file, *len, *offset, bytes);
                    if written < bytes.len() {
                        self.expecting = false;
                        self.notes.insert(format!(
                            "{written} B of a write of {} B to {path} stood in the file afterwards: no more were \
                             written, or another program changed it",
                            bytes.len()
                        ));
                        bytes.truncate(written);
                    }
                    written > 0
                }
                _ => false,
            },
        };
        match happened {
            true => self.deed(thread, site, deed),
            false => Ok(()),
        }
    }
}

/// How many bytes of a write are in the file, whose length was `before`.
fn written(file: &File, before: u64, offset: u64, bytes: &[u8]) -> usize {
    let end = offset + bytes.len() as u64;
    if end > before && file.metadata().is_ok_and(|about| about.len() >= end) {
        return bytes.len();
    }
    let mut now = vec![0; PIECE.min(bytes.len())];
    let mut same = 0;
    for wanted in bytes.chunks(PIECE) {
        let now = &mut now[..wanted.len()];
        let read = file.read_at(now, offset + same as u64).unwrap_or(0);
        let alike = wanted.iter().zip(&now[..read]).take_while(|(one, other)| one == other).count();
        same += alike;
        if alike < wanted.len() {
            break;
        }
    }
    same
}

/// Of a call that names paths.
fn named(call: &Call, before: &Before) -> Outlook {
    let [_, second, third, _, fifth, _] = call.arguments;
    let plain = |path: &&String| path.starts_with('/') && !look::is_foreign(path);
    let Some(first) = before.paths.first().filter(plain) else { return Outlook::Unclear };
    let other = before.paths.get(1).filter(plain);
    let removed = |deed, path: &String| match look::is_there(path) {
        true => Outlook::Shows(deed, Proof::Absent(path.clone())),
        false => Outlook::Nothing,
    };
    let made = |deed, path: &String| match look::is_there(path) {
        true => Outlook::Nothing,
        false => Outlook::Shows(deed, Proof::Present(path.clone())),
    };
    let shortened =
        |len| Outlook::Shows(Deed::Truncate(first.clone(), len), Proof::Length(first.clone(), len));
    match call.number {
        libc::SYS_open | libc::SYS_openat | libc::SYS_creat => {
            let flags = match call.number {
                libc::SYS_open => second as i32,
                libc::SYS_openat => third as i32,
                _ => libc::O_CREAT | libc::O_TRUNC,
            };
            if flags & (TMPFILE | libc::O_PATH) != 0 {
                return Outlook::Unclear;
            }
            match before.len {
                // A link that leads nowhere: its target is made.
                None if look::is_there(first) => Outlook::Unclear,
                None if flags & libc::O_CREAT != 0 => made(Deed::Create(first.clone(), false), first),
                Some(old) if old > 0 && flags & libc::O_TRUNC != 0 => shortened(0),
                _ => Outlook::Nothing,
            }
        }
        libc::SYS_truncate | libc::SYS_ftruncate if before.len.is_some() => shortened(second),
        libc::SYS_unlink | libc::SYS_unlinkat | libc::SYS_rmdir => {
            removed(Deed::Unlink(first.clone()), first)
        }
        libc::SYS_mkdir | libc::SYS_mkdirat => made(Deed::Create(first.clone(), true), first),
        libc::SYS_rename | libc::SYS_renameat | libc::SYS_renameat2 => match other {
            Some(to) if call.number != libc::SYS_renameat2 || fifth == 0 => {
                removed(Deed::Rename(first.clone(), to.clone()), first)
            }
            _ => Outlook::Unclear,
        },
        libc::SYS_link | libc::SYS_linkat => match other {
            Some(to) => made(Deed::Link(first.clone(), to.clone()), to),
            None => Outlook::Unclear,
        },
        _ => Outlook::Unclear,
    }
}
