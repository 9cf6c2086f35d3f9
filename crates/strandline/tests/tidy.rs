//! The house rules that a compiler does not check: which crate may use which, what may be called where,
//! how long a function gets, and that no file, link or path is dead.
//!
//! Lists of exceptions only ever get shorter.

#[path = "tidy/functions.rs"]
mod functions;
#[path = "tidy/tree.rs"]
mod tree;

use std::collections::BTreeMap;

use tree::{Tree, code_only};

/// The arrows of DESIGN.md: a crate and the crates of ours that it may name.
const ARROWS: &[(&str, &[&str])] = &[
    ("event", &[]),
    ("space", &["event"]),
    ("pmem", &["space", "event"]),
    ("region", &["space"]),
    ("capi", &["event", "space", "pmem", "region"]),
    ("capture", &["event", "pmem"]),
    ("machine", &["event"]),
    ("measure", &["event", "space", "pmem", "machine"]),
    ("crash", &["event"]),
    ("advise", &["event", "machine"]),
    ("workload", &["space", "event"]),
    ("report", &["event", "machine", "crash", "advise"]),
    ("studies", &["event", "space", "region", "machine", "crash", "measure", "report"]),
    (
        "strandline",
        &[
            "event", "space", "pmem", "region", "capture", "machine", "crash", "measure", "advise",
            "workload", "report", "studies",
        ],
    ),
    // Not in the workspace; shares one source file with `capture`.
    ("capture-runtime", &[]),
];

/// Crates that may hold `unsafe`.
const UNSAFE_CRATES: &[&str] = &["pmem", "capi", "capture", "capture-runtime"];

/// What must not be called, and where it may be all the same (path prefixes).
const BANNED: &[(&str, &[&str])] = &[
    ("Instant::now", CLOCK_OWNERS),
    ("SystemTime::now", CLOCK_OWNERS),
    ("thread::spawn", CLOCK_OWNERS),
    ("thread::scope", THREAD_OWNERS),
    ("thread::Builder", THREAD_OWNERS),
    ("env::var", CLOCK_OWNERS),
    ("RandomState", &[]),
    ("thread_rng", &[]),
    ("todo!(", &[]),
    ("unimplemented!(", &[]),
    ("dbg!(", &[]),
    (
        "println!(",
        &[
            "crates/strandline/src/",
            "crates/strandline/build.rs",
            "crates/capi/build.rs",
            "crates/capture-runtime/build.rs",
            "crates/capture/src/cc/",
        ],
    ),
];

/// Wall clock, OS threads, OS randomness and the environment: only where the outside world is the subject.
const CLOCK_OWNERS: &[&str] = &[
    "crates/pmem/src/",
    "crates/capture/src/",
    "crates/capture-runtime/",
    "crates/strandline/src/",
    "crates/strandline/build.rs",
    "crates/capi/build.rs",
];

/// The same, and the simulated environment: OS threads carry its simulated ones, one running at a time.
const THREAD_OWNERS: &[&str] = &[
    "crates/space/src/sim/",
    "crates/pmem/src/",
    "crates/capture/src/",
    "crates/capture-runtime/",
    "crates/strandline/src/",
    "crates/strandline/build.rs",
];

/// Longest file and function.
const FILE_LINES_MAX: usize = 700;
const FUNCTION_LINES_MAX: usize = 70;
/// Functions that are longer, by name. Only ever remove from this list.
const LONG_FUNCTIONS: &[&str] = &[];

#[test]
fn crates_use_only_what_the_design_allows() {
    let tree = Tree::read();
    let mut found = Vec::new();
    let allowed: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    for name in tree.crates() {
        let Some(may) = allowed.get(name.as_str()) else {
            found.push(format!("crate `{name}` is not in the table of arrows"));
            continue;
        };
        for (section, dependency) in tree.own_dependencies(&name) {
            if !may.contains(&dependency.as_str()) {
                found.push(format!("`{name}` may not use `{dependency}` ([{section}])"));
            }
        }
    }
    for name in allowed.keys() {
        if !tree.crates().iter().any(|c| c == name) {
            found.push(format!("the table of arrows names `{name}`, which is gone"));
        }
    }
    none(&found);
}

#[test]
fn nothing_banned_is_called() {
    let mut found = Vec::new();
    for file in Tree::read().rust_sources() {
        if file.is_test_or_bench() {
            continue;
        }
        for (number, line) in file.product_lines() {
            for (what, places) in BANNED {
                if code_only(line).contains(what) && !places.iter().any(|place| file.path.starts_with(place))
                {
                    found.push(format!("{}:{number}: {what}", file.path));
                }
            }
        }
    }
    none(&found);
}

