//! The limit of time of functions that examine images: an exception is raised in the thread in which the
//! function runs.
//!
//! The interpreter raises it between two of the function's bytecodes, so one that waits in the system is
//! ended only when the system returns.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyKeyboardInterrupt, PyTimeoutError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyTuple;

/// Between two exceptions for a function that catches them.
const AGAIN: Duration = Duration::from_secs(1);

/// The functions that run now, and how long each may.
#[derive(Clone)]
pub struct Limit {
    calls: Arc<Mutex<Vec<Call>>>,
    timeout: Duration,
}

struct Call {
    /// Its number for the interpreter.
    thread: u64,
    begun: Instant,
    /// When an exception was raised in it last.
    raised: Option<Instant>,
}

impl Limit {
    /// Each call may take `timeout`.
    pub fn new(timeout: Duration) -> Limit {
        Limit { calls: Arc::default(), timeout }
    }

    /// Calls the function, which [`Limit::enforce`] ends when its time is over.
    pub fn call<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        arguments: Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = function.py();
        let thread = py.import("threading")?.call_method0("get_ident")?.extract()?;
        let calls = || self.calls.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        calls().push(Call { thread, begun: Instant::now(), raised: None });
        let answer = function.call1(arguments);
        let mut calls = calls();
        let ended = calls.iter().position(|call| call.thread == thread);
        if ended.is_some_and(|at| calls.swap_remove(at).raised.is_some()) {
            // It may be pending still, and would come up in whatever this thread runs next.
            raise(py, thread, py.None().into_bound(py))?;
            let late = format!("it ran for longer than {}", humantime::format_duration(self.timeout));
            return Err(PyTimeoutError::new_err(late));
        }
        answer
    }

    /// Ends the calls whose time is over, or, at an interrupt, all.
    pub fn enforce(&self, py: Python<'_>, interrupted: bool) -> PyResult<()> {
        // Imported before the lock is taken: that may let others run.
        let _ = py.import("ctypes")?;
        for call in self.calls.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner).iter_mut() {
            let over = interrupted || call.begun.elapsed() > self.timeout;
            if over && call.raised.is_none_or(|last| last.elapsed() > AGAIN) {
                call.raised = Some(Instant::now());
                let kind = match interrupted {
                    true => py.get_type::<PyKeyboardInterrupt>(),
                    false => py.get_type::<PyTimeoutError>(),
                };
                raise(py, call.thread, kind.into_any())?;
            }
        }
        Ok(())
    }
}

/// Raises an exception in another thread of the interpreter; `None` takes back one that is pending.
fn raise<'py>(py: Python<'py>, thread: u64, exception: Bound<'py, PyAny>) -> PyResult<()> {
    let ctypes = py.import("ctypes")?;
    let exception = match exception.is_none() {
        true => exception,
        false => ctypes.getattr("py_object")?.call1((exception,))?,
    };
    let thread = ctypes.getattr("c_ulong")?.call1((thread,))?;
    ctypes.getattr("pythonapi")?.call_method1("PyThreadState_SetAsyncExc", (thread, exception))?;
    Ok(())
}
