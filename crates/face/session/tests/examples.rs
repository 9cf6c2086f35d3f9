//! The examples run and print what they promise. They use the library alone, not the `strandline` binary.

use std::process::Command;

/// What an example prints. Cargo has built it already, unless this test runs alone.
fn printed(example: &str) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--package", "session", "--example", example]);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo can be started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_program_is_profiled() {
    assert!(printed("profile").contains("scatter"));
}

#[test]
fn a_program_is_checked() {
    assert!(printed("check").contains("1 finding"));
}

#[test]
fn a_workload_is_simulated() {
    assert!(printed("simulate").contains("on xpoint"));
}

#[test]
fn a_modelled_memory_is_measured() {
    assert!(printed("measure").contains("latency"));
}

#[test]
fn a_published_result_is_reproduced() {
    assert!(printed("reproduce").contains("xpoint-9"));
}
