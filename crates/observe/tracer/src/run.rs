//! A run under the tracer: threads, processes, stops.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use event::{Capabilities, InstructionCounts, Op, Sink, SinkError, SiteId, Source, ThreadId};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options as Trace};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::calls::{Before, Call, Deed, Synced, operation, printed};
use crate::emit::{Done, Emitter};
use crate::filter;
use crate::look;
use crate::mapped::Mapped;

/// What is run, and which files are followed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Absolute paths of files or folders, or globs.
    pub files: Vec<String>,
    /// Send what the program prints to standard error.
    pub stdout_to_stderr: bool,
    /// The first process's number, once it runs, for whoever passes signals on.
    pub started: Arc<AtomicI32>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How the program ended.
    pub status: ExitStatus,
    /// Events delivered.
    pub events: u64,
    /// Threads with their processes, in the order of their numbers.
    pub threads: Vec<(ThreadId, u32)>,
    /// How many other processes a signal has ended.
    pub killed: u32,
    /// Calls that were answered with `ENOSYS`, by name.
    pub refused: BTreeSet<&'static str>,
    /// Calls on files that are not followed: what, and the file.
    pub missed: BTreeSet<(String, String)>,
}

/// Why a program could not be traced.
#[derive(Debug, thiserror::Error)]
pub enum TracerError {
    /// It could not be started.
    #[error("can't run {program} under ptrace: {source}; a container may forbid ptrace")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A 32-bit program.
    #[error("{program} is a 32-bit program; strandline follows 64-bit ones")]
    Bits {
        /// The executed file.
        program: String,
    },
    /// The kernel refused a request.
    #[error("ptrace failed: {0}")]
    Ptrace(#[from] Errno),
    /// The consumer of the events failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// Bytes of one range that is synced, at most.
const RANGE: u64 = 1 << 30;

/// A thread that is traced.
struct Tracee {
    thread: ThreadId,
    process: i32,
    /// The call that it is in.
    call: Option<Pending>,
    /// Whether its first stop, which is no signal of the program's, is still to come.
    fresh: bool,
}

/// A call that has begun.
struct Pending {
    call: Call,
    before: Before,
    /// Of a sync: its place in the order, and what it covers.
    sync: Option<(u64, Vec<Synced>)>,
}

struct Run<'s> {
    options: &'s Options,
    emitter: Emitter<'s>,
    tracees: BTreeMap<i32, Tracee>,
    threads: Vec<(ThreadId, u32)>,
    mapped: Mapped,
    program: String,
    first: Pid,
    status: Option<ExitStatus>,
    killed: u32,
    /// Who is in a call that changes files; the others wait in front of theirs.
    busy: Option<i32>,
    waiting: VecDeque<Pid>,
    /// Files without a name that are followed.
    unnamed: BTreeSet<String>,
    /// What the program's standard output is.
    stdout: Option<String>,
    refused: BTreeSet<&'static str>,
    missed: BTreeSet<(String, String)>,
}

/// Runs a program and gives its operations on the files to a sink, until its last process has ended.
///
/// # Errors
/// When the program can't be started or traced, is a 32-bit one, or the sink fails; the program is killed then.
pub fn record(options: &Options, sink: &mut dyn Sink) -> Result<Outcome, TracerError> {
    let words: Vec<String> = options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = words.first().cloned().unwrap_or_default();
    let source = Source {
        producer: format!("strandline tracer {}", env!("CARGO_PKG_VERSION")),
        command: words,
        capabilities: Capabilities::FILES | Capabilities::STORES | Capabilities::SYNC | Capabilities::VALUES,
        instructions: InstructionCounts::Unknown,
        sampling: None,
    };
    sink.begin(&source)?;
    let failed = |source| TracerError::Start { program: program.clone(), source };
    let mut command = Command::new(options.command.first().map_or("".as_ref(), |word| word.as_os_str()));
    command.args(options.command.iter().skip(1));
    if options.stdout_to_stderr {
        command.stdout(Stdio::from(io::stderr()));
    }
    let mut child = filter::spawn(&mut command).map_err(failed)?;
    let first = Pid::from_raw(child.id() as i32);
    let mut run = Run {
        options,
        emitter: Emitter::new(sink),
        tracees: BTreeMap::new(),
        threads: Vec::new(),
        mapped: Mapped::default(),
        program: program.clone(),
        first,
        status: None,
        killed: 0,
        busy: None,
        waiting: VecDeque::new(),
        unnamed: BTreeSet::new(),
        stdout: None,
        refused: BTreeSet::new(),
        missed: BTreeSet::new(),
    };
    let ended = run.start().and_then(|()| run.follow());
    if let Err(error) = ended {
        let _ = child.kill();
        for &pid in run.tracees.keys() {
            let _ = ptrace::kill(Pid::from_raw(pid));
        }
        let _ = child.wait();
        return Err(error);
    }
    let outcome = Outcome {
        status: run.status.unwrap_or_default(),
        events: run.emitter.events,
        threads: run.threads,
        killed: run.killed,
        refused: run.refused,
        missed: run.missed,
    };
    sink.finish()?;
    Ok(outcome)
}

fn ignore_gone(result: Result<(), Errno>) -> Result<(), TracerError> {
    match result {
        // Another thread ended the process meanwhile; its end is reported by a wait.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Run<'_> {
    fn start(&mut self) -> Result<(), TracerError> {
        match waitpid(self.first, Some(WaitPidFlag::__WALL))? {
            WaitStatus::Stopped(..) => {}
            other => {
                let source = io::Error::other(format!("it did not start ({other:?})"));
                return Err(TracerError::Start { program: self.program.clone(), source });
            }
        }
        ptrace::setoptions(
            self.first,
            Trace::PTRACE_O_TRACESECCOMP
                | Trace::PTRACE_O_TRACEFORK
                | Trace::PTRACE_O_TRACEVFORK
                | Trace::PTRACE_O_TRACECLONE
                | Trace::PTRACE_O_TRACEEXEC
                | Trace::PTRACE_O_TRACESYSGOOD
                | Trace::PTRACE_O_EXITKILL,
        )?;
        self.refuse_32_bit(self.first)?;
        self.stdout = look::link(self.first, 1);
        self.options.started.store(self.first.as_raw(), Ordering::Release);
        self.meet(self.first, false)?;
        ignore_gone(ptrace::cont(self.first, None))
    }

    fn follow(&mut self) -> Result<(), TracerError> {
        loop {
            let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
            match waitpid(None, Some(flags)) {
                Ok(status) => self.stop(status)?,
                Err(Errno::EINTR) => {}
                Err(Errno::ECHILD) => return self.end(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn stop(&mut self, status: WaitStatus) -> Result<(), TracerError> {
        match status {
            WaitStatus::Exited(pid, code) => self.gone(pid, ExitStatus::from_raw(code << 8)),
            WaitStatus::Signaled(pid, signal, _) => self.gone(pid, ExitStatus::from_raw(signal as i32)),
            WaitStatus::PtraceEvent(pid, _, event) => self.event(pid, event),
            WaitStatus::PtraceSyscall(pid) => {
                self.returned(pid)?;
                self.free(pid)?;
                ignore_gone(ptrace::cont(pid, None))
            }
            WaitStatus::Stopped(pid, signal) => {
                if !self.tracees.contains_key(&pid.as_raw()) {
                    // A new thread's first stop may come before its maker's report.
                    self.meet(pid, false)?;
                    return ignore_gone(ptrace::cont(pid, None));
                }
                let own = self.tracees.get_mut(&pid.as_raw());
                let first = own.is_some_and(|tracee| std::mem::take(&mut tracee.fresh));
                // A stop of the whole process, by its shell, has no signal to pass on.
                let group = ptrace::getsiginfo(pid) == Err(Errno::EINVAL);
                let pass = (!group && !first && signal != Signal::SIGTRAP).then_some(signal);
                ignore_gone(ptrace::cont(pid, pass))
            }
            _ => Ok(()),
        }
    }

    fn event(&mut self, pid: Pid, event: i32) -> Result<(), TracerError> {
        match event {
            libc::PTRACE_EVENT_SECCOMP => {
                if self.busy.is_some() {
                    self.waiting.push_back(pid);
                    return Ok(());
                }
                return self.enter(pid);
            }
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                let new = Pid::from_raw(ptrace::getevent(pid)? as i32);
                if !self.tracees.contains_key(&new.as_raw()) {
                    self.meet(new, true)?;
                }
            }
            libc::PTRACE_EVENT_EXEC => {
                self.refuse_32_bit(pid)?;
                // All other threads are gone; the one that called has the process's number now.
                let process = pid.as_raw();
                let others = self.tracees.iter().filter(|(_, tracee)| tracee.process == process);
                let others: Vec<i32> =
                    others.map(|(&other, _)| other).filter(|&other| other != process).collect();
                others.into_iter().try_for_each(|other| self.forget(Pid::from_raw(other)))?;
                let pending = self.tracees.get_mut(&process).and_then(|tracee| tracee.call.take());
                self.given_up(pid, pending)?;
            }
            _ => {}
        }
        ignore_gone(ptrace::cont(pid, None))
    }

    fn refuse_32_bit(&self, pid: Pid) -> Result<(), TracerError> {
        if !look::is_32_bit(pid) {
            return Ok(());
        }
        let path = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        Err(TracerError::Bits { program: path.display().to_string() })
    }

    /// A thread that was not seen before.
    fn meet(&mut self, pid: Pid, fresh: bool) -> Result<(), TracerError> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        let process = process.and_then(|text| text.trim().parse().ok()).unwrap_or(pid.as_raw());
        let thread = ThreadId(self.threads.len() as u32);
        self.threads.push((thread, process as u32));
        self.tracees.insert(pid.as_raw(), Tracee { thread, process, call: None, fresh });
        let ops = vec![Op::ThreadStart { seq: 0 }];
        let done = Done { thread, site: SiteId::UNKNOWN, ops, values: Vec::new(), releases: false };
        Ok(self.emitter.done(done)?)
    }

    fn gone(&mut self, pid: Pid, status: ExitStatus) -> Result<(), TracerError> {
        if pid == self.first {
            self.status = Some(status);
        } else if status.signal().is_some() {
            self.killed += 1;
        }
        self.forget(pid)
    }

    fn forget(&mut self, pid: Pid) -> Result<(), TracerError> {
        self.waiting.retain(|&other| other != pid);
        let pending = self.tracees.remove(&pid.as_raw()).and_then(|tracee| tracee.call);
        self.given_up(pid, pending)
    }

    /// The call does not return any more.
    fn given_up(&mut self, pid: Pid, pending: Option<Pending>) -> Result<(), TracerError> {
        if let Some(Pending { sync: Some((ticket, _)), .. }) = pending {
            self.emitter.resolve(ticket, None)?;
        }
        self.free(pid)
    }

    /// A thread is not in a call any more; the next one may begin.
    fn free(&mut self, pid: Pid) -> Result<(), TracerError> {
        if self.busy != Some(pid.as_raw()) {
            return Ok(());
        }
        self.busy = None;
        while self.busy.is_none()
            && let Some(next) = self.waiting.pop_front()
        {
            self.enter(next)?;
        }
        Ok(())
    }

    /// A thread stands in front of a call and may begin it.
    fn enter(&mut self, pid: Pid) -> Result<(), TracerError> {
        let waits = self.begun(pid)?;
        ignore_gone(if waits { ptrace::syscall(pid, None) } else { ptrace::cont(pid, None) })
    }

    fn followed(&self, path: &str) -> bool {
        match path.starts_with('/') {
            true => look::matches(&self.options.files, path),
            false => self.unnamed.contains(path),
        }
    }

    /// A call is about to be carried out; whether its end is of interest.
    fn begun(&mut self, pid: Pid) -> Result<bool, TracerError> {
        let registers = match ptrace::getregs(pid) {
            Err(Errno::ESRCH) => return Ok(false),
            registers => registers?,
        };
        let arguments =
            [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
        let call = Call { number: registers.orig_rax as i64, arguments };
        if call.refused() {
            self.refused.insert(call.name());
            let mut skip = registers;
            (skip.orig_rax, skip.rax) = (u64::MAX, -i64::from(libc::ENOSYS) as u64);
            ignore_gone(ptrace::setregs(pid, skip))?;
            return Ok(false);
        }
        let Some(tracee) = self.tracees.get(&pid.as_raw()) else { return Ok(false) };
        let thread = tracee.thread;
        if let Some(mut sync) = call.sync(pid) {
            sync.retain(|synced| match synced {
                Synced::All => true,
                Synced::Whole { path, .. } | Synced::Range { path, .. } => self.followed(path),
            });
            if sync.is_empty() {
                return Ok(false);
            }
            self.scan(thread)?;
            // The sync stands here, and what its thread does next behind its end.
            let ticket = self.emitter.reserve();
            self.pend(pid, call, Before::default(), Some((ticket, sync)));
            return Ok(true);
        }
        if matches!(call.number, libc::SYS_write | libc::SYS_writev) && self.prints(pid, call.arguments[0]) {
            self.scan(thread)?;
            self.pend(pid, call, Before { prints: true, ..Before::default() }, None);
            return Ok(true);
        }
        let before = call.before(pid);
        if !before.paths.is_empty() && !before.paths.iter().any(|path| self.followed(path)) {
            return Ok(false);
        }
        if before.paths.is_empty() && !self.descriptor_followed(pid, &call) {
            return Ok(false);
        }
        if before.paths.iter().any(|path| look::is_special(path)) {
            return Ok(false);
        }
        if matches!(call.name(), "rename" | "unlink" | "truncate" | "link") {
            self.scan(thread)?;
        }
        if call.alone() {
            self.busy = Some(pid.as_raw());
        }
        self.pend(pid, call, before, None);
        Ok(true)
    }

    /// Whether a descriptor is the standard output that the program began with; standard error may be the same
    /// terminal.
    fn prints(&self, pid: Pid, fd: u64) -> bool {
        let link = if fd == 2 { None } else { look::link(pid, fd as i32) };
        link.is_some_and(|link| self.stdout.as_ref() == Some(&link) && !self.followed(&link))
    }

    fn pend(&mut self, pid: Pid, call: Call, before: Before, sync: Option<(u64, Vec<Synced>)>) {
        if let Some(tracee) = self.tracees.get_mut(&pid.as_raw()) {
            tracee.call = Some(Pending { call, before, sync });
        }
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

    fn descriptor_followed(&self, pid: Pid, call: &Call) -> bool {
        let fd = match call.number {
            libc::SYS_copy_file_range | libc::SYS_splice => call.arguments[2],
            libc::SYS_mmap => call.arguments[4],
            _ => call.arguments[0],
        };
        look::descriptor(pid, fd as i32).is_some_and(|path| self.followed(&path))
    }

    /// A call has returned.
    fn returned(&mut self, pid: Pid) -> Result<(), TracerError> {
        let Some(tracee) = self.tracees.get_mut(&pid.as_raw()) else { return Ok(()) };
        let thread = tracee.thread;
        let Some(Pending { call, before, sync }) = tracee.call.take() else { return Ok(()) };
        let result = match ptrace::getregs(pid) {
            Ok(registers) => registers.rax as i64,
            Err(_) => -1,
        };
        let site = self.emitter.site(call.name(), &self.program)?;
        if let Some((ticket, synced)) = sync {
            let done = match result >= 0 {
                false => None,
                true => {
                    let ops = self.synced(&synced)?;
                    Some(Done { thread, site, ops, values: Vec::new(), releases: false })
                }
            };
            let succeeded = done.is_some();
            self.emitter.resolve(ticket, done)?;
            if succeeded {
                let done = Done { thread, site, ops: Vec::new(), values: Vec::new(), releases: true };
                self.emitter.done(done)?;
            }
            return Ok(());
        }
        if result < 0 {
            return Ok(());
        }
        if before.prints {
            let bytes = printed(&call, pid, result as u64);
            return Ok(self.emitter.printed(thread, site, &bytes)?);
        }
        let deeds = call.after(pid, &before, result as u64).unwrap_or_default();
        for deed in deeds {
            self.deed(thread, site, deed)?;
        }
        Ok(())
    }

    fn deed(&mut self, thread: ThreadId, site: SiteId, deed: Deed) -> Result<(), TracerError> {
        if let Deed::Create(path, false) = &deed
            && path.starts_with(look::UNNAMED)
        {
            self.unnamed.insert(path.clone());
        }
        if !deed.paths().iter().any(|path| self.followed(path)) {
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
            self.missed.insert(("link to a file outside of what --files names".to_owned(), to.clone()));
        }
        if let Deed::Exchange(from, to) = &deed
            && !(self.followed(from) && self.followed(to))
        {
            self.missed
                .insert(("renameat2 with a name outside of what --files names".to_owned(), to.clone()));
        }
        let op = operation(&deed, |path| self.emitter.name(path))?;
        let mut values = Vec::new();
        match deed {
            Deed::Map(path) => self.mapped.map(&path),
            Deed::Missed(call, path) => drop(self.missed.insert((call.to_owned(), path))),
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
            let bytes = look::contents(&path, 0, about.len() as usize);
            return self.deed(thread, site, Deed::Write(path, 0, bytes));
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
    fn scan(&mut self, thread: ThreadId) -> Result<(), TracerError> {
        for (path, offset, values) in self.mapped.scan() {
            let site = self.emitter.site("store to a shared mapping", &self.program)?;
            let op = Op::FileWrite { file: self.emitter.name(&path)?, offset, len: values.len() as u32 };
            self.emitter.done(Done { thread, site, ops: vec![op], values, releases: true })?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), TracerError> {
        self.scan(ThreadId(0))
    }
}
