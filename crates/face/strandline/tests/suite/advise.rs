//! `strandline advise prestores` on the programs in `examples/c`.

use std::path::Path;
use std::process::Command;

use crate::common::fields::compare;
use crate::common::{Scratch, cc, compile, has, ok, stdout, strandline};
use serde_json::Value;

/// Functions of the programs; the advice must not depend on their names.
const FUNCTIONS: [&str; 10] = [
    "psinv",
    "resid",
    "compute_rhs",
    "craftValue",
    "fill_msg",
    "evalPacket",
    "fftz2",
    "rank",
    "x9_write_to_inbox",
    "x9_read_from_inbox",
];

/// The text with other names for the functions.
fn renamed(text: &str) -> String {
    let mut renamed = String::new();
    for word in text.split_inclusive(|letter: char| !letter.is_alphanumeric() && letter != '_') {
        let name = word.trim_end_matches(|letter: char| !letter.is_alphanumeric() && letter != '_');
        renamed += if FUNCTIONS.contains(&name) { "some_" } else { "" };
        renamed += word;
    }
    renamed
}

/// The programs with all functions renamed, built so that they can be observed.
fn build(scratch: &Scratch, compiler: &str, level: &str, programs: &[&str]) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/c");
    for entry in std::fs::read_dir(&examples).expect("the programs are there") {
        let path = entry.expect("the programs are there").path();
        if path.is_file() {
            let text = renamed(&std::fs::read_to_string(&path).expect("it is text"));
            scratch.file(&path.file_name().unwrap_or_default().to_string_lossy(), &text);
        }
    }
    let cxx = if compiler == "gcc" { "g++" } else { "clang++" };
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../observe/instrument/include");
    ok(Command::new("make")
        .current_dir(scratch.dir())
        .args([format!("CFLAGS={level} -g"), format!("CXXFLAGS={level} -g"), "HEADERS=".to_owned()])
        .arg(format!("COMMON=-I{} -D_GNU_SOURCE -ffp-contract=off -pthread", include.display()))
        .arg(format!("CC={} --compiler={compiler}", cc("cc")))
        .arg(format!("CXX={} --compiler={cxx}", cc("c++")))
        .args(programs.iter().map(|name| format!("build/{name}-plain"))));
}

/// What is advised, by function, without those that are to be left alone.
fn advised(scratch: &Scratch, program: &str, options: &[&str]) -> Vec<(String, String)> {
    let said = stdout(&ok(strandline()
        .args(["advise", "prestores", "--json", "--"])
        .arg(scratch.path(&format!("build/{program}-plain")))
        .args(options)));
    let answer: Value = serde_json::from_str(&said).expect("it is JSON");
    let phases = answer["advice"]["phases"].as_array().cloned().unwrap_or_default();
    let places = phases.iter().flat_map(|phase| phase["places"].as_array().cloned().unwrap_or_default());
    let word = |place: &Value, key: &str| place[key].as_str().unwrap_or_default().to_owned();
    let function = |place: &Value| word(place, "function").rsplit(':').next().unwrap_or_default().to_owned();
    let mut advised: Vec<(String, String)> = places
        .map(|place| (function(&place), word(&place, "choice")))
        .filter(|(_, choice)| choice != "nothing")
        .collect();
    advised.sort();
    advised.dedup();
    advised
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|&(function, choice)| (function.to_owned(), choice.to_owned())).collect()
}

