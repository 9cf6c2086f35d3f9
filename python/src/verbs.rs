//! The verbs: arguments in, a report out.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::machine::Size;
use ::measure::Parameter;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use report::{Block, Page, Section};
use serde_json::json;
use session::{Input, Memory, Profile, Record, Reproduce, Simulate, Sources, TraceFile, Wear};
use trace::Compression;

use crate::error::refused;
use crate::input::{Observe, Several, Watcher, input, is_path, ranged, watched};
use crate::machine::{Machine, Scratch, machine_of, machines_of};
use crate::result::Report;

/// Columns of a text.
const WIDTH: usize = 100;
/// Runs of a remedy.
const ROUNDS: RangeInclusive<usize> = 1..=1000;

/// Adds the verbs to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(profile, module)?)?;
    module.add_function(wrap_pyfunction!(record, module)?)?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(measure_verb, module)?)?;
    module.add_function(wrap_pyfunction!(plan, module)?)?;
    module.add_function(wrap_pyfunction!(wear, module)?)?;
    module.add_function(wrap_pyfunction!(faults, module)?)?;
    module.add_function(wrap_pyfunction!(reproduce, module)?)?;
    module.add_function(wrap_pyfunction!(rows, module)?)?;
    module.add_function(wrap_pyfunction!(workloads, module)?)?;
    module.add_function(wrap_pyfunction!(designs, module)?)
}

