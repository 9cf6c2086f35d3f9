//! Small mistakes of a user: each is named, with what to do.

use crate::common::{Scratch, compile, ok, stderr, stdout, strandline};

/// A program that stores for as long as its loop says.
fn program(turns: &str) -> Scratch {
    let scratch = Scratch::new();
    let text = "volatile long field[4096];\nint main(void) {\n    \
                for (long i = 0; i < TURNS; i++) field[i % 4096] += i;\n    return 0;\n}\n";
    scratch.file("a.c", &text.replace("TURNS", turns));
    compile(scratch.dir(), "cc", "-O1 -g -o a a.c");
    scratch
}

/// What a command that fails prints on standard error.
fn refused(scratch: &Scratch, words: &[&str]) -> String {
    let output = strandline().current_dir(scratch.dir()).args(words).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
    stderr(&output)
}

#[test]
fn options_that_match_nothing_are_reported() {
    let scratch = program("100");
    let run = |words: &[&str]| ok(strandline().current_dir(scratch.dir()).args(words));
    let words = ["record", "--json", "-o", "t.slt", "--pmem", "/no/db", "--files", "/no/log", "--", "./a"];
    let output = run(&words);
    let answer: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let wanted = [
        "--pmem /no/db matches nothing: the program mapped no such file",
        "--files /no/log matches nothing: the program changed no such file",
    ];
    assert_eq!(answer["warnings"], serde_json::json!(wanted));
    wanted.iter().for_each(|wanted| assert!(stderr(&output).contains(wanted), "{}", stderr(&output)));
    let output = run(&["profile", "--pmem", "/no/db", "--", "./a"]);
    assert!(stderr(&output).contains(wanted[0]), "{}", stderr(&output));
    let report = std::fs::read_to_string(scratch.path("strandline-report/report.json")).expect("a report");
    assert!(report.contains(wanted[0]), "{report}");
}

#[test]
fn a_file_that_is_no_trace_is_not_overwritten() {
    let scratch = program("100");
    let notes = scratch.file("notes.txt", "do not lose this\n");
    let error = refused(&scratch, &["record", "-o", "notes.txt", "--", "./a"]);
    assert!(error.contains("notes.txt is no trace") && error.contains("-o"), "{error}");
    assert_eq!(std::fs::read_to_string(notes).expect("it is there"), "do not lose this\n");
    for _ in 0..2 {
        ok(strandline().current_dir(scratch.dir()).args(["record", "-o", "t.slt", "--", "./a"]));
    }
}

#[test]
fn a_program_needs_no_dashes_before_it() {
    let scratch = program("100");
    for words in [&["profile"][..], &["simulate"], &["record", "-o", "t.slt"]] {
        ok(strandline().current_dir(scratch.dir()).args(words).args(["./a", "--machine", "none"]));
    }
    let error = refused(&scratch, &["profile", "--machien", "dram", "./a"]);
    assert!(error.contains("--machien"), "{error}");
}

#[test]
fn a_dump_from_beyond_the_end_is_reported() {
    let scratch = program("100");
    ok(strandline().current_dir(scratch.dir()).args(["record", "-o", "t.slt", "--", "./a"]));
    let dump = |words: &[&str]| {
        let output = ok(strandline().current_dir(scratch.dir()).args(["trace", "dump", "t.slt"]).args(words));
        (stdout(&output), stderr(&output))
    };
    let (events, warning) = dump(&["--from", "1000000"]);
    assert!(events.is_empty() && warning.contains("beyond the end: the trace has"), "{warning}");
    let (events, warning) = dump(&["--thread", "0", "--from", "1000000"]);
    assert!(events.is_empty() && warning.contains("beyond the end: thread 0 has"), "{warning}");
}

#[test]
fn what_can_not_be_made_names_the_remedy() {
    let scratch = program("1");
    let missing = ["record", "-o", "no/such/t.slt", "--", "./a"];
    assert!(refused(&scratch, &missing).contains("mkdir -p no/such"));
    let cpu = refused(&scratch, &["measure", "idle-latency", "--cpus", "999"]);
    assert!(cpu.contains("there is no such CPU; this machine has CPUs 0"), "{cpu}");
    let pool = refused(&scratch, &["pool", "info", "pol"]);
    assert!(pool.contains("there is no file pol: check its name"), "{pool}");
}

#[test]
fn progress_is_lines_where_it_is_asked_for() {
    let scratch = program("1500000000");
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["--progress", "record", "--count", "./a"]);
    let output = ok(&mut command);
    let lines = stderr(&output);
    assert!(lines.contains("strandline: counting: ") && lines.contains(" M events"), "{lines}");
    let output = ok(strandline().current_dir(scratch.dir()).args(["record", "--count", "./a"]));
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
}
