//! `strandline check`: what a finding says about the code that it names.

use std::collections::BTreeSet;

use crate::common::{Scratch, compile, has, has_flushes, ok, stderr, stdout, strandline};
use serde_json::{Value, json};

/// Two functions that leave it to one helper, which the compiler puts into both, to store a value and what points to it.
const PROGRAM: &str = r#"#include <fcntl.h>
#include <immintrin.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pair { long value; char rest[56]; long set; char rest2[56]; };
struct pool { struct pair index, log; };

static inline __attribute__((always_inline)) void put(struct pair *pair, long value)
{
    pair->value = value;
    _mm_clwb(&pair->value);
    *(volatile long *)&pair->set = 1;
    _mm_clwb(&pair->set);
    _mm_sfence();
}

__attribute__((noinline)) static void add_index(struct pool *p)
{
    put(&p->index, 7);
}

__attribute__((noinline)) static void add_log(struct pool *p)
{
    put(&p->log, 8);
}

int main(int argc, char **argv)
{
    const int recover = !strcmp(argv[1], "--recover");
    const int fd = open(argv[1 + recover], O_RDWR | O_CREAT, 0600);
    struct pool *p;
    if (argc < 2 + recover || ftruncate(fd, sizeof *p))
        return 2;
    p = mmap(0, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (recover) {
        if (p->index.set && p->index.value != 7)
            return puts("the index leads nowhere"), 1;
        if (p->log.set && p->log.value != 8)
            return puts("the log leads nowhere"), 1;
        return 0;
    }
    add_index(p);
    add_log(p);
    return 0;
}
"#;

fn line(text: &str) -> u64 {
    PROGRAM.lines().position(|line| line.contains(text)).expect("a line") as u64 + 1
}

#[test]
fn inlined_code_is_reported_with_its_caller_and_a_late_fence_as_late() {
    if !has("gcc") || !has_flushes() {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("app.c", PROGRAM);
    compile(scratch.dir(), "cc", "-O2 -g -mclwb -o app app.c");
    let pool = scratch.path("pool").display().to_string();
    let output = strandline()
        .current_dir(scratch.dir())
        .args(["check", "--json", "--pmem", &pool, "--recover", "./app --recover POOL", "--", "./app", &pool])
        .output()
        .expect("strandline starts");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = answer["findings"].as_array().expect("findings");
    let reported: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let missing = &finding["missing"][0];
            let (store, caller) = (&missing["store"]["line"], &missing["store"]["callers"][0]["line"]);
            json!([finding["message"], store, caller, finding["survived"]["store"]["line"]])
        })
        .collect();
    let (store, set) = (line("pair->value = value"), line("pair->set = 1"));
    let index = json!(["the index leads nowhere", store, line("put(&p->index"), set]);
    let log = json!(["the log leads nowhere", store, line("put(&p->log"), set]);
    assert_eq!(reported, [index, log], "{answer:#}");
    let why = &findings[0]["missing"][0]["why"];
    assert_eq!(
        json!([why["kind"], why["flush"]["line"], why["fence"]["line"]]),
        json!(["fenced-later", line("_mm_clwb(&pair->value)"), line("_mm_sfence()")]),
        "{answer:#}"
    );
    let story = findings[0]["story"][0].as_str().expect("a sentence");
    assert!(story.contains("called from add_index (app.c:"), "{story}");
    assert!(story.contains("but the fence comes only later, at put (app.c:"), "{story}");
}

const HEADERS: &str = include_str!("../programs/headers.cc");

