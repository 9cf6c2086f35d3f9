//! Refusals, with the messages of the command line.

use std::fmt::Display;

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;

create_exception!(
    strandline,
    StrandlineError,
    PyValueError,
    "A verb has no result; the message says why and what to do."
);

/// An error of ours as Python's.
#[allow(clippy::needless_pass_by_value)]
pub fn refused(error: impl Display) -> PyErr {
    StrandlineError::new_err(error.to_string())
}
