//! Where events come from, as Python says it.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use session::{BuiltIn, Input, Program};

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

/// Reports warnings of a verb as Python's, and stops what asks whether it is to stop when Ctrl-C was pressed.
pub struct Watcher;

impl session::Observer for Watcher {
    fn progress(&self, _: &session::Progress<'_>) {}

    fn finished(&self) {}

    fn warn(&self, warning: &str) {
        Python::attach(|py| {
            let warned = py.import("warnings").and_then(|module| module.call_method1("warn", (warning,)));
            if let Err(error) = warned {
                // A filter makes errors of warnings: there is nobody here to take one.
                error.write_unraisable(py, None);
            }
        });
    }

    fn stopped(&self) -> bool {
        Python::attach(|py| py.check_signals().is_err())
    }
}
