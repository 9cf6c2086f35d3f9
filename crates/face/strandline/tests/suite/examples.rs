//! The programs in `examples/c`: every variant computes what the plain one does, and a variant's pre-stores are seen.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Scratch, cc, has, number, ok, record, stdout};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/c")
}

/// Builds into `scratch` with the compilers given; the wanted binaries, or all.
fn build(scratch: &Scratch, c: &str, cxx: &str, wanted: &[&str]) {
    let targets: Vec<PathBuf> = wanted.iter().map(|name| scratch.path(name)).collect();
    ok(Command::new("make")
        .arg("-C")
        .arg(examples())
        .args(["-j2", "CFLAGS=-O2", "CXXFLAGS=-O2"])
        .arg(format!("CC={c}"))
        .arg(format!("CXX={cxx}"))
        .arg(format!("B={}", scratch.dir().display()))
        .args(targets));
}

/// The programs that were built, with their variants, the plain one first.
fn built(scratch: &Scratch) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(scratch.dir()).expect("the folder is read").flatten() {
        let name = entry.file_name().into_string().expect("the Makefile's names are ASCII");
        let (program, variant) = name.split_once('-').expect("program-variant");
        found.entry(program.to_owned()).or_default().push(variant.to_owned());
    }
    for variants in found.values_mut() {
        variants.sort_by_key(|variant| (variant != "plain", variant.clone()));
    }
    found
}

/// What a run prints as its checksum.
fn checksum(scratch: &Scratch, program: &str, variant: &str, options: &[&str]) -> String {
    let said = stdout(&ok(Command::new(scratch.path(&format!("{program}-{variant}"))).args(options)));
    let found = said.lines().find_map(|line| line.strip_prefix("checksum "));
    found.unwrap_or_else(|| panic!("{program}-{variant} prints no checksum: {said}")).to_owned()
}

/// Options that make a program small, and those under which its variants are compared.
fn runs(program: &str) -> &'static [&'static [&'static str]] {
    match program {
        "eigen" => &[&["-s", "65536"], &["-s", "200000", "-n", "2", "-t", "3", "--seed", "9"]],
        "mg" => &[&["-s", "16"], &["-s", "4", "-n", "1"], &["-s", "32", "-t", "3", "--seed", "9"]],
        "ft" => &[&["-s", "16"], &["-s", "32", "-n", "2", "-t", "3", "--seed", "9"]],
        "is" => &[&["-s", "10000"], &["-s", "77777", "-n", "3", "-t", "3", "--seed", "9"]],
        "sp" => &[&["-s", "6"], &["-s", "13", "-n", "3", "-t", "3", "--seed", "9"]],
        "clht" | "masstree" => &[
            &["-n", "5000", "-k", "1000"],
            &["-n", "5000", "-k", "1000", "-w", "b", "-s", "64", "-t", "3"],
            &["-n", "5000", "-k", "1000", "-w", "c", "-s", "8", "-t", "1"],
            &["-n", "5000", "-k", "1000", "-w", "d", "-s", "200", "--seed", "9"],
        ],
        "x9" => &[&["-n", "3000"], &["-n", "3000", "-t", "2", "-s", "24", "--seed", "9"]],
        _ => panic!("{program} is not in the list of runs"),
    }
}

#[test]
fn every_variant_computes_the_same() {
    let scratch = Scratch::new();
    build(&scratch, "gcc", "g++", &[]);
    let built = built(&scratch);
    assert_eq!(built.len(), 8, "{built:?}");
    for (program, variants) in &built {
        assert_eq!(variants[0], "plain", "{program}");
        assert!(variants.len() > 1, "{program} has no other variant");
        for options in runs(program) {
            let plain = checksum(&scratch, program, "plain", options);
            for variant in &variants[1..] {
                assert_eq!(
                    checksum(&scratch, program, variant, options),
                    plain,
                    "{program}-{variant} {options:?}"
                );
            }
        }
    }
    // A checksum that never changes would compare nothing.
    for (program, option) in
        [("eigen", "--seed"), ("mg", "--seed"), ("is", "-s"), ("clht", "-k"), ("x9", "-n")]
    {
        let of = |value| checksum(&scratch, program, "plain", &[option, value]);
        assert_ne!(of("128"), of("256"), "{program} {option}");
    }
}