/// The first line of a text.
pub fn first_line(text: &str) -> String {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

/// What does the program do to memory, and what should change?
///
/// program  a list of words (a program built with `strandline cc`, else it is sampled), a trace (`run.slt` or a `Trace`), a
///          `Workload`; btree-fill if not given
/// machine  a preset, a file, a `Machine`; if not given "host", or "xpoint" for a program with persistent memory
/// pmem     mapped files that count as persistent memory, besides those on DAX mounts and under /dev/shm
/// sample   (N, M): keep N of every M pieces of a thread's events
/// check    look at the order of stores, flushes and fences, too
///
/// The numbers are described in docs/report-json.md: bytes, and the effective write ratio (bytes written by the controller over
/// bytes written by the media, after the LATTester study of 3D XPoint).
#[pyfunction]
#[pyo3(signature = (program = None, *, machine = None, pmem = Several::default(), sample = None, seed = None, check = false))]
fn profile(
    py: Python<'_>,
    program: Option<&Bound<'_, PyAny>>,
    machine: Option<&Bound<'_, PyAny>>,
    pmem: Several,
    sample: Option<(u64, u64)>,
    seed: Option<u64>,
    check: bool,
) -> PyResult<Report> {
    let input = input(program, &Observe { pmem, sample, ..Observe::default() })?;
    let scratch = Scratch::new()?;
    let mut verb = Profile { seed, check, ..Profile::new(input) };
    if let Some(machine) = machine {
        verb.machine = Some(machine_of(machine)?.named(&scratch)?);
    }
    watched(py, |watcher| {
        let report = verb.run(watcher).map_err(refused)?;
        let sources = Sources::default();
        let text = report::terminal(&report, WIDTH, false);
        Ok(Report {
            verb: "profile".to_owned(),
            headline: first_line(&text),
            html: report::html(&report, &|file| sources.text(file)),
            json: report::json(&report),
            text,
            found: false,
        })
    })
}

/// Records a program's memory events into a trace file; returns the `Trace`.
///
/// program  a list of words (built with `strandline cc`, or any with `files`), or a `Workload`
/// output   the file, `run.slt`
/// values   keep the bytes of each store, which `check` needs
/// files    ordinary files and folders that are followed
/// small    compress all of it
#[pyfunction]
#[pyo3(signature = (program, output, *, pmem = Several::default(), files = Several::default(), values = false, sample = None, small = false))]
#[allow(clippy::too_many_arguments)]
fn record(
    py: Python<'_>,
    program: &Bound<'_, PyAny>,
    output: PathBuf,
    pmem: Several,
    files: Several,
    values: bool,
    sample: Option<(u64, u64)>,
    small: bool,
) -> PyResult<crate::trace::Trace> {
    match input(Some(program), &Observe { pmem, files, values, sample })? {
        Input::Program(program) => {
            let recording = Record { small, ..Record::new(program, output.clone()) };
            watched(py, |watcher| recording.run(watcher).map_err(refused))?;
        }
        Input::Trace(_) => return Err(refused("it is a trace already; give a program or a workload")),
        built_in => {
            watched(py, |watcher| written(&built_in, &output, small, watcher).map_err(refused))?;
        }
    }
    crate::trace::Trace::open(output)
}

/// How would it run on memory that this computer does not have?
///
/// program      as for `profile`
/// machines     one or several: presets, files, `Machine`s; dram and xpoint if not given
/// persistency  designs by name (`designs()`): each machine is tried with each
/// language     tx, atlas or sfr: what is made of failure-atomic regions
/// seed         of the machines' random choices
///
/// The numbers are described in docs/simulate-json.md; `report["machines"][0]["elapsed_ns"]` is simulated time in nanoseconds.
#[pyfunction]
#[pyo3(signature = (program = None, machines = None, *, persistency = Several::default(), language = None, pmem = Several::default(), sample = None, seed = None))]
#[allow(clippy::too_many_arguments)]
fn simulate(
    py: Python<'_>,
    program: Option<&Bound<'_, PyAny>>,
    machines: Option<&Bound<'_, PyAny>>,
    persistency: Several,
    language: Option<&str>,
    pmem: Several,
    sample: Option<(u64, u64)>,
    seed: Option<u64>,
) -> PyResult<Report> {
    let scratch = Scratch::new()?;
    let mut verb = Simulate::new(input(program, &Observe { pmem, sample, ..Observe::default() })?);
    let chosen: Vec<Machine> = match machines {
        Some(machines) => machines_of(machines)?,
        None => Vec::new(),
    };
    verb.machines = chosen.iter().map(|machine| machine.chosen(&scratch)).collect::<PyResult<_>>()?;
    if verb.machines.is_empty() {
        verb = verb.machine("dram").machine("xpoint");
    }
    let all = hardware::Language::ALL;
    verb.language = match language {
        None => None,
        Some(name) => Some(
            all.into_iter()
                .find(|language| language.name() == name)
                .ok_or_else(|| refused("language: use tx, atlas or sfr"))?,
        ),
    };
    (verb.persistency, verb.seed) = (persistency.0, seed);
    watched(py, |watcher| {
        let comparison = verb.run(watcher).map_err(refused)?;
        Ok(Report {
            verb: "simulate".to_owned(),
            headline: comparison.headline(),
            text: comparison.text(),
            html: comparison.html(),
            json: comparison.json().map_err(refused)?,
            found: false,
        })
    })
}

/// What is a memory really like? (the microbenchmarks of LATTester, as data)
///
/// machine     a modelled machine; this computer's own memory if not given
/// studies     names, as ["idle-latency", "threads"]; the usual two if empty
/// parameters  values that replace the studies' own: {"threads": [1, 2, 4], "access_size": "256B"}
/// events      simulated events per point
///
/// Latency in nanoseconds, bandwidth in GB/s (10^9 bytes per second); docs/measure-json.md has the fields.
#[pyfunction]
#[pyo3(name = "measure", signature = (machine = None, studies = Several::default(), *, parameters = None, events = None, other_memory = false))]
fn measure_verb(
    py: Python<'_>,
    machine: Option<&Bound<'_, PyAny>>,
    studies: Several,
    parameters: Option<&Bound<'_, PyDict>>,
    events: Option<u64>,
    other_memory: bool,
) -> PyResult<Report> {
    events.map(|events| ranged("events", events, 1..=u64::MAX)).transpose()?;
    let memory = match machine {
        None if events.is_some() || other_memory => {
            return Err(refused("events and other_memory are of a modelled machine; give one"));
        }
        None => Memory::real(),
        Some(machine) => {
            let config = Box::new(machine_of(machine)?.config().clone());
            Memory::Model { config, events, other_memory }
        }
    };
    let mut chosen = BTreeMap::new();
    for (name, values) in parameters.into_iter().flatten() {
        let name = name.str()?.to_cow()?.into_owned();
        let parameter = Parameter::ALL
            .into_iter()
            .find(|parameter| parameter.name() == name.replace('_', "-"))
            .ok_or_else(|| refused(format!("measure has no parameter `{name}`")))?;
        let texts: Vec<String> = match values.try_iter() {
            Ok(several) if !is_path(&values)? => {
                several.map(|one| Ok(one?.str()?.to_cow()?.into_owned())).collect::<PyResult<_>>()?
            }
            _ => vec![values.str()?.to_cow()?.into_owned()],
        };
        if texts.is_empty() {
            return Err(refused(format!("{name} has no values")));
        }
        let values = texts.iter().map(|text| parameter.parse(text).map_err(refused));
        chosen.insert(parameter, values.collect::<PyResult<Vec<_>>>()?);
    }
    let verb = session::Measure { memory, studies: studies.0, parameters: chosen, sweep: None };
    watched(py, |watcher| {
        let found = verb.run(watcher).map_err(refused)?;
        let command = vec!["strandline".to_owned(), "measure".to_owned()];
        let text = found.text();
        Ok(Report {
            verb: "measure".to_owned(),
            headline: first_line(&text),
            html: found.html(command.clone()),
            json: found.json(command).map_err(refused)?,
            text,
            found: false,
        })
    })
}

/// Which tiers, how much of each, how much cache? (the method of tiered-memory cost models, TMC)
///
/// tiers      machines whose memory is a slow tier, each; "cxl-asic" if not given
/// prices     a file of prices
/// tolerance  what costs may differ by for the provider to choose, as a share
/// footprint  the working set that is rented, in bytes or as "64GiB"
/// verify     configurations that are simulated in full
#[pyfunction]
#[pyo3(signature = (program = None, tiers = None, *, prices = None, tolerance = 0.025, footprint = None, verify = 0, pmem = Several::default(), seed = None))]
#[allow(clippy::too_many_arguments)]
fn plan(
    py: Python<'_>,
    program: Option<&Bound<'_, PyAny>>,
    tiers: Option<&Bound<'_, PyAny>>,
    prices: Option<PathBuf>,
    tolerance: f64,
    footprint: Option<&Bound<'_, PyAny>>,
    verify: usize,
    pmem: Several,
    seed: Option<u64>,
) -> PyResult<Report> {
    let scratch = Scratch::new()?;
    let mut verb = session::Planning::new(input(program, &Observe { pmem, ..Observe::default() })?);
    if let Some(tiers) = tiers {
        verb.tiers = machines_of(tiers)?.iter().map(|tier| tier.chosen(&scratch)).collect::<PyResult<_>>()?;
    }
    (verb.prices, verb.tolerance, verb.verify, verb.seed) = (prices, tolerance, verify, seed);
    verb.footprint = size(footprint)?;
    watched(py, |watcher| {
        let planned = verb.run(watcher).map_err(refused)?;
        Ok(Report {
            verb: "plan".to_owned(),
            headline: planned.headline(),
            text: planned.text(),
            html: planned.html(),
            json: planned.json().map_err(refused)?,
            found: false,
        })
    })
}

/// When does the memory wear out, and what wears it? (after Kevlar)
///
/// machine    "xpoint" if not given
/// endurance  writes that a cell survives; the device's, or 1e7
/// goal       how long it is to last, as "4years"
/// page       bytes of a page; capacity: bytes over which levelling can spread writes
/// duration   how long the run takes when nobody observes it
/// accuracy   compare estimates from samples with exact counts
#[pyfunction]
#[pyo3(signature = (program = None, machine = None, *, endurance = None, goal = None, page = None, capacity = None, duration = None, accuracy = false, pmem = Several::default(), seed = None))]
#[allow(clippy::too_many_arguments)]
fn wear(
    py: Python<'_>,
    program: Option<&Bound<'_, PyAny>>,
    machine: Option<&Bound<'_, PyAny>>,
    endurance: Option<f64>,
    goal: Option<&str>,
    page: Option<&Bound<'_, PyAny>>,
    capacity: Option<&Bound<'_, PyAny>>,
    duration: Option<&str>,
    accuracy: bool,
    pmem: Several,
    seed: Option<u64>,
) -> PyResult<Report> {
    let scratch = Scratch::new()?;
    let mut verb = Wear::new(input(program, &Observe { pmem, ..Observe::default() })?);
    if let Some(machine) = machine {
        verb.machine = machine_of(machine)?.chosen(&scratch)?;
    }
    if let Some(goal) = goal {
        verb.goal = crate::input::time("goal", goal)?.as_secs_f64();
    }
    if let Some(page) = size(page)? {
        verb.page = page;
    }
    let duration: Option<Duration> = duration.map(|text| crate::input::time("duration", text)).transpose()?;
    (verb.endurance, verb.capacity, verb.duration) = (endurance, size(capacity)?, duration);
    (verb.accuracy, verb.seed) = (accuracy, seed);
    watched(py, |watcher| {
        let worn = verb.run(watcher).map_err(refused)?;
        Ok(Report {
            verb: "wear".to_owned(),
            headline: worn.headline(),
            text: worn.text(),
            html: worn.html(),
            json: worn.json().map_err(refused)?,
            found: false,
        })
    })
}

/// What do first-touch page faults cost a program, which allocations cause them, and what would help?
///
/// program  a list of words; any program, unchanged
/// trials   try the remedies in further runs, and keep what gains
/// rounds   runs of each remedy, and of the program without
/// engine   nanoseconds of a fault handled by a page-fault offload engine; by its accesses to memory if not given
///
/// The numbers are described in docs/faults.md; times in nanoseconds are measured on this computer.
#[pyfunction]
#[pyo3(signature = (program, *, trials = false, rounds = 5, engine = None))]
fn faults(
    py: Python<'_>,
    program: &Bound<'_, PyAny>,
    trials: bool,
    rounds: usize,
    engine: Option<f64>,
) -> PyResult<Report> {
    ranged("rounds", rounds, ROUNDS)?;
    if let Some(engine) = engine.filter(|engine| !(engine.is_finite() && *engine >= 0.0)) {
        return Err(refused(format!("engine is a time in nanoseconds, not {engine}")));
    }
    let Input::Program(program) = input(Some(program), &Observe::default())? else {
        return Err(refused("faults are those of a program: give a list of words"));
    };
    let verb = session::Faults { trials, rounds, engine, ..session::Faults::new(program) };
    watched(py, |watcher| {
        let found = verb.run(watcher).map_err(refused)?;
        let text = found.text();
        let headline = first_line(&text);
        let lines = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned);
        let block = Block::List(lines.collect());
        let html = report::page(&Page {
            verb: "faults".to_owned(),
            title: found.command.join(" "),
            headline: headline.clone(),
            sections: vec![Section {
                id: "faults".to_owned(),
                title: "Faults".to_owned(),
                blocks: vec![block],
            }],
            command: found.command.clone(),
            ..Page::default()
        });
        let json = found.json().map_err(refused)?;
        Ok(Report { verb: "faults".to_owned(), headline, html, json, text, found: false })
    })
}

