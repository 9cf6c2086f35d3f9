//! What a verb returns.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::error::refused;

/// A verb's result: its numbers as documented JSON, its text, its page.
///
/// `report["machines"][0]["elapsed_ns"]` looks into the numbers; a notebook shows the page.
#[pyclass(frozen, module = "strandline")]
pub struct Report {
    /// The verb: `simulate`.
    #[pyo3(get)]
    pub verb: String,
    /// The result in a sentence, where the verb has one; else the text's first line.
    #[pyo3(get)]
    pub headline: String,
    /// The text that the command line prints.
    #[pyo3(get)]
    pub text: String,
    /// The self-contained page that the command line writes.
    #[pyo3(get)]
    pub html: String,
    /// The numbers as JSON text; `docs/VERB-json.md` describes the fields.
    #[pyo3(get)]
    pub json: String,
    /// Whether something was found: crash findings, missed rows. The command line ends with status 1 then.
    #[pyo3(get)]
    pub found: bool,
}

/// Pixels of a page in a notebook.
const HEIGHT: u32 = 640;

#[pymethods]
impl Report {
    /// The numbers as dictionaries and lists.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (&self.json,))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.data(py)?.get_item(key)
    }

    /// Writes the page and the numbers into a folder, as `--out` does; returns the page's path.
    fn save(&self, folder: PathBuf) -> PyResult<PathBuf> {
        session::make_folder(&folder).map_err(refused)?;
        let page = folder.join(format!("{}.html", self.verb));
        session::write(&page, &self.html).map_err(refused)?;
        session::write(&folder.join(format!("{}.json", self.verb)), &self.json).map_err(refused)?;
        Ok(page)
    }

    /// For pickle.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Restored<'py>> {
        let Report { verb, headline, text, html, json, found } = self;
        restored_by(py, "report", (verb, headline, text, html, json, *found))
    }

    /// A report of what pickle kept.
    #[staticmethod]
    fn _of(verb: String, headline: String, text: String, html: String, json: String, found: bool) -> Report {
        Report { verb, headline, text, html, json, found }
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<strandline {}: {}>", self.verb, self.headline)
    }

    fn _repr_html_<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        PyString::new(py, &framed(&self.html))
    }
}

/// A whole page within another: its styles stay its own.
fn framed(page: &str) -> String {
    let quoted = page.replace('&', "&amp;").replace('"', "&quot;");
    format!("<iframe srcdoc=\"{quoted}\" style=\"width:100%;height:{HEIGHT}px;border:0\"></iframe>")
}

/// What `__reduce__` returns.
pub type Restored<'py> = (Bound<'py, PyAny>, Bound<'py, PyTuple>);

/// What `__reduce__` returns: a function of the module `_restore` and its arguments. Pickle finds functions
/// by their names, and those of an extension module have none that it can import.
pub fn restored_by<'py>(
    py: Python<'py>,
    function: &str,
    arguments: impl IntoPyObject<'py, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyResult<Restored<'py>> {
    Ok((py.import("strandline._restore")?.getattr(function)?, arguments.into_pyobject(py)?))
}
