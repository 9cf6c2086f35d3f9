//! Key-value stores for C and C++: the program of the manual, and those of `examples/c/kv`, as they are and
//! under `strandline check`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::capi::link;
use crate::common::{Scratch, compile, has, ok, stderr, stdout, strandline};
use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
const ENGINES: [&str; 2] = ["slab", "log"];

/// Compiles a program with a plain compiler, without a warning.
fn build(scratch: &Scratch, compiler: &str, name: &str, source: &Path, standard: &str) -> PathBuf {
    let program = scratch.path(name);
    let mut command = Command::new(compiler);
    command.args("-O2 -g -Wall -Wextra -Werror -D_GNU_SOURCE".split(' ')).arg(standard);
    ok(command.arg("-o").arg(&program).arg(source).args(link()));
    program
}

fn example(name: &str) -> PathBuf {
    Path::new(ROOT).join("examples/c/kv").join(name)
}

/// The first program in the manual is all that it takes.
#[test]
fn the_program_in_the_manual_works() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let manual = std::fs::read_to_string(Path::new(ROOT).join("docs/man/kv.md")).expect("the manual");
    let begin = manual.find("#include <err.h>").expect("a program");
    let end = begin + manual[begin..].find("```").expect("its end");
    let source = scratch.file("book.c", &manual[begin..end]);
    let book = build(&scratch, "gcc", "book", &source, "-std=c99");
    for _ in 0..2 {
        assert_eq!(stdout(&ok(Command::new(&book).current_dir(scratch.dir()))), "1965\n");
    }
}

#[test]
fn links_keep_what_they_were_given() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let links = build(&scratch, "gcc", "links", &example("links.c"), "-std=c11");
    for engine in ENGINES {
        for (arguments, status, reported) in [
            (&["put", "tide", "a"][..], 0, ""),
            (&["put", "sea", "b"], 0, ""),
            (&["put", "sea", "c"], 0, ""),
            (&["get", "sea"], 0, "c\n"),
            (&["list"], 0, "sea c\ntide a\n"),
            (&["list", "t"], 0, "tide a\n"),
            (&["remove", "sea"], 0, ""),
            (&["remove", "sea"], 1, ""),
            (&["get", "sea"], 1, ""),
            (&["--recover"], 0, ""),
            (&["load", "0", "500"], 0, ""),
            (&["--recover"], 0, ""),
            (&["get", "link499"], 0, "https://example.org/499\n"),
        ] {
            let (verb, rest) = arguments.split_first().expect("a verb");
            let mut command = Command::new(&links);
            command.env("STRANDLINE_ENGINE", engine).arg(verb).arg(scratch.path(engine)).args(rest);
            let output = command.output().expect("it runs");
            assert_eq!(output.status.code(), Some(status), "{engine} {arguments:?}: {}", stderr(&output));
            assert_eq!(stdout(&output), reported, "{engine} {arguments:?}");
        }
    }
    let missing = Command::new(&links).arg("--recover").arg(scratch.path("none")).output().expect("it runs");
    assert_eq!(missing.status.code(), Some(1), "{}", stderr(&missing));
    assert!(stderr(&missing).contains("none"), "{}", stderr(&missing));
    let other = scratch.file("other", &"text".repeat(4096));
    let refused = Command::new(&links).args(["list"]).arg(other).output().expect("it runs");
    assert!(stderr(&refused).contains("no key-value store"), "{}", stderr(&refused));
}

#[test]
fn scores_in_cxx_are_in_order() {
    let compilers = ["g++", "clang++"].into_iter().filter(|name| has(name));
    for compiler in compilers {
        let scratch = Scratch::new();
        let scores = build(&scratch, compiler, "scores", &example("scores.cc"), "-std=c++17");
        let run = |arguments: &[&str]| {
            let (verb, rest) = arguments.split_first().expect("a verb");
            stdout(&ok(Command::new(&scores).arg(verb).arg(scratch.path("store")).args(rest)))
        };
        run(&["add", "ada", "40"]);
        run(&["add", "bob", "50"]);
        assert_eq!(run(&["add", "ada", "41"]), "81\n");
        assert_eq!(run(&["top"]), "ada 81\nbob 50\n");
        assert_eq!(run(&["top", "1"]), "ada 81\n");
        let other = scratch.file("other", "text");
        let output = Command::new(&scores).arg("top").arg(other).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "an exception: {}", stderr(&output));
    }
}

fn check(scratch: &Scratch, options: &[&str], engine: &str, mistake: &str) -> (Output, Value) {
    _ = std::fs::remove_file(scratch.path("store"));
    let recover = if mistake == "none" { "./links --recover POOL try" } else { "./links --recover POOL" };
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["check", "--json", "--images", "16", "--recover", recover]);
    command.args(options).args(["--", "./links", "try", "store", mistake]);
    let output = command.env("STRANDLINE_ENGINE", engine).output().expect("it runs");
    let answer = serde_json::from_slice(&output.stdout);
    let answer = answer.unwrap_or_else(|error| panic!("{engine}: {error}: {}", stderr(&output)));
    (output, answer)
}

#[test]
fn a_store_in_c_survives_every_crash_and_a_mistake_with_it_is_found() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let source = example("links.c").display().to_string();
    let arguments = format!("-D_GNU_SOURCE -O1 -g -o links {source} {}", link().join(" "));
    compile(scratch.dir(), "cc", &arguments);
    for engine in ENGINES {
        for options in [&["--pmem", "store"][..], &["--files", "store"]] {
            let (output, answer) = check(&scratch, options, engine, "none");
            assert_eq!(output.status.code(), Some(0), "{engine} {options:?}: {answer:#}");
            assert!(answer["images"].as_u64() > Some(100), "{answer:#}");
        }
        let (output, answer) = check(&scratch, &["--pmem", "store"], engine, "apart");
        assert_eq!(output.status.code(), Some(1), "{engine}: {answer:#}");
        let all = answer["findings"].to_string();
        assert!(all.contains("which leads to nothing") && all.contains("links.c"), "{all}");
    }
}
