//! libpmemobj, in a program of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;

const SOURCE: &str = include_str!("pmemobj.c");

/// Compiles it; or why not.
pub fn program(folder: &Path) -> Result<PathBuf, String> {
    let (source, program) = (folder.join("pmemobj.c"), folder.join("pmemobj"));
    fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
    let mut command = Command::new("cc");
    command.args(["-O2", "-std=gnu11", "-w", "-o"]).arg(&program).arg(&source).args(["-lpmemobj", "-lpmem"]);
    let output = command.output().map_err(|error| format!("cc: {error}"))?;
    match output.status.success() {
        true => Ok(program),
        false => Err("its header or library is missing; install libpmemobj-dev".to_owned()),
    }
}

/// Nanoseconds per commit.
pub fn run(program: &Path, folder: &Path, array: u64, bytes: u64) -> Result<f64, Error> {
    let pool = folder.join("pool");
    let mut command = Command::new(program);
    command.arg(&pool).args([array, bytes].map(|number| number.to_string()));
    // It takes files in /dev/shm for ordinary ones otherwise, and syncs.
    let output =
        command.env("PMEM_IS_PMEM_FORCE", "1").output().map_err(|error| Error::of("libpmemobj", error))?;
    _ = fs::remove_file(&pool);
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    text.trim().parse().map_err(|_| Error::of("libpmemobj", said.trim()))
}