/// Functions of C++'s library that are not compiled into their callers tell where they begin and end.
#[test]
fn code_of_the_standard_library_is_reported_with_its_caller_though_it_is_not_inlined() {
    if !has("g++") || !has_flushes() {
        return;
    }
    let line = |mark: &str| HEADERS.lines().position(|line| line.contains(mark)).expect("a mark") + 1;
    for (compiler, level) in [
        ("g++", "-O0"),
        ("clang++", "-O0"),
        ("g++", "-O1"),
        ("g++", "-O2"),
        ("clang++", "-O2"),
        ("g++", "-O3"),
    ] {
        if !has(compiler) {
            println!("skipped: there is no {compiler}");
            continue;
        }
        let scratch = Scratch::new();
        scratch.file("headers.cc", HEADERS);
        compile(scratch.dir(), "c++", &format!("--compiler={compiler} -g {level} -o headers headers.cc"));
        for kind in ["fill", "sort", "grow", "map"] {
            let pool = scratch.path(&format!("pool-{kind}")).display().to_string();
            let recover = format!("./headers --recover POOL {kind}");
            let output = strandline()
                .current_dir(scratch.dir())
                .args(["check", "--json", "--pmem", &pool, "--recover", &recover, "--", "./headers"])
                .args([&pool, kind])
                .output()
                .expect("strandline starts");
            let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            if kind == "map" {
                // Its tree is balanced within the library, which is not built with the driver.
                assert_eq!(answer["no_verdict"][0]["kind"], "differs", "{compiler} {level}: {answer:#}");
                assert_eq!(output.status.code(), Some(2), "{compiler} {level}: {answer:#}");
                continue;
            }
            let lost = line(&format!("/* {kind} is lost */"));
            let reported: Vec<u64> = answer["findings"]
                .as_array()
                .expect("findings")
                .iter()
                .flat_map(|finding| finding["missing"].as_array().expect("stores"))
                .filter_map(|missing| {
                    let store = &missing["store"];
                    let callers = store["callers"].as_array().expect("callers");
                    callers.iter().chain([store]).find(|code| {
                        code["file"] == "headers.cc"
                            || code["file"].as_str().is_some_and(|file| file.ends_with("/headers.cc"))
                    })?["line"]
                        .as_u64()
                })
                .collect();
            assert!(
                reported.contains(&(lost as u64)),
                "{compiler} {level} {kind}: {lost} not in {reported:?}: {answer:#}"
            );
            assert_eq!(
                answer["findings"][0]["survived"]["store"]["line"],
                line("/* survives */"),
                "{compiler} {level} {kind}: {answer:#}"
            );
        }
    }
}

const BRANCHES: &str = include_str!("../programs/branches.c");

/// Compilers make one of code that stands in several places, and give it the line of any of them.
#[test]
fn code_that_stands_in_several_places_is_reported_by_its_own_line() {
    if !has("gcc") || !has_flushes() {
        return;
    }
    let line = |mark: &str| {
        let mark = format!("/* {mark} */");
        BRANCHES.lines().position(|line| line.contains(&mark)).expect("a mark") as u64 + 1
    };
    for (compiler, level) in [("gcc", "-O2"), ("gcc", "-O3 -save-temps"), ("clang", "-O1"), ("clang", "-O2")]
    {
        if !has(compiler) {
            println!("skipped: there is no {compiler}");
            continue;
        }
        let scratch = Scratch::new();
        scratch.file("branches.c", BRANCHES);
        compile(scratch.dir(), "cc", &format!("--compiler={compiler} -g {level} -o branches branches.c"));
        let pool = scratch.path("pool").display().to_string();
        let output = strandline()
            .current_dir(scratch.dir())
            .args(["check", "--json", "--pmem", &pool, "--recover", "./branches --recover POOL"])
            .args(["--", "./branches", &pool])
            .output()
            .expect("strandline starts");
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let found = |message: &str| {
            let findings = answer["findings"].as_array().expect("findings");
            let finding = findings.iter().find(|finding| finding["message"] == message);
            finding.unwrap_or_else(|| panic!("{compiler} {level}: no {message}: {answer:#}"))
        };
        let lost = |message: &str| &found(message)["missing"][0]["store"]["line"];
        assert_eq!(*lost("no such node"), line("node is lost"), "{compiler} {level}: {answer:#}");
        assert_eq!(*lost("no such leaf"), line("leaf is lost"), "{compiler} {level}: {answer:#}");
        assert_eq!(*lost("the state is ahead"), line("lost"), "{compiler} {level}: {answer:#}");
        let survived = &found("the state is ahead")["survived"]["store"]["line"];
        assert_eq!(*survived, line("survives"), "{compiler} {level}: {answer:#}");
    }
}

const LINES: &str = include_str!("../programs/lines.c");

