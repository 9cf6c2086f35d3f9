//! What all tests of real processes need.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Whether this process may choose process numbers.
pub fn privileged() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let is = status.contains("CapEff:\t000001ff");
    if !is {
        println!("skipped: choosing process numbers needs root");
    }
    is
}

/// Builds `tests/programs/NAME.c`; none where that cannot be done, or nothing be done with it.
pub fn built(folder: &Path, name: &str) -> Option<PathBuf> {
    if !privileged() {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{name}.c"));
    let program = folder.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-pthread", "-w", "-o"]).arg(&program).arg(source).arg("-lm");
    if !compiler.status().is_ok_and(|status| status.success()) {
        println!("skipped: no C compiler");
        return None;
    }
    Some(program)
}

/// Starts a program with the place of its result.
pub fn started(program: &Path, out: &Path) -> Child {
    let mut command = Command::new(program);
    command.arg(out).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it was just built")
}

/// A folder in memory, removed at the end.
pub fn memory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("strandline-test-").tempdir_in("/dev/shm").expect("/dev/shm")
}
