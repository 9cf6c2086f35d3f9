//! A run under the tracer: threads, processes, stops.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use event::{Capabilities, Frame, InstructionCounts, Op, Sink, SinkError, SiteId, Source, ThreadId};
use libc::user_regs_struct;
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options as Trace};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::aio::{Aio, Request};
use crate::calls::{Before, Call, Synced};
use crate::emit::{Done, Emitter};
use crate::filter;
use crate::look;
use crate::mapped::Mapped;
use crate::opened::Descriptors;
use crate::proof::Expected;
use crate::said::{Acks, Hearing};
use crate::stack::Stacks;

/// What is run, and which files are followed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Absolute paths of files or folders, or globs.
    pub files: Vec<String>,
    /// Send what the program prints to standard error.
    pub stdout_to_stderr: bool,
    /// Where the program acknowledges what it has done, besides standard output.
    pub acks: Option<Acks>,
    /// Let this sync of the files, counted from 1, fail with `EIO`.
    pub fail_sync: Option<u64>,
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
    /// Calls on files that are not followed: what, and the file, with the stack of the first such call.
    pub missed: BTreeMap<(String, String), Vec<Frame>>,
    /// What else a reader has to know, in words.
    pub notes: BTreeSet<String>,
    /// Syncs of the files that the program asked for.
    pub syncs: u64,
    /// Mapped files whose pages the kernel watched: only those that were stored to were compared.
    pub watched: u64,
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
pub struct Tracee {
    pub thread: ThreadId,
    pub process: i32,
    /// The call that it is in.
    pub call: Option<Pending>,
    /// Whether its first stop, which is no signal of the program's, is still to come.
    fresh: bool,
}

/// A call that has begun.
pub struct Pending {
    pub call: Call,
    pub before: Before,
    /// Of a sync: its place in the order, and what it covers.
    pub sync: Option<(u64, Vec<Synced>)>,
    /// What is submitted: addresses, and requests on followed files.
    pub requests: Vec<(u64, Option<Request>)>,
}

/// A run under way.
pub struct Run<'s> {
    pub options: &'s Options,
    pub emitter: Emitter<'s>,
    pub tracees: BTreeMap<i32, Tracee>,
    threads: Vec<(ThreadId, u32)>,
    pub mapped: Mapped,
    pub stacks: Stacks,
    pub aio: Aio,
    pub descriptors: Descriptors,
    /// Of the thread that stands, once they are read.
    pub registers: Option<(Pid, user_regs_struct)>,
    /// What the call did whose end is not waited for.
    pub expected: Option<Expected>,
    /// Whether there may be such calls.
    pub expecting: bool,
    pub program: String,
    first: Pid,
    status: Option<ExitStatus>,
    killed: u32,
    /// Who is in a call that changes files; the others wait in front of theirs.
    pub busy: Option<i32>,
    waiting: VecDeque<Pid>,
    /// Files without a name that are followed.
    pub unnamed: BTreeSet<String>,
    /// To whom the program says what it has done.
    pub hearing: Hearing,
    pub refused: BTreeSet<&'static str>,
    pub missed: BTreeMap<(String, String), Vec<Frame>>,
    pub notes: BTreeSet<String>,
    pub syncs: u64,
    pub watched: u64,
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
    let relay = crate::said::apart(&mut command, options.stdout_to_stderr).map_err(failed)?;
    let sends = options.acks.as_ref().is_some_and(Acks::may_be_socket);
    let mut child = filter::spawn(&mut command, sends).map_err(failed)?;
    // The program alone holds its standard output.
    drop(command);
    let first = Pid::from_raw(child.id() as i32);
    let mut run = Run::new(options, sink, program, first);
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
        notes: run.notes,
        syncs: run.syncs,
        watched: run.watched,
    };
    if let Some(relay) = relay {
        relay.join().ok();
    }
    sink.finish()?;
    Ok(outcome)
}

