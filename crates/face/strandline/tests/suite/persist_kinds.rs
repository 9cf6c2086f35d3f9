//! Programs built with `--persist` that synchronise in every way, are killed, and check what survived.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{Scratch, compile, has, has_flushes, ok, stderr, stdout, strandline};

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

/// Builds the shapes of concurrent programs with a compiler, and lists their kinds. A design in the environment replaces
/// the linked one.
fn shapes(scratch: &Scratch, compiler: &str) -> (PathBuf, Vec<String>) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/persist/shapes");
    let sources = ["main", "locks", "words", "waits"].map(|name| format!("{}/{name}.cc", sources.display()));
    let name = format!("shapes-{compiler}");
    let arguments = format!(
        "--compiler={compiler} --persist=coupled -std=c++20 -O2 -g -Wall -Wextra -o {name} {} -pthread",
        sources.join(" ")
    );
    compile(scratch.dir(), "c++", &arguments);
    let program = scratch.path(&name);
    let kinds = stdout(&ok(Command::new(&program).arg("--kinds")));
    assert!(kinds.lines().count() > 30);
    (program, kinds.lines().map(str::to_owned).collect())
}

/// A shape under a design: on a pool, or its check.
fn shape(program: &Path, design: &str, pool: &Path, kind: &str, checks: bool) -> Command {
    let mut command = Command::new(program);
    let verb = checks.then_some("--check");
    command.env("STRANDLINE_PERSIST", design).args(verb).arg(pool).arg(kind);
    command
}

/// Kills each shape under each design so often, each time going on with what the last one left.
fn shapes_killed(compiler: &str, rounds: u64) {
    if !has(compiler) {
        return println!("skipped: no {compiler}");
    }
    let (scratch, memory) = (Scratch::new(), memory());
    let (program, kinds) = shapes(&scratch, compiler);
    for (number, kind) in (0..).zip(&kinds) {
        // ATLAS knows no locks that a program makes of atomics, so it promises nothing here.
        for design in DESIGNS {
            let pool = memory.path().join(format!("{kind}-{design}"));
            for round in 0..rounds {
                let run = shape(&program, design, &pool, kind, false);
                kill_when_it_begins(run, (number * 13 + round * 29) % 60);
                let checked = shape(&program, design, &pool, kind, true).output().expect("it runs");
                let said = stdout(&checked);
                assert!(checked.status.success(), "{compiler}, {kind}, {design}, round {round}: {said}");
            }
            std::fs::remove_file(&pool).expect("it was there");
        }
    }
}

#[test]
fn shapes_of_concurrent_programs_survive_kills() {
    shapes_killed("g++", 1);
}

#[test]
#[ignore = "kills thousands of processes (--long)"]
fn shapes_of_concurrent_programs_survive_kills_by_the_thousand() {
    shapes_killed("g++", 20);
    shapes_killed("clang++", 20);
}

/// What `strandline check` finds in two rounds of shapes, on pools that are there before.
fn shapes_checked(compiler: &str, only: &[&str], bounds: &[&str]) {
    if !has(compiler) || !has_flushes() {
        return println!("skipped: no {compiler}, or no flushes");
    }
    let (scratch, memory) = (Scratch::new(), memory());
    let (program, kinds) = shapes(&scratch, compiler);
    let chosen = |kind: &&String| only.is_empty() || only.contains(&kind.as_str());
    for (kind, design) in kinds.iter().filter(chosen).flat_map(|kind| DESIGNS.map(|design| (kind, design))) {
        let pool = memory.path().join(format!("{kind}-{design}"));
        ok(shape(&program, design, &pool, kind, false).arg("0"));
        let mut check = strandline();
        check.env("STRANDLINE_PERSIST", design).args(["check", "--json", "--findings", "1"]).args(bounds);
        check.args(["--recover", &format!("{} --check POOL {kind}", program.display()), "--"]);
        let output = check.arg(&program).arg(&pool).args([kind, "2"]).output().expect("it runs");
        let said = stdout(&output);
        // A part of the images is no verdict, and a finding among them is one.
        assert!(said.contains("\"findings\": []"), "{compiler}, {kind}, {design}: {said}{}", stderr(&output));
        assert!(!said.contains("\"images\": 0,"), "{compiler}, {kind}, {design}: no images: {said}");
        std::fs::remove_file(&pool).expect("it was there");
    }
}

#[test]
fn check_finds_nothing_in_shapes_of_concurrent_programs() {
    shapes_checked("g++", &["ticket", "many-to-many"], &["--images", "8", "--time", "1s"]);
}

#[test]
#[ignore = "recovers thousands of images (--long)"]
fn check_finds_nothing_in_any_shape_with_gcc_or_clang() {
    for compiler in ["g++", "clang++"] {
        shapes_checked(compiler, &[], &["--images", "16", "--time", "4s"]);
    }
}

