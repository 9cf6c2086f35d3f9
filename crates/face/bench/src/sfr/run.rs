//! One run of one benchmark's program.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::programs::Programs;
use super::results::Counters;
use super::variant::{Build, SfrVariant};
use crate::error::Error;

/// What is run.
#[derive(Clone, Copy)]
pub struct Cell<'a> {
    pub benchmark: &'a str,
    pub threads: u32,
    pub stores: u32,
    pub operations: u64,
    pub seed: u64,
}

/// What one run gave.
pub struct Outcome {
    pub wall_ns: u64,
    pub cpu_ns: u64,
    pub counters: Option<Counters>,
}

/// The line that a program prints.
#[derive(Deserialize)]
struct Line {
    wall_ns: u64,
    cpu_ns: u64,
}

/// Runs a cell: the setup in a process of its own, so that nothing of it is counted. `steps` is how much of
/// the logging is done, all if not given.
pub fn run(
    programs: &Programs<'_>,
    folder: &Path,
    cell: Cell<'_>,
    variant: SfrVariant,
    steps: Option<&str>,
) -> Result<Outcome, Error> {
    let (pool, stats) = (folder.join("pool"), folder.join("stats"));
    let remove = || {
        _ = fs::remove_file(&pool);
        _ = fs::remove_file(&stats);
    };
    remove();
    let name = format!("{}, {}", cell.benchmark, variant.name);
    let start = |only_setup: bool| {
        let mut command = Command::new(programs.path(cell.benchmark, variant.build));
        command
            .args(["--threads", &cell.threads.to_string()])
            .args(["--ops", &cell.operations.to_string()])
            .args(["--stores-per-sfr", &cell.stores.to_string()])
            .args(["--seed", &cell.seed.to_string()])
            .arg(&pool)
            .env_remove("STRANDLINE_PERSIST_STEPS")
            .env_remove("STRANDLINE_PERSIST_STATS")
            .stdin(Stdio::null());
        if variant.build == Build::Pool {
            command.env("STRANDLINE_PERSIST", variant.name);
        }
        if only_setup {
            command.arg("--setup");
        } else if variant.build == Build::Pool {
            command.env("STRANDLINE_PERSIST_STATS", &stats);
            if let Some(steps) = steps {
                command.env("STRANDLINE_PERSIST_STEPS", steps);
            }
        }
        let output = command.output().map_err(|error| Error::of(&name, error))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().next().unwrap_or("no message");
        Err(Error::of(&name, format!("it failed ({}): {line}", output.status)))
    };
    start(true)?;
    let printed = start(false)?;
    let line: Line = serde_json::from_slice(&printed)
        .map_err(|error| Error::of(&name, format!("it printed no figures: {error}")))?;
    let counters = if variant.build == Build::Pool {
        let text = fs::read(&stats).map_err(Error::file("read", &stats))?;
        let counters = serde_json::from_slice(&text)
            .map_err(|error| Error::of(&name, format!("its counters can't be read: {error}")))?;
        Some(counters)
    } else {
        None
    };
    remove();
    Ok(Outcome { wall_ns: line.wall_ns, cpu_ns: line.cpu_ns, counters })
}
