//! The house rules that a compiler does not check: which crate may use which, what may be called where, how
//! long a line, a function, a file, a crate and a page get, which words are used, and that no file, link or
//! path is dead.
//!
//! `ratchet.txt` lists what does not keep a rule yet. Its numbers only shrink. A failure prints the line to
//! put there.

mod circles;
mod functions;
mod house;
mod ratchet;
mod text;
mod tree;

use std::collections::BTreeMap;

use house::House;
use ratchet::Ratchet;
use tree::{Tree, code_only};

/// Crates that may hold `unsafe`.
const UNSAFE_CRATES: &[&str] = &[
    "pmem",
    "observed",
    "capi",
    "capture",
    "capture-runtime",
    "tracer",
    "persist-runtime",
    "wear-runtime",
    "tier-runtime",
    "fam",
    "migrate",
    "unified",
];

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
            "crates/face/strandline/src/",
            "crates/face/session/build.rs",
            "crates/face/sweep/build.rs",
            "crates/library/capi/build.rs",
            "crates/observe/capture-runtime/build.rs",
            "crates/observe/persist-runtime/build.rs",
            "crates/observe/instrument/src/driver/",
        ],
    ),
];

/// Wall clock, OS threads, OS randomness and the environment: only where the outside world is the subject.
const CLOCK_OWNERS: &[&str] = &[
    "crates/library/pmem/src/",
    "crates/library/serve/src/server/",
    "crates/observe/capture/src/",
    "crates/observe/instrument/src/driver/",
    "crates/observe/reboot/src/",
    "crates/observe/capture-runtime/",
    "crates/observe/persist-runtime/",
    "crates/observe/wear-runtime/",
    "crates/observe/tier-runtime/",
    "crates/systems/fam/",
    "crates/systems/migrate/",
    "crates/systems/criu/src/save.rs",
    "crates/systems/unified/",
    "crates/observe/tracer/src/said.rs",
    "crates/face/session/",
    "crates/face/strandline/src/",
    // Functions of the caller that have a limit of time.
    "python/src/limit.rs",
    // Rows that move real processes.
    "crates/face/studies/src/migrate_rows/",
    "crates/library/capi/build.rs",
];

/// The same, and the simulated environment: OS threads carry its simulated ones, one running at a time.
const THREAD_OWNERS: &[&str] = &[
    "crates/base/pipeline/src/",
    "crates/base/space/src/sim/",
    "crates/library/pmem/src/",
    "crates/observe/capture/src/",
    "crates/observe/capture-runtime/",
    "crates/observe/persist-runtime/",
    "crates/observe/wear-runtime/",
    "crates/observe/tier-runtime/",
    "crates/observe/reboot/src/watched.rs",
    "crates/systems/fam/",
    "crates/systems/migrate/",
    "crates/systems/unified/",
    "crates/face/session/",
    "crates/face/strandline/src/",
    "crates/face/studies/src/migrate_rows/",
    "crates/face/sweep/src/task.rs",
    "python/src/",
];

/// Longest crate (all its Rust), file and function.
const CRATE_LINES_MAX: usize = 8_000;
const FILE_LINES_MAX: usize = 700;
const FUNCTION_LINES_MAX: usize = 70;
/// Functions that are longer, by name. Only ever remove from this list.
const LONG_FUNCTIONS: &[&str] = &[];

#[test]
fn crates_use_only_what_the_architecture_allows() {
    let tree = Tree::read();
    let house = House::read(tree.text("ARCHITECTURE.md").unwrap_or_default());
    let mut found = Vec::new();
    for path in tree.crates() {
        let (storey, name) = path.split_once('/').unwrap_or(("", &path));
        match house.room(name) {
            None => found.push(format!("crates/{path} is not in the table of ARCHITECTURE.md")),
            Some(room) if room.storey != storey => {
                found.push(format!("crates/{path} stands in `{}` in ARCHITECTURE.md", room.storey));
            }
            Some(_) => {}
        }
        for (section, dependency) in tree.own_dependencies(&path) {
            if let Some(refusal) = house.refusal(name, &dependency) {
                found.push(format!("{refusal} ([{section}])"));
            }
        }
    }
    for name in house.names() {
        if !tree.crates().iter().any(|path| path.ends_with(&format!("/{name}"))) {
            found.push(format!("the table of ARCHITECTURE.md names `{name}`, which is gone"));
        }
    }
    none(&found);
}

