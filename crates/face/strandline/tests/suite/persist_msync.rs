//! Programs built by `strandline cc --persist=msync`: a file that they map is, after a crash, as at the last `msync`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::fields::compare;
use crate::common::{Scratch, cc, has, ok, stderr, stdout, strandline};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/c/persist/mapped.c");

fn build(scratch: &Scratch, compiler: &str) -> PathBuf {
    let program = scratch.path("mapped");
    let command = format!(
        "{} --persist=msync --compiler={compiler} -O2 -g -Wall -Werror -pthread -o {} {SOURCE}",
        cc("cc"),
        program.display()
    );
    ok(Command::new("sh").args(["-c", &command]));
    program
}

/// What the program says of its file.
fn asked(program: &Path, file: &Path, what: &[&str]) -> Output {
    Command::new(program).arg(file).args(what).stdin(Stdio::null()).output().expect("it runs")
}

fn does(program: &Path, file: &Path, what: &str) {
    let output = asked(program, file, &[what]);
    assert!(output.status.success(), "{what}: {}{}", stdout(&output), stderr(&output));
}

fn journal(file: &Path) -> PathBuf {
    PathBuf::from(format!("{}.sl-journal", file.display()))
}

fn what_programs_do(compiler: &str) {
    if !has(compiler) {
        return;
    }
    let scratch = Scratch::new();
    let program = build(&scratch, compiler);
    for case in ["aliases", "race", "children", "renamed", "objects"] {
        let file = scratch.path(case);
        does(&program, &file, case);
        assert!(!journal(&file).exists(), "{case}: an end in order leaves no journal");
    }
    for case in ["order", "written", "stores"] {
        let file = scratch.path(case);
        does(&program, &file, case);
        // Some end without any order, and leave a journal to what opens the file next.
        does(&program, &file, &format!("after-{case}"));
    }
}

#[test]
fn mappings_do_what_they_did_as_gcc_compiles_them() {
    what_programs_do("gcc");
}

#[test]
fn mappings_do_what_they_did_as_clang_compiles_them() {
    what_programs_do("clang");
}

/// Kills a program again and again, in the midst of stores and of `msync`; its counters stay equal, and none is lost that it
/// has reported.
#[test]
fn a_killed_program_leaves_the_last_msync() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let program = build(&scratch, "gcc");
    let file = scratch.path("counters");
    let mut least = 0;
    for time in 0..12 {
        let mut child = Command::new(&program);
        let child = child.arg(&file).args(["run", "1000000000"]).stdout(Stdio::piped());
        let mut child = child.spawn().expect("it runs");
        sleep(Duration::from_millis(30 + 41 * (time % 5)));
        child.kill().expect("it is ours");
        let output = child.wait_with_output().expect("it is ours");
        let said = stdout(&output);
        // The last line may be cut off.
        let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        least = whole.lines().last().map_or(least, |line| line.parse().expect("a number"));
        let checked = asked(&program, &file, &["check", &least.to_string()]);
        assert!(checked.status.success(), "{time}: {}{}", stdout(&checked), stderr(&checked));
    }
    assert!(least > 0, "it was never let come to an msync");
}

#[test]
fn a_journal_that_is_damaged_or_foreign_is_told_from_one_that_a_crash_cut() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let program = build(&scratch, "gcc");
    let file = scratch.path("file");
    does(&program, &file, "left");
    let kept = std::fs::read(journal(&file)).expect("a journal");
    let whole = std::fs::read(&file).expect("a file");
    let cut = kept[..5000].to_vec();
    for (bytes, refused) in [(b"text ".repeat(4096), true), (vec![0; 4096], false), (cut, false)] {
        std::fs::write(journal(&file), bytes).expect("it is written");
        let output = asked(&program, &file, &["check", "0"]);
        assert_eq!(stderr(&output).contains("not a journal of ours"), refused, "{}", stderr(&output));
        assert_eq!(std::fs::read(&file).expect("a file"), whole, "no part of a record is copied");
    }
    // And a whole record is, over whatever the crash left.
    std::fs::write(&file, vec![b'x'; whole.len()]).expect("it is written");
    std::fs::write(journal(&file), kept).expect("it is written");
    let output = asked(&program, &file, &["check", "0"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(&std::fs::read(&file).expect("a file")[..4096], vec![b'm'; 4096], "the record's page");
    assert!(!journal(&file).exists());
}

#[test]
fn two_processes_do_not_map_one_file() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let program = build(&scratch, "gcc");
    let file = scratch.path("file");
    let mut holds = Command::new(&program);
    holds.arg(&file).arg("hold").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holds = holds.spawn().expect("it runs");
    let mut said = String::new();
    BufReader::new(holds.stdout.take().expect("a pipe")).read_line(&mut said).expect("it speaks");
    assert_eq!(said, "held\n");
    let refused = asked(&program, &file, &["check", "0"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("another process maps it"), "{}", stderr(&refused));
    drop(holds.stdin.take());
    assert!(holds.wait().expect("it is ours").success());
    does(&program, &file, "hold");
}

#[test]
fn bench_compares_the_ways_to_commit() {
    let scratch = Scratch::new();
    let run = |more: &[&str]| {
        let mut command = strandline();
        command.args(["bench", "msync", "--records", "64", "--commits", "5", "--rounds", "2"]).args(more);
        command.arg("--path").arg(scratch.dir());
        ok(&mut command)
    };
    let output = run(&["--updates", "1,8", "--lines", "1,8", "--json"]);
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    compare(
        include_str!("../../../../../docs/bench-msync-json.md"),
        std::slice::from_ref(&results),
        &[],
        &[],
    );
    let rows = results["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 4, "{results:#}");
    for row in rows {
        let time = |field: &str| row[field].as_f64().expect("a time");
        assert!(["plain_ns", "atomic_ns", "log_ns"].into_iter().all(|field| time(field) > 0.0), "{row}");
        let ratio = time("atomic_ns") / time("plain_ns");
        assert!((ratio - time("atomic_over_plain")).abs() < 1e-9, "{row}");
        assert_eq!(row["reached"], ratio <= 1.5, "{row}");
    }
    assert!(stdout(&run(&["--updates", "2", "--lines", "1"])).contains("atomic/plain"));
    let left = std::fs::read_dir(scratch.dir()).expect("a folder").count();
    assert_eq!(left, 0, "files stay");
    let refused = strandline().args(["bench", "msync", "--lines", "9"]).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}
