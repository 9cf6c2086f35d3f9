//! The shapes of public reports of lost data in five languages, unmodified programs all of them: each fault
//! is found, and nothing is said of its fixed twin.

use std::process::Command;

use crate::common::{Scratch, has, ok};
use crate::unmodified_shapes::{fresh, holds, in_go, program, python, words};

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
fn as_found(scratch: &Scratch, shape: &str) {
    let mut data = vec![0; 8192];
    data[..8].copy_from_slice(b"00000000");
    let files: [(&str, &[u8]); 5] = [
        ("CURRENT", b"1\n"),
        ("data-1", b"version 1\n"),
        ("log", b""),
        ("checkpoint", b"0\n"),
        ("data", &data),
    ];
    fresh(scratch, if shape == "lock" { &[] } else { &files });
}

fn hold(scratch: &Scratch, language: &Language) {
    for ((shape, accused), platform) in
        SHAPES.into_iter().flat_map(|shape| [(shape, "ext4"), (shape, "posix")])
    {
        for (twin, said) in [("wrong", (1, accused)), ("fixed", (0, "nothing found"))] {
            as_found(scratch, shape);
            let recover = match shape {
                "lock" => format!("{} lock {twin} POOL", language.run.join(" ")),
                _ => format!("sh {} {shape} POOL", program("recover.sh").display()),
            };
            let failing = if shape == "swallowed" { &language.failing[..] } else { &[] };
            let run = words(&[failing, &language.run].concat(), shape, twin);
            holds(scratch, [platform, "16", &recover], &run, said);
        }
    }
}

/// A preloaded library that makes the second sync fail, for programs that use the C library.
fn preloaded(scratch: &Scratch) -> Vec<String> {
    let library = scratch.path("fail_sync.so");
    ok(Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(program("fail_sync.c")));
    vec!["env".to_owned(), format!("LD_PRELOAD={}", library.display())]
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
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    let run = vec![python, program("shapes.py").display().to_string()];
    hold(&scratch, &Language { run, failing: preloaded(&scratch) });
}

/// More shapes, of a file system that promises no more than POSIX.
#[test]
#[ignore = "starts Python for each of many images, a minute: ./test --long"]
fn more_shapes_of_reports_in_python() {
    let Some(python) = python() else { return };
    let scratch = Scratch::new();
    let shapes =
        "folder mapped by_flag by_range copied linked allocated buffered unnamed by_child wrong_file";
    for shape in shapes.split(' ') {
        for (twin, said) in [("wrong", (1, "")), ("fixed", (0, "nothing found"))] {
            fresh(&scratch, &[]);
            let run = [python.clone(), program("more.py").display().to_string()];
            let recover = format!("{} {shape} recover POOL", run.join(" "));
            holds(&scratch, ["posix", "16", &recover], &words(&run, shape, twin), said);
        }
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
    let scratch = Scratch::new();
    let Some(built) = in_go(&scratch, "shapes.go") else { return };
    // A static program takes nothing from a preloaded library: it closes its file too early instead.
    hold(&scratch, &Language { run: vec![built], failing: Vec::new() });
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
