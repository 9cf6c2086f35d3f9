//! The Python package.
use pyo3::prelude::*;
#[pymodule(gil_used = false)]
fn _native(_m: &Bound<'_, PyModule>) -> PyResult<()> { Ok(()) }
