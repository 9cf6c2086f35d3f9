//! A thread stands in front of a call: what it asks for, and whether its end is of interest.

use event::{Note, Op};
use libc::user_regs_struct;
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;

use crate::aio::{self, PGETEVENTS};
use crate::calls::{Before, Call, Says, Synced};
use crate::emit::Done;
use crate::look;
use crate::opened::Open;
use crate::run::{Pending, Run, TracerError, ignore_gone};

impl Run<'_> {
    /// A call is about to be carried out; whether its end is of interest.
    pub fn begun(&mut self, pid: Pid) -> Result<bool, TracerError> {
        let registers = match ptrace::getregs(pid) {
            Err(Errno::ESRCH) => return Ok(false),
            registers => registers?,
        };
        self.registers = Some((pid, registers));
        let arguments =
            [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
        let call = Call { number: registers.orig_rax as i64, arguments };
        if call.refused() {
            self.refused.insert(call.name());
            return self.answer(pid, registers, Errno::ENOSYS).map(|()| false);
        }
        let Some(tracee) = self.tracees.get(&pid.as_raw()) else { return Ok(false) };
        let (thread, process) = (tracee.thread, tracee.process);
        if call.renames() {
            self.descriptors.renamed();
        }
        match call.number {
            libc::SYS_ptrace => {
                let program = look::program(pid);
                self.notes.insert(format!(
                    "{program} asked to trace a program (ptrace), which can't be done to one that is followed already"
                ));
                return Ok(false);
            }
            libc::SYS_io_submit => return self.submits(pid, call),
            libc::SYS_io_getevents | PGETEVENTS | libc::SYS_io_destroy => {
                self.pend(pid, call, Before::default(), None);
                return Ok(true);
            }
            _ => {}
        }
        if let Some(mut sync) = call.sync(pid) {
            sync.retain(|synced| match synced {
                Synced::All => true,
                Synced::Whole { path, .. } | Synced::Range { path, .. } => self.followed(path),
            });
            if sync.is_empty() {
                return Ok(false);
            }
            self.scan(thread)?;
            self.syncs += 1;
            if self.options.fail_sync == Some(self.syncs) {
                self.answer(pid, registers, Errno::EIO)?;
                self.sync_failed(pid, &call, &sync, Errno::EIO)?;
                return Ok(false);
            }
            // The sync stands here, and what its thread does next behind its end.
            let ticket = self.emitter.reserve();
            self.pend(pid, call, Before::default(), Some((ticket, sync)));
            return Ok(true);
        }
        let open = call.written_to().map(|fd| self.descriptors.of(pid, fd, self.tracees.len() == 1));
        let Some(open) = open.map_or(Some(None), |found| found.map(Some)) else { return Ok(false) };
        let says = open.as_ref().and_then(|open| self.hearing.hears(process, &call, &open.name));
        let open = open.filter(|open| look::is_file_name(&open.name) && self.followed(&open.name));
        if says.is_some() && open.is_none() {
            self.scan(thread)?;
            self.pend(pid, call, Before { says, ..Before::default() }, None);
            return Ok(true);
        }
        if matches!(call.number, libc::SYS_sendto | libc::SYS_sendmsg) {
            return Ok(false);
        }
        self.changes(pid, call, says, open)
    }

    /// A call that changes a file, if it is one that is followed.
    fn changes(
        &mut self,
        pid: Pid,
        call: Call,
        says: Option<Says>,
        open: Option<Open>,
    ) -> Result<bool, TracerError> {
        let Some(tracee) = self.tracees.get(&pid.as_raw()) else { return Ok(false) };
        let thread = tracee.thread;
        let before = Before { says, ..call.before(pid) };
        if !before.paths.is_empty() && !before.paths.iter().any(|path| self.followed(path)) {
            return Ok(false);
        }
        let by_descriptor = || open.is_some() || self.descriptor_followed(pid, &call).is_some();
        if before.paths.is_empty() && !by_descriptor() {
            return Ok(false);
        }
        if before.paths.iter().any(|path| look::is_special(path)) {
            return Ok(false);
        }
        if matches!(call.name(), "rename" | "unlink" | "truncate" | "link" | "madvise") {
            self.scan(thread)?;
        }
        if self.expects(pid, &call, &before, open.as_ref())? {
            return Ok(false);
        }
        if call.alone() {
            self.busy = Some(pid.as_raw());
        }
        self.pend(pid, call, before, None);
        Ok(true)
    }

    /// Answers a call with an error in place of carrying it out.
    fn answer(&self, pid: Pid, registers: user_regs_struct, error: Errno) -> Result<(), TracerError> {
        let mut skip = registers;
        (skip.orig_rax, skip.rax) = (u64::MAX, -i64::from(error as i32) as u64);
        ignore_gone(ptrace::setregs(pid, skip))
    }

    /// A sync that failed.
    pub fn sync_failed(
        &mut self,
        pid: Pid,
        call: &Call,
        synced: &[Synced],
        error: Errno,
    ) -> Result<(), TracerError> {
        let Some(tracee) = self.tracees.get(&pid.as_raw()) else { return Ok(()) };
        let thread = tracee.thread;
        let site = self.site(pid, call.name())?;
        let mut ops = Vec::new();
        for synced in synced {
            let (Synced::Whole { path, .. } | Synced::Range { path, .. }) = synced else { continue };
            let note = Note::SyncFailed { path: path.clone(), error: format!("{error:?}") };
            ops.push(Op::Phase { name: self.emitter.name(&note.name())? });
        }
        Ok(self.emitter.done(Done { thread, site, ops, values: Vec::new(), releases: true })?)
    }

    /// Requests of asynchronous I/O on followed files.
    fn submits(&mut self, pid: Pid, call: Call) -> Result<bool, TracerError> {
        let mut requests = aio::requests(pid, call.arguments[1], call.arguments[2]);
        for (_, request) in &mut requests {
            if request.as_ref().is_some_and(|request| !self.followed(&request.path)) {
                *request = None;
            }
        }
        if requests.iter().all(|(_, request)| request.is_none()) {
            return Ok(false);
        }
        if let Some(thread) = self.tracees.get(&pid.as_raw()).map(|tracee| tracee.thread) {
            self.scan(thread)?;
        }
        for (_, request) in &mut requests {
            if let Some(request) = request
                && matches!(request.asked, aio::Asked::Sync(_))
            {
                request.ticket = Some(self.emitter.reserve());
            }
        }
        if let Some(tracee) = self.tracees.get_mut(&pid.as_raw()) {
            tracee.call = Some(Pending { call, before: Before::default(), sync: None, requests });
        }
        Ok(true)
    }

    fn pend(&mut self, pid: Pid, call: Call, before: Before, sync: Option<(u64, Vec<Synced>)>) {
        if let Some(tracee) = self.tracees.get_mut(&pid.as_raw()) {
            tracee.call = Some(Pending { call, before, sync, requests: Vec::new() });
        }
    }

    /// Whether a path is one that the recording is of.
    pub fn followed(&self, path: &str) -> bool {
        match path.starts_with('/') {
            true => look::matches(&self.options.files, path),
            false => self.unnamed.contains(path),
        }
    }

    /// The path of the descriptor that a call is on, if it is followed.
    fn descriptor_followed(&self, pid: Pid, call: &Call) -> Option<String> {
        let fd = match call.number {
            libc::SYS_copy_file_range | libc::SYS_splice => call.arguments[2],
            libc::SYS_mmap => call.arguments[4],
            _ => call.arguments[0],
        };
        look::descriptor(pid, fd as i32).filter(|path| self.followed(path))
    }
}