/// A folder in memory, so that a run is as fast as its stores.
pub(super) fn memory() -> tempfile::TempDir {
    let folder = Path::new("/dev/shm");
    let folder = if folder.is_dir() { folder.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(folder).expect("a folder in memory")
}

/// Runs a program on a pool and kills it a while after it has begun.
fn kill(program: &Path, pool: &Path, kind: Option<&str>, after: u64) {
    let mut run = Command::new(program);
    run.arg(pool).args(kind);
    kill_when_it_begins(run, after);
}

pub(super) fn kill_when_it_begins(mut run: Command, after: u64) {
    let mut run = run.stdout(Stdio::piped()).spawn().expect("it runs");
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

/// Runs each case of a program, which ends in a trap, and lists what is wrong with what survived. Without a design
/// something is: else a case writes nothing.
fn cases(program: &Path, design: &str) -> String {
    let memory = memory();
    let count: u32 = stdout(&ok(Command::new(program).arg("--count"))).trim().parse().expect("a number");
    assert!(count > 0);
    let mut wrong = String::new();
    for case in 0..count {
        for design in [design, "none"] {
            let (pool, case) = (memory.path().join(format!("{case}-{design}")), case.to_string());
            let run = |verb: Option<&str>| {
                let mut command = Command::new(program);
                command.env("STRANDLINE_PERSIST", design).args(verb).arg(&pool).arg(&case);
                command.output().expect("it runs")
            };
            let ended = run(None);
            assert_eq!(ended.status.code(), None, "{program:?}, {design}, case {case}: {ended:?}");
            let checked = run(Some("--check"));
            assert!(matches!(checked.status.code(), Some(0 | 1)), "{design}, case {case}: {checked:?}");
            match design {
                "none" if checked.status.success() => wrong += &format!("case {case} writes nothing\n"),
                "none" => {}
                _ => wrong += &stdout(&checked),
            }
            std::fs::remove_file(&pool).expect("it was there");
        }
    }
    wrong
}

fn functions(compiler: &str, fortified: &str) {
    if !has(compiler) {
        return;
    }
    let scratch = Scratch::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/persist/writers.cc");
    // `--compiler` comes first.
    let arguments = format!(
        "--compiler={compiler} --persist=coupled -O2 {fortified} -Wno-unused-result -Wno-psabi -std=c++17 -g \
         -o writers {} -pthread -lm -latomic",
        source.display()
    );
    compile(scratch.dir(), "c++", &arguments);
    let wrong = cases(&scratch.path("writers"), "coupled");
    assert!(wrong.is_empty(), "{compiler} {fortified}:\n{wrong}");
}

#[test]
fn what_functions_write_is_taken_back_with_gcc() {
    functions("g++", "");
}

#[test]
fn what_functions_write_is_taken_back_with_clang() {
    functions("clang++", "-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2");
}

#[test]
fn what_checked_functions_write_is_taken_back() {
    functions("g++", "-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3");
}

#[test]
fn what_functions_do_not_write_is_left_alone() {
    let scratch = Scratch::new();
    for design in DESIGNS {
        let wrong = cases(&build(&scratch, "beside.c", design, "-O2"), design);
        assert!(wrong.is_empty(), "{design}:\n{wrong}");
    }
}

#[test]
fn atomics_of_many_bytes_survive_kills() {
    for design in DESIGNS {
        let (scratch, memory) = (Scratch::new(), memory());
        let program = build(&scratch, "large.cc", design, "-O2 -latomic");
        let pool = memory.path().join("pool");
        for round in 0..4 {
            kill(&program, &pool, None, round * 23);
            let (good, said) = check(&program, &pool);
            assert!(good, "{design}, round {round}: {said}");
        }
    }
}

/// Names that a shared library has for others.
fn exports(library: &Path) -> Vec<String> {
    let output = ok(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let names = stdout(&output);
    let names = names.lines().filter_map(|line| line.split_whitespace().next_back());
    names.map(|name| name.split('@').next().unwrap_or(name).to_owned()).collect()
}

/// Shared libraries that a program is started with, by a part of their names.
fn library_of(program: &Path, part: &str) -> PathBuf {
    let listed = stdout(&ok(Command::new("ldd").arg(program)));
    let line = listed.lines().find(|line| line.contains(part)).expect("it is linked with it");
    let path = line.split("=>").nth(1).unwrap_or(line).split_whitespace().next().expect("a path");
    PathBuf::from(path)
}

#[test]
fn the_runtime_knows_all_checked_functions_that_write() {
    // These write nothing of the program's, or (obstacks) into memory that the program has allocated itself.
    const OTHERS: [&str; 5] =
        ["__fdelt_chk", "__obstack_printf_chk", "__obstack_vprintf_chk", "__longjmp_chk", "__chk_fail"];
    let scratch = Scratch::new();
    let program = build(&scratch, "fork.c", "coupled", "-O2");
    let known = exports(&library_of(&program, "libstrandline_persist"));
    let has = |name: &str| known.iter().any(|known| known == name || *known == format!("strandline_{name}"));
    let all = exports(&library_of(&program, "libc.so"));
    let checked: Vec<_> = all.iter().filter(|name| name.ends_with("_chk")).collect();
    assert!(checked.len() > 40, "the C library has {} functions that check", checked.len());
    let missing: Vec<_> =
        checked.into_iter().filter(|name| !has(name) && !OTHERS.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "the runtime does not know {missing:?}");
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