/// The Python package compiles the executable's sources as a library: with the same versions and features.
#[test]
fn the_command_line_has_one_list_of_dependencies() {
    let tree = Tree::read();
    let of = |path: &str, section: &str| {
        let text = tree.text(path).unwrap_or_else(|| panic!("{path} is gone"));
        tree::section(text, section)
    };
    let workspace = of("Cargo.toml", "workspace.dependencies");
    let mut executable = of("crates/face/strandline/Cargo.toml", "dependencies");
    for (name, how) in &mut executable {
        if how == "workspace = true" {
            *how = workspace.get(name).unwrap_or_else(|| panic!("{name} is not in the workspace")).clone();
        }
    }
    let mut library = of("python/command/Cargo.toml", "dependencies");
    library.values_mut().for_each(|how| *how = how.replace("../../crates/", "crates/"));
    assert!(executable.len() > 10);
    assert_eq!(
        library, executable,
        "python/command/Cargo.toml has the dependencies of crates/face/strandline"
    );
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
        if UNSAFE_CRATES.iter().any(|owner| name.ends_with(&format!("/{owner}"))) {
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
fn lines_fit_in_the_width() {
    let mut found = BTreeMap::new();
    let code = [".rs", ".c", ".cc", ".h", ".hpp", ".f90"];
    for file in Tree::read().all_texts().filter(|file| code.iter().any(|end| file.path.ends_with(end))) {
        *found.entry(subject(&file.path)).or_default() += text::wide_lines(&file.text);
    }
    let mut wrong = ratchet().hold("width", &found);
    if !wrong.is_empty() {
        wrong.push("those of a change: git diff main | grep -E '^[+].{111}'".to_owned());
    }
    none(&wrong);
}

#[test]
fn pages_keep_their_length() {
    let tree = Tree::read();
    let mut found = Vec::new();
    for (path, most) in text::PAGES {
        let lines = tree.text(path).unwrap_or_else(|| panic!("{path} is gone")).lines().count();
        if lines > *most {
            found.push(format!("{path}: {lines} lines, at most {most}"));
        }
    }
    none(&found);
}

#[test]
fn crates_keep_their_budget() {
    let tree = Tree::read();
    none(&ratchet().hold("lines", &over_budget(tree.rust_sources().map(|f| (&*f.path, &*f.text)))));
}

/// The crates that have more lines than a crate may have.
fn over_budget<'a>(sources: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::<String, usize>::new();
    for (path, text) in sources.filter(|(path, _)| path.starts_with("crates/")) {
        *lines.entry(subject(path)).or_default() += text.lines().count();
    }
    lines.retain(|_, lines| *lines > CRATE_LINES_MAX);
    lines
}

#[test]
fn files_of_a_crate_form_no_new_circles() {
    let tree = Tree::read();
    let ratchet = ratchet();
    let mut found = Vec::new();
    for name in tree.crates() {
        let start = format!("crates/{name}/src/");
        let files: Vec<(String, String)> = tree
            .rust_sources()
            .filter(|file| !file.is_test_or_bench())
            .filter_map(|file| Some((file.path.strip_prefix(&start)?.to_owned(), file.product_text())))
            .collect();
        found.extend(ratchet.hold_circles(&name, &circles::circles(&files)));
    }
    for name in ratchet.crates_with_circles().filter(|name| !tree.crates().iter().any(|known| known == name))
    {
        found.push(format!("circle {name}: no such crate"));
    }
    none(&found);
}

#[test]
fn words_have_one_meaning() {
    let tree = Tree::read();
    let mut found = BTreeMap::new();
    for word in text::unwanted_words() {
        // The ratchet itself and published text are left alone.
        let texts =
            tree.all_texts().filter(|file| !file.path.starts_with("tidy/") && file.path != "Cargo.lock");
        let lines = texts.map(|file| text::lines_with(&file.text, &word)).sum();
        found.insert(word, lines);
    }
    none(&ratchet().hold("word", &found));
}

/// What a rule counts by: the crate as `storey/name`, the folder of what is none.
fn subject(path: &str) -> String {
    let mut parts = path.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("crates"), Some(storey), Some(name)) => format!("{storey}/{name}"),
        (Some(folder), Some(_), _) => folder.to_owned(),
        _ => ".".to_owned(),
    }
}

