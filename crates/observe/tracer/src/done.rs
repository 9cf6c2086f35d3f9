//! A call has returned: what it did, as events.

use event::{Note, Op, SiteId, ThreadId};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;

use crate::aio::{self, Asked, PGETEVENTS, Request};
use crate::calls::{Call, Deed, Says, Synced, operation, said, unaligned};
use crate::emit::Done;
use crate::look;
use crate::run::{Pending, Run, TracerError};

/// Bytes of one range that is synced, at most.
const RANGE: u64 = 1 << 30;
/// Calls that are not followed, and their files, that are named.
const MISSED: usize = 1000;
/// Bytes of a copied file that are read at once.
const PIECE: usize = 16 << 20;
/// What has no call.
const STORE: &str = "store to a shared mapping";

impl Run<'_> {
    /// The site of the call at which a thread stands.
    pub fn site(&mut self, pid: Pid, call: &'static str) -> Result<SiteId, TracerError> {
        let process = self.tracees.get(&pid.as_raw()).map_or(pid.as_raw(), |tracee| tracee.process);
        let known = self.registers.filter(|(owner, _)| *owner == pid).map(|(_, registers)| registers);
        let places = known
            .or_else(|| ptrace::getregs(pid).ok())
            .map_or_else(Vec::new, |registers| self.stacks.of(pid, process, &registers));
        Ok(self.emitter.site(call, places, &mut self.stacks, &self.program)?)
    }

    /// A call has returned.
    pub fn returned(&mut self, pid: Pid) -> Result<(), TracerError> {
        let Some(tracee) = self.tracees.get_mut(&pid.as_raw()) else { return Ok(()) };
        let thread = tracee.thread;
        let Some(Pending { call, before, sync, requests }) = tracee.call.take() else { return Ok(()) };
        let result = match ptrace::getregs(pid) {
            Ok(registers) => {
                self.registers = Some((pid, registers));
                registers.rax as i64
            }
            Err(_) => -1,
        };
        if call.renames() {
            self.descriptors.renamed();
        }
        match call.number {
            libc::SYS_io_submit => return self.submitted(pid, &call, requests, result),
            libc::SYS_io_getevents | PGETEVENTS => return self.fetched(pid, &call, result),
            libc::SYS_io_destroy => return self.destroyed(pid, call.arguments[0]),
            _ => {}
        }
        if let Some((ticket, synced)) = sync {
            return self.sync_returned(pid, &call, ticket, &synced, result);
        }
        if result < 0 {
            let misused = result == -i64::from(libc::EINVAL) && call.alone();
            if let Some(deed) = misused.then(|| unaligned(&call, pid)).flatten() {
                let site = self.site(pid, call.name())?;
                self.deed(thread, site, deed)?;
            }
            return Ok(());
        }
        let deeds = call.after(pid, &before, result as u64, &mut self.descriptors).unwrap_or_default();
        if deeds.is_empty() && before.says.is_none() {
            return Ok(());
        }
        let site = self.site(pid, call.name())?;
        let direct = deeds.iter().any(|deed| matches!(deed, Deed::Noted(_, Note::Direct { .. })));
        let unaligned = direct.then(|| unaligned(&call, pid)).flatten();
        for deed in unaligned.into_iter().chain(deeds) {
            self.deed(thread, site, deed)?;
        }
        if let Some(says) = before.says {
            let bytes = said(&call, pid, result as u64);
            let name = match says {
                Says::Printed => event::printed_name(&bytes),
                Says::Acked => event::acked_name(&bytes),
            };
            self.emitter.said(thread, site, &name)?;
        }
        Ok(())
    }

    fn sync_returned(
        &mut self,
        pid: Pid,
        call: &Call,
        ticket: u64,
        synced: &[Synced],
        result: i64,
    ) -> Result<(), TracerError> {
        let Some(thread) = self.tracees.get(&pid.as_raw()).map(|tracee| tracee.thread) else { return Ok(()) };
        if result < 0 {
            self.emitter.resolve(ticket, None)?;
            // An interrupted one is begun again; the others say that there is nothing to sync.
            let error = Errno::from_raw(-result as i32);
            return match result < -500 || matches!(error, Errno::EINTR | Errno::EBADF | Errno::EINVAL) {
                true => Ok(()),
                false => self.sync_failed(pid, call, synced, error),
            };
        }
        let site = self.site(pid, call.name())?;
        let ops = self.synced(synced)?;
        self.emitter
            .resolve(ticket, Some(Done { thread, site, ops, values: Vec::new(), releases: false }))?;
        let done = Done { thread, site, ops: Vec::new(), values: Vec::new(), releases: true };
        Ok(self.emitter.done(done)?)
    }

    /// The operations of a sync.
    fn synced(&mut self, synced: &[Synced]) -> Result<Vec<Op>, TracerError> {
        let mut ops = Vec::new();
        for synced in synced {
            match synced {
                Synced::All => ops.push(Op::FilesSync { file: self.emitter.name("/")? }),
                Synced::Whole { path, data_only } => {
                    ops.push(Op::FileSync { file: self.emitter.name(path)?, data_only: *data_only });
                }
                Synced::Range { path, from, len } => {
                    let file = self.emitter.name(path)?;
                    for piece in (0..*len).step_by(RANGE as usize) {
                        let len = (len - piece).min(RANGE) as u32;
                        ops.push(Op::FileRangeSync { file, offset: from + piece, len, data_only: true });
                    }
                }
            }
        }
        Ok(ops)
    }

    fn submitted(
        &mut self,
        pid: Pid,
        call: &Call,
        mut requests: Vec<(u64, Option<Request>)>,
        result: i64,
    ) -> Result<(), TracerError> {
        let accepted = usize::try_from(result).unwrap_or(0).min(requests.len());
        for (_, request) in requests.split_off(accepted) {
            if let Some(ticket) = request.and_then(|request| request.ticket) {
                self.emitter.resolve(ticket, None)?;
            }
        }
        let process = self.tracees.get(&pid.as_raw()).map_or(pid.as_raw(), |tracee| tracee.process);
        let site = self.site(pid, call.name())?;
        let of = |(address, request): (u64, Option<Request>)| Some((address, Request { site, ..request? }));
        let requests = requests.into_iter().filter_map(of);
        self.aio.submitted(process, call.arguments[0], requests.collect());
        Ok(())
    }

    /// Ends of asynchronous requests were fetched.
    fn fetched(&mut self, pid: Pid, call: &Call, result: i64) -> Result<(), TracerError> {
        let Some(tracee) = self.tracees.get(&pid.as_raw()) else { return Ok(()) };
        let (thread, process) = (tracee.thread, tracee.process);
        let count = u64::try_from(result).unwrap_or(0);
        for (address, result) in aio::events(pid, call.arguments[3], count) {
            let Some(request) = self.aio.fetched(process, call.arguments[0], address) else { continue };
            self.completed(thread, request, result)?;
        }
        Ok(())
    }

    /// A request is over, with a result like a call's.
    fn completed(&mut self, thread: ThreadId, request: Request, result: i64) -> Result<(), TracerError> {
        let Request { path, asked, direct, site, ticket } = request;
        match asked {
            Asked::Sync(data_only) => {
                let op = Op::FileSync { file: self.emitter.name(&path)?, data_only };
                let done = Done { thread, site, ops: vec![op], values: Vec::new(), releases: false };
                if let Some(ticket) = ticket {
                    self.emitter.resolve(ticket, (result >= 0).then_some(done))?;
                }
                let mut ops = Vec::new();
                if result < 0 {
                    let error = format!("{:?}", Errno::from_raw(-result as i32));
                    ops.push(Op::Phase {
                        name: self.emitter.name(&Note::SyncFailed { path, error }.name())?,
                    });
                }
                Ok(self.emitter.done(Done { thread, site, ops, values: Vec::new(), releases: true })?)
            }
            Asked::Write(..) if result < 0 => Ok(()),
            Asked::Write(offset, mut bytes) => {
                bytes.truncate(result as usize);
                if direct {
                    self.deed(thread, site, Deed::Noted(path.clone(), Note::Direct { path: path.clone() }))?;
                }
                self.deed(thread, site, Deed::Write(path, offset, bytes))
            }
        }
    }

    /// A context is gone, once all of its requests were carried out.
    fn destroyed(&mut self, pid: Pid, context: u64) -> Result<(), TracerError> {
        let Some(tracee) = self.tracees.get(&pid.as_raw()) else { return Ok(()) };
        let (thread, process) = (tracee.thread, tracee.process);
        for request in self.aio.left(process, Some(context)) {
            self.nobody_asked(thread, request)?;
        }
        Ok(())
    }

    /// A process is gone, or executes another program: nobody fetches what it submitted.
    pub fn left_open(&mut self, process: i32) -> Result<(), TracerError> {
        for request in self.aio.left(process, None) {
            self.nobody_asked(ThreadId(0), request)?;
        }
        Ok(())
    }

    /// Nobody asked whether the request succeeded: its bytes may be there, and a sync made nothing sure.
    fn nobody_asked(&mut self, thread: ThreadId, request: Request) -> Result<(), TracerError> {
        match (&request.asked, request.ticket) {
            (Asked::Sync(_), Some(ticket)) => Ok(self.emitter.resolve(ticket, None)?),
            (Asked::Sync(_), None) => Ok(()),
            (Asked::Write(_, bytes), _) => {
                let len = bytes.len() as i64;
                self.completed(thread, request, len)
            }
        }
    }

    /// Notes that a call on a file is not followed.
    fn miss(&mut self, site: SiteId, call: &str, path: String) {
        let frames = self.emitter.frames(site);
        if self.missed.len() >= MISSED {
            self.notes.insert(format!("more than {MISSED} files saw calls that are not followed"));
            return;
        }
        self.missed.entry((call.to_owned(), path)).or_insert(frames);
    }

    pub fn deed(&mut self, thread: ThreadId, site: SiteId, deed: Deed) -> Result<(), TracerError> {
        if let Deed::Unlink(path) | Deed::Rename(_, path) = &deed {
            self.descriptors.removed(path);
        }
        if let Deed::Create(path, false) = &deed
            && path.starts_with(look::UNNAMED)
        {
            self.unnamed.insert(path.clone());
        }
        let paths = deed.paths();
        if !paths.iter().any(|path| self.followed(path)) {
            return Ok(());
        }
        if let Some(path) = paths.iter().find(|path| look::is_foreign(path)).map(|path| (*path).to_owned()) {
            self.miss(site, "call on a name that is not UTF-8", path);
            return Ok(());
        }
        // A file that comes from elsewhere is new here, with all that it holds.
        if let Deed::Rename(from, to) = &deed
            && !self.followed(from)
        {
            return self.arrived(thread, site, to.clone());
        }
        if let Deed::Rename(from, to) = &deed
            && !self.followed(to)
        {
            return self.left(thread, site, from, to);
        }
        if let Deed::Link(from, to) = &deed
            && !self.followed(from)
        {
            self.miss(site, "link to a file outside of what --files names", to.clone());
        }
        if let Deed::Exchange(from, to) = &deed
            && !(self.followed(from) && self.followed(to))
        {
            self.miss(site, "renameat2 with a name outside of what --files names", to.clone());
        }
        if let Deed::Copy(path, offset, len) = deed {
            return self.copied(thread, site, &path, offset, len);
        }
        let op = operation(&deed, |path| self.emitter.name(path))?;
        let mut values = Vec::new();
        match deed {
            Deed::Map(path) => self.map(&path),
            Deed::Missed(call, path) => self.miss(site, call, path),
            Deed::Write(path, offset, bytes) => {
                self.mapped.written(&path, offset, &bytes);
                values = bytes;
            }
            Deed::Truncate(path, len) => self.mapped.truncated(&path, len),
            Deed::Rename(from, to) => self.mapped.renamed(&from, Some(&to)),
            Deed::Unlink(path) => self.mapped.renamed(&path, None),
            _ => {}
        }
        let Some(op) = op else { return Ok(()) };
        Ok(self.emitter.done(Done { thread, site, ops: vec![op], values, releases: true })?)
    }

    /// The thread that stands mapped a file.
    fn map(&mut self, path: &str) {
        let first = self.mapped.map(path);
        let Some((pid, registers)) = self.registers.filter(|_| first) else { return };
        let process = self.tracees.get(&pid.as_raw()).map_or(pid.as_raw(), |tracee| tracee.process);
        if self.mapped.pages.watch(pid, process, path, &registers) {
            self.watched += 1;
        }
    }

    /// Bytes that are in a file came there.
    fn copied(
        &mut self,
        thread: ThreadId,
        site: SiteId,
        path: &str,
        offset: u64,
        len: u64,
    ) -> Result<(), TracerError> {
        for from in (0..len).step_by(PIECE) {
            let piece = (len - from).min(PIECE as u64) as usize;
            let bytes = look::contents(path, offset + from, piece);
            if !bytes.is_empty() {
                self.deed(thread, site, Deed::Write(path.to_owned(), offset + from, bytes))?;
            }
        }
        Ok(())
    }

    /// A file or folder came from elsewhere: it is new here, with all that it holds.
    fn arrived(&mut self, thread: ThreadId, site: SiteId, path: String) -> Result<(), TracerError> {
        let Ok(about) = std::fs::symlink_metadata(&path) else { return Ok(()) };
        if about.is_symlink() {
            let target =
                std::fs::read_link(&path).ok().and_then(|target| target.into_os_string().into_string().ok());
            return match target {
                Some(target) => self.deed(thread, site, Deed::Symlink(path, target)),
                None => Ok(()),
            };
        }
        self.deed(thread, site, Deed::Create(path.clone(), about.is_dir()))?;
        if !about.is_dir() {
            return self.deed(thread, site, Deed::Copy(path, 0, about.len()));
        }
        for below in look::entries(&path) {
            self.arrived(thread, site, below)?;
        }
        Ok(())
    }

    /// A file or folder, which is elsewhere now, left.
    fn left(&mut self, thread: ThreadId, site: SiteId, from: &str, to: &str) -> Result<(), TracerError> {
        if !std::fs::symlink_metadata(to).is_ok_and(|about| about.is_dir()) {
            return self.deed(thread, site, Deed::Unlink(from.to_owned()));
        }
        for below in look::entries(to) {
            self.left(thread, site, &format!("{from}{}", &below[to.len()..]), &below)?;
        }
        self.deed(thread, site, Deed::Unlink(from.to_owned()))
    }

    /// Records what was stored to shared mappings since the scan before.
    pub fn scan(&mut self, thread: ThreadId) -> Result<(), TracerError> {
        for (path, offset, values) in self.mapped.scan() {
            let site = self.emitter.site(STORE, Vec::new(), &mut self.stacks, &self.program)?;
            let op = Op::FileWrite { file: self.emitter.name(&path)?, offset, len: values.len() as u32 };
            self.emitter.done(Done { thread, site, ops: vec![op], values, releases: true })?;
        }
        Ok(())
    }
}
