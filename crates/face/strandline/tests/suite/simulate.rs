//! `strandline simulate`: the same events on several machines.

use std::process::Output;

use crate::common::fields::compare;
use crate::common::{Scratch, compile, ok, stderr, stdout, strandline};

/// A small machine with time; its name is `NAME.toml`.
fn machine(scratch: &Scratch, name: &str, read_latency: &str) {
    let text = SMALL.replace("NAME", name).replace("LATENCY", read_latency);
    scratch.file(&format!("{name}.toml"), &text);
}

fn machines() -> Scratch {
    let scratch = Scratch::new();
    machine(&scratch, "near", "100ns");
    machine(&scratch, "far", "1us");
    scratch
}

const SMALL: &str = r#"
name = "NAME"
[cores]
count = 4
combining_buffers = 12
[l1]
size = "8KiB"
ways = 8
replacement = "lru"
[l2]
size = "32KiB"
ways = 8
replacement = "lru"
[llc]
size = "128KiB"
ways = 8
replacement = "random"
[memory]
dimms = 2
interleave = "4KiB"
[memory.timing]
read_queue = 16
write_queue = 16
read_request = "20ns"
read_return = "20ns"
write_accept = "50ns"
[device]
unit = "256B"
[device.buffer]
lines = 64
replacement = "random"
write_out = "on-completion"
[device.timing]
kind = "delay"
read_latency = "LATENCY"
write_latency = "500ns"
line_transfer = "30ns"
"#;

fn simulate(scratch: &Scratch, arguments: &[&str]) -> Output {
    strandline()
        .current_dir(scratch.dir())
        .arg("simulate")
        .args(arguments)
        .output()
        .expect("strandline starts")
}

