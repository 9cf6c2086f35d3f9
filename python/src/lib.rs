//! The Python package `strandline`: the verbs of `session`, machines as objects, traces as Arrow tables, sweeps.
//!
//! Nothing is computed here. Each function turns its arguments into a verb's options, runs the verb without the interpreter's lock,
//! and hands back a [`result::Report`]: the text, the page and the numbers that the verb itself renders.
#![deny(unsafe_code)]

mod arrow;
mod check;
mod entry;
mod error;
mod input;
mod limit;
mod machine;
mod result;
mod sweep;
mod trace;
mod verbs;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("VERSION", ::sweep::VERSION)?;
    module.add("StrandlineError", module.py().get_type::<error::StrandlineError>())?;
    module.add_class::<machine::Machine>()?;
    module.add_class::<machine::Section>()?;
    module.add_class::<result::Report>()?;
    module.add_class::<trace::Trace>()?;
    module.add_class::<trace::Sites>()?;
    module.add_class::<sweep::Plan>()?;
    module.add_class::<sweep::Table>()?;
    verbs::add(module)?;
    module.add_function(wrap_pyfunction!(check::check, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::compute, module)?)?;
    Ok(())
}