/// A built-in workload into a trace file.
fn written(input: &Input, output: &Path, small: bool, watcher: &Watcher) -> Result<(), session::Error> {
    let compression = if small { Compression::Fast } else { Compression::Light };
    let mut file = TraceFile::open(output, compression)?;
    input.play("recording", watcher, &mut file, &mut [])?;
    Ok(file.complete()?)
}

/// Bytes: a number, or a text with a unit.
fn size(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<u64>> {
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(None) };
    if let Ok(bytes) = value.extract::<u64>() {
        return Ok(Some(bytes));
    }
    let text: String =
        value.extract().map_err(|_| PyTypeError::new_err("bytes: a number, or a text such as \"64MiB\""))?;
    Ok(Some(text.parse::<Size>().map_err(refused)?.0))
}

/// Do the models match published results? All, or those with these ids or of these sources (`rows()`).
///
/// `report.found` says whether a row is missed.
#[pyfunction]
#[pyo3(signature = (*names, seed = None))]
fn reproduce(py: Python<'_>, names: Vec<String>, seed: Option<u64>) -> PyResult<Report> {
    let verb = Reproduce { names, seed };
    watched(py, |watcher| {
        let outcomes = verb.run(watcher, |_| Ok(())).map_err(refused)?;
        let mut command = vec!["strandline".to_owned(), "reproduce".to_owned()];
        command.extend(verb.names.clone());
        let entries: Vec<String> = outcomes.iter().map(|outcome| studies::entry(outcome, WIDTH)).collect();
        let headline = studies::summary(&outcomes);
        Ok(Report {
            verb: "reproduce".to_owned(),
            text: format!("{}\n\n{headline}", entries.join("\n")),
            headline,
            html: studies::page(&outcomes, command),
            json: studies::json(&outcomes),
            found: outcomes.iter().any(|outcome| outcome.verdict == studies::Verdict::Missed),
        })
    })
}

/// The published results: dictionaries with `id`, `source`, `claim`.
#[pyfunction]
fn rows(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let rows: Vec<_> = studies::rows()
        .map(|row| json!({ "id": row.id, "source": row.source.name(), "claim": row.claim }))
        .collect();
    py.import("json")?.call_method1("loads", (json!(rows).to_string(),))
}

/// The built-in workloads, each with what it does.
#[pyfunction]
fn workloads(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for workload in workload::Workload::ALL {
        all.set_item(workload.name, workload.summary)?;
    }
    Ok(all)
}

/// The persistency designs, each with what it is.
#[pyfunction]
fn designs(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for design in hardware::DESIGNS {
        all.set_item(design.name, design.summary)?;
    }
    Ok(all)
}