fn ratchet() -> Ratchet {
    Ratchet::read(include_str!("ratchet.txt"))
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
    let row = |storey: &str, name: &str, uses: &str| format!("| `{storey}` | `{name}` | a line | {uses} |\n");
    let sample: String = (0..11).map(|k| row("base", &format!("c{k}"), "–")).collect();
    let sample = format!(
        "| storey | crate | one line | may use |\n|---|---|---|---|\n{sample}{}",
        row("face", "top", "`c1`")
    );
    let house = House::read(&sample);
    assert!(house.refusal("c0", "c1").is_some() && house.refusal("c0", "top").is_some());
    assert!(house.refusal("top", "c0").is_none());
    assert!(names_place(concat!("cd /wo", "rk/main"), concat!("/wo", "rk/")));
    assert!(!names_place("see framework/x", concat!("/wo", "rk/")));
    let long = format!("fn long() {{\n{}}}\n", "    call();\n".repeat(FUNCTION_LINES_MAX));
    assert_eq!(functions::functions(&long)[0].lines, FUNCTION_LINES_MAX + 2);
    let list =
        tree::section("[a]\nb = \"1\"\n[c]\nd.workspace = true # e\n\ne = \"2\"\n[f]\ng = \"3\"\n", "c");
    assert_eq!(
        list.iter().map(|(name, how)| format!("{name} {how}")).collect::<Vec<_>>(),
        ["d workspace = true", "e \"2\""]
    );
    assert_eq!(tree::markdown_links("a [b](c.md#d) `[x](y)`"), ["c.md#d"]);
    assert!(!code_only("// Instant::now()").contains("Instant::now"));
    assert!(code_only("let t = Instant::now(); // clock").contains("Instant::now"));
}

/// The rules with a ratchet can fail, too: beyond an entry, and on an entry that is no longer needed.
#[test]
fn the_ratchets_catch_offenders() {
    assert_eq!(text::wide_lines(&format!("{}\n{}\n", "x".repeat(110), "x".repeat(111))), 1);
    let word = text::unwanted_words().remove(0);
    assert_eq!(text::lines_with(&format!("{word} twice: {word}\nx{word}\n(un_{word}: A {word}.)"), &word), 2);
    let long = "\n".repeat(CRATE_LINES_MAX / 2 + 1);
    let files =
        [("crates/base/long/src/a.rs", &*long), ("crates/base/long/src/b.rs", &*long), ("x/y.rs", "")];
    let over = over_budget(files.into_iter());
    assert_eq!(over, BTreeMap::from([("base/long".to_owned(), CRATE_LINES_MAX + 2)]));
    assert!(over_budget(files.into_iter().skip(1)).is_empty());

    let allows = |entry: &str| Ratchet::read(entry).hold("lines", &over).is_empty();
    assert!(!allows("") && !allows("lines base/long 8001") && allows("# a comment\nlines base/long 8002"));
    assert!(!allows("lines base/long 8002\nlines base/gone 9000") && !allows("lines base/long 9000"));

    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let crate_of = |c: &str| {
        [
            file("lib.rs", "mod a; mod b; pub use b::{c::C, d}; // crate::a::A"),
            file("a.rs", "use crate::C;\npub struct A;"),
            file("b/mod.rs", "pub mod c; pub mod d;"),
            file("b/c.rs", c),
            file("b/d.rs", "fn quiet() { super::super::a::A; }"),
        ]
    };
    let circle = circles::circles(&crate_of("pub struct C; fn back() { crate::d::quiet(\"\") }"));
    assert_eq!(circle, [["a.rs", "b/c.rs", "b/d.rs"]]);
    assert!(circles::circles(&crate_of("pub struct C; // crate::d::quiet() 'a")).is_empty());
    let holds = |entry: &str| Ratchet::read(entry).hold_circles("base/long", &circle).is_empty();
    assert!(!holds("") && holds("circle base/long a.rs b/c.rs b/d.rs"));
    assert!(!holds("circle base/long a.rs b/c.rs b/d.rs e.rs") && !holds("circle base/long a.rs b/c.rs"));
}

fn none(found: &[String]) {
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}
