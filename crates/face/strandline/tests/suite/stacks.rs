//! Call stacks of accesses and allocations: callers of one helper are distinguished, whatever ended the calls
//! before.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::{Scratch, compile, ok, stdout, strandline};

/// Profiles tests/programs/stacks.cc; its report, and loads by stack of functions.
fn profiled(flags: &str) -> (Value, BTreeMap<String, u64>) {
    let scratch = Scratch::new();
    let source = format!("{}/tests/programs/stacks.cc", env!("CARGO_MANIFEST_DIR"));
    compile(scratch.dir(), "c++", &format!("{flags} -g -pthread -o app {source}"));
    let output = ok(strandline().current_dir(scratch.dir()).args(["profile", "--json", "--", "./app"]));
    let report = serde_json::from_str(&stdout(&output)).expect("JSON");
    let export = ["export", "folded", "--by", "loads", "strandline-report/report.json"];
    let folded = stdout(&ok(strandline().current_dir(scratch.dir()).args(export)));
    let mut loads: BTreeMap<String, u64> = BTreeMap::new();
    for line in folded.lines() {
        let (stack, count) = line.rsplit_once(' ').expect("a count");
        // The last one is the line of code.
        let functions: Vec<&str> = stack.split(';').collect();
        let name = |function: &&str| function.split('(').next().unwrap_or_default().to_owned();
        let names: Vec<String> = functions[..functions.len() - 1].iter().map(name).collect();
        *loads.entry(names.join(";")).or_default() += count.parse::<u64>().expect("a number");
    }
    (report, loads)
}

#[test]
fn callers_of_one_function_are_distinguished() {
    let (report, loads) = profiled("-O1");
    let of = |stack: &str| loads.get(stack).copied().unwrap_or(0);
    let expected = [
        ("main;often;sum", 50 * 100),
        ("main;seldom;sum", 1000),
        ("main;behind_jump;sum", 10),
        ("main;behind_catch;sum", 20),
        // A function that calls itself stands for all its calls.
        ("main;recursive;recursive;sum", 30),
        ("worker;sum", 50),
    ];
    for (stack, count) in expected {
        assert_eq!(of(stack), count, "{stack} in {loads:#?}");
    }
    // The C library's frames stand between, without what they did.
    let sorted = loads.keys().find(|stack| stack.ends_with("compare;sum")).expect("a comparison");
    assert!(sorted.starts_with("main;sorts"), "{sorted}");

    let structures = report["structures"].as_array().expect("structures");
    let obtained =
        structures.iter().find(|one| one["label"].as_str().is_some_and(|it| it.contains("obtain")));
    let stacks = obtained.expect("blocks of obtain")["stacks"].as_array().expect("stacks");
    let by = |caller: &str| {
        let first =
            |stack: &&Value| stack["called_from"][0].as_str().is_some_and(|from| from.contains(caller));
        let stack = stacks.iter().find(first).unwrap_or_else(|| panic!("no {caller} in {stacks:#?}"));
        ["blocks", "bytes", "freed", "peak_bytes", "live_bytes"].map(|field| stack[field].as_u64())
    };
    let numbers = |of: [u64; 5]| of.map(Some);
    assert_eq!(by("make_table"), numbers([1, 1 << 18, 0, 1 << 18, 1 << 18]));
    assert_eq!(by("make_name"), numbers([50, 1200, 50, 1200, 0]));
    let outer =
        stacks.iter().all(|stack| stack["called_from"][1].as_str().is_some_and(|it| it.contains("main")));
    assert!(outer, "{stacks:#?}");
}

#[test]
fn a_function_that_hands_on_is_no_caller_any_more() {
    let (_, loads) = profiled("-O2");
    let handed: Vec<&String> = loads.iter().filter(|of| *of.1 == 40).map(|of| of.0).collect();
    assert!(handed.iter().any(|stack| *stack == "main;behind_hands_on;sum"), "{loads:#?}");
}
