//! More shapes of public reports, in three languages, each with its fixed twin: a log that is left unsynced
//! for the next one (leveldb#193), a torn page that the log's replay takes for done by its version
//! (arcadedb#4926), a hole in a log that threads share, a sync before the stream is flushed, a move by a
//! copy, a double write whose first place is used again too early, a link to a version that is not durable,
//! numbers that are given out twice.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::common::{Scratch, has, ok};
use crate::unmodified_shapes::{fresh, holds, program, python, words};

/// A shape, and what its judge says of the faulty program.
const SHAPES: [(&str, &str); 8] = [
    ("logs", "a later record is there without an earlier one"),
    ("version", "the page is not of its version"),
    ("slots", "a record behind a hole is lost"),
    ("unflushed", "the stream is lost"),
    ("moved", "the file is in neither folder"),
    ("twice", "no copy of a page is whole"),
    ("link", "the version is not whole"),
    ("numbers", "a number is given out again"),
];

/// The folder `d` as the programs find it.
fn as_found(scratch: &Scratch) {
    let files: [(&str, &[u8]); 8] = [
        ("log.1", b""),
        ("log.2", b""),
        ("log", b""),
        ("page", &[b'1'; 8192]),
        ("slots", &[0; 1024]),
        ("copy", &[b'x'; 2048]),
        ("home", &[b'o'; 6144]),
        ("mark", b"0"),
    ];
    fresh(scratch, &files);
    for folder in ["in", "out", "v1"] {
        std::fs::create_dir(scratch.path("d").join(folder)).expect("a folder");
    }
    std::fs::write(scratch.path("d/in/file"), [b'm'; 3000]).expect("a file");
    std::fs::write(scratch.path("d/v1/data"), "ooo").expect("a file");
    symlink("v1", scratch.path("d/current")).expect("a link");
}

fn hold(run: &[String], scratch: &Scratch) {
    ok(Command::new("gcc")
        .args(["-O1", "-pthread", "-o"])
        .arg(scratch.path("judge"))
        .arg(program("reports.c")));
    for (shape, accused) in SHAPES {
        for (twin, said) in [("wrong", (1, accused)), ("fixed", (0, "nothing found"))] {
            as_found(scratch);
            let recover = format!("./judge judge {shape} {twin} POOL");
            holds(scratch, ["posix", "64", &recover], &words(run, shape, twin), said);
        }
    }
}

#[test]
fn more_shapes_of_reports_in_c() {
    let scratch = Scratch::new();
    let built = scratch.path("reports");
    ok(Command::new("gcc").args(["-O2", "-pthread", "-o"]).arg(&built).arg(program("reports.c")));
    hold(&[built.display().to_string()], &scratch);
}

#[test]
fn more_shapes_of_reports_in_python() {
    let Some(python) = python() else { return };
    hold(&[python, program("reports.py").display().to_string()], &Scratch::new());
}

#[test]
fn more_shapes_of_reports_in_javascript() {
    if !has("node") {
        println!("skipped: no `node` on this machine");
        return;
    }
    hold(&["node".to_owned(), program("reports.js").display().to_string()], &Scratch::new());
}
