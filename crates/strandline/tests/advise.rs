//! `strandline advise prestores` on the programs in `examples/c`.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Scratch, cc, has, ok, stdout, strandline};
use serde_json::Value;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/c")
}

/// Builds the plain variants of the programs so that they can be observed.
fn build(scratch: &Scratch, programs: &[&str]) {
    let targets = programs.iter().map(|name| scratch.path(&format!("{name}-plain")));
    ok(Command::new("make")
        .arg("-C")
        .arg(examples())
        .args(["CFLAGS=-O2 -g", "CXXFLAGS=-O2 -g"])
        .arg(format!("CC={}", cc("cc")))
        .arg(format!("CXX={}", cc("c++")))
        .arg(format!("B={}", scratch.dir().display()))
        .args(targets.collect::<Vec<_>>()));
}

/// What is advised, by function, without those that are to be left alone.
fn advised(scratch: &Scratch, program: &str, options: &[&str]) -> Vec<(String, String)> {
    let said = stdout(&ok(strandline()
        .args(["advise", "prestores", "--json", "--"])
        .arg(scratch.path(&format!("{program}-plain")))
        .args(options)));
    let answer: Value = serde_json::from_str(&said).expect("it is JSON");
    let phases = answer["advice"]["phases"].as_array().cloned().unwrap_or_default();
    let places = phases.iter().flat_map(|phase| phase["places"].as_array().cloned().unwrap_or_default());
    let word = |place: &Value, key: &str| place[key].as_str().unwrap_or_default().to_owned();
    places
        .map(|place| (word(&place, "function"), word(&place, "choice")))
        .filter(|(_, choice)| choice != "nothing")
        .collect()
}

#[test]
fn each_program_gets_the_advice_that_its_pattern_calls_for() {
    if !has("g++") || !has("make") {
        return;
    }
    let scratch = Scratch::new();
    build(&scratch, &["eigen", "ft", "is", "clht", "x9"]);
    let one = |function: &str, choice: &str| vec![(function.to_owned(), choice.to_owned())];
    assert_eq!(advised(&scratch, "eigen", &[]), one("evalPacket", "clean"));
    assert_eq!(advised(&scratch, "ft", &[]), [], "cached work arrays");
    assert_eq!(advised(&scratch, "is", &[]), [], "small random counters");
    for workload in ["b", "c", "d"] {
        assert_eq!(advised(&scratch, "clht", &["-w", workload]), [], "hardly a store: {workload}");
    }
    let messages = advised(&scratch, "x9", &[]);
    assert!(messages.contains(&("fill_msg".to_owned(), "demote".to_owned())), "{messages:?}");
    assert!(messages.iter().all(|(_, choice)| choice == "demote"), "{messages:?}");
}
