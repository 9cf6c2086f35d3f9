//! `strandline measure` as a user meets it.

use std::path::Path;
use std::process::Command;

use crate::common::fields::compare;
use crate::common::{Scratch, ok, stderr, stdout, strandline};
use serde_json::Value;

/// A folder with a machine whose figures are known.
fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("simple.toml", include_str!("../../../../model/measure/tests/simple.toml"));
    scratch
}

fn measure(scratch: &Scratch, arguments: &str) -> Command {
    let mut command = strandline();
    command.current_dir(scratch.dir()).arg("measure").args(arguments.split_whitespace());
    command
}

const MODEL: &str = "--on simple.toml --events 3000";

#[test]
fn the_same_machine_and_seed_give_the_same_bytes() {
    let scratch = scratch();
    let arguments = format!("idle-latency threads loaded-latency --threads 1,4 {MODEL} --json");
    let first = stdout(&ok(&mut measure(&scratch, &arguments)));
    assert_eq!(first, stdout(&ok(&mut measure(&scratch, &arguments))));
    let json: Value = serde_json::from_str(&first).expect("JSON");
    assert_eq!(json["subject"], "simple");
    let points = json["measurements"].as_array().expect("points");
    let threads: Vec<&Value> = points.iter().filter(|point| point["study"] == "threads").collect();
    assert_eq!(threads.len(), 6, "three operations at two numbers of threads");
    for point in threads {
        let rate = point["outcome"]["done"]["gb_per_s"].as_f64().expect("a rate");
        // Two DIMMs at 64 B per 10 ns.
        assert!(rate > 0.1 && rate < 12.9, "{point}");
    }
    let load = points.iter().find(|point| point["series"] == "load, random").expect("there is one");
    let latency = load["outcome"]["done"]["latency"]["p50"].as_f64().expect("it was timed");
    assert!((230.0..290.0).contains(&latency), "{latency}");
}

