//! The examples run and print what they promise. They use the library alone, not the `strandline` binary.

use std::process::Command;

/// What an example prints. `cargo test` has built it beside this test, with the features of all that it
/// builds; a build of this package alone would have others, and compile its dependencies once more.
fn printed(example: &str) -> String {
    let here = std::env::current_exe().expect("the path of this test");
    let built = here.ancestors().nth(2).expect("the build folder").join("examples").join(example);
    let mut command = if built.exists() {
        Command::new(built)
    } else {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--package", "session", "--example", example]);
        cargo
    };
    let output =
        command.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("the example can be started");
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
