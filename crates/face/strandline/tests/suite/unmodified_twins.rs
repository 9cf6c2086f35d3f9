//! The shapes of public reports of lost data in five languages, unmodified programs all of them: each fault
//! is found, and nothing is said of its fixed twin.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Scratch, has, ok, stderr, stdout, strandline};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/unmodified");

/// A shape, and what is said of its faulty program.
const SHAPES: [(&str, &str); 5] = [
    // A manifest is renamed into place, and the folder is not synced.
    ("manifest", "the rename of `CURRENT.tmp` to `CURRENT`"),
    // A log is emptied before the checkpoint that replaces it is durable.
    ("checkpoint", "4 was acknowledged, 0 is there"),
    // A length is written before the bytes that it covers.
    ("length", "what was written to data at 4096"),
    // The error of a sync is swallowed once.
    ("swallowed", "2 was acknowledged, 1 is there"),
    // A lock file is taken for data after a crash.
    ("lock", "LOCK is no segment"),
];

/// A program's own command and how its second sync is made to fail.
struct Language {
    run: Vec<String>,
    failing: Vec<String>,
}

/// The folder `d` as the shapes' programs find it.
fn fresh(scratch: &Scratch) {
    let folder = scratch.path("d");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir(&folder).expect("the folder is made");
    let file =
        |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("a file is written");
    file("CURRENT", b"1\n");
    file("data-1", b"version 1\n");
    file("log", b"");
    file("checkpoint", b"0\n");
    let mut data = vec![0; 8192];
    data[..8].copy_from_slice(b"00000000");
    file("data", &data);
}

fn check(scratch: &Scratch, language: &Language, [platform, shape, twin]: [&str; 3]) -> Output {
    fresh(scratch);
    let mut run = language.run.clone();
    if shape == "swallowed" {
        run.splice(0..0, language.failing.clone());
    }
    let mut recover = format!("sh {PROGRAMS}/recover.sh {shape} POOL");
    if shape == "lock" {
        for name in ["CURRENT", "data-1", "log", "checkpoint", "data"] {
            std::fs::remove_file(scratch.path("d").join(name)).expect("it is removed");
        }
        recover = format!("{} lock {twin} POOL", language.run.join(" "));
    }
    let mut command = strandline();
    command.current_dir(scratch.dir()).args([
        "check",
        "--files",
        "d",
        "--platform",
        platform,
        "--images",
        "16",
    ]);
    command.args(["--recover", &recover, "--"]).args(&run).args([shape, twin]);
    command.output().expect("it runs")
}

fn hold(scratch: &Scratch, language: &Language) {
    for ((shape, accused), platform) in
        SHAPES.into_iter().flat_map(|shape| [(shape, "ext4"), (shape, "posix")])
    {
        for (twin, status, words) in [("wrong", 1, accused), ("fixed", 0, "nothing found")] {
            let output = check(scratch, language, [platform, shape, twin]);
            let said = format!("{platform} {shape} {twin}: {}{}", stdout(&output), stderr(&output));
            assert_eq!(output.status.code(), Some(status), "{said}");
            assert!(said.contains(words), "{said}");
        }
    }
}

/// A preloaded library that makes the second sync fail, for programs that use the C library.
fn preloaded(scratch: &Scratch) -> Vec<String> {
    let library = scratch.path("fail_sync.so");
    ok(Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(program("fail_sync.c")));
    vec!["env".to_owned(), format!("LD_PRELOAD={}", library.display())]
}

/// The interpreter itself: what is found first may be a script that looks for it.
fn python() -> String {
    let say = ["-c", "import sys; print(sys.executable)"];
    stdout(&ok(Command::new("python3").args(say))).trim().to_owned()
}

fn program(name: &str) -> PathBuf {
    Path::new(PROGRAMS).join(name)
}

/// A compiled program of the shapes.
fn compiled(scratch: &Scratch, compiler: &mut Command, source: &str) -> Language {
    ok(compiler.current_dir(scratch.dir()).args(["-o", "shapes"]).arg(program(source)));
    Language { run: vec![scratch.path("shapes").display().to_string()], failing: preloaded(scratch) }
}

#[test]
fn shapes_of_reports_in_c() {
    let scratch = Scratch::new();
    let language = compiled(&scratch, Command::new("gcc").arg("-O2"), "shapes.c");
    hold(&scratch, &language);
}

#[test]
fn shapes_of_reports_in_python() {
    if !has("python3") {
        return;
    }
    let scratch = Scratch::new();
    let run = vec![python(), program("shapes.py").display().to_string()];
    hold(&scratch, &Language { run, failing: preloaded(&scratch) });
}

/// More shapes, of a file system that promises no more than POSIX.
#[test]
#[ignore = "starts Python for each of many images, a minute: ./test --long"]
fn more_shapes_of_reports_in_python() {
    if !has("python3") {
        return;
    }
    let scratch = Scratch::new();
    let shapes =
        "folder mapped by_flag by_range copied linked allocated buffered unnamed by_child wrong_file";
    for (shape, (twin, status)) in
        shapes.split(' ').flat_map(|shape| [(shape, ("wrong", 1)), (shape, ("fixed", 0))])
    {
        let folder = scratch.path("d");
        std::fs::remove_dir_all(&folder).ok();
        std::fs::create_dir(&folder).expect("the folder is made");
        let run = [python(), program("more.py").display().to_string(), shape.to_owned()];
        let recover = format!("{} recover POOL", run.join(" "));
        let mut command = strandline();
        command.current_dir(scratch.dir()).args(["check", "--files", "d", "--platform", "posix"]);
        command.args(["--images", "16", "--recover", &recover, "--"]).args(&run).arg(twin);
        let output = command.output().expect("it runs");
        let said = format!("{shape} {twin}: {}{}", stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(status), "{said}");
    }
}

#[test]
fn shapes_of_reports_in_rust() {
    if !has("rustc") {
        return;
    }
    let scratch = Scratch::new();
    let language = compiled(&scratch, Command::new("rustc").args(["--edition", "2024", "-O"]), "shapes.rs");
    hold(&scratch, &language);
}

#[test]
#[ignore = "builds with Go, half a minute: ./test --long"]
fn shapes_of_reports_in_go() {
    if !Command::new("go").arg("version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: no `go` on this machine");
        return;
    }
    let scratch = Scratch::new();
    // A static program takes nothing from a preloaded library: it closes its file too early instead.
    let mut go = Command::new("go");
    go.env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache/go")).arg("build");
    let language = Language { failing: Vec::new(), ..compiled(&scratch, &mut go, "shapes.go") };
    hold(&scratch, &language);
}

#[test]
#[ignore = "starts a JVM for each run, a minute: ./test --long"]
fn shapes_of_reports_in_java() {
    if !has("javac") || !has("java") {
        return;
    }
    let scratch = Scratch::new();
    ok(Command::new("javac").args(["-d", "classes"]).arg(program("Shapes.java")).current_dir(scratch.dir()));
    let classes = scratch.path("classes").display().to_string();
    let run = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", &classes, "Shapes"];
    hold(&scratch, &Language { run: run.map(str::to_owned).to_vec(), failing: preloaded(&scratch) });
}
