//! What the compilers write, rewritten, assembled, linked with a stand-in for the runtime and run: every
//! access of a known program is recorded once, with kind, size and address, at every level of optimisation.

use std::path::{Path, PathBuf};
use std::process::Command;

use instrument::{Exports, rewrite};

const PASS: [(&str, &[&str]); 2] = [
    ("gcc", &["-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0"]),
    (
        "clang",
        &[
            "-fno-integrated-as",
            "-Xclang",
            "-fsanitize=thread",
            "-mllvm",
            "-tsan-instrument-func-entry-exit=0",
            "-mllvm",
            "-tsan-instrument-read-before-write=1",
        ],
    ),
];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/programs").join(name)
}

fn must(command: &mut Command) {
    let output = command.output().expect("the command runs");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{command:?}\n{}{}", said[0], said[1]);
}

/// Whether `compiler` is there and makes code that this test understands.
fn usable(compiler: &str) -> bool {
    let there = Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        println!("skipped: no {compiler} here");
    }
    let fits = cfg!(target_arch = "x86_64");
    if !fits {
        println!("skipped: only x86-64 code is rewritten");
    }
    there && fits
}

/// Builds the program with `flags`, runs it with room and without.
fn hand_count_holds(compiler: &str, pass: &[&str], flags: &[&str]) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    let (listing, driver, program) = (file("program.s"), file("driver.o"), file("program"));
    let mut compile = Command::new(compiler);
    // Vectors would make one access of several.
    compile.args(flags).arg("-fno-tree-vectorize");
    must(compile.args(pass).arg("-S").arg("-o").arg(&listing).arg(source("program.c")));
    let text = rewrite(&std::fs::read(&listing).expect("a listing"), &Exports::default())
        .expect("there are hooks to rewrite");
    let names = String::from_utf8_lossy(&text);
    for line in names.lines().filter(|line| line.contains("call")) {
        assert!(!line.contains("__tsan_read") && !line.contains("__tsan_write"), "not taken in line: {line}");
    }
    std::fs::write(&listing, &text).expect("room for the listing");
    must(Command::new(compiler).args(["-O1", "-c", "-o"]).arg(&driver).arg(source("driver.c")));
    let pie = flags.iter().filter(|flag| flag.contains("pie"));
    must(Command::new("gcc").args(pie).arg("-o").arg(&program).arg(&listing).arg(&driver));
    must(&mut Command::new(&program));
    must(Command::new(&program).arg("ask always"));
}

#[test]
fn every_access_is_recorded_once() {
    for (compiler, pass) in PASS.into_iter().filter(|(compiler, _)| usable(compiler)) {
        for flags in [
            &["-O0"][..],
            &["-O1"],
            &["-O2", "-g"],
            &["-O3", "-fPIC", "-ffunction-sections"],
            &["-Os", "-fno-pie", "-no-pie"],
            &["-O2", "-fno-plt"],
        ] {
            hand_count_holds(compiler, pass, flags);
        }
    }
}
