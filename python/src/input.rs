//! Where events come from, as Python says it.

use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use session::{BuiltIn, Input, Program};

use crate::error::refused;
use crate::limit::Limit;
use crate::trace::Trace;

/// Threads of a built-in workload.
const THREADS: RangeInclusive<u32> = 1..=64;

/// Texts or paths, one or several.
#[derive(Default)]
pub struct Several(pub Vec<String>);

impl<'py> FromPyObject<'_, 'py> for Several {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Several> {
        if is_path(&value)? {
            return Ok(Several(vec![path_text(&value)?]));
        }
        value.try_iter()?.map(|one| path_text(&one?)).collect::<PyResult<_>>().map(Several)
    }
}

/// A text or a path, as a text.
pub fn path_text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = value.extract::<PathBuf>()?.into_os_string().into_string();
    text.map_err(|name| {
        refused(format!("{}: names of files that are not UTF-8 can't be given here", name.display()))
    })
}

/// Whether it is a text or a path, and no list of these.
pub fn is_path(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(value.is_instance_of::<PyString>() || value.hasattr("__fspath__")?)
}

/// A number that the command line would take.
pub fn ranged<T: PartialOrd + Display>(name: &str, value: T, range: RangeInclusive<T>) -> PyResult<T> {
    if range.contains(&value) {
        return Ok(value);
    }
    Err(refused(format!("{name} is a whole number from {} to {}, not {value}", range.start(), range.end())))
}

/// A time with its unit.
pub fn time(name: &str, text: &str) -> PyResult<Duration> {
    humantime::parse_duration(text).map_err(|error| {
        refused(format!("{name} = {text:?}: {error}; a time has a unit, as in \"10s\" or \"4years\""))
    })
}

/// How a program is observed.
#[derive(Default)]
pub struct Observe {
    /// Mapped files that count as persistent memory.
    pub pmem: Several,
    /// Ordinary files that are followed.
    pub files: Several,
    /// Record stored bytes.
    pub values: bool,
    /// N of M pieces.
    pub sample: Option<(u64, u64)>,
}

/// A list of words is a program, a text or path a trace (`.slt`) or a program without arguments, a `Trace` itself, a dictionary or
/// nothing a built-in workload.
pub fn input(value: Option<&Bound<'_, PyAny>>, observe: &Observe) -> PyResult<Input> {
    if let Some((some, of)) = observe.sample
        && !(0 < some && some <= of)
    {
        return Err(refused(format!("sample is (N, M) with 0 < N <= M, not ({some}, {of})")));
    }
    let input = named(value, observe)?;
    let Observe { pmem, files, values, sample } = observe;
    if !matches!(input, Input::Program(_))
        && !(pmem.0.is_empty() && files.0.is_empty() && !values && sample.is_none())
    {
        return Err(refused(
            "pmem, files, values and sample say how to observe a program; give one, as a list of words",
        ));
    }
    Ok(input)
}

fn named(value: Option<&Bound<'_, PyAny>>, observe: &Observe) -> PyResult<Input> {
    let Some(value) = value.filter(|value| !value.is_none()) else {
        return Ok(Input::BuiltIn(BuiltIn::default()));
    };
    if let Ok(trace) = value.cast::<Trace>() {
        return Ok(Input::Trace(trace.borrow().whole()?));
    }
    if let Ok(words) = value.cast::<PyDict>() {
        return built_in(words);
    }
    if is_path(value)? {
        let path: PathBuf = value.extract()?;
        if path.extension().is_some_and(|end| end == "slt") {
            return Ok(Input::Trace(path));
        }
        if let Some(line) = path.to_str().filter(|line| line.contains(' ') && !path.exists()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            return Err(refused(format!(
                "there is no file `{line}`; a program with arguments is a list of words: {words:?}"
            )));
        }
        return Ok(Input::Program(program(vec![path.into_os_string()], observe)));
    }
    let words = value.try_iter()?.map(|word| Ok(word?.extract::<PathBuf>()?.into_os_string()));
    let words = words.collect::<PyResult<Vec<OsString>>>()?;
    if words.is_empty() {
        return Err(refused("a program is a list of words, and this list has none"));
    }
    Ok(Input::Program(program(words, observe)))
}

