//! Shapes of public reports beside those that the checker was made with, in three languages, each with its
//! fixed twin: an append-only log without checksums, an index before its data, two headers without an order,
//! an old log that is removed too early, a temporary file used again, a file that is emptied and written, a
//! new file without its bytes, two superblocks written at once, old records of a log that is used again.

use std::process::Command;

use crate::common::{Scratch, ok};
use crate::unmodified_shapes::{fresh, holds, in_go, program, python, words};

/// A shape, and what its judge says of the faulty program.
const SHAPES: [(&str, &str); 9] = [
    ("log", "a record has other bytes"),
    ("index", "the index names data that is not there"),
    ("header", "the header points to no page"),
    ("wal", "no log"),
    ("temp", "the file has an end of another one"),
    ("config", "the configuration is lost"),
    ("unsynced", "the configuration is lost"),
    ("super", "no superblock is whole"),
    ("reused", "an old record is taken for a new one"),
];

/// The folder `d` as the programs find it.
fn as_found(scratch: &Scratch) {
    let mut pages = vec![0; 5 * 4096];
    pages[..4].copy_from_slice(b"1 2\n");
    pages[4096..4100].copy_from_slice(b"0 0\n");
    pages[2 * 4096..3 * 4096].fill(b'p');
    let record = |number: u32| format!("{number:06}\n{}", "r".repeat(505));
    let records: String = (1..=4).map(record).collect();
    let files: [(&str, &[u8]); 8] = [
        ("log", b""),
        ("data", &[b'd'; 600]),
        ("index", b"600\n"),
        ("db", &pages),
        ("wal.1", &[b'w'; 700]),
        ("config", &[b'o'; 700]),
        ("super", &[b'o'; 8192]),
        ("reused", records.as_bytes()),
    ];
    fresh(scratch, &files);
}

fn hold(scratch: &Scratch, run: &[String]) {
    ok(Command::new("gcc").args(["-O1", "-o"]).arg(scratch.path("judge")).arg(program("blind.c")));
    for (shape, accused) in SHAPES {
        for (twin, said) in [("wrong", (1, accused)), ("fixed", (0, "nothing found"))] {
            as_found(scratch);
            let recover = format!("./judge judge {shape} {twin} POOL");
            holds(scratch, ["posix", "64", &recover], &words(run, shape, twin), said);
        }
    }
}

#[test]
fn other_shapes_of_reports_in_c() {
    let scratch = Scratch::new();
    ok(Command::new("gcc").args(["-O2", "-o"]).arg(scratch.path("blind")).arg(program("blind.c")));
    hold(&scratch, &[scratch.path("blind").display().to_string()]);
}

#[test]
fn other_shapes_of_reports_in_python() {
    let Some(python) = python() else { return };
    hold(&Scratch::new(), &[python, program("blind.py").display().to_string()]);
}

#[test]
#[ignore = "builds with Go, half a minute: ./test --long"]
fn other_shapes_of_reports_in_go() {
    let scratch = Scratch::new();
    let Some(built) = in_go(&scratch, "blind.go") else { return };
    hold(&scratch, &[built]);
}
