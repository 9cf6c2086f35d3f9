//! Running a program and draining its session.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use event::{AnySink, Capabilities, Discard, InstructionCounts, RunSink, Sampling, Sink, Source};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::code::Code as _;
use super::decoder::Decoder;
use super::interrupts::Interrupts;
use super::merge::Merger;
use super::outcome::{Counted, Missed, Options, Outcome, Progress, StackOutcome, ThreadOutcome, Warning};
use super::processes::Processes;
use super::programs::Programs;
use crate::CaptureError;
use crate::session::{Bell, SessionFile, Settings};
use crate::symbols::preload;
use abi::{CHUNK_FILLING, FLAG_CALLS, FLAG_VALUES, MODE_COUNT, MODE_RECORD, MODULES, SESSION_ENV};

/// How long the collector sleeps when there is nothing to do; also the delay after which it sees a process
/// end that is not the program's first.
const IDLE: Duration = Duration::from_millis(5);
/// The same while threads wait for another's turn.
const STALLED: Duration = Duration::from_millis(1);
/// How often it sleeps so after the program's end, for processes that may be about to show up. The end itself
/// may cut one of these short.
const QUIET: u32 = 3;
/// How long a position of the global order may be missing while there is no other progress. A thread that was
/// merely not scheduled comes up with it sooner. Also how long starving threads have to get a buffer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a program that is to be stopped has between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// Between two pauses that the sink hears of: each makes it write what it has, however little.
const PAUSE: Duration = Duration::from_millis(200);
/// Between two calls of the progress callback.
const REPORT: Duration = Duration::from_millis(100);
/// How long processes that the program left behind are waited for without a word.
const LINGERING: Duration = Duration::from_secs(2);

/// Runs a program and delivers its events.
///
/// Returns when the program and all instrumented processes that it started have ended. SIGINT, SIGTERM and
/// SIGHUP are passed on to the program (not if they came from the terminal, which sends them to the program
/// itself); when it ends, so does the recording. A second signal kills the program. If the sink fails, the
/// program is stopped: SIGTERM, five seconds later SIGKILL.
///
/// # Errors
/// When the session can't be made, the program can't be run, or the sink fails.
pub fn record(options: &Options, sink: &mut dyn Sink) -> Result<Outcome, CaptureError> {
    sink.begin(&source(options))?;
    let outcome = Recording::start(options, MODE_RECORD)?.run(options, sink, &mut |_| {})?;
    sink.finish()?;
    Ok(outcome)
}

/// Runs a program and counts its events, as cheaply as can be.
///
/// # Errors
/// As [`record`].
pub fn count(options: &Options, progress: &mut dyn FnMut(&Progress)) -> Result<Outcome, CaptureError> {
    // What is counted takes no chunks, so that none need be reserved.
    let options = &Options { chunk_count: 0, ..options.clone() };
    Recording::start(options, MODE_COUNT)?.run(options, &mut Discard, progress)
}

fn source(options: &Options) -> Source {
    let mut unseen = Capabilities::empty();
    unseen.set(Capabilities::VALUES, !options.values);
    unseen.set(Capabilities::CALLS, options.values || !options.calls);
    unseen.set(Capabilities::FILES, options.files.is_empty());
    let words = u64::from(options.chunk_bytes / 8);
    Source {
        producer: format!("strandline cc {}", env!("CARGO_PKG_VERSION")),
        command: options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        capabilities: Capabilities::all() - unseen,
        instructions: InstructionCounts::Estimated,
        // Bursts are whole buffers, which hold about as many events as words.
        sampling: options.sampling.map(|(recorded, period)| Sampling {
            recorded: recorded.saturating_mul(words),
            period: period.saturating_mul(words),
        }),
    }
}

/// Wakes the collector when the process has ended. Where that can't be waited for, it sees it when it looks
/// next.
fn wake_at_end(pid: u32, bell: Bell) {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(Ok(process)) = process.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return };
    let wait = move || {
        while poll(&mut [PollFd::new(&process, PollFlags::IN)], None) == Err(Errno::INTR) {}
        bell.ring();
    };
    // It ends with the process, whose end the recording waits for.
    drop(std::thread::Builder::new().name("end of program".to_owned()).spawn(wait));
}