fn program(words: Vec<OsString>, observe: &Observe) -> Program {
    let mut program = Program::new(words);
    program.pmem.clone_from(&observe.pmem.0);
    program.files.clone_from(&observe.files.0);
    program.values = observe.values;
    program.sampling = observe.sample;
    program
}

/// `{"workload": "btree-fill", "operations": 1000, "threads": 1, "seed": 1}`
fn built_in(words: &Bound<'_, PyDict>) -> PyResult<Input> {
    let mut built_in = BuiltIn::default();
    for (word, value) in words {
        match &*word.str()?.to_cow()? {
            "workload" => built_in.name = value.extract()?,
            "operations" => {
                let operations = value.extract::<Option<u64>>()?;
                built_in.operations =
                    operations.map(|number| ranged("operations", number, 1..=u64::MAX)).transpose()?;
            }
            "threads" => built_in.threads = ranged("threads", value.extract()?, THREADS)?,
            "seed" => built_in.seed = value.extract()?,
            other => {
                return Err(PyTypeError::new_err(format!(
                    "a built-in workload has no `{other}`: use workload, operations, threads, seed"
                )));
            }
        }
    }
    Ok(Input::BuiltIn(built_in))
}

/// Between two questions whether Ctrl-C was pressed.
const PATIENCE: Duration = Duration::from_millis(50);
/// Bytes of the stack of a verb: as much as the first thread of a process has.
const STACK: usize = 8 << 20;

/// Runs a verb without the interpreter's lock, on a thread of its own: this one asks for signals, which only
/// the interpreter's first thread hears of, and raises warnings where the caller's filters are. After
/// Ctrl-C, or a warning that is an error by a filter, the verb is asked to stop, and the exception is there
/// in place of a result.
pub fn watched<T: Send>(py: Python<'_>, verb: impl FnOnce(&Watcher) -> PyResult<T> + Send) -> PyResult<T> {
    watched_with(py, Watcher::default(), verb)
}

/// Like [`watched`], with functions of the caller's that have a limit.
pub fn limited<T: Send>(
    py: Python<'_>,
    limit: Limit,
    verb: impl FnOnce(&Watcher) -> PyResult<T> + Send,
) -> PyResult<T> {
    watched_with(py, Watcher { limit: Some(limit), ..Watcher::default() }, verb)
}

fn watched_with<T: Send>(
    py: Python<'_>,
    watcher: Watcher,
    verb: impl FnOnce(&Watcher) -> PyResult<T> + Send,
) -> PyResult<T> {
    py.detach(|| {
        let mut interrupt = None;
        let ended = thread::scope(|scope| {
            let (running, over) = channel::<()>();
            let work = || {
                // Closed when the verb ends, however it ends.
                let _running = running;
                verb(&watcher)
            };
            let worker = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work)?;
            loop {
                let ends = over.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout);
                if let Err(raised) = Python::attach(|py| watcher.heard(py)) {
                    interrupt.get_or_insert(raised);
                    watcher.stop.store(true, Ordering::Relaxed);
                }
                if ends {
                    break;
                }
            }
            Ok::<_, std::io::Error>(worker.join())
        });
        let result = ended?.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        interrupt.map_or(result, Err)
    })
}

/// Keeps warnings of a verb until they are raised, and says whether it is to stop.
#[derive(Default)]
pub struct Watcher {
    stop: AtomicBool,
    warnings: Mutex<Vec<String>>,
    limit: Option<Limit>,
}

impl Watcher {
    /// What the interpreter has to say, and what it is to say.
    fn heard(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(limit) = &self.limit {
            limit.enforce(py, self.stop.load(Ordering::Relaxed))?;
        }
        py.check_signals()?;
        let warnings = std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner));
        for warning in warnings {
            py.import("warnings")?.call_method1("warn", (warning,))?;
        }
        Ok(())
    }
}

impl session::Observer for Watcher {
    fn progress(&self, _: &session::Progress<'_>) {}

    fn finished(&self) {}

    fn warn(&self, warning: &str) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(warning.to_owned());
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