/// Takes it that a thread may be gone.
pub fn ignore_gone(result: Result<(), Errno>) -> Result<(), TracerError> {
    match result {
        // Another thread ended the process meanwhile; its end is reported by a wait.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl<'s> Run<'s> {
    fn new(options: &'s Options, sink: &'s mut dyn Sink, program: String, first: Pid) -> Run<'s> {
        Run {
            options,
            emitter: Emitter::new(sink),
            tracees: BTreeMap::new(),
            threads: Vec::new(),
            mapped: Mapped::default(),
            stacks: Stacks::new(),
            aio: Aio::default(),
            descriptors: Descriptors::default(),
            registers: None,
            expected: None,
            expecting: true,
            program,
            first,
            status: None,
            killed: 0,
            busy: None,
            waiting: VecDeque::new(),
            unnamed: BTreeSet::new(),
            hearing: Hearing::new(options.acks.clone()),
            refused: BTreeSet::new(),
            missed: BTreeMap::new(),
            notes: BTreeSet::new(),
            syncs: 0,
            watched: 0,
        }
    }

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
        self.note_rights(self.first);
        self.hearing.begins(self.first);
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
        self.confirm()?;
        self.registers = None;
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
                if self.busy.is_some() || self.holds_back() {
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
                self.stacks.forget(process);
                self.mapped.pages.forget(process);
                self.descriptors.forget(pid);
                self.left_open(process)?;
                self.note_rights(pid);
                let pending = self.tracees.get_mut(&process).and_then(|tracee| tracee.call.take());
                self.given_up(pid, pending)?;
            }
            _ => {}
        }
        ignore_gone(ptrace::cont(pid, None))
    }

    /// Says that a program does not get the rights that it has set.
    fn note_rights(&mut self, pid: Pid) {
        if let Some(program) = look::gains_rights(pid) {
            self.notes.insert(format!(
                "{program} is a set-user-id or set-group-id program; it ran without these rights"
            ));
        }
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
        if process == pid.as_raw() && pid != self.first {
            // It has what is mapped, too, and nobody watches its stores.
            self.mapped.pages.leave_all();
        }
        let thread = ThreadId(self.threads.len() as u32);
        self.threads.push((thread, process as u32));
        self.tracees.insert(pid.as_raw(), Tracee { thread, process, call: None, fresh });
        let ops = vec![Op::ThreadStart { seq: 0 }];
        let done = Done { thread, site: SiteId::UNKNOWN, ops, values: Vec::new(), releases: false };
        Ok(self.emitter.done(done)?)
    }

    fn gone(&mut self, pid: Pid, status: ExitStatus) -> Result<(), TracerError> {
        let process = self.tracees.get(&pid.as_raw()).map(|tracee| tracee.process);
        if process == Some(pid.as_raw()) {
            self.stacks.forget(pid.as_raw());
            self.mapped.pages.forget(pid.as_raw());
            self.left_open(pid.as_raw())?;
        }
        if pid == self.first {
            self.status = Some(status);
        } else if status.signal().is_some() {
            self.killed += 1;
        }
        self.forget(pid)
    }

    fn forget(&mut self, pid: Pid) -> Result<(), TracerError> {
        self.waiting.retain(|&other| other != pid);
        self.descriptors.forget(pid);
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
        if self.busy == Some(pid.as_raw()) {
            self.busy = None;
        }
        while self.busy.is_none()
            && !self.holds_back()
            && let Some(next) = self.waiting.pop_front()
        {
            self.enter(next)?;
        }
        Ok(())
    }

    /// Whether so much was done behind a sync under way that the next calls wait for its end.
    fn holds_back(&self) -> bool {
        let syncing = |tracee: &Tracee| tracee.call.as_ref().is_some_and(|call| call.sync.is_some());
        self.emitter.is_full() && self.tracees.values().any(syncing)
    }

    /// A thread stands in front of a call and may begin it.
    fn enter(&mut self, pid: Pid) -> Result<(), TracerError> {
        let waits = self.begun(pid)?;
        ignore_gone(if waits { ptrace::syscall(pid, None) } else { ptrace::cont(pid, None) })
    }

    fn end(&mut self) -> Result<(), TracerError> {
        self.scan(ThreadId(0))
    }
}