/// The file that a command names.
fn executable(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(name.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Whether these are the same file, by whatever names.
fn is_same(one: &Path, other: &Path) -> bool {
    let number = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    number(one).is_some_and(|file| number(other) == Some(file))
}

/// The observed program and its session's file; the program's number is 0 once it has ended.
static UNDER_WAY: Mutex<Option<(u32, PathBuf)>> = Mutex::new(None);

/// Kills the program that is being observed, if there is one, and removes what the recording shares with it:
/// before the process ends that has no time to end the recording in order.
pub fn abandon() {
    let Some((pid, path)) = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    if pid != 0 {
        // SAFETY: `kill` touches no memory. The child has not been waited for, so the number is still its
        // own.
        unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
    }
    let _ = std::fs::remove_file(path);
}

/// What [`abandon`] has to know, as long as this lives.
struct UnderWay;

impl UnderWay {
    fn new(pid: u32, path: &Path) -> Self {
        Self::set(Some((pid, path.to_owned())));
        UnderWay
    }

    fn has_ended(&self) {
        if let Some((pid, _)) = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            *pid = 0;
        }
    }

    fn set(to: Option<(u32, PathBuf)>) {
        *UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        Self::set(None);
    }
}

/// A program being observed.
struct Recording {
    session: Rc<SessionFile>,
    mode: u32,
    merger: Merger<Programs>,
    child: Child,
    under_way: UnderWay,
    program: String,
    status: Option<ExitStatus>,
    processes: Processes,
    interrupts: Interrupts,
    interrupted: Option<i32>,
    started: Instant,
    /// When something was last delivered.
    moved: Instant,
    /// When the sink last learned of a pause.
    paused: Instant,
    reported: Instant,
    /// When the program was found to have ended, and whom to tell that others have not.
    ended: Option<Instant>,
    lingering: Option<fn(usize)>,
    too_few_buffers: bool,
}

impl Recording {
    fn start(options: &Options, mode: u32) -> Result<Self, CaptureError> {
        let (name, arguments) = options.command.split_first().ok_or(CaptureError::NoCommand)?;
        let program = name.to_string_lossy().into_owned();
        let session = Rc::new(SessionFile::create(&Settings {
            mode,
            flags: match (options.values, options.calls) {
                (true, _) => FLAG_VALUES,
                (false, true) => FLAG_CALLS,
                (false, false) => 0,
            },
            chunk_bytes: options.chunk_bytes,
            chunk_count: options.chunk_count,
            sampling: options.sampling.unwrap_or((0, 0)),
            pmem: options.pmem.clone(),
            files: options.files.clone(),
            keep: options.keep.clone(),
        })?);
        let spawn = |source| CaptureError::Spawn { program: program.clone(), source };
        let interrupts = Interrupts::note().map_err(spawn)?;
        let mut command = Command::new(name);
        command.args(arguments).env(SESSION_ENV, session.path());
        if let Some(libraries) = preload(Path::new(name)) {
            command.env("LD_PRELOAD", libraries);
        }
        if options.stdout_to_stderr {
            command.stdout(std::io::stderr());
        }
        let child = command.spawn().map_err(spawn)?;
        let under_way = UnderWay::new(child.id(), Path::new(session.path()));
        wake_at_end(child.id(), session.bell());
        let decoder = Decoder::new(Programs::new(Rc::clone(&session)), options.values);
        let now = Instant::now();
        Ok(Recording {
            merger: Merger::new(decoder, session.chunks()),
            session,
            mode,
            child,
            under_way,
            program,
            status: None,
            processes: Processes::default(),
            interrupts,
            interrupted: None,
            started: now,
            moved: now,
            paused: now,
            reported: now,
            ended: None,
            lingering: options.lingering,
            too_few_buffers: false,
        })
    }

    fn run(
        mut self,
        options: &Options,
        sink: &mut dyn Sink,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Outcome, CaptureError> {
        self.merger.decoder.raw = !options.values && AnySink(sink).prefers_raw();
        let drained = self.drain(sink, progress);
        self.session.switch_off();
        match drained.and_then(|status| self.finish(sink).map(|()| status)) {
            Ok(status) => Ok(self.outcome(options, status)),
            Err(error) => {
                self.stop();
                Err(error)
            }
        }
    }

    /// Delivers events until the program has ended and nothing is left to wait for.
    fn drain(
        &mut self,
        sink: &mut dyn Sink,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<ExitStatus, CaptureError> {
        let mut quiet_rounds = 0;
        loop {
            let seen = self.session.head().full.load(Ordering::SeqCst);
            self.merger.gather(&self.session);
            let delivered = self.merger.deliver(&self.session, sink)?;
            self.report(progress);
            self.heed_interrupts();
            if delivered || (self.merger.stalled() && self.merger.look_ahead(&self.session)) {
                self.moved = Instant::now();
                quiet_rounds = 0;
                continue;
            }
            self.bury()?;
            if let Some(status) = self.status
                && (self.processes.alive() == 0 || self.interrupted.is_some())
            {
                quiet_rounds += 1;
                if quiet_rounds > QUIET || self.is_alone() {
                    return Ok(status);
                }
            }
            self.linger();
            self.unblock(seen);
            self.pause(sink)?;
            self.session.wait(seen, if self.merger.stalled() { STALLED } else { IDLE });
        }
    }

    /// Whether the program was the only process. Else, one that was started just before its parent died may
    /// be about to show up.
    fn is_alone(&self) -> bool {
        self.processes.all() == [self.child.id()]
            && self.session.head().starts_others.load(Ordering::SeqCst) == 0
            && self.attached_first()
    }

    /// Whether the first program that attached is the one that was started. It may also be what a shell
    /// became, which reports nobody whom it started before.
    fn attached_first(&self) -> bool {
        let Some(module) = self.session.module(0) else { return false };
        let path = module.path.get(..module.path_len as usize).unwrap_or_default();
        let started = executable(&self.program);
        started.is_some_and(|started| is_same(&started, Path::new(OsStr::from_bytes(path))))
    }

    /// Nothing is to be done for now: lets the sink make safe what it holds, now and then.
    fn pause(&mut self, sink: &mut dyn Sink) -> Result<(), CaptureError> {
        if self.paused < self.moved && self.paused.elapsed() > PAUSE {
            self.paused = Instant::now();
            sink.pause()?;
        }
        Ok(())
    }

    /// Sees who died, and takes in what they left behind.
    fn bury(&mut self) -> Result<(), CaptureError> {
        if self.status.is_none() {
            let wait = |source| CaptureError::Wait { program: self.program.clone(), source };
            self.status = self.child.try_wait().map_err(wait)?;
            if self.status.is_some() {
                self.under_way.has_ended();
            }
        }
        self.processes.refresh(&self.session);
        for pid in self.processes.newly_dead() {
            self.merger.salvage(&self.session, pid);
        }
        Ok(())
    }

    /// Others may run on without the program, for ever if they are servers: says so, once.
    fn linger(&mut self) {
        if self.status.is_none() || self.processes.alive() == 0 {
            return;
        }
        let ended = *self.ended.get_or_insert_with(Instant::now);
        if ended.elapsed() > LINGERING
            && let Some(tell) = self.lingering.take()
        {
            tell(self.processes.alive());
        }
    }

    /// Nothing could be delivered: sees to it that nobody waits for what never comes.
    /// `seen` is [`abi::Session::full`] before chunks were looked for.
    fn unblock(&mut self, seen: u32) {
        let head = self.session.head();
        let quiet = self.moved.elapsed();
        let starving = head.writers_wait.load(Ordering::SeqCst) > 0;
        if starving
            && head.full.load(Ordering::SeqCst) == seen
            && self.merger.is_crowded(&self.session)
            && self.session.open_more()
        {
            return;
        }
        if starving && quiet > STALLED && self.merger.relieve(&self.session) {
            return;
        }
        let nobody_left = self.status.is_some() && self.processes.alive() == 0;
        if self.merger.stalled() && (quiet > PATIENCE || nobody_left) {
            self.merger.skip();
            return;
        }
        if starving && quiet > PATIENCE && self.all_are(|state| state == CHUNK_FILLING) {
            // The runtime waits no longer either, so that the program does not hang.
            self.too_few_buffers = true;
        }
    }

    /// Whether all chunks that writers may take are in such a state.
    fn all_are(&self, such: impl Fn(u32) -> bool) -> bool {
        (0..self.session.open()).all(|at| such(self.session.chunk(at).state.load(Ordering::Acquire)))
    }

    fn heed_interrupts(&mut self) {
        let Some(interrupt) = self.interrupts.take() else { return };
        let again = self.interrupted.replace(interrupt.signal).is_some();
        if self.status.is_none() && (again || !interrupt.from_terminal) {
            self.signal(if again { libc::SIGKILL } else { interrupt.signal });
        }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: `kill` touches no memory. The child has not been waited for, so the number is still its
        // own.
        unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
    }

    fn report(&mut self, progress: &mut dyn FnMut(&Progress)) {
        if self.reported.elapsed() < REPORT {
            return;
        }
        self.reported = Instant::now();
        let counted = self.counted();
        progress(&Progress {
            elapsed: self.started.elapsed(),
            events: self.events() + counted.loads + counted.stores + counted.others,
            threads: self.merger.streams.len(),
            processes: self.processes.alive(),
        });
    }

    /// Takes in what is left and delivers it.
    fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), CaptureError> {
        // Of processes that still run, only what is complete.
        while self.merger.look_ahead(&self.session) {
            while self.merger.deliver(&self.session, sink)? {}
        }
        Ok(self.merger.finish(&self.session, sink)?)
    }

    /// Makes the program end after an error.
    fn stop(&mut self) {
        if self.status.is_some() {
            return;
        }
        self.signal(libc::SIGTERM);
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(IDLE);
        }
        // It had its time; what is left to go wrong here is that it just ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn events(&self) -> u64 {
        self.merger.streams.iter().map(|stream| stream.events).sum()
    }

    fn counted(&self) -> Counted {
        let head = self.session.head();
        Counted {
            loads: head.counted_loads.load(Ordering::Relaxed),
            stores: head.counted_stores.load(Ordering::Relaxed),
            others: head.counted_others.load(Ordering::Relaxed),
        }
    }

    fn outcome(&mut self, options: &Options, status: ExitStatus) -> Outcome {
        let warnings = self.warnings(options);
        let files = self.merger.decoder.code.own();
        let stack = |(number, top, bytes, function)| {
            let thread = self.merger.decoder.thread(number);
            StackOutcome { thread, top, bytes, function }
        };
        let stacks = self.session.stacks().into_iter().map(stack).collect();
        let decoder = &self.merger.decoder;
        let frames = decoder.frames.iter().map(|&(thread, frame)| StackOutcome {
            thread,
            top: frame.top,
            bytes: 0,
            function: frame.function,
        });
        let frames = frames.collect();
        let mut threads: Vec<ThreadOutcome> = self
            .merger
            .streams
            .iter()
            .filter_map(|stream| {
                let pid = decoder.processes[stream.process].pid;
                stream.thread.map(|thread| ThreadOutcome { thread, pid, events: stream.events })
            })
            .collect();
        threads.sort_unstable_by_key(|thread| thread.thread);
        Outcome {
            status,
            interrupted: self.interrupted,
            attached: self.session.head().next_module.load(Ordering::Relaxed) > 0,
            events: self.events(),
            counted: (self.mode == MODE_COUNT).then(|| self.counted()),
            threads,
            processes: self.processes.all(),
            killed: self.session.head().killed.load(Ordering::Relaxed),
            elapsed: self.started.elapsed(),
            warnings,
            stacks,
            frames,
            files,
        }
    }

    fn warnings(&mut self, options: &Options) -> Vec<Warning> {
        let decoder = &self.merger.decoder;
        let modules = self.session.head().next_module.load(Ordering::Relaxed) as usize;
        let got = if self.session.is_short() { self.session.open() } else { self.session.chunks() } as u32;
        let undecoded =
            decoder.undecoded.1.map(|header| Warning::Undecoded { words: decoder.undecoded.0, header });
        let warnings = [
            (modules == 0).then(|| Warning::NotInstrumented { program: self.program.clone() }),
            (got < options.chunk_count).then_some(Warning::FewerBuffers { wanted: options.chunk_count, got }),
            (self.merger.skipped > 0).then_some(Warning::Gaps { positions: self.merger.skipped }),
            (decoder.stores_without_value > 0)
                .then_some(Warning::StoresWithoutValue { stores: decoder.stores_without_value }),
            undecoded,
            self.too_few_buffers.then_some(Warning::TooFewBuffers { buffers: got as usize }),
            (self.processes.alive() > 0).then(|| Warning::StillRunning { processes: self.processes.alive() }),
            (modules > MODULES).then_some(Warning::TooManyModules),
        ];
        let missed = self.session.missed().into_iter().map(|(pid, pc, call, file)| {
            let code = &mut self.merger.decoder.code;
            // The call is behind the instruction before the address that it returns to.
            let site = (pc != 0).then(|| code.place(pid, pc - 1)).map(|place| code.site(place));
            Warning::NotRecorded(Missed { call, file, site })
        });
        missed.chain(warnings.into_iter().flatten()).collect()
    }
}
