//! A run under the tracer: threads, processes, stops.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use event::{Capabilities, InstructionCounts, Op, Sink, SinkError, SiteId, Source, ThreadId};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options as Trace};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::calls::{Before, Call, Deed, operation};
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

/// A thread that is traced.
struct Tracee {
    thread: ThreadId,
    process: i32,
    /// The call that it is in.
    call: Option<(Call, Before, Option<u64>)>,
    /// Whether its first stop, which is no signal of the program's, is still to come.
    fresh: bool,
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
                let pass = (!first && signal != Signal::SIGTRAP).then_some(signal);
                ignore_gone(ptrace::cont(pid, pass))
            }
            _ => Ok(()),
        }
    }

    fn event(&mut self, pid: Pid, event: i32) -> Result<(), TracerError> {
        match event {
            libc::PTRACE_EVENT_SECCOMP => {
                let waits = self.begun(pid)?;
                return ignore_gone(if waits { ptrace::syscall(pid, None) } else { ptrace::cont(pid, None) });
            }
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                let new = Pid::from_raw(ptrace::getevent(pid)? as i32);
                if !self.tracees.contains_key(&new.as_raw()) {
                    self.meet(new, true)?;
                }
            }
            libc::PTRACE_EVENT_EXEC => self.refuse_32_bit(pid)?,
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
        let Some(tracee) = self.tracees.remove(&pid.as_raw()) else { return Ok(()) };
        if let Some((_, _, Some(ticket))) = tracee.call {
            self.emitter.resolve(ticket, None)?;
        }
        Ok(())
    }

    fn followed(&self, path: &str) -> bool {
        look::matches(&self.options.files, path)
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
        let Some(tracee) = self.tracees.get(&pid.as_raw()) else { return Ok(false) };
        let (thread, process) = (tracee.thread, tracee.process);
        let sync = call.sync(pid, |address| self.mapped.at(process, address).map(str::to_owned));
        if let Some((path, _)) = sync {
            if !path.is_empty() && !self.followed(&path) {
                return Ok(false);
            }
            self.scan(thread)?;
            // The sync stands here, and what its thread does next behind its end.
            let ticket = self.emitter.reserve();
            self.pend(pid, call, Before { paths: vec![path], len: None }, Some(ticket));
            return Ok(true);
        }
        let before = call.before(pid);
        if !before.paths.is_empty() && !before.paths.iter().any(|path| self.followed(path)) {
            return Ok(false);
        }
        if before.paths.is_empty() && !self.descriptor_followed(pid, &call) {
            return Ok(false);
        }
        if matches!(call.name(), "rename" | "unlink" | "truncate" | "link") {
            self.scan(thread)?;
        }
        self.pend(pid, call, before, None);
        Ok(true)
    }

    fn pend(&mut self, pid: Pid, call: Call, before: Before, ticket: Option<u64>) {
        if let Some(tracee) = self.tracees.get_mut(&pid.as_raw()) {
            tracee.call = Some((call, before, ticket));
        }
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
        let (thread, process) = (tracee.thread, tracee.process);
        let Some((call, before, ticket)) = tracee.call.take() else { return Ok(()) };
        let result = match ptrace::getregs(pid) {
            Ok(registers) => registers.rax as i64,
            Err(_) => -1,
        };
        let site = self.emitter.site(call.name(), &self.program)?;
        if let Some(ticket) = ticket {
            let data_only = call.number != libc::SYS_fsync;
            let done = match before.paths.first().filter(|_| result >= 0) {
                None => None,
                Some(path) => {
                    let op = match path.is_empty() {
                        true => Op::FilesSync { file: self.emitter.name("/")? },
                        false => Op::FileSync { file: self.emitter.name(path)?, data_only },
                    };
                    Some(Done { thread, site, ops: vec![op], values: Vec::new(), releases: false })
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
        let deeds = call.after(pid, &before, result as u64).unwrap_or_default();
        for deed in deeds {
            self.deed(thread, process, site, deed)?;
        }
        Ok(())
    }

    fn deed(&mut self, thread: ThreadId, process: i32, site: SiteId, deed: Deed) -> Result<(), TracerError> {
        if !deed.paths().iter().any(|path| self.followed(path)) {
            return Ok(());
        }
        // A file that comes from elsewhere is new here, with all that it holds.
        if let Deed::Rename(from, to) = &deed
            && !self.followed(from)
        {
            let bytes = look::contents(to, 0, look::length(to).unwrap_or(0) as usize);
            self.deed(thread, process, site, Deed::Create(to.clone(), false))?;
            return self.deed(thread, process, site, Deed::Write(to.clone(), 0, bytes));
        }
        let op = operation(&deed, |path| self.emitter.name(path))?;
        let mut values = Vec::new();
        match deed {
            Deed::Map(path, address, len) => self.mapped.map(process, address, len, &path),
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