/// The answers of the method's authors, which follow from the patterns: whatever functions are called, and whichever compiler
/// turned them into instructions.
fn holds(compiler: &str, level: &str) {
    if !has(compiler) || !has("make") || !has("g++") {
        println!("skipped: no {compiler}, make or g++");
        return;
    }
    let scratch = Scratch::new();
    build(&scratch, compiler, level, &["eigen", "mg", "is", "sp", "clht", "masstree", "x9"]);
    let context = format!("{compiler} {level}");
    let expect = |program: &str, options: &[&str], expected: &[(&str, &str)]| {
        assert_eq!(advised(&scratch, program, options), pairs(expected), "{program} {options:?} {context}");
    };
    expect("eigen", &[], &[("some_evalPacket", "clean")]);
    expect("mg", &[], &[("some_psinv", "skip"), ("some_resid", "clean")]);
    expect("is", &[], &[]);
    expect("sp", &[], &[("some_compute_rhs", "clean")]);
    expect("clht", &[], &[("some_craftValue", "skip")]);
    expect("masstree", &["-t", "3"], &[("some_craftValue", "skip")]);
    expect("x9", &["-n", "20000"], &[("some_fill_msg", "demote")]);
    if level != "-O2" {
        return;
    }
    expect("is", &["-s", "300000"], &[]);
    expect("clht", &["-s", "256", "-k", "200000"], &[("some_craftValue", "skip")]);
    // The caches have many of these values, and some of them are read before they are replaced, all others only by the check at the end.
    for options in [["-s", "64", "-n", "20000"], ["-s", "128", "-t", "4"]] {
        expect("clht", options.as_slice(), &[("some_craftValue", "skip")]);
    }
    for workload in ["b", "c", "d"] {
        expect("clht", &["-w", workload, "-k", "20000"], &[]);
        expect("masstree", &["-w", workload, "-k", "20000"], &[]);
    }
    for size in ["64", "128", "512"] {
        // Not the copies into and out of the inbox: the atomic operation that publishes them leaves no time for a demotion.
        expect("x9", &["-s", size, "-n", "20000"], &[("some_fill_msg", "demote")]);
    }
}

#[test]
fn each_program_gets_the_advice_that_its_pattern_calls_for() {
    holds("gcc", "-O2");
}

#[test]
fn another_compiler_and_level_change_nothing() {
    holds("clang", "-O3");
}

#[test]
fn code_that_is_not_optimised_gets_the_same_advice() {
    let scratch = Scratch::new();
    build(&scratch, "gcc", "-O0", &["mg", "clht"]);
    assert_eq!(advised(&scratch, "mg", &[]), pairs(&[("some_psinv", "skip"), ("some_resid", "clean")]));
    // What a generator of random numbers has on the stack is written many times before each fence.
    let small = advised(&scratch, "clht", &["-s", "256", "-k", "200000"]);
    assert_eq!(small, pairs(&[("some_craftValue", "skip")]));
}

#[test]
fn a_transform_between_cached_buffers_is_left_alone() {
    for (compiler, level) in [("gcc", "-O2"), ("clang", "-O3")] {
        if !has(compiler) {
            println!("skipped: no {compiler}");
            continue;
        }
        let scratch = Scratch::new();
        build(&scratch, compiler, level, &["ft"]);
        assert_eq!(advised(&scratch, "ft", &[]), [], "{compiler} {level}");
        assert_eq!(advised(&scratch, "ft", &["-s", "32"]), [], "{compiler} {level}");
    }
}