#[test]
fn tables_csv_and_a_page_tell_the_same() {
    let scratch = scratch();
    let all = format!("all --threads 2 --region 64KiB --samples 200 {MODEL} --out results");
    let table = stdout(&ok(&mut measure(&scratch, &all)));
    for part in ["simple", "idle-latency: latency, ns", "threads: bandwidth, GB/s", "skipped: ", "The page: "]
    {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    let page = std::fs::read_to_string(scratch.path("results/measure.html")).expect("a page");
    assert!(page.matches("<svg").count() > 20, "curves of most studies, in two widths");
    assert!(page.contains("strandline measure all"), "the page says how to make it again");
    let csv = std::fs::read_to_string(scratch.path("results/measure.csv")).expect("values");
    let json = std::fs::read_to_string(scratch.path("results/measure.json")).expect("numbers");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let points = json["measurements"].as_array().expect("points");
    assert_eq!(csv.lines().count(), points.len() + 1);
    let columns = csv.lines().next().expect("a head").split(',').count();
    for line in csv.lines() {
        // Names of curves hold commas, in quotes.
        let outside: usize = line.split('"').step_by(2).map(|part| part.matches(',').count()).sum();
        assert_eq!(outside + 1, columns, "{line}");
    }
    assert_eq!(stdout(&ok(&mut measure(&scratch, &all.replace("--out results", "--csv")))), csv);
}

#[test]
fn a_region_that_was_cut_is_reported_by_what_was_measured() {
    let scratch = scratch();
    let real = "buffer-probe --region 1TiB --memory-limit 1MiB --runtime 1ms --repeat 1";
    let table = stdout(&ok(&mut measure(&scratch, real)));
    assert!(table.contains("    1MiB  "), "{table}");
    assert!(table.contains("smaller than asked for, 1MiB and not 1TiB"), "{table}");
    let csv = stdout(&ok(&mut measure(&scratch, &format!("{real} --csv"))));
    assert!(csv.contains(",1048576,1099511627776,,"), "{csv}");
    let modelled = stdout(&ok(&mut measure(&scratch, &format!("read-after-write --region 2GiB {MODEL}"))));
    assert!(modelled.contains("2GiB, 250 lines of it"), "{modelled}");
}

/// Lines of a file that may not be there yet.
fn lines(path: &Path) -> usize {
    std::fs::read(path).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
}

#[test]
fn a_killed_sweep_goes_on_where_it_stopped() {
    let scratch = scratch();
    let sweep = |file: &str| {
        let arguments = format!(
            "--sweep {file} sweep-random --op load,ntstore --threads 1,2 --region 1MiB --on simple.toml"
        );
        measure(&scratch, &(arguments + " --access-size 64B,128B,256B,1KiB,4KiB --events 200000"))
    };
    ok(&mut sweep("whole.jsonl"));
    let file = scratch.path("killed.jsonl");
    let mut child = sweep("killed.jsonl").stdout(std::process::Stdio::null()).spawn().expect("it starts");
    while lines(&file) < 3 && child.try_wait().expect("a child").is_none() {
        std::thread::yield_now();
    }
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    let kept = lines(&file);
    assert!(kept >= 3, "{kept} lines");
    // As if the kill had come within a line.
    let mut bytes = std::fs::read(&file).expect("the file is there");
    bytes.extend_from_slice(b"{\"study\":\"sweep-r");
    std::fs::write(&file, bytes).expect("room");
    let again = ok(&mut sweep("killed.jsonl"));
    assert!(stderr(&again).contains(&format!("going on; {} of 20", kept - 1)), "{}", stderr(&again));
    let read = |path| std::fs::read(scratch.path(path)).expect("the file is there");
    assert_eq!(read("killed.jsonl"), read("whole.jsonl"));
    let other = sweep("killed.jsonl").args(["--set", "llc.ways=8"]).output().expect("it starts");
    assert_eq!(other.status.code(), Some(2));
    assert!(stderr(&other).contains("holds another sweep"), "{}", stderr(&other));
    assert_eq!(read("killed.jsonl"), read("whole.jsonl"));
}

#[test]
fn every_preset_with_time_can_be_measured() {
    let scratch = scratch();
    for name in machine::Config::presets() {
        let arguments = format!("idle-latency --op load --on {name} --events 2000 --json");
        let output = measure(&scratch, &arguments).output().expect("it starts");
        if stderr(&output).contains("counts bytes only") {
            continue;
        }
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        let json: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        let mean =
            json["measurements"][1]["outcome"]["done"]["latency"]["mean"].as_f64().expect("it was timed");
        assert!(mean > 20.0, "{name}: {mean} ns");
    }
}

#[test]
fn this_machine_is_measured_and_its_conditions_are_reported() {
    let scratch = scratch();
    let arguments = "idle-latency threads --threads 1 --region 1MiB --samples 200 --runtime 2ms --repeat 2";
    let json = stdout(&ok(&mut measure(&scratch, &format!("{arguments} --json"))));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert!(json["cautions"].to_string().contains("Interrupts"), "{}", json["cautions"]);
    for point in json["measurements"].as_array().expect("points") {
        assert!(point["outcome"]["done"]["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{point}");
    }
    let table = stdout(&ok(&mut measure(&scratch, &format!("{arguments} --file scratch"))));
    assert!(table.contains("the file scratch") && table.contains("note: "), "{table}");
    assert!(!scratch.path("scratch").exists(), "the file is gone");
}

#[test]
fn curves_of_a_device_make_a_device() {
    let scratch = scratch();
    let reported = stdout(&ok(&mut measure(&scratch, "--derive-curve curve.csv --on simple.toml")));
    let table =
        reported.split_once("with:").expect("it says how to use them").1.replace("[device.timing]", "");
    let machine = include_str!("../../../../model/measure/tests/simple.toml");
    let (before, _) = machine.split_once("[device.timing]").expect("the machine has timing");
    scratch.file("curve.toml", &format!("{before}[device.timing]{table}"));
    let latency = |machine: &str| {
        let arguments = format!("idle-latency --op load --events 3000 --json --on {machine}");
        let json: Value =
            serde_json::from_str(&stdout(&ok(&mut measure(&scratch, &arguments)))).expect("JSON");
        json["measurements"][0]["outcome"]["done"]["latency"]["p50"].as_f64().expect("it was timed")
    };
    let (detailed, curve) = (latency("simple.toml"), latency("curve.toml"));
    assert!((curve / detailed - 1.0).abs() < 0.15, "{curve} against {detailed} ns");
}

#[test]
fn misuse_is_reported_with_the_remedy() {
    let scratch = scratch();
    std::fs::write(scratch.path("notes"), "mine\n").expect("room");
    for (arguments, part) in [
        ("nonsense", "no study `nonsense`; there are idle-latency"),
        ("threads threads", "named twice"),
        ("--on nowhere", "neither a preset"),
        ("--events 5", "--events is for a modelled machine"),
        ("--on simple.toml --runtime 1s", "--runtime is for this machine's memory"),
        ("threads --raw chase", "--raw changes nothing in threads"),
        ("threads --threads 0", "no threads"),
        ("threads --threads 2,2", "--threads names 2 twice"),
        ("threads --access-size 100B", "whole lines"),
        ("threads --access-size 64", "64B"),
        ("threads --op sstore", "store+clwb"),
        ("--on simple.toml --set llc.wayss=8", "llc.ways"),
        ("--on simple.toml --set llc", "KEY=VALUE"),
        ("--dax /dev/null", "--overwrite"),
        ("--dax /dev/null --overwrite", "not a DAX device"),
        ("--file notes --region 1MiB", "notes"),
        ("--node 900", "no such NUMA node"),
        ("--sweep notes --on simple.toml", "not a result"),
        ("--derive-curve x.csv", "modelled machine"),
        ("--derive-curve x.csv threads --on simple.toml", "cannot be used"),
        ("--json --csv", "cannot be used"),
        ("all threads", "`all` stands for itself"),
        ("--cpus abc", "numbers of CPUs with commas"),
        ("--cpus 0,0", "names CPU 0 twice"),
        ("idle-latency --cpus 1048576 --region 64KiB --samples 9", "CPUs have numbers below"),
        ("threads --delay 500ms", "at most 100ms"),
        ("idle-latency --samples 0", "use 1 to 67108864"),
        ("idle-latency --samples 18446744073709551615", "use 1 to 67108864"),
        ("--sweep /dev/full --on simple.toml", "no file that results"),
        ("--derive-curve nowhere/x.csv --on simple.toml", "can't write nowhere/x.csv"),
    ] {
        let output = measure(&scratch, arguments).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{arguments}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{arguments}: {}", stderr(&output));
    }
    assert_eq!(std::fs::read_to_string(scratch.path("notes")).expect("it is there"), "mine\n");
}

#[test]
fn studies_and_help_are_listed() {
    let scratch = scratch();
    let list = stdout(&ok(&mut measure(&scratch, "list")));
    assert!(list.lines().count() >= 17 && list.contains("read-after-write"), "{list}");
    let help = stdout(&ok(&mut measure(&scratch, "--help")));
    assert!(help.contains("Examples:") && help.contains("--access-size"), "{help}");
}

#[test]
fn every_field_of_measure_json_is_documented() {
    let scratch = scratch();
    let arguments = format!("idle-latency threads --threads 1 {MODEL} --json");
    let answer: Value = serde_json::from_str(&stdout(&ok(&mut measure(&scratch, &arguments)))).expect("JSON");
    let kinds = [(".traffic", "traffic"), (".dimms[]", "traffic")];
    let skipped = ["measurements[].outcome.skipped"];
    compare(include_str!("../../../../../docs/measure-json.md"), &[answer], &kinds, &skipped);
}
