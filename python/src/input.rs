//! Where events come from, as Python says it.

use std::ffi::OsString;
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

use crate::limit::Limit;
use crate::trace::Trace;

/// How a program is observed.
#[derive(Default)]
pub struct Observe {
    /// Mapped files that count as persistent memory.
    pub pmem: Vec<String>,
    /// Ordinary files that are followed.
    pub files: Vec<String>,
    /// Record stored bytes.
    pub values: bool,
    /// N of M pieces.
    pub sample: Option<(u64, u64)>,
}

/// A list of words is a program, a text or path a trace (`.slt`) or a program without arguments, a `Trace` itself, a dictionary or
/// nothing a built-in workload.
pub fn input(value: Option<&Bound<'_, PyAny>>, observe: &Observe) -> PyResult<Input> {
    let Some(value) = value.filter(|value| !value.is_none()) else {
        return Ok(Input::BuiltIn(BuiltIn::default()));
    };
    if let Ok(trace) = value.cast::<Trace>() {
        return Ok(Input::Trace(trace.borrow().path.clone()));
    }
    if let Ok(words) = value.cast::<PyDict>() {
        return built_in(words);
    }
    if value.is_instance_of::<PyString>() || value.hasattr("__fspath__")? {
        let path: PathBuf = value.extract()?;
        if path.extension().is_some_and(|end| end == "slt") {
            return Ok(Input::Trace(path));
        }
        return Ok(Input::Program(program(vec![path.into_os_string()], observe)));
    }
    let words = value.try_iter()?.map(|word| Ok(word?.extract::<PathBuf>()?.into_os_string()));
    Ok(Input::Program(program(words.collect::<PyResult<Vec<OsString>>>()?, observe)))
}

fn program(words: Vec<OsString>, observe: &Observe) -> Program {
    let mut program = Program::new(words);
    program.pmem.clone_from(&observe.pmem);
    program.files.clone_from(&observe.files);
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
            "operations" => built_in.operations = value.extract()?,
            "threads" => built_in.threads = value.extract()?,
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