/// A phase that fills, and one that hardly stores (and so gets no advice) and reads it all while a cache still has it.
const READ_ELSEWHERE: &str = "\
#include <stdint.h>
#include <stdlib.h>
#include \"strandline.h\"
enum { SLICE = 2 << 20, SLICES = 24 };
__attribute__((noinline)) static void fill(uint64_t *slice, uint64_t seed)
{
    for (unsigned n = 0; n < SLICE / 8; n++)
        slice[n] = seed = seed * 6364136223846793005u + 1;
}
__attribute__((noinline)) static uint64_t use(const uint64_t *slice)
{
    uint64_t sum = 0;
    for (unsigned n = 0; n < SLICE / 8; n++)
        sum ^= slice[n] >> (sum & 7);
    return sum;
}
int main(void)
{
    char *all = aligned_alloc(4096, (size_t)SLICE * SLICES);
    uint64_t sum = 0;
    for (int slice = 0; slice < SLICES; slice++) {
        sl_phase(\"fill\");
        fill((uint64_t *)(all + (size_t)slice * SLICE), slice);
        sl_phase(\"use\");
        sum += use((uint64_t *)(all + (size_t)slice * SLICE));
    }
    return sum == 1;
}
";

/// The filling phase alone is faster for it, and the program is not.
#[test]
fn what_a_skip_costs_another_phase_counts() {
    let scratch = Scratch::new();
    scratch.file("program.c", READ_ELSEWHERE);
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../observe/instrument/include");
    compile(scratch.dir(), "cc", &format!("-O2 -g -I{} -o program program.c", include.display()));
    let said = stdout(&ok(strandline()
        .args(["advise", "prestores", "--json", "--machine", "cascade-lake", "--"])
        .arg(scratch.path("program"))));
    let answer: Value = serde_json::from_str(&said).expect("it is JSON");
    let place = &answer["advice"]["phases"][0]["places"][0];
    let tried = place["tried"].as_array().expect("it was tried");
    let skip = tried.iter().find(|trial| trial["choice"] == "skip").expect("skipping is tried, too");
    let cost = |cost: &Value, key: &str| cost[key].as_f64().expect("it is a cost");
    let without = &answer["trials"]["without"];
    assert!(cost(&skip["cost"], "time_ns") < 0.9 * cost(without, "time_ns"), "{said}");
    assert!(cost(&skip["cost"], "elsewhere_ns") > 2.0 * cost(without, "elsewhere_ns"), "{said}");
    assert_ne!(place["best"]["choice"], "skip", "{said}");
    assert_eq!(answer["advice"]["phases"][1]["judged"], false, "{said}");

    let unknown = strandline()
        .args(["advise", "prestores", "--phase", "fil", "--"])
        .arg(scratch.path("program"))
        .output()
        .expect("strandline starts");
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(!unknown.status.success() && said.contains("no phase `fil`; it has fill, use"), "{said}");
}

/// A decoder: literals and matches, each with a loop of its own, fill the same lines one after the other.
const DECODER: &str = "\
#include <stdlib.h>
__attribute__((noinline)) static char *decode(char *out, const unsigned char *in, const unsigned char *end)
{
    while (in < end) {
        unsigned char token = *in++;
        for (unsigned n = token >> 4; n; n--)
            *out++ = *in++;
        const char *from = out - 16 - token;
        for (unsigned n = 4 + (token & 15); n; n--)
            *out++ = *from++;
    }
    return out;
}
int main(void)
{
    enum { TOKENS = 400000 };
    unsigned char *in = malloc(TOKENS + 20);
    char *out = calloc(1, 512 + 40 * TOKENS);
    for (unsigned n = 0; n < TOKENS + 20; n++)
        in[n] = n * 2654435761u >> 24;
    return !decode(out + 512, in, in + TOKENS);
}
";

/// A line inserted behind either loop would clean every cache line several times.
#[test]
fn what_several_loops_fill_is_cleaned_behind_the_loop_around_them() {
    let scratch = Scratch::new();
    scratch.file("decoder.c", DECODER);
    compile(scratch.dir(), "cc", "-O1 -g -o decoder decoder.c");
    let said =
        stdout(&ok(strandline().args(["advise", "prestores", "--json", "--"]).arg(scratch.path("decoder"))));
    let answer: Value = serde_json::from_str(&said).expect("it is JSON");
    let places = answer["advice"]["phases"][0]["places"].as_array().cloned().unwrap_or_default();
    // The advice on main, which fills the input, is no matter here.
    let advised: Vec<&Value> = places.iter().filter(|place| place["function"] == "decode").collect();
    assert_eq!((advised.len(), &advised[0]["choice"]), (1, &"clean".into()), "{answer:#}");
    let behind = &advised[0]["patch"]["behind"];
    assert_eq!((&behind["loop_begins"], &behind["line"]), (&4.into(), &11.into()), "{answer:#}");
}

/// A message has a head, and a body with a loop: whoever fills it in a loop over all messages has to send it on before its fence.
const SENDER: &str = "\
#include <stdatomic.h>
#include <stdlib.h>
static atomic_int sent;
static volatile long weights[20];
int main(void)
{
    long *messages = calloc(16, 256), sum = 0;
    for (long number = 0; number < 40000; number++) {
        long *message = messages + number % 16 * 32;
        message[0] = number;
        for (long at = 1; at < 32; at++)
            message[at] = number ^ at;
        for (long turn = 0; turn < 20; turn++)
            sum += weights[turn];
        atomic_fetch_add(&sent, 1);
    }
    return sum == 1;
}
";

#[test]
fn what_a_fence_waits_for_is_demoted_before_it() {
    let scratch = Scratch::new();
    scratch.file("sender.c", SENDER);
    compile(scratch.dir(), "cc", "-O1 -g -o sender sender.c");
    let said =
        stdout(&ok(strandline().args(["advise", "prestores", "--json", "--"]).arg(scratch.path("sender"))));
    let answer: Value = serde_json::from_str(&said).expect("it is JSON");
    let place = &answer["advice"]["phases"][0]["places"][0];
    let behind = &place["patch"]["behind"];
    assert_eq!(place["choice"], "demote", "{answer:#}");
    assert_eq!((&behind["loop_begins"], &behind["line"]), (&11.into(), &12.into()), "{answer:#}");
}

#[test]
fn a_profile_names_the_places_and_how_to_try_them() {
    let scratch = Scratch::new();
    build(&scratch, "gcc", "-O2", &["eigen"]);
    let program = scratch.path("build/eigen-plain");
    let profile = |machine: &str| {
        let out = scratch.path(machine);
        let said = stdout(&ok(strandline()
            .args(["profile", "--machine", machine, "--out"])
            .arg(&out)
            .arg("--")
            .arg(&program)));
        let read = |name: &str| std::fs::read_to_string(out.join(name)).expect("the report is written");
        let json: Value = serde_json::from_str(&read("report.json")).expect("it is JSON");
        (said, json["prestores"].clone(), read("report.html"))
    };
    let (said, json, page) = profile("xpoint");
    assert!(said.contains("Pre-stores") && said.contains("clean   some_evalPacket (eigen.cc:50)"), "{said}");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("strandline advise prestores --machine xpoint -- "), "{said}");
    let watched = json["watched"].as_f64().unwrap_or_default();
    assert!((0.0..0.5).contains(&watched), "bursts, not all: {watched}");
    assert!(
        json["phases"].as_array().is_some_and(|phases| phases.iter().any(|phase| phase["judged"] == true))
    );
    assert!(page.contains("id=\"pre-stores\""), "the page has the section");
    // Sequential writes can't gain where the memory takes single lines.
    let (said, _, page) = profile("dram");
    assert!(!said.contains("Pre-stores") && !page.contains("id=\"pre-stores\""), "{said}");
}

#[test]
fn the_advice_as_data_says_what_to_insert_where() {
    let scratch = Scratch::new();
    build(&scratch, "gcc", "-O2", &["eigen"]);
    let trace = scratch.path("eigen.slt");
    ok(strandline().arg("record").arg("-o").arg(&trace).arg("--").arg(scratch.path("build/eigen-plain")));
    let answer = |options: &[&str]| -> Value {
        let said =
            stdout(&ok(strandline().args(["advise", "prestores", "--json"]).arg(&trace).args(options)));
        serde_json::from_str(&said).expect("it is JSON")
    };
    let advised = |answer: &Value| -> Vec<Value> {
        let phases = answer["advice"]["phases"].as_array().cloned().unwrap_or_default();
        let places = phases.iter().flat_map(|phase| phase["places"].as_array().cloned().unwrap_or_default());
        places.filter(|place| !place["patch"].is_null()).collect()
    };
    let tried = answer(&["--machine", "xpoint"]);
    let places = advised(&tried);
    assert_eq!(places.len(), 1, "{tried:#}");
    let patch = &places[0]["patch"];
    assert_eq!(patch["insert"], "sl_prestore(FIRST_BYTE_WRITTEN, BYTES_WRITTEN, SL_CLEAN);");
    // Behind the loop whose turns write a packet each.
    let source = std::fs::read_to_string(scratch.path("eigen.cc")).expect("it is there");
    let line = |number: &Value| {
        let number = usize::try_from(number.as_u64().unwrap_or_default()).unwrap_or_default();
        source.lines().nth(number - 1).unwrap_or_default().trim().to_owned()
    };
    assert_eq!(patch["excerpt"], line(&places[0]["line"]));
    assert!(line(&patch["behind"]["loop_begins"]).starts_with("for"), "{patch:#}");
    assert_eq!(line(&patch["behind"]["line"]), "}", "{patch:#}");
    compare(
        include_str!("../../../../../docs/advise-json.md"),
        &[tried],
        &[(".cost", "cost"), (".without", "cost"), (".together", "cost")],
        &[],
    );

    let withheld = answer(&["--target", "xpoint"]);
    assert_eq!((advised(&withheld).len(), &withheld["trials"]), (1, &Value::Null));
    // Data that no cache can hold until they are read again; and a program that does little else than store.
    for threshold in [["--cache", "0B"], ["--min-intensity", "0.99"]] {
        let strict = answer(&threshold);
        let same = advised(&strict).first().is_some_and(|place| place["choice"] == "clean");
        assert!(!same, "{threshold:?}: {strict:#}");
    }
    let refused = strandline().args(["advise", "prestores", "--min-fenced", "2"]).arg(&trace).output();
    let refused = refused.expect("it runs");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("from 0 to 1"));
}
