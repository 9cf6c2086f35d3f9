//! Calls whose end is not waited for.
//!
//! Half of what following a call costs is the second stop, at its end. Where only one thread is followed,
//! nothing else changes the files until that thread stops again: whether a call succeeded is then read from
//! the files. That needs one stop per call. A call that is not understood so far is waited for.

use std::rc::Rc;

use nix::unistd::Pid;

use crate::calls::{Before, Call, Deed};
use crate::look;
use crate::opened::Open;
use crate::proof::{Expected, Outlook, Proof, named, written};
use crate::run::{Run, TracerError};

/// Longest write whose end is not waited for: comparing a long one costs more than a stop.
const LONGEST: u64 = 256 << 10;
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
