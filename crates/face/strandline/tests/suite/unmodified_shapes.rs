//! What the tests of shapes of public reports share: the programs, their languages, and what a check must
//! say.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Scratch, has, ok, stderr, stdout, strandline};

pub fn program(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/unmodified")).join(name)
}

/// The folder `d` with these files alone.
pub fn fresh(scratch: &Scratch, files: &[(&str, &[u8])]) {
    let folder = scratch.path("d");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir(&folder).expect("the folder is made");
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).expect("a file is written");
    }
}

/// The interpreter itself, if there is one: what is found first may be a script that looks for it.
pub fn python() -> Option<String> {
    let say = ["-c", "import sys; print(sys.executable)"];
    has("python3").then(|| stdout(&ok(Command::new("python3").args(say))).trim().to_owned())
}

/// A program of the shapes in Go, if that is there.
pub fn in_go(scratch: &Scratch, source: &str) -> Option<String> {
    if !Command::new("go").arg("version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: no `go` on this machine");
        return None;
    }
    let built = scratch.path("in-go");
    let mut go = Command::new("go");
    go.env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache/go")).args(["build", "-o"]).arg(&built);
    ok(go.arg(program(source)).arg(program("files.go")));
    Some(built.display().to_string())
}

/// A check of the folder `d`, which must end with the status and say the words.
pub fn holds(
    scratch: &Scratch,
    [platform, images, recover]: [&str; 3],
    run: &[String],
    (status, words): (i32, &str),
) {
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["check", "--files", "d", "--platform", platform]);
    command.args(["--images", images, "--recover", recover, "--"]).args(run);
    let output = command.output().expect("it runs");
    let said = format!("{platform} {run:?}: {}{}", stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.contains(words), "no `{words}`: {said}");
}

/// The words of a command with the shape and the twin behind them.
pub fn words(run: &[String], shape: &str, twin: &str) -> Vec<String> {
    run.iter().cloned().chain([shape.to_owned(), twin.to_owned()]).collect()
}
