//! Shapes of public reports beside those that the checker was made with, in three languages, each with its
//! fixed twin: an append-only log without checksums, an index before its data, two headers without an order,
//! an old log that is removed too early, a temporary file used again, a file that is emptied and written.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Scratch, has, ok, stderr, stdout, strandline};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/unmodified");

/// A shape, and what its judge says of the faulty program.
const SHAPES: [(&str, &str); 6] = [
    ("log", "a record has other bytes"),
    ("index", "the index names data that is not there"),
    ("header", "the header points to no page"),
    ("wal", "no log"),
    ("temp", "the file has an end of another one"),
    ("config", "the configuration is lost"),
];

fn program(name: &str) -> PathBuf {
    Path::new(PROGRAMS).join(name)
}

/// The folder `d` as the programs find it.
fn fresh(scratch: &Scratch) {
    let folder = scratch.path("d");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir(&folder).expect("the folder is made");
    let file =
        |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("a file is written");
    file("log", b"");
    file("data", &[b'd'; 600]);
    file("index", b"600\n");
    let mut pages = vec![0; 5 * 4096];
    pages[..4].copy_from_slice(b"1 2\n");
    pages[4096..4100].copy_from_slice(b"0 0\n");
    pages[2 * 4096..3 * 4096].fill(b'p');
    file("db", &pages);
    file("wal.1", &[b'w'; 700]);
    file("config", &[b'o'; 700]);
}

fn hold(scratch: &Scratch, run: &[String]) {
    ok(Command::new("gcc").args(["-O1", "-o"]).arg(scratch.path("judge")).arg(program("blind.c")));
    for ((shape, accused), (twin, status)) in
        SHAPES.into_iter().flat_map(|shape| [(shape, ("wrong", 1)), (shape, ("fixed", 0))])
    {
        fresh(scratch);
        let recover = format!("./judge judge {shape} {twin} POOL");
        let mut command = strandline();
        command.current_dir(scratch.dir()).args(["check", "--files", "d", "--platform", "posix"]);
        command.args(["--images", "64", "--recover", &recover, "--"]).args(run).args([shape, twin]);
        let output = command.output().expect("it runs");
        let said = format!("{shape} {twin}: {}{}", stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains(if status == 1 { accused } else { "nothing found" }), "{said}");
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
    if !has("python3") {
        return;
    }
    // The interpreter itself: what is found first may be a script that looks for it.
    let found = ok(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]));
    let python = stdout(&found).trim().to_owned();
    hold(&Scratch::new(), &[python, program("blind.py").display().to_string()]);
}

#[test]
#[ignore = "builds with Go, half a minute: ./test --long"]
fn other_shapes_of_reports_in_go() {
    if !Command::new("go").arg("version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: no `go` on this machine");
        return;
    }
    let scratch = Scratch::new();
    let mut go = Command::new("go");
    go.env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache/go")).arg("build").arg("-o");
    ok(go.arg(scratch.path("blind")).arg(program("blind.go")));
    hold(&scratch, &[scratch.path("blind").display().to_string()]);
}
