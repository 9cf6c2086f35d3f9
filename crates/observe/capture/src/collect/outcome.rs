//! What is asked of a recording and what it comes to.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use event::{Site, ThreadId};

/// How to run and observe a program.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Record the bytes of each store.
    pub values: bool,
    /// Record who calls whom, unless the bytes of stores are recorded.
    pub calls: bool,
    /// Record in bursts: so many buffers of every so many of a thread.
    pub sampling: Option<(u64, u64)>,
    /// Files that count as persistent besides those on DAX mounts and under `/dev/shm`: paths or globs.
    pub pmem: Vec<String>,
    /// Ordinary files whose writes, syncs and names are recorded: absolute paths of files or folders, or
    /// globs. None: no file's.
    pub files: Vec<String>,
    /// A folder for what each persistent file held when it was first mapped, before anything was stored into
    /// the mapping: an absolute path of less than 1024 bytes. The files in it are called as
    /// [`abi::kept_name`] says.
    pub keep: Option<PathBuf>,
    /// Whether what the program prints goes to standard error, because standard output is for something else.
    pub stdout_to_stderr: bool,
    /// Called once with their number if processes that the program has left behind are waited for after its
    /// end.
    pub lingering: Option<fn(usize)>,
    /// Bytes per buffer; a thread hands over its events when it has filled one.
    pub chunk_bytes: u32,
    /// Buffers. Each thread that has not ended holds one.
    pub chunk_count: u32,
}

impl Options {
    /// Everything, without stored bytes, in 512 buffers of 64 KiB.
    #[must_use]
    pub fn new(command: Vec<OsString>) -> Self {
        let (chunk_bytes, chunk_count) = (64 << 10, 512);
        Options {
            command,
            values: false,
            calls: false,
            sampling: None,
            pmem: Vec::new(),
            files: Vec::new(),
            keep: None,
            stdout_to_stderr: false,
            lingering: None,
            chunk_bytes,
            chunk_count,
        }
    }
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Since the program's start.
    pub elapsed: Duration,
    /// Events delivered; in a counting run, events counted by threads that said so.
    pub events: u64,
    /// Threads seen.
    pub threads: usize,
    /// Observed processes that live.
    pub processes: usize,
}

/// What a recording came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How the program ended.
    pub status: ExitStatus,
    /// The signal that asked the collector to end.
    pub interrupted: Option<i32>,
    /// Whether any process was instrumented.
    pub attached: bool,
    /// Events delivered to the sink.
    pub events: u64,
    /// In a counting run, what was counted.
    pub counted: Option<Counted>,
    /// The threads, in the order of their numbers.
    pub threads: Vec<ThreadOutcome>,
    /// The instrumented processes.
    pub processes: Vec<u32>,
    /// How many processes that the program waited for a signal has ended.
    pub killed: u32,
    /// From the program's start to the end of the last observed process.
    pub elapsed: Duration,
    /// What a reader of the events should know.
    pub warnings: Vec<Warning>,
    /// Stacks of threads that were made by `pthread_create`, the first ones.
    pub stacks: Vec<StackOutcome>,
    /// Frames that lay on a thread's stack when it made another one, where calls were recorded: their bytes
    /// are not known.
    pub frames: Vec<StackOutcome>,
    /// Files of the first process's own code, with what is added to the addresses in them.
    pub files: Vec<(std::path::PathBuf, u64)>,
}

/// One thread of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadOutcome {
    /// The thread.
    pub thread: ThreadId,
    /// Its process.
    pub pid: u32,
    /// Its events.
    pub events: u64,
}

/// The stack of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackOutcome {
    /// The thread.
    pub thread: ThreadId,
    /// The address above the frame of the function that it runs.
    pub top: u64,
    /// Bytes below, at most.
    pub bytes: u64,
    /// That function.
    pub function: u64,
}

/// Events of a counting run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// All others.
    pub others: u64,
}

