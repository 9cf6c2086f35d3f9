//! `check`, with a command or a Python function as recovery.

use std::path::PathBuf;

use pyo3::exceptions::{PySystemExit, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use session::{Check, CheckError, Input, Judge};

use crate::error::refused;
use crate::input::{Observe, Several, input, limited, ranged, watched};
use crate::limit::Limit;
use crate::result::Report;
use crate::verbs::first_line;

/// Recoveries at a time.
const JOBS_MAX: u32 = 1024;

#[pyfunction]
#[pyo3(signature = (program = None, recover = None, *, files = Several::default(), pmem = Several::default(), platform = None, images = 256, findings = 16, jobs = None, timeout = "10s", time = None, seed = 1, reboot = true, out = None))]
#[allow(clippy::too_many_arguments)]
pub fn check(
    py: Python<'_>,
    program: Option<&Bound<'_, PyAny>>,
    recover: Option<Bound<'_, PyAny>>,
    files: Several,
    pmem: Several,
    platform: Option<&str>,
    images: u64,
    findings: u32,
    jobs: Option<u32>,
    timeout: &str,
    time: Option<&str>,
    seed: u64,
    reboot: bool,
    out: Option<PathBuf>,
) -> PyResult<Report> {
    ranged("images", images, 1..=u64::MAX)?;
    ranged("findings", findings, 1..=u32::MAX)?;
    jobs.map(|jobs| ranged("jobs", jobs, 1..=JOBS_MAX)).transpose()?;
    let given = match program {
        None => None,
        Some(_) => Some(input(program, &Observe { pmem, ..Observe::default() })?),
    };
    if matches!(given, Some(Input::BuiltIn(_))) {
        return Err(refused(CheckError::BuiltIn));
    }
    let mut check = Check {
        input: given,
        files: files.0,
        images,
        findings,
        jobs,
        timeout: crate::input::time("timeout", timeout)?,
        time: time.map(|text| crate::input::time("time", text)).transpose()?,
        reboot: false,
        seed,
        ..Check::default()
    };
    check.platform = platform.map(str::parse).transpose().map_err(refused)?;
    if let Some(out) = out {
        check.out = out;
    }
    let limit = Limit::new(check.timeout);
    let Some(recover) = recover else { return lints(py, &check) };
    recovered_by(py, recover, &mut check, reboot, &limit)?;
    limited(py, limit, |watcher| {
        let checked = check.run(watcher).map_err(refused)?;
        if !checked.no_verdict().is_empty() {
            return Err(refused(CheckError::NoVerdict(checked.no_verdict().to_vec())));
        }
        let text = checked.text();
        Ok(Report {
            verb: "check".to_owned(),
            headline: first_line(&text),
            html: checked.html(vec!["strandline".to_owned(), "check".to_owned()]).map_err(refused)?,
            json: format!("{:#}\n", checked.json()),
            found: !checked.outcome.findings.is_empty(),
            text,
        })
    })
}

/// Lets a check recover images by what a caller gave: a command or a function.
fn recovered_by(
    py: Python<'_>,
    recover: Bound<'_, PyAny>,
    check: &mut Check,
    reboot: bool,
    limit: &Limit,
) -> PyResult<()> {
    if recover.is_instance_of::<PyString>() {
        check.recover = Some(recover.extract()?);
        check.reboot = reboot;
        if let Some(executable) = command_line(py)? {
            session::reboot_answered_by(executable);
        }
    } else if recover.is_callable() {
        let name = recover.getattr("__name__").and_then(|name| name.extract::<String>());
        check.recover = Some(format!("the function {}", name.unwrap_or_else(|_| "recover".to_owned())));
        check.judge = Some(judge(recover.unbind(), limit.clone()));
    } else {
        let wrong = format!("recover is a shell command (a text) or a function, not {}", recover.repr()?);
        return Err(PyTypeError::new_err(wrong));
    }
    Ok(())
}

/// The executable of the package, which starts recoveries as after a reboot; this process's own is an interpreter.
fn command_line(py: Python<'_>) -> PyResult<Option<PathBuf>> {
    let package: PathBuf = py.import("strandline")?.getattr("__file__")?.extract()?;
    Ok(Some(package.with_file_name("strandline")).filter(|executable| executable.is_file()))
}

fn lints(py: Python<'_>, check: &Check) -> PyResult<Report> {
    watched(py, |watcher| {
        let linted = check.lints(watcher).map_err(refused)?;
        if !linted.no_verdict.is_empty() {
            return Err(refused(CheckError::NoVerdict(linted.no_verdict.clone())));
        }
        if let Some(reason) = linted.uncovered() {
            return Err(refused(CheckError::NoVerdict(vec![reason.clone()])));
        }
        let text = linted.text();
        Ok(Report {
            verb: "check".to_owned(),
            headline: first_line(&text),
            html: linted.html(vec!["strandline".to_owned(), "check".to_owned()]),
            json: format!("{:#}\n", linted.json()),
            found: !linted.is_right(),
            text,
        })
    })
}

/// A function: what it raises is what is wrong with the image, and so is `False`, or a text that it returns.
fn judge(function: Py<PyAny>, limit: Limit) -> Judge {
    Judge::new(move |laid| {
        Python::attach(|py| {
            let called = (laid.path, laid.begun, laid.ended).into_pyobject(py);
            let answer = match called.and_then(|arguments| limit.call(function.bind(py), arguments)) {
                Ok(answer) => answer,
                Err(error) if left_well(py, &error) => return Ok(()),
                Err(error) => return Err(said(py, &error)),
            };
            if let Ok(text) = answer.cast::<PyString>() {
                return Err(text.to_string());
            }
            match answer.is_none() || answer.is_truthy().unwrap_or(false) {
                true => Ok(()),
                false => Err(format!("recovery returned {answer}")),
            }
        })
    })
}

/// Whether a function ended as a command does that finds nothing: by `sys.exit(0)`.
fn left_well(py: Python<'_>, error: &PyErr) -> bool {
    let code =
        || error.value(py).getattr("code").is_ok_and(|code| code.is_none() || code.eq(0).unwrap_or(false));
    error.is_instance_of::<PySystemExit>(py) && code()
}

/// An exception in a line.
fn said(py: Python<'_>, error: &PyErr) -> String {
    let text = error.value(py).to_string();
    let name = error.get_type(py).name().map(|name| name.to_string()).unwrap_or_default();
    let whole = if text.is_empty() || name == "AssertionError" && !text.is_empty() {
        text
    } else {
        format!("{name}: {text}")
    };
    if whole.is_empty() { name } else { whole.lines().next().unwrap_or_default().to_owned() }
}