/// The stores into the arena of `lines.c`, by compiler and flags: the lines in which they stand, and those that were reported.
fn reported_lines(compiler: &str, flags: &str) -> BTreeSet<(u64, String)> {
    let scratch = Scratch::new();
    scratch.file("lines.c", LINES);
    compile(scratch.dir(), "cc", &format!("--compiler={compiler} -g {flags} -o lines lines.c"));
    let trace = scratch.path("lines.slt");
    let mut record = strandline();
    record.args(["record", "--values", "-o"]).arg(&trace).arg("--").arg(scratch.path("lines"));
    let arena = stdout(&ok(&mut record));
    let (start, bytes) = arena.trim().split_once(' ').expect("the arena");
    let start = u64::from_str_radix(start.trim_start_matches("0x"), 16).expect("its address");
    let end = start + bytes.parse::<u64>().expect("its length");
    let events = stdout(&ok(strandline().args(["trace", "dump", "--json"]).arg(&trace)));
    let mut reported = BTreeSet::new();
    for event in events.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")) {
        if event["op"] != "store" || !event["addr"].as_u64().is_some_and(|at| (start..end).contains(&at)) {
            continue;
        }
        // Each word has its own line in its upper half, of which the bytes come from the lowest on.
        let value = event["value"].as_str().expect("a value");
        for word in value.as_bytes().chunks_exact(16) {
            let digits = |at: usize| std::str::from_utf8(&word[at..at + 2]).expect("text");
            let line = u64::from_str_radix(&format!("{}{}", digits(10), digits(8)), 16).expect("a line");
            let label = event["label"].as_str().expect("a label");
            let (_, place) = label.rsplit_once(':').expect("a line");
            reported.insert((line, place.trim_end_matches(')').to_owned()));
        }
    }
    reported
}

/// Stores that a compiler makes one of, or moves, are reported by their own lines, or by none.
#[test]
fn no_store_is_reported_by_another_ones_line() {
    let all = [("gcc", "-O0"), ("gcc", "-O1"), ("gcc", "-O2"), ("gcc", "-O3"), ("gcc", "-Os")];
    for (compiler, level) in all.into_iter().chain([("clang", "-O0")]) {
        if !has(compiler) {
            continue;
        }
        let reported = reported_lines(compiler, &format!("{level} -DENDS"));
        let wrong: Vec<_> =
            reported.iter().filter(|(line, reported)| *reported != line.to_string()).collect();
        assert!(wrong.is_empty() && reported.len() > 20, "{compiler} {level}: {wrong:?}");
    }
    for flags in ["-O1 -DENDS", "-O2", "-O3", "-Os"] {
        if !has("clang") {
            continue;
        }
        let reported = reported_lines("clang", flags);
        let (unknown, known): (Vec<_>, Vec<_>) = reported.iter().partition(|(_, reported)| reported == "?");
        let wrong: Vec<_> = known.iter().filter(|(line, reported)| *reported != line.to_string()).collect();
        assert!(wrong.is_empty() && known.len() > 15, "clang {flags}: {wrong:?}");
        // `overwritten` makes one store of two, and the second loop's stores become one before it.
        assert!((1..8).contains(&unknown.len()), "clang {flags}: {unknown:?}");
    }
}

/// It acknowledges a record that it does not write, and says in which process and where it is missed.
const FORGETS: &str = r#"#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <strandline.h>

int main(int argc, char **argv)
{
    char path[300], bytes[64];
    const int verify = !strcmp(argv[1], "--verify");
    const char *folder = argv[1 + verify];
    snprintf(path, sizeof path, "%s/data", folder);
    const int data = open(path, O_CREAT | O_RDWR, 0644);
    if (verify) {
        const int done = atoi(getenv("STRANDLINE_DONE"));
        if (data < 0 || read(data, bytes, sizeof bytes) < done * 8)
            return printf("a record is lost in %s (pid %d)\n", folder, getpid()), 1;
        return 0;
    }
    snprintf(path, sizeof path, "%s/other", folder);
    const int other = open(path, O_CREAT | O_RDWR, 0644);
    fsync(open(folder, O_RDONLY));
    sl_region_begin(0);
    write(data, "record-0", 8);
    fdatasync(data);
    sl_region_end(0);
    sl_region_begin(1);
    sl_region_end(1);
    for (int i = 0; i < 3; i++)
        pwrite(other, "12345678", 8, 8 * i);
    fdatasync(other);
    write(data, "record-1", 8); /* next */
    fdatasync(data);
    return 0;
}
"#;

