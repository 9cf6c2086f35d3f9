//! Concurrent C programs of many kinds (`tests/persist/others`), built with `--persist` by both compilers, killed and checked.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::persist_kinds::{kill_when_it_begins, memory};
use crate::common::{Scratch, compile, has, has_flushes, ok, stderr, stdout, strandline};

/// What a kind's data is changed by says which designs protect it.
fn designs(locked: bool) -> &'static [&'static str] {
    if locked { &["coupled", "decoupled", "strand", "atlas"] } else { &["coupled", "decoupled", "strand"] }
}

/// Builds the programs and lists their kinds, each with whether all its data is changed in critical sections of the
/// threads library. A design in the environment replaces the linked one. Only gcc's OpenMP is known.
fn build(scratch: &Scratch, compiler: &str) -> (PathBuf, Vec<(String, bool)>) {
    let sources = ["main", "locks", "words", "waits", "openmp"];
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/persist/others");
    let sources = sources.map(|name| format!("{}/{name}.c", at.display()));
    let own = if compiler == "gcc" { "-fopenmp" } else { "-Wno-atomic-alignment" };
    let arguments = format!(
        "--compiler={compiler} --persist=coupled -std=gnu11 -O2 -g -Wall -Wextra -Werror {own} -o others {} -pthread -lrt \
         -latomic",
        sources.join(" ")
    );
    compile(scratch.dir(), "cc", &arguments);
    let program = scratch.path("others");
    let kinds = stdout(&ok(Command::new(&program).arg("--kinds")));
    let kinds: Vec<_> =
        kinds.lines().map(|kind| (kind.trim_end_matches('*').to_owned(), kind.ends_with('*'))).collect();
    assert!(kinds.len() > 30);
    (program, kinds)
}

fn run(program: &Path, design: &str, pool: &Path, kind: &str, checks: bool) -> Command {
    let mut command = Command::new(program);
    command.env("STRANDLINE_PERSIST", design).args(checks.then_some("--check")).arg(pool).arg(kind);
    command
}

/// Kills each kind so often, under one design in turn or under each that protects it, each time going on with what the
/// last one left.
fn killed(compiler: &str, rounds: u64, all: bool) {
    if !has(compiler) {
        return println!("skipped: no {compiler}");
    }
    let (scratch, memory) = (Scratch::new(), memory());
    let (program, kinds) = build(&scratch, compiler);
    for (number, (kind, locked)) in (0..).zip(&kinds) {
        let designs = designs(*locked);
        let chosen = number as usize % designs.len();
        for design in if all { designs } else { &designs[chosen..=chosen] } {
            let pool = memory.path().join(format!("{kind}-{design}"));
            for round in 0..rounds {
                kill_when_it_begins(
                    run(&program, design, &pool, kind, false),
                    (number * 13 + round * 29) % 60,
                );
                let checked = run(&program, design, &pool, kind, true).output().expect("it runs");
                let said = stdout(&checked);
                assert!(checked.status.success(), "{compiler}, {kind}, {design}, round {round}: {said}");
            }
            std::fs::remove_file(&pool).expect("it was there");
        }
    }
}

#[test]
fn c_programs_of_many_kinds_survive_kills() {
    killed("gcc", 1, false);
}

#[test]
#[ignore = "kills thousands of processes (--long)"]
fn c_programs_of_many_kinds_survive_kills_by_the_thousand() {
    killed("gcc", 20, true);
    killed("clang", 20, true);
}

/// A check that finds nothing where nothing is logged would find nothing elsewhere.
#[test]
fn without_a_design_kills_leave_what_the_checks_of_c_programs_find() {
    let (scratch, memory) = (Scratch::new(), memory());
    let (program, _) = build(&scratch, "gcc");
    for kind in ["ranks", "texts"] {
        let found = (0..200).any(|round| {
            let pool = memory.path().join(format!("{kind}-{round}"));
            kill_when_it_begins(run(&program, "none", &pool, kind, false), 5 + round % 20);
            let good = run(&program, "none", &pool, kind, true).output().expect("it runs").status.success();
            std::fs::remove_file(&pool).expect("it was there");
            !good
        });
        assert!(found, "{kind}: 200 kills left good pools");
    }
}

