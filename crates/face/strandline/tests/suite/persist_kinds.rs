//! Programs built with `--persist` that synchronise in every way, are killed, and check what survived.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{Scratch, compile, has, ok, stdout};

/// The designs that promise a frontier of SFRs.
const DESIGNS: [&str; 3] = ["coupled", "decoupled", "strand"];

/// Builds one of `tests/persist` with a design.
fn build(scratch: &Scratch, source: &str, design: &str, options: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/persist").join(source);
    let (name, verb) = match source.split_once('.') {
        Some((name, "c")) => (name, "cc"),
        Some((name, _)) => (name, "c++"),
        None => unreachable!("sources have endings"),
    };
    let standard = if verb == "cc" { "-std=c11" } else { "-std=c++17" };
    let name = format!("{name}-{design}");
    let warnings = "-Wall -Wextra -Werror -g";
    let arguments = format!(
        "--persist={design} {options} {standard} {warnings} -o {name} {} -pthread -lm",
        path.display()
    );
    compile(scratch.dir(), verb, &arguments);
    scratch.path(&name)
}

/// A folder in memory, so that a run is as fast as its stores.
fn memory() -> tempfile::TempDir {
    let folder = Path::new("/dev/shm");
    let folder = if folder.is_dir() { folder.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(folder).expect("a folder in memory")
}

/// Runs a program on a pool and kills it a while after it has begun.
fn kill(program: &Path, pool: &Path, kind: Option<&str>, after: u64) {
    let mut run = Command::new(program).arg(pool).args(kind).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut line = String::new();
    let output = run.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("it says that it begins");
    assert_eq!(line.trim(), "begins");
    std::thread::sleep(Duration::from_millis(after));
    run.kill().expect("it is killed");
    run.wait().expect("it ends");
}

/// Whether what survived is right, and what the program says of it.
fn check(program: &Path, pool: &Path) -> (bool, String) {
    let output = Command::new(program).arg("--check").arg(pool).output().expect("it runs");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{program:?}: {output:?}");
    (output.status.success(), stdout(&output))
}

fn survives(source: &str, design: &str, kind: Option<&str>, rounds: u64) {
    let (scratch, memory) = (Scratch::new(), memory());
    let (program, pool) = (build(&scratch, source, design, "-O2"), memory.path().join("pool"));
    for round in 0..rounds {
        kill(&program, &pool, kind, round * 37 % 90);
        let (good, said) = check(&program, &pool);
        assert!(good, "{source} {design}, round {round}: {said}");
    }
}

#[test]
fn every_kind_of_synchronisation_survives_kills() {
    for design in DESIGNS {
        survives("kinds.c", design, None, 6);
    }
}

#[test]
fn critical_sections_of_atlas_survive_kills() {
    for kind in ["mutex", "recursive", "robust", "rwlock", "spin", "mtx"] {
        survives("kinds.c", "atlas", Some(kind), 2);
    }
}

/// A check that finds nothing where nothing is logged would find nothing elsewhere.
#[test]
fn without_a_design_kills_leave_what_the_checks_find() {
    let (scratch, memory) = (Scratch::new(), memory());
    let program = build(&scratch, "kinds.c", "none", "-O2");
    let found = (0..200).any(|round| {
        let pool = memory.path().join(round.to_string());
        kill(&program, &pool, None, 20 + round % 10);
        let bad = !check(&program, &pool).0;
        std::fs::remove_file(&pool).expect("it was there");
        bad
    });
    assert!(found, "200 kills left good pools");
}

#[test]
fn handlers_store_and_synchronise_in_the_middle_of_everything() {
    for design in DESIGNS {
        let (scratch, memory) = (Scratch::new(), memory());
        let (program, pool) = (build(&scratch, "signals.c", design, "-O2"), memory.path().join("pool"));
        for round in 0..3 {
            // It dies of its own; one that hangs never does.
            let count = (1000 * (round + 1)).to_string();
            let ended = Command::new(&program).arg(&pool).arg(&count).output().expect("it runs");
            assert_eq!(ended.status.code(), None, "{design}: {ended:?}");
            let (good, said) = check(&program, &pool);
            assert!(good, "{design}, round {round}: {said}");
        }
    }
}

#[test]
fn a_handler_between_announcement_and_store_commits_nothing_of_it() {
    for design in DESIGNS {
        let (scratch, memory) = (Scratch::new(), memory());
        let (program, pool) = (build(&scratch, "between.c", design, "-O2"), memory.path().join("pool"));
        let ended = Command::new(&program).arg(&pool).output().expect("it runs");
        assert_eq!(ended.status.code(), None, "{design}: {ended:?}");
        let (good, said) = check(&program, &pool);
        assert!(good, "{design}: {said}");
    }
}

#[test]
fn what_functions_write_is_taken_back() {
    for compiler in ["g++", "clang++"].into_iter().filter(|compiler| has(compiler)) {
        let (scratch, memory) = (Scratch::new(), memory());
        let options = format!("--compiler={compiler} -O2 -Wno-unused-result -Wno-psabi");
        // `--compiler` comes first.
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/persist/writers.cc");
        let (first, rest) = options.split_once(' ').expect("options");
        let arguments =
            format!("{first} --persist=coupled {rest} -std=c++17 -g -o writers {} -lm", source.display());
        compile(scratch.dir(), "c++", &arguments);
        let program = scratch.path("writers");
        let count: u32 = stdout(&ok(Command::new(&program).arg("--count"))).trim().parse().expect("a number");
        let mut wrong = String::new();
        for case in 0..count {
            let (pool, case) = (memory.path().join(case.to_string()), case.to_string());
            let ended = Command::new(&program).arg(&pool).arg(&case).output().expect("it runs");
            assert_eq!(ended.status.code(), None, "{compiler}, case {case}: {ended:?}");
            let mut check = Command::new(&program);
            let checked = check.arg("--check").arg(&pool).arg(&case).output().expect("it runs");
            assert!(matches!(checked.status.code(), Some(0 | 1)), "{compiler}, case {case}: {checked:?}");
            wrong += &stdout(&checked);
            std::fs::remove_file(&pool).expect("it was there");
        }
        assert!(wrong.is_empty(), "{compiler}:\n{wrong}");
    }
}

#[test]
fn exceptions_and_cancellation_pass() {
    for design in ["coupled", "decoupled", "atlas"] {
        let (scratch, memory) = (Scratch::new(), memory());
        let program = build(&scratch, "unwinding.cc", design, "-O1");
        let said = stdout(&ok(Command::new(program).arg(memory.path().join("pool"))));
        assert_eq!(said.trim(), "4 destroyed, 4 caught, 7 done", "{design}");
    }
}

#[test]
fn children_have_no_pool_and_ends_do_not_wait_for_threads() {
    for design in ["coupled", "decoupled", "strand", "atlas"] {
        let (scratch, memory) = (Scratch::new(), memory());
        let (program, pool) = (build(&scratch, "fork.c", design, "-O2"), memory.path().join("pool"));
        for _ in 0..3 {
            let output = ok(Command::new(&program).arg(&pool));
            let said = crate::common::stderr(&output);
            assert!(said.contains("a child process stores to the pool of its parent"), "{design}: {said}");
        }
    }
}
