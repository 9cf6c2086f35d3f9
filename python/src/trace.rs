//! Trace files.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, StringArray, UInt32Array};
use pyo3::exceptions::PyModuleNotFoundError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::arrow;
use crate::error::refused;
use crate::result::{Restored, restored_by};

/// A trace file (`.slt`): what is in it, and its events as an Arrow stream.
///
/// `polars.DataFrame(trace)`, `pyarrow.table(trace)`, `trace.to_pandas()`. The columns are `thread`, `time_ns` (of the event's batch,
/// from the run's start; 0 if the source had no clock), `op` (names of `strandline trace dump`), `addr` (virtual address), `len`
/// (bytes), `site` (number of a row of `sites()`), `instructions` (since the thread's event before). What an operation lacks is 0.
#[pyclass(module = "strandline", frozen)]
pub struct Trace {
    /// The file.
    #[pyo3(get)]
    pub path: PathBuf,
    thread: Option<u32>,
}

impl Trace {
    /// A trace that can be read.
    pub fn open(path: PathBuf) -> PyResult<Trace> {
        ::trace::Reader::open(&path).map_err(refused)?;
        Ok(Trace { path, thread: None })
    }

    /// The file, for verbs, which take it whole.
    pub fn whole(&self) -> PyResult<PathBuf> {
        match self.thread {
            None => Ok(self.path.clone()),
            Some(number) => {
                let path = self.path.display();
                Err(refused(format!(
                    "thread({number}) of {path} is a table only: verbs take the whole trace, Trace(\"{path}\")"
                )))
            }
        }
    }
}

#[pymethods]
impl Trace {
    #[new]
    fn new(path: PathBuf) -> PyResult<Trace> {
        Trace::open(path)
    }

    /// What the trace holds: `events`, `threads`, `bytes`, `sites`, `duration_ns`, `truncated`, `command`, `producer`.
    #[getter]
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let reader = ::trace::Reader::open(&self.path).map_err(refused)?;
        let (info, about) = (reader.info(), PyDict::new(py));
        about.set_item("events", info.events)?;
        about.set_item("threads", info.threads)?;
        about.set_item("bytes", info.bytes)?;
        about.set_item("sites", info.sites)?;
        about.set_item("duration_ns", info.duration_ns)?;
        about.set_item("truncated", info.truncated.is_some())?;
        about.set_item("command", reader.header().source.command.clone())?;
        about.set_item("producer", reader.header().source.producer.clone())?;
        Ok(about)
    }

    /// What a sweep takes.
    fn _whole(&self) -> PyResult<PathBuf> {
        self.whole()
    }

    /// Only one thread's events, as a table; verbs and sweeps take whole traces.
    fn thread(&self, number: u32) -> Trace {
        Trace { path: self.path.clone(), thread: Some(number) }
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows to ignore the wish.
        let _ = requested_schema;
        arrow::capsule(py, arrow::events(&self.path, self.thread)?)
    }

    /// The code sites as a table: `site`, `function`, `file`, `line`, `module`.
    fn sites(&self) -> PyResult<Sites> {
        Ok(Sites { path: self.path.clone() })
    }

    /// The events as a pandas data frame (needs pandas and pyarrow).
    fn to_pandas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let events = py.detach(|| arrow::whole(&self.path, self.thread))?;
        to_pandas(Bound::new(py, Whole(Mutex::new(Some(events))))?.as_any())
    }

    /// The events as a polars data frame (needs polars).
    fn to_polars<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        to_polars(this.as_any())
    }

    /// For pickle: the file is not in it.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Restored<'py>> {
        restored_by(py, "trace", (&self.path, self.thread))
    }

    fn __repr__(&self) -> String {
        let thread = self.thread.map_or_else(String::new, |number| format!(", thread {number}"));
        format!("<strandline Trace {}{thread}>", self.path.display())
    }
}

/// Events that are decoded, to be taken once.
#[pyclass(frozen)]
struct Whole(Mutex<Option<arrow::Ready>>);

#[pymethods]
impl Whole {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        arrow::capsule(py, events.ok_or_else(|| refused("these events were taken before"))?)
    }
}

/// Any Arrow stream as a pandas data frame.
pub fn to_pandas<'py>(stream: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = stream.py();
    needed(py, "pandas", "pandas")?;
    let table = needed(py, "pyarrow", "pandas")?.call_method1("table", (stream,))?;
    let how = PyDict::new(py);
    // Blocks of equal types would be copied together.
    how.set_item("split_blocks", true)?;
    how.set_item("self_destruct", true)?;
    table.call_method("to_pandas", (), Some(&how))
}

/// Any Arrow stream as a polars data frame.
pub fn to_polars<'py>(stream: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    needed(stream.py(), "polars", "polars")?.call_method1("DataFrame", (stream,))
}

/// A package that is no part of ours; its absence is said with what would install it.
fn needed<'py>(py: Python<'py>, package: &str, extra: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(package).map_err(|error| {
        if !error.is_instance_of::<PyModuleNotFoundError>(py) {
            return error;
        }
        let remedy =
            PyModuleNotFoundError::new_err(format!("{}: pip install 'strandline[{extra}]'", error.value(py)));
        remedy.set_cause(py, Some(error));
        remedy
    })
}

/// The code sites of a trace.
#[pyclass(module = "strandline", frozen)]
pub struct Sites {
    path: PathBuf,
}

#[pymethods]
impl Sites {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let reader = ::trace::Reader::open(&self.path).map_err(refused)?;
        let (mut ids, mut lines) = (Vec::new(), Vec::new());
        let (mut functions, mut files, mut modules) = (Vec::new(), Vec::new(), Vec::new());
        for (id, site) in reader.table().sites() {
            let frame = site.frame();
            ids.push(id.0);
            functions.push(frame.map(|frame| frame.function.clone()));
            files.push(frame.map(|frame| frame.file.clone()));
            lines.push(frame.map_or(0, |frame| frame.line));
            modules.push(site.module.clone());
        }
        let columns: [(&str, ArrayRef); 5] = [
            ("site", Arc::new(UInt32Array::from(ids))),
            ("function", Arc::new(StringArray::from(functions))),
            ("file", Arc::new(StringArray::from(files))),
            ("line", Arc::new(UInt32Array::from(lines))),
            ("module", Arc::new(StringArray::from(modules))),
        ];
        arrow::capsule(py, arrow::one_batch(columns.into_iter())?)
    }

    /// As a pandas data frame.
    fn to_pandas<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        to_pandas(this.as_any())
    }

    /// As a polars data frame.
    fn to_polars<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        to_polars(this.as_any())
    }
}
