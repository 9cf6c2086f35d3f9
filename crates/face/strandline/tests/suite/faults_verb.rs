//! `strandline faults` on real programs: sites, kinds, remedies tried, and what can't be seen.

use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{Scratch, ok, stderr, stdout, strandline};

/// Allocates the same again and again, once densely and once sparsely.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static char *dense(size_t bytes) {
    char *memory = malloc(bytes);
    memset(memory, 1, bytes);
    return memory;
}
static char *sparse(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < bytes; i += 1 << 20) memory[i] = 1;
    return memory;
}
int main(int count, char **words) {
    long sum = 0;
    sparse(256 << 20);
    for (int i = 0; i < atoi(words[1]); i++) {
        /* More than the C library's allocator ever keeps. */
        char *memory = dense(40 << 20);
        sum += memory[4096 * i];
        free(memory);
    }
    printf("summed %ld\n", sum);
    return 0;
}
"#;

fn program(scratch: &Scratch, flags: &[&str]) {
    scratch.file("app.c", PROGRAM);
    let mut command = Command::new("gcc");
    command.current_dir(scratch.dir()).args(["-O1", "-g", "-fno-omit-frame-pointer", "-o", "app", "app.c"]);
    ok(command.args(flags));
}

fn faults(scratch: &Scratch, options: &[&str], program: &[&str]) -> Output {
    let mut command = strandline();
    command.current_dir(scratch.dir()).arg("faults").args(options).arg("--").args(program);
    command.output().expect("it runs")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    assert!(stderr(output).contains("summed"), "the program's output: {}", stderr(output));
    serde_json::from_str(&stdout(output)).expect("JSON")
}

fn site<'a>(json: &'a Value, name: &str) -> &'a Value {
    let sites = json["sites"].as_array().expect("sites");
    let named = |site: &&Value| site["name"].as_str().is_some_and(|text| text.contains(name));
    sites.iter().find(named).unwrap_or_else(|| panic!("{name}: {json:#}"))
}

/// Whether the kernel reports faults here.
fn reported(json: &Value) -> bool {
    let reported = json["faults"]["reported"].as_u64().expect("a count") > 0;
    if !reported {
        eprintln!("skipped: {}", json["warnings"]);
    }
    reported
}

#[test]
fn sites_have_lines_and_sparse_ones_are_not_populated() {
    let scratch = Scratch::new();
    program(&scratch, &[]);
    let json = json(&faults(&scratch, &["--json"], &["./app", "6"]));
    assert_eq!((&json["schema"], &json["ended"]), (&"strandline-faults-1".into(), &"exit status: 0".into()));
    let count = |value: &Value| value.as_u64().expect("a count");
    // Pages of 2 MiB make it fewer where the system gives them unasked.
    let always = json["machine"]["huge_pages"] == "always";
    assert!(count(&json["faults"]["minor"]) > if always { 100 } else { 30_000 }, "{json:#}");
    if !reported(&json) {
        return;
    }
    let dense = site(&json, "dense at app.c:7");
    assert_eq!((&dense["way"], count(&dense["blocks"])), (&"malloc".into(), 6));
    let sparse = site(&json, "sparse at app.c:12");
    assert_eq!((&sparse["way"], count(&sparse["pages"])), (&"mmap".into(), 65_536));
    let advised = |site: &Value, remedy: &str| {
        let all = site["remedies"].as_array().expect("remedies");
        all.iter().find(|one| one["remedy"] == remedy).map(|one| one["advised"] == true)
    };
    if !always {
        assert!(dense["density"].as_f64().is_some_and(|density| density > 0.9), "{dense:#}");
        assert_ne!(advised(sparse, "populate"), Some(true), "{sparse:#}");
        assert_ne!(advised(sparse, "prefault"), Some(true), "{sparse:#}");
        assert_eq!(advised(dense, "keep"), Some(true), "{dense:#}");
        let stack = dense["stacks"][0]["frames"].as_str().expect("a stack");
        assert!(["app", "memset", "libc"].iter().any(|of| stack.contains(of)), "{stack}");
    }
}

#[test]
fn remedies_are_tried_and_remove_faults() {
    let scratch = Scratch::new();
    program(&scratch, &[]);
    let json = json(&faults(&scratch, &["--try", "--rounds", "2", "--json"], &["./app", "6"]));
    if !reported(&json) || json["machine"]["huge_pages"] == "always" {
        return;
    }
    let trials = json["trials"].as_array().expect("trials");
    let keep = trials.iter().find(|trial| trial["remedies"][0][1] == "keep");
    let keep = keep.unwrap_or_else(|| panic!("memory that is allocated again can be kept: {json:#}"));
    let faults = |trial: &Value, at: usize| trial["faults"][at].as_u64().expect("a count");
    assert!(2 * faults(keep, 1) < faults(keep, 0), "{keep:#}");
    assert!(trials.iter().all(|trial| trial["gained"].is_number() && trial["predicted"].is_number()));
    assert!(trials.iter().all(|trial| !trial["place"].as_str().unwrap_or_default().contains("sparse")));
}

#[test]
fn what_cannot_be_seen_is_said() {
    let scratch = Scratch::new();
    let output = faults(&scratch, &[], &["./absent"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no such program"), "{}", stderr(&output));
    scratch.file("short.c", "int main(void) { return 3; }");
    ok(Command::new("gcc").current_dir(scratch.dir()).args(["-o", "short", "short.c"]));
    let text = stdout(&faults(&scratch, &["--try"], &["./short"]));
    assert!(text.contains("ended with exit status: 3") && text.contains("nothing was tried"), "{text}");
    let mut command = Command::new("gcc");
    command.current_dir(scratch.dir()).args(["-static", "-o", "static", "short.c"]);
    if command.output().is_ok_and(|output| output.status.success()) {
        let text = stdout(&faults(&scratch, &["--try"], &["./static"]));
        assert!(text.contains("linked statically"), "{text}");
    }
}

#[test]
fn the_engine_is_swept() {
    let mut command = strandline();
    let words = ["faults", "poe", "--axis", "ring", "--kernel", "1us", "--engine", "50ns", "--json"];
    let json: Value = serde_json::from_str(&stdout(&ok(command.args(words)))).expect("JSON");
    let points = json["sweeps"]["ring"].as_array().expect("points");
    let engine = |point: &Value| point["with"]["engine"].as_u64().expect("a count");
    assert!(points.windows(2).all(|two| engine(&two[0]) <= engine(&two[1])), "{points:?}");
    let output = strandline().args(["faults", "poe", "--axis", "colour"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
}