/// Something that is not as it should be, though the recording is usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// No process loaded the runtime.
    NotInstrumented {
        /// The program as given.
        program: String,
    },
    /// There was memory for fewer buffers than asked for.
    FewerBuffers {
        /// Asked for.
        wanted: u32,
        /// Had.
        got: u32,
    },
    /// Positions of the order of synchronisation that nobody reported, as when a thread is killed on the way.
    Gaps {
        /// Their number.
        positions: u64,
    },
    /// Stores whose bytes are not known were left out of a recording with values.
    StoresWithoutValue {
        /// Their number.
        stores: u64,
    },
    /// A part of a buffer made no sense, for example because its program's file is gone.
    Undecoded {
        /// Words that were lost.
        words: u64,
        /// The first of them.
        header: u64,
    },
    /// More threads were alive than there are buffers: some waited for one in vain and went on without being
    /// recorded.
    TooFewBuffers {
        /// Buffers.
        buffers: usize,
    },
    /// Processes still ran when the recording was ended.
    StillRunning {
        /// Their number.
        processes: usize,
    },
    /// The table of loaded code was full; some sites have no names.
    TooManyModules,
    /// A call that changed a file whose changes are recorded is not recorded itself.
    NotRecorded(Missed),
    /// A call was answered with `ENOSYS`, so that the program falls back to calls that are followed.
    FellBack {
        /// Its name.
        call: &'static str,
    },
    /// Something else that a reader has to know, in words.
    Noted(String),
}

/// A call that is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Which call, in words that begin with its name.
    pub call: String,
    /// The path of the file; empty if it is about none in particular.
    pub file: String,
    /// Who called, if it is known.
    pub site: Option<Site>,
}

impl Missed {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        let is = |name: &str| self.call.contains(name);
        if is("io_uring") {
            "have the program write and sync by pwrite and fsync: an engine that can use io_uring has an \
             option, an environment variable or a build switch for it"
        } else if is("aio") || is("io_setup") || is("io_submit") || is("lio_listio") {
            "have the program write and sync by pwrite and fsync: an engine that can use asynchronous input \
             and output has an option, an environment variable or a build switch for it"
        } else if is("outside of") {
            "name the folder of both names with --files"
        } else if is("not UTF-8") {
            "give the file a name that is UTF-8: a recording's names are text"
        } else {
            "have the program use a call of the C library's that is recorded: write, pwrite, fsync, rename"
        }
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.call)?;
        if !self.file.is_empty() {
            write!(f, ", {}", self.file)?;
        }
        let site = self.site.as_ref();
        match site.and_then(Site::frame) {
            Some(frame) if frame.line > 0 => {
                write!(f, ", by {} ({}:{})", frame.function, frame.file, frame.line)
            }
            Some(frame) => write!(f, ", by {}", frame.function),
            None => match site.filter(|site| !site.module.is_empty()) {
                Some(site) => write!(f, ", by {} at {:#x}", site.module, site.address),
                None => Ok(()),
            },
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::NotInstrumented { program } => write!(
                f,
                "nothing was recorded: neither {program} nor any program that it ran was built with strandline cc; {}",
                crate::symbols::HOW_TO_BUILD
            ),
            Warning::FewerBuffers { wanted, got } => {
                write!(
                    f,
                    "there was memory for {got} of {wanted} buffers; the program may have waited for them"
                )
            }
            Warning::Gaps { positions } => {
                write!(
                    f,
                    "of threads that were killed, records of synchronisation ({positions}) are missing: who went on behind them counts as unordered"
                )
            }
            Warning::StoresWithoutValue { stores } => {
                write!(
                    f,
                    "{stores} stores were left out because their thread ended before it recorded the bytes"
                )
            }
            Warning::Undecoded { words, header } => {
                write!(f, "{words} words of the buffers could not be decoded; the first is {header:#x}")
            }
            Warning::TooFewBuffers { buffers } => write!(
                f,
                "events are missing: more than {buffers} threads lived at a time, which is as many as there are buffers"
            ),
            Warning::StillRunning { processes } => {
                write!(f, "{processes} observed processes still ran when the recording ended")
            }
            Warning::NotRecorded(missed) => write!(f, "not recorded: {missed}; {}", missed.remedy()),
            Warning::FellBack { call } => {
                write!(
                    f,
                    "{call} was answered with ENOSYS, as a kernel without it does, so that all writes are seen"
                )
            }
            Warning::Noted(text) => write!(f, "{text}"),
            Warning::TooManyModules => write!(f, "the program loaded too much code; some of it has no names"),
        }
    }
}
