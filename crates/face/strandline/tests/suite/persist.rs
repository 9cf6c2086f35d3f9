//! Programs built by `strandline cc --persist=DESIGN`: they do what they did, and survive.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::{Scratch, cc, has, has_flushes, ok, stderr, stdout, strandline};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/c/persist");
const DESIGNS: [&str; 5] = ["coupled", "decoupled", "atlas", "strand", "none"];

fn build(scratch: &Scratch, compiler: &str, design: &str, source: &str) -> PathBuf {
    let program = scratch.path(&format!("{source}-{compiler}-{design}"));
    let (verb, standard) = if source.ends_with("cc") { ("c++", "-std=c++20") } else { ("cc", "-std=gnu11") };
    let source = Path::new(EXAMPLES).join(source);
    let command = format!(
        "{} --persist={design} --compiler={compiler} -O2 -g -Wall -Werror {standard} -pthread -o {} {}",
        cc(verb),
        program.display(),
        source.display()
    );
    ok(Command::new("sh").args(["-c", &command]));
    program
}

/// A pool in memory, removed at the end.
struct Shared(PathBuf);

impl Shared {
    fn new(name: &str) -> Shared {
        let path = PathBuf::from(format!("/dev/shm/strandline-{name}-{}", std::process::id()));
        _ = std::fs::remove_file(&path);
        Shared(path)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

/// Kills a program again and again; after each time what it left is in order.
fn killed(program: &Path, pool: &Path, run: &[&str], times: u64) {
    for time in 0..times {
        let mut child =
            Command::new(program).arg(pool).args(run).stdout(Stdio::null()).spawn().expect("it runs");
        sleep(Duration::from_millis(20 + 37 * (time % 7)));
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        let checked = Command::new(program).arg(pool).arg("check").output().expect("it runs");
        let interrupted = stderr(&checked).contains("its making");
        if interrupted {
            _ = std::fs::remove_file(pool);
        }
        assert!(checked.status.success() || interrupted, "{}{}", stdout(&checked), stderr(&checked));
    }
}

fn survives(source: &str, compiler: &str, run: [&str; 2], endless: &[&str]) {
    if !has(compiler) {
        return;
    }
    let scratch = Scratch::new();
    for design in DESIGNS {
        let program = build(&scratch, compiler, design, source);
        let pool = Shared::new(&format!("{source}-{compiler}-{design}"));
        let mut command = Command::new(&program);
        ok(command.arg(&pool.0).args(run));
        ok(Command::new(&program).arg(&pool.0).arg("check"));
        // ATLAS protects critical sections, and no lock-free code.
        if design != "none" && (design != "atlas" || source.ends_with(".c")) {
            killed(&program, &pool.0, endless, 4);
        }
    }
}

#[test]
fn a_c_program_survives_as_gcc_compiles_it() {
    survives("bank.c", "gcc", ["run", "2"], &["run", "3", "1000000000"]);
}

#[test]
fn a_c_program_survives_as_clang_compiles_it() {
    survives("bank.c", "clang", ["run", "2"], &["run", "3", "1000000000"]);
}

#[test]
fn every_kind_of_synchronisation_is_one() {
    survives("kinds.cc", "g++", ["run", "50"], &["run", "100000000"]);
}

#[test]
fn what_is_wrong_is_said() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let unknown = Command::new("sh")
        .args(["-c", &format!("{} --persist=sometimes -c x.c", cc("cc"))])
        .output()
        .expect("it runs");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("there are coupled, decoupled"), "{}", stderr(&unknown));
    let bank = build(&scratch, "gcc", "coupled", "bank.c");
    let text = scratch.file("text", &"no pool ".repeat(100_000));
    for (path, verb, wanted) in [(text, "run", "no pool of"), (scratch.path("none"), "check", "No such file")]
    {
        let refused = Command::new(&bank).arg(path).arg(verb).output().expect("it runs");
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains(wanted), "{}", stderr(&refused));
    }
}

#[test]
fn the_tutorial_s_program_counts_and_survives() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    let page = Path::new(EXAMPLES).join("../../../docs/persist-tutorial.md");
    let page = std::fs::read_to_string(page).expect("the tutorial");
    let begin = page.find("#include <ctype.h>").expect("a program");
    let end = begin + page[begin..].find("```").expect("its end");
    let source = scratch.file("words.c", &page[begin..end]);
    let program = scratch.path("words");
    let flags = "--persist=decoupled -O2 -Wall -Werror -pthread -o";
    let command = format!("{} {flags} {} {}", cc("cc"), program.display(), source.display());
    ok(Command::new("sh").args(["-c", &command]));
    let text = scratch.file("text", &"to be or not to be\n".repeat(50));
    let pool = Shared::new("words");
    for times in 1..=2 {
        let counted = ok(Command::new(&program).args([&pool.0, &text, &text]));
        assert_eq!(stdout(&counted), format!("{} words, 4 different\n", times * 600));
    }
    let counted = ok(Command::new(&program).arg(&pool.0));
    assert_eq!(stdout(&counted), "1200 words, 4 different\n");
}

/// Every crash of a short run, as the checker finds them: nothing is lost, and without logging much is.
#[test]
fn check_finds_nothing_but_where_nothing_is_logged() {
    if !has("gcc") || !has_flushes() {
        return;
    }
    let scratch = Scratch::new();
    let bank = build(&scratch, "gcc", "coupled", "bank.c");
    let pool = Shared::new("checked");
    for (design, status) in [("coupled", 0), ("decoupled", 0), ("strand", 0), ("none", 1)] {
        _ = std::fs::remove_file(&pool.0);
        let mut check = strandline();
        check.current_dir(scratch.dir()).env("STRANDLINE_PERSIST", design).arg("check");
        check.args(["--recover", &format!("{} POOL check", bank.display()), "--"]);
        let output = check.arg(&bank).arg(&pool.0).args(["run", "1", "3"]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(status), "{design}: {}{}", stdout(&output), stderr(&output));
    }
}
