//! `strandline scan`: ends of matches, lines as grep prints them, and what becomes of expressions.

#[path = "../common/mod.rs"]
mod common;

use std::io::Write;
use std::process::{Command, Stdio};

use common::{Scratch, ok, stderr, stdout, strandline};
use serde_json::{Value, json};

#[test]
fn json_has_every_end_of_every_expression() {
    let scratch = Scratch::new();
    scratch.file("a.txt", "abcbc\nxaab");
    let mut scan = strandline();
    scan.args(["scan", "--json", "-e", "a[bc]+", "-e", "a{1,2}b", "-e", "c\nx"]).arg(scratch.path("a.txt"));
    let found: Vec<Value> =
        stdout(&ok(&mut scan)).lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let ends = [(0, 2), (1, 2), (0, 3), (0, 4), (0, 5), (2, 7), (0, 10), (1, 10)];
    assert_eq!(found, ends.map(|(re, end)| json!({ "re": re, "end": end })));
}

#[test]
fn standard_input_and_several_files() {
    let scratch = Scratch::new();
    scratch.file("a.txt", "one\ntwo\n");
    scratch.file("b.txt", "two");
    let mut scan = strandline();
    scan.args(["scan", "--json", "-e", "two"]).args([scratch.path("a.txt"), scratch.path("b.txt")]);
    let text = stdout(&ok(&mut scan));
    assert!(text.contains(r#"{"re": 0, "end": 7, "file": ""#) && text.lines().count() == 2, "{text}");
    let mut scan = strandline();
    scan.args(["scan", "-n", "-e", "^t.o$", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut scan = scan.spawn().expect("it runs");
    scan.stdin.take().expect("a pipe").write_all(b"one\ntwo\ntwoo\n").expect("it reads");
    assert_eq!(stdout(&scan.wait_with_output().expect("it ends")), "2:two\n");
}

#[test]
fn refusals_name_the_place() {
    let mut scan = strandline();
    let output = scan.args(["scan", "-e", r"(a)\1", "/dev/null"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains(r"back-reference is not regular, at byte 3"), "{}", stderr(&output));
    let mut explain = strandline();
    let output = explain.args(["scan", "explain", "-e", "x[a-d]{2,4}[abe]{2,3}", "-e", "(?=a)"]).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.contains("[2,3], bit vector") && text.contains("one run at a time"), "{text}");
    assert!(text.contains("refused: look-around"), "{text}");
}

#[test]
fn verilog_comes_with_its_tables() {
    let scratch = Scratch::new();
    let mut scan = strandline();
    scan.args(["scan", "verilog", "-e", "ab+c", "-e", "x[0-9]{2,7}y", "--width", "4", "-o"]);
    ok(scan.arg(scratch.path("out")));
    let read = |file: &str| std::fs::read_to_string(scratch.path("out").join(file)).expect(file);
    assert!(read("scan.v").contains(".W(4), .S(64)") && read("hare.v").contains("module hare"));
    assert!(read("tables.hex").lines().count() > 1000);
    let slots: Value = serde_json::from_str(&read("slots.json")).expect("JSON");
    assert_eq!(slots["expressions"][1]["re"], "x[0-9]{2,7}y");
    let mut scan = strandline();
    let output = scan.args(["scan", "verilog", "-e", "a(bc)*d", "-o"]).arg(scratch.path("no")).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("feeds back"), "{}", stderr(&output));
}

/// Our own sources as text, and expressions of many kinds: the lines are ripgrep's.
#[test]
fn lines_are_those_of_ripgrep() {
    let rg = Command::new("rg").arg("--version").output();
    if !rg.is_ok_and(|output| output.status.success()) {
        println!("skipped: no rg (apt-get install ripgrep)");
        return;
    }
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let files = ["README.md", "ARCHITECTURE.md", "Cargo.lock", "crates/face/strandline/src/scan.rs"]
        .map(|file| format!("{root}/{file}"));
    let expressions = [
        "strandline",
        "[A-Z][a-z]+[A-Z]",
        r"\bfn \w+\(",
        "^#",
        "^$",
        r"\.$",
        "e.{3,40}s$",
        "(ab|cd|st)+r",
        r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]+",
        "a.*b.*c.*d",
        "checksum = \"[0-9a-f]{64}\"",
        "–|→",
        "(?i)README",
        r"\s+$",
        "[aeiou]{3}",
        "x{2,}|zz?y",
    ];
    for expression in expressions {
        let mut ours = strandline();
        ours.args(["scan", "-n", "-e", expression]).args(&files);
        let mut theirs = Command::new("rg");
        theirs.args(["--no-config", "-a", "-n", "-H", "--no-heading", "--color=never", "-e", expression]);
        let mut theirs: Vec<String> =
            stdout(&theirs.args(["-j", "1"]).args(&files).output().expect("rg runs"))
                .lines()
                .map(str::to_owned)
                .collect();
        let mut ours: Vec<String> = stdout(&ok(&mut ours)).lines().map(str::to_owned).collect();
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{expression}");
    }
}