/// What `strandline check` finds in two rounds of each thread, on pools that are there before.
fn checked(compiler: &str, only: &[&str], bounds: &[&str]) {
    if !has(compiler) || !has_flushes() {
        return println!("skipped: no {compiler}, or no flushes");
    }
    let (scratch, memory) = (Scratch::new(), memory());
    let (program, kinds) = build(&scratch, compiler);
    for (kind, locked) in kinds.iter().filter(|(kind, _)| only.is_empty() || only.contains(&kind.as_str())) {
        for design in designs(*locked) {
            let pool = memory.path().join(format!("{kind}-{design}"));
            ok(run(&program, design, &pool, kind, false).arg("0"));
            let mut check = strandline();
            check.env("STRANDLINE_PERSIST", design).args(["check", "--json", "--findings", "1"]).args(bounds);
            check.args(["--recover", &format!("{} --check POOL {kind}", program.display()), "--"]);
            let output = check.arg(&program).arg(&pool).args([kind, "2"]).output().expect("it runs");
            let said = stdout(&output);
            // A part of the images is no verdict, and a finding among them is one.
            assert!(
                said.contains("\"findings\": []"),
                "{compiler}, {kind}, {design}: {said}{}",
                stderr(&output)
            );
            assert!(!said.contains("\"images\": 0,"), "{compiler}, {kind}, {design}: no images: {said}");
            std::fs::remove_file(&pool).expect("it was there");
        }
    }
}

#[test]
fn check_finds_nothing_in_c_programs_of_many_kinds() {
    checked("gcc", &["cache", "wide-stack", "tasks"], &["--images", "8", "--time", "1s"]);
}

#[test]
#[ignore = "recovers thousands of images (--long)"]
fn check_finds_nothing_in_any_c_program_with_gcc_or_clang() {
    for compiler in ["gcc", "clang"] {
        checked(compiler, &[], &["--images", "16", "--time", "4s"]);
    }
}

#[test]
fn openmp_as_clang_has_it_is_refused() {
    if !has("clang") {
        return println!("skipped: no clang");
    }
    let scratch = Scratch::new();
    let source = scratch.file("a.c", "int main(void) { return 0; }\n");
    let arguments = ["cc", "--compiler=clang", "--persist=coupled", "-fopenmp"];
    let output = strandline().args(arguments).arg(source).output().expect("it runs");
    assert!(!output.status.success());
    assert!(stderr(&output).contains("use gcc"), "{}", stderr(&output));
}

/// A child that lives on must not keep the pool from being opened again once its parent was killed.
#[test]
fn a_child_of_a_killed_program_does_not_hold_the_pool() {
    let (scratch, memory) = (Scratch::new(), memory());
    let source = scratch.file(
        "parent.c",
        r#"#include <strandline_pool.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **arguments)
{
    sl_pool *pool = sl_pool_open(arguments[1], "parent", NULL);
    if (!pool)
        pool = sl_pool_create(arguments[1], "parent", 1 << 20, 64, NULL);
    if (!pool)
        return puts(sl_error()), 1;
    if (count > 2)
        return 0;
    int pipes[2];
    if (pipe(pipes))
        return 2;
    pid_t child = fork();
    if (child == 0) {
        if (write(pipes[1], "", 1) != 1)
            return 3;
        sleep(30);
        _exit(0);
    }
    char byte;
    if (read(pipes[0], &byte, 1) != 1)
        return 4;
    printf("%d\n", (int)child);
    fflush(stdout);
    raise(SIGKILL);
}
"#,
    );
    compile(scratch.dir(), "cc", &format!("--persist=decoupled -O1 -o parent {}", source.display()));
    let (program, pool) = (scratch.path("parent"), memory.path().join("pool"));
    let run = Command::new(&program).arg(&pool).output();
    let child = stdout(&run.expect("it runs"));
    let again = Command::new(&program).args([pool.as_os_str(), "again".as_ref()]).output().expect("it runs");
    _ = Command::new("kill").arg(child.trim()).status();
    assert!(again.status.success(), "{}", stdout(&again));
}