#[test]
fn what_is_acknowledged_and_never_written_is_one_finding_without_the_images_path() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("ack.c", FORGETS);
    compile(scratch.dir(), "cc", "-O1 -g -o ack ack.c");
    let folder = scratch.path("db");
    std::fs::create_dir(&folder).expect("a folder");
    let folder = folder.display().to_string();
    let output = strandline()
        .current_dir(scratch.dir())
        .args(["check", "--json", "--jobs", "2", "--files", &folder, "--recover", "./ack --verify POOL"])
        .args(["--", "./ack", &folder])
        .output()
        .expect("strandline starts");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let [finding] = &answer["findings"].as_array().expect("findings")[..] else { panic!("{answer:#}") };
    let message = finding["message"].as_str().expect("a message");
    assert!(message.starts_with("a record is lost in POOL (pid "), "{message}");
    let next = FORGETS.lines().position(|line| line.contains("/* next */")).expect("a line") + 1;
    let story = finding["story"][0].as_str().expect("a sentence");
    assert_eq!(
        story,
        format!(
            "nothing that the run had stored by then holds it; the next store to data is 8 B at 8 by main (ack.c:{next}) \
             (thread 0)"
        )
    );
    assert!(!answer.to_string().contains("strandline-image-"), "{answer:#}");
    assert_eq!(answer["images_failing"], finding["images"], "{answer:#}");
}

/// A flush function of the program's own, one that persists by it, and one that stores.
const HELPERS: &str = r#"#include <fcntl.h>
#include <immintrin.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool { long value; char rest[56]; long set; };

__attribute__((noinline)) void pm_flush(const void *at)
{
    _mm_clwb((void *)at);
}

__attribute__((noinline)) void set(long *at, long value)
{
    *at = value;
}

__attribute__((noinline)) static void insert(struct pool *p)
{
    set(&p->value, 7); /* stores */
    set(&p->set, 1);
    pm_flush(&p->set);
    pm_flush(&p->value); /* flushes */
    pm_flush(&p->value); /* needless */
    _mm_sfence();
}

int main(int argc, char **argv)
{
    const int recover = !strcmp(argv[1], "--recover");
    const int fd = open(argv[1 + recover], O_RDWR | O_CREAT, 0600);
    struct pool *p;
    if (argc < 2 + recover || ftruncate(fd, sizeof *p))
        return 2;
    p = mmap(0, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (recover)
        return p->set && p->value != 7 ? puts("there is no value"), 1 : 0;
    insert(p);
    return 0;
}
"#;

#[test]
fn a_function_that_stores_or_flushes_for_others_is_reported_with_its_caller() {
    if !has("gcc") || !has_flushes() {
        return;
    }
    let line = |mark: &str| HELPERS.lines().position(|line| line.contains(mark)).expect("a mark") + 1;
    for (compiler, level) in [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O1")] {
        if !has(compiler) {
            println!("skipped: there is no {compiler}");
            continue;
        }
        let scratch = Scratch::new();
        scratch.file("app.c", HELPERS);
        compile(scratch.dir(), "cc", &format!("--compiler={compiler} -g {level} -mclwb -o app app.c"));
        let pool = scratch.path("pool").display().to_string();
        let output = strandline()
            .current_dir(scratch.dir())
            .args([
                "check",
                "--json",
                "--pmem",
                &pool,
                "--recover",
                "./app --recover POOL",
                "--",
                "./app",
                &pool,
            ])
            .output()
            .expect("strandline starts");
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let story = answer["findings"][0]["story"][0].as_str().unwrap_or_default();
        let called = |mark: &str| format!(", called from insert (app.c:{})", line(mark));
        assert!(story.contains(&called("/* stores */")), "{compiler} {level}: {story} {answer:#}");
        assert!(story.contains(&called("/* flushes */")), "{compiler} {level}: {story} {answer:#}");
        let lints = answer["lints"].as_array().expect("lints");
        let needless = lints.iter().find(|lint| lint["lint"] == "redundant-flush");
        let text = needless.and_then(|lint| lint["text"].as_str()).unwrap_or_default();
        assert!(text.contains(&called("/* needless */")), "{compiler} {level}: {text} {answer:#}");
    }
}