fn json(scratch: &Scratch, arguments: &[&str]) -> serde_json::Value {
    let output = ok(strandline().current_dir(scratch.dir()).args(["simulate", "--json"]).args(arguments));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

const SCATTER: [&str; 4] = ["--workload", "hash-scatter", "--ops", "3000"];

#[test]
fn machines_are_compared_side_by_side() {
    let scratch = machines();
    let arguments = [&SCATTER[..], &["--machine", "near.toml", "--machine", "far.toml"]].concat();
    let output = simulate(&scratch, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for part in ["near.toml", "far.toml", "EWR", "times the first", "fence: flushes", "scatter.rs"] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    let page = std::fs::read_to_string(scratch.path("strandline-report/simulate.html")).expect("a page");
    assert!(page.contains("<svg") && page.contains("Written by the controllers"), "the page has no timeline");
    let numbers = std::fs::read_to_string(scratch.path("strandline-report/simulate.json")).expect("numbers");
    let numbers: serde_json::Value = serde_json::from_str(&numbers).expect("JSON");
    let machines = numbers["machines"].as_array().expect("machines");
    let elapsed: Vec<f64> = machines.iter().map(|m| m["elapsed_ns"].as_f64().expect("a time")).collect();
    assert!(elapsed.len() == 2 && 0.0 < elapsed[0] && elapsed[0] < elapsed[1], "{elapsed:?}");
    assert!(
        machines.iter().all(|m| m["figures"]["timeline"].as_array().is_some_and(|slices| !slices.is_empty()))
    );
}

#[test]
fn the_same_trace_machine_and_seed_give_the_same_bytes() {
    let scratch = machines();
    scratch.file("walk.c", WALK);
    compile(scratch.dir(), "cc", "-O2 -pthread -o walk walk.c");
    ok(strandline().current_dir(scratch.dir()).args(["record", "-o", "t.slt", "--", "./walk"]));
    let run = |folder: &str| {
        let arguments = [
            "--trace",
            "t.slt",
            "--machine",
            "near.toml",
            "--machine",
            "far.toml",
            "--seed",
            "5",
            "--out",
            folder,
        ];
        let output = simulate(&scratch, &arguments);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        ["simulate.html", "simulate.json"]
            .map(|file| std::fs::read(scratch.path(&format!("{folder}/{file}"))).expect(file))
    };
    assert!(run("one") == run("two"), "the files differ");
}

#[test]
fn a_trace_that_was_cut_short_is_reported() {
    let scratch = machines();
    scratch.file("walk.c", WALK);
    compile(scratch.dir(), "cc", "-O2 -pthread -o walk walk.c");
    ok(strandline().current_dir(scratch.dir()).args(["record", "-o", "t.slt", "--", "./walk"]));
    let whole = std::fs::read(scratch.path("t.slt")).expect("trace is read");
    std::fs::write(scratch.path("cut.slt"), &whole[..whole.len() * 2 / 3]).expect("cut trace is written");

    let answer = |trace: &str| json(&scratch, &["--trace", trace, "--machine", "near.toml"]);
    assert_eq!(answer("t.slt")["warnings"], serde_json::json!([]));
    let page = std::fs::read_to_string(scratch.path("strandline-report/simulate.html")).expect("a page");
    assert!(page.contains("mapped no persistent memory"), "the page does not say whose memory it is about");
    ok(strandline()
        .current_dir(scratch.dir())
        .args(["record", "--sample", "1/10", "-o", "part.slt", "--", "./walk"]));
    let warning = answer("part.slt")["warnings"][0].to_string();
    assert!(warning.contains("sampled in bursts"), "{warning}");
    let warning = answer("cut.slt")["warnings"][0].to_string();
    assert!(warning.contains("cut short at offset"), "{warning}");
    let page = std::fs::read_to_string(scratch.path("strandline-report/simulate.html")).expect("a page");
    assert!(page.contains("cut short at offset"), "the page does not tell");
    let output = simulate(&scratch, &["--trace", "cut.slt", "--machine", "near.toml"]);
    assert!(stdout(&output).contains("warning: the trace was cut short"), "{}", stdout(&output));
}

/// Two threads that write and read beyond the caches of a small machine, and meet at a lock.
const WALK: &str = r#"
#include <pthread.h>
#include <stdlib.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;
static void *walk(void *arg) {
    long *cells = calloc(1 << 16, sizeof *cells), mine = 0;
    for (int i = 0; i < 1 << 16; i++) cells[i * 769 % (1 << 16)] += i;
    for (int i = 0; i < 1 << 16; i += 8) mine += cells[i];
    pthread_mutex_lock(&lock);
    sum += mine;
    pthread_mutex_unlock(&lock);
    free(cells);
    return 0;
}
int main(void) {
    pthread_t other;
    pthread_create(&other, 0, walk, 0);
    walk(0);
    pthread_join(other, 0);
    return sum == 0;
}
"#;

#[test]
fn phases_are_kept_apart() {
    let scratch = machines();
    let arguments = ["--workload", "btree-fill", "--ops", "2000", "--machine", "near.toml"];
    let text = stdout(&simulate(&scratch, &arguments));
    let phases: Vec<&str> = text.lines().filter(|line| line.contains(": time ")).collect();
    assert!(phases.len() == 2 && phases[0].starts_with("load") && phases[1].starts_with("lookup"), "{text}");
}

#[test]
fn a_setting_changes_the_machine_before_it() {
    let scratch = machines();
    let small = [
        "--machine",
        "near.toml",
        "--machine",
        "near.toml",
        "--set",
        "device.timing.line_transfer=40ns",
        "--set",
        "llc.size=64KiB",
    ];
    let answer = json(&scratch, &[&SCATTER[..], &small].concat());
    let machines = answer["machines"].as_array().expect("machines");
    assert_eq!(machines[1]["machine"], "near.toml device.timing.line_transfer=40ns llc.size=64KiB");
    assert_eq!(machines[1]["description"]["device"]["timing"]["line_transfer"], "40ns");
    assert_eq!(machines[0]["description"]["device"]["buffer"]["lines"], 64);
}

#[test]
fn a_setting_that_does_nothing_changes_nothing() {
    let scratch = machines();
    let answer = json(
        &scratch,
        &[&SCATTER[..], &["--machine", "near.toml", "--machine", "near.toml", "--set", "memory.dimms=2"]]
            .concat(),
    );
    assert_eq!(answer["machines"][0]["figures"], answer["machines"][1]["figures"]);
}

#[test]
fn misuse_ends_with_status_2_and_a_remedy() {
    let scratch = machines();
    let timed = |table: &&str| !table.starts_with("memory.timing") && !table.starts_with("device.timing");
    let bytes_only: Vec<&str> = SMALL.split("\n[").filter(timed).collect();
    scratch.file("bytes.toml", &bytes_only.join("\n["));
    for (arguments, part) in [
        (&["--set", "llc.sise=16MiB", "--machine", "near.toml"][..], "llc.size"),
        (&["--set", "device.buffer.lines=many", "--machine", "near.toml"], "device.buffer.lines=many"),
        (&["--set", "llc.size"], "llc.size=16MiB"),
        (&["--machine", "no-such-machine"], "xpoint"),
        (&["--machine", "bytes.toml"], "timing"),
        (&["--threads", "65"], "64"),
        (&["--threads", "2", "--trace", "t.slt"], "--trace"),
        (&["--trace", "no-such.slt", "--machine", "near.toml"], "no-such.slt"),
        (&["--pmem", "/data"], "PROG ARGS"),
    ] {
        let output = simulate(&scratch, arguments);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(part), "{arguments:?}: {message}");
    }
}

#[test]
fn several_threads_of_a_workload_run_on_several_cores() {
    let scratch = machines();
    let answer = json(&scratch, &[&SCATTER[..], &["--threads", "3", "--machine", "near.toml"]].concat());
    let threads = answer["machines"][0]["figures"]["threads"].as_array().expect("threads");
    let busy =
        threads.iter().filter(|thread| thread["stores"].as_u64().is_some_and(|stores| stores > 0)).count();
    assert!(busy >= 3, "{threads:?}");
}

#[test]
fn every_field_of_simulate_json_is_documented() {
    let scratch = machines();
    let mut answer = json(&scratch, &[&SCATTER[..], &["--machine", "near.toml"]].concat());
    // Described where machines are.
    answer["machines"][0]["description"] = serde_json::Value::Null;
    let kinds = [
        (".total", "traffic"),
        (".per_dimm[]", "traffic"),
        (".traffic[]", "traffic"),
        (".stalls", "stalls"),
        (".span", "span"),
        ("_full", "stall"),
        (".credit_used_up", "stall"),
        (".behind_own", "stall"),
        (".wear", "stall"),
        (".heat", "stall"),
        ("_queue", "queue"),
        ("_latency", "histogram"),
        (".persistency", "persistency"),
        (".persists[]", "persist"),
    ];
    // Without designs to compare nothing is noted of single lines.
    let fields = ["core", "line", "ready", "left", "durable", "why", "behind"];
    let unseen = fields.map(|field| format!("persist.{field}"));
    let unseen: Vec<&str> = unseen.iter().map(String::as_str).collect();
    compare(include_str!("../../../../../docs/simulate-json.md"), &[answer], &kinds, &unseen);
}