#[test]
fn unsafe_stays_in_its_rooms() {
    let tree = Tree::read();
    let mut found = Vec::new();
    for name in tree.crates() {
        if UNSAFE_CRATES.contains(&name.as_str()) {
            continue;
        }
        let root = ["lib.rs", "main.rs"]
            .iter()
            .filter_map(|file| tree.text(&format!("crates/{name}/src/{file}")))
            .collect::<Vec<_>>();
        if root.is_empty() || root.iter().any(|text| !text.contains("#![forbid(unsafe_code)]")) {
            found.push(format!("crates/{name}/src: no #![forbid(unsafe_code)]"));
        }
    }
    none(&found);
}

#[test]
fn files_and_functions_fit_in_a_head() {
    let mut found = Vec::new();
    for file in Tree::read().rust_sources() {
        let lines = file.product_lines().count();
        if lines > FILE_LINES_MAX {
            found.push(format!("{}: {lines} lines, at most {FILE_LINES_MAX}", file.path));
        }
        for function in functions::functions(&file.text) {
            if function.lines > FUNCTION_LINES_MAX && !LONG_FUNCTIONS.contains(&function.name.as_str()) {
                found.push(format!(
                    "{}:{}: fn {} has {} lines, at most {FUNCTION_LINES_MAX}",
                    file.path, function.line, function.name, function.lines
                ));
            }
        }
    }
    none(&found);
}

#[test]
fn every_source_file_is_part_of_a_crate() {
    let tree = Tree::read();
    let mut found = Vec::new();
    for file in tree.rust_sources() {
        let Some((_, inside)) = file.path.split_once("/src/") else { continue };
        let name = inside.rsplit('/').next().unwrap_or(inside).trim_end_matches(".rs");
        if ["lib.rs", "main.rs"].contains(&inside) || inside.starts_with("bin/") {
            continue;
        }
        let parents = tree.parents_of_module(&file.path);
        let stem = if name == "mod" {
            inside.trim_end_matches("/mod.rs").rsplit('/').next().unwrap_or(name)
        } else {
            name
        };
        let declared =
            |text: &str| text.lines().any(|line| line.trim_end().ends_with(&format!("mod {stem};")));
        if !parents.iter().filter_map(|parent| tree.text(parent)).any(declared) {
            found.push(format!("{}: no `mod {stem};` in {}", file.path, parents.join(" or ")));
        }
    }
    none(&found);
}

#[test]
fn links_in_documents_lead_somewhere() {
    let tree = Tree::read();
    let mut found = Vec::new();
    for document in tree.files_ending(".md") {
        for target in tree::markdown_links(&document.text) {
            let outside =
                ["http://", "https://", "mailto:", "#"].iter().any(|start| target.starts_with(start));
            let file = target.split('#').next().unwrap_or(&target);
            if !outside && !tree.exists_beside(&document.path, file) {
                found.push(format!("{}: dead link {target}", document.path));
            }
        }
    }
    none(&found);
}

#[test]
fn no_file_names_one_machine() {
    // Spelled in pieces, so that this file passes its own test.
    let places =
        [["/wo", "rk/"], ["/ro", "ot/"], ["/ho", "me/"], ["index.crates", ".io"]].map(|p| p.concat());
    let mut found = Vec::new();
    for file in Tree::read().all_texts() {
        for (number, line) in file.text.lines().enumerate() {
            for place in &places {
                if names_place(line, place) {
                    found.push(format!("{}:{}: {place}", file.path, number + 1));
                }
            }
        }
    }
    none(&found);
}

/// Whether `line` holds `place` as the start of a path, not within one.
fn names_place(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-*]})".contains(c))
    })
}

/// The tidy tests can fail: each rule finds the offence in a sample.
#[test]
fn the_rules_catch_offenders() {
    assert!(names_place(concat!("cd /wo", "rk/main"), concat!("/wo", "rk/")));
    assert!(!names_place("see framework/x", concat!("/wo", "rk/")));
    let long = format!("fn long() {{\n{}}}\n", "    call();\n".repeat(FUNCTION_LINES_MAX));
    assert_eq!(functions::functions(&long)[0].lines, FUNCTION_LINES_MAX + 2);
    assert_eq!(tree::markdown_links("a [b](c.md#d) `[x](y)`"), ["c.md#d"]);
    assert!(!code_only("// Instant::now()").contains("Instant::now"));
    assert!(code_only("let t = Instant::now(); // clock").contains("Instant::now"));
}

fn none(found: &[String]) {
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}
