//! What a verb works on: a program, a trace file, a built-in workload.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use capture::Options;
use report::Subject;
use workload::{Params, Workload};

use crate::error::Error;
use crate::{files, samples};

/// Seed of a built-in workload if none is given.
const SEED: u64 = 1;

/// A source of events.
#[derive(Clone, Debug)]
pub enum Input {
    /// A program that runs now and is observed.
    Program(Program),
    /// A trace file.
    Trace(PathBuf),
    /// A workload that is built into Strandline.
    BuiltIn(BuiltIn),
}

/// A program and how it is observed.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The program and its arguments. A name without a slash is looked up in `PATH`.
    pub command: Vec<OsString>,
    /// Mapped files that count as persistent memory besides those on DAX mounts and under `/dev/shm`: paths
    /// or globs.
    pub pmem: Vec<String>,
    /// Ordinary files whose writes, syncs and names are recorded: paths of files or folders, or globs.
    pub files: Vec<String>,
    /// Record the bytes of each store.
    pub values: bool,
    /// Record who calls whom; not along with stored bytes.
    pub(crate) calls: bool,
    /// Record N of every M pieces of a thread's events, each some thousand events long: `(N, M)`.
    pub sampling: Option<(u64, u64)>,
    /// Send what the program prints to standard error.
    pub stdout_to_stderr: bool,
    /// Where the program acknowledges what it has done besides standard output, as `check --acks` takes it.
    pub acks: Option<String>,
    /// Let this sync of the files, counted from 1, fail with `EIO`.
    pub fail_sync: Option<u64>,
    /// Called once with their number if processes that the program left behind are waited for after its end.
    pub lingering: Option<fn(usize)>,
    /// Files that a verb follows besides.
    pub(crate) also_files: Vec<String>,
    /// Where what persistent files held when they were first mapped is kept.
    pub(crate) keep: Option<PathBuf>,
}

impl Program {
    /// The program with its arguments, all of its events, without stored bytes.
    #[must_use]
    pub fn new<W: Into<OsString>>(command: impl IntoIterator<Item = W>) -> Self {
        Program { command: command.into_iter().map(Into::into).collect(), ..Program::default() }
    }

    /// The command as text.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// The command's first word as text.
    #[must_use]
    pub fn name(&self) -> String {
        self.command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The options of the command line that observe the program in the same way.
    #[must_use]
    pub fn observe_arguments(&self) -> Vec<String> {
        let mut words: Vec<String> =
            self.pmem.iter().flat_map(|pattern| ["--pmem".to_owned(), pattern.clone()]).collect();
        if let Some((recorded, period)) = self.sampling {
            words.extend(["--sample".to_owned(), format!("{recorded}/{period}")]);
        }
        words
    }

    /// Refuses a program that does not exist, and a file that is none.
    pub(crate) fn refuse_missing(&self) -> Result<(), Error> {
        self.command.first().map_or(Ok(()), |name| runnable(name))
    }

    /// Refuses a program that was not built with the compiler driver.
    pub(crate) fn refuse_unobservable(&self) -> Result<(), Error> {
        if samples::only(&self.command)? {
            return Err(Error::NotInstrumented { program: self.name() });
        }
        Ok(())
    }

    /// The collector's options.
    pub(crate) fn options(&self) -> Result<Options, Error> {
        self.refuse_missing()?;
        let mut options = Options::new(self.command.clone());
        options.values = self.values;
        options.calls = self.calls;
        options.sampling = self.sampling;
        options.stdout_to_stderr = self.stdout_to_stderr;
        options.lingering = self.lingering;
        options.keep.clone_from(&self.keep);
        // As the kernel names them. A path that can't be resolved stays as it is and may match.
        options.pmem = files::absolute(&self.pmem).unwrap_or_else(|_| self.pmem.clone());
        options.files = files::absolute(&self.files)?;
        options.files.extend(self.also_files.iter().cloned());
        Ok(options)
    }
}

/// A built-in workload and how long it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its name, one of [`Workload::ALL`].
    pub name: String,
    /// Operations; the workload's own number if not given.
    pub operations: Option<u64>,
    /// Threads, 1 to 64. With more than one, the order of their events differs from run to run.
    pub threads: u32,
    /// Seed of its choices; 1 if not given.
    pub seed: Option<u64>,
}

impl Default for BuiltIn {
    fn default() -> Self {
        BuiltIn { name: Workload::ALL[0].name.to_owned(), operations: None, threads: 1, seed: None }
    }
}

impl BuiltIn {
    /// The workload and its parameters.
    ///
    /// # Errors
    /// [`Error::NoWorkload`] if none has that name.
    pub fn find(&self) -> Result<(&'static Workload, Params), Error> {
        let workload =
            Workload::find(&self.name).ok_or_else(|| Error::NoWorkload { name: self.name.clone() })?;
        let mut params = workload.default_params();
        params.seed = self.seed.unwrap_or(SEED);
        params.operations = self.operations.unwrap_or(params.operations);
        params.threads = self.threads;
        Ok((workload, params))
    }
}

impl Input {
    /// What a report says that it is about; `command` is the observed program's, of a trace.
    #[must_use]
    pub fn subject(&self, command: Vec<String>) -> Subject {
        match self {
            Input::Program(program) => Subject::Program { command: program.words() },
            Input::Trace(path) => Subject::Trace { path: path.display().to_string(), command },
            Input::BuiltIn(built_in) => Subject::Workload { name: built_in.name.clone() },
        }
    }
}

/// Refuses the name of a program that can't be run.
pub(crate) fn runnable(name: &OsStr) -> Result<(), Error> {
    let program = name.to_string_lossy().into_owned();
    let Some(path) = samples::find(Path::new(name)) else { return Err(Error::NoSuchProgram { program }) };
    let executable = |about: Metadata| about.is_file() && about.permissions().mode() & 0o111 != 0;
    match path.metadata().is_ok_and(executable) {
        true => Ok(()),
        false => Err(Error::NotAProgram { program }),
    }
}