#[test]
fn numeric_results_do_not_depend_on_threads() {
    let scratch = Scratch::new();
    let names = ["eigen-skip", "mg-clean", "ft-plain", "is-plain", "sp-plain"];
    build(&scratch, "gcc", "g++", &names);
    for name in names {
        let (program, variant) = name.split_once('-').expect("program-variant");
        let small = runs(program)[0];
        let one = checksum(&scratch, program, variant, small);
        for threads in ["2", "3"] {
            assert_eq!(
                checksum(&scratch, program, variant, &[small, &["-t", threads]].concat()),
                one,
                "{name}"
            );
        }
    }
}

#[test]
fn bad_options_are_refused() {
    let scratch = Scratch::new();
    build(&scratch, "gcc", "g++", &["mg-plain", "clht-plain"]);
    for (program, options) in [
        ("mg", &["-s", "63"][..]),
        ("mg", &["-t", "0"]),
        ("mg", &["-n", "x"]),
        ("mg", &["-w", "a"]),
        ("mg", &["more"]),
        ("clht", &["-w", "e"]),
        ("clht", &["-s", "9"]),
        ("clht", &["-t", "65"]),
    ] {
        let output = Command::new(scratch.path(&format!("{program}-plain"))).args(options).output();
        let output = output.expect("the program runs");
        assert_eq!(output.status.code(), Some(2), "{program} {options:?}");
        assert!(!output.stderr.is_empty(), "{program} {options:?}");
    }
}

#[test]
fn a_variants_pre_stores_are_seen() {
    for compiler in ["gcc", "clang"] {
        if !has(compiler) {
            continue;
        }
        let scratch = Scratch::new();
        let names = ["mg-plain", "mg-clean", "mg-skip", "clht-clean", "clht-skip", "x9-demote"];
        let with = |verb| format!("{} --compiler={compiler}", cc(verb));
        build(&scratch, &with("cc"), "false", &names);
        let trace = |program: &[&str]| record(&scratch, &[], program);

        let plain = trace(&["./mg-plain", "-s", "16"]);
        assert_eq!((number(&plain, "flushes"), number(&plain, "nt_bytes")), (0, 0), "{plain:#}");
        let clean = trace(&["./mg-clean", "-s", "16"]);
        assert!(number(&clean, "flushes") > 1000, "{clean:#}");
        let lines = crate::common::dump(&scratch.path("t.slt"));
        for function in ["psinv", "resid"] {
            let site = format!("{function} (mg.c:");
            let of = lines.iter().filter(|line| line.contains(" clwb ") && line.contains(&site));
            assert!(of.count() > 500, "{function}");
        }
        // Rows of u on four levels, once per V-cycle: all of their cells but the ghosts.
        let skip = trace(&["./mg-skip", "-s", "16", "-n", "2"]);
        let cells: u64 = [2, 4, 8, 16u64].iter().map(|edge| edge.pow(3)).sum();
        assert_eq!(number(&skip, "nt_bytes"), 2 * 8 * cells, "{skip:#}");

        // Each value is cleaned, or skips the cache, exactly once.
        let kv = ["-n", "1000", "-k", "500", "-s", "256"];
        let clean = trace(&[&["./clht-clean"][..], &kv].concat());
        let skip = trace(&[&["./clht-skip"][..], &kv].concat());
        assert_eq!(64 * number(&clean, "flushes"), number(&skip, "nt_bytes"), "{clean:#}\n{skip:#}");
        assert!(
            number(&skip, "nt_bytes") >= 500 * 256 && number(&skip, "nt_bytes").is_multiple_of(256),
            "{skip:#}"
        );

        trace(&["./x9-demote", "-n", "1000", "-s", "128"]);
        let lines = crate::common::dump(&scratch.path("t.slt"));
        let demoted = lines.iter().filter(|line| line.contains(" cldemote "));
        assert_eq!(demoted.clone().count(), 2 * 1000);
        assert!(demoted.clone().all(|line| line.contains("producer_fn (x9.c:")));
    }
}
