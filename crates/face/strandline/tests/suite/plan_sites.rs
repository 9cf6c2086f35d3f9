//! `strandline plan` for programs that were not built with `strandline cc`.

use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{Scratch, ok, stderr, stdout, strandline};

/// One program for all: `app MODE MILLISECONDS`.
const APP: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { N = 1 << 19 };
static uint64_t state = 1, globals[1 << 24];
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}
static uint64_t next(void) { return (state = state * 6364136223846793005ull + 1442695040888963407ull) >> 33; }
static uint64_t work(uint64_t *array, size_t n, double until) {
    uint64_t sum = 0;
    while (now() < until)
        for (int i = 0; i < 10000; i++) sum += array[next() % n]++;
    return sum;
}
static sigjmp_buf back;
static void caught(int number) { siglongjmp(back, number); }
int main(int count, char **words) {
    char mode = count > 1 ? words[1][0] : 'h';
    double until = now() + (count > 2 ? atof(words[2]) : 1000);
    uint64_t *hot = malloc(N * 8);
    uint64_t *cold = malloc(N * 64);
    memset(hot, 1, N * 8);
    memset(cold, 1, N * 64);
    uint64_t sum = 0;
    switch (mode) {
    case 'h': /* hot and cold */
        sum = work(hot, N, until);
        break;
    case 'i': { /* system calls with buffers, and a handler of its own */
        signal(SIGSEGV, caught);
        FILE *file = tmpfile();
        int zero = open("/dev/zero", O_RDONLY);
        while (now() < until) {
            if (read(zero, hot, N * 8) != N * 8) return 2;
            for (int i = 0; i < N; i += 512) if (hot[i]) return 3;
            memset(hot, 7, N * 8);
            rewind(file);
            if (fwrite(hot, 8, N, file) != N) return 4;
            rewind(file);
            if (fread(cold, 8, N, file) != N) return 5;
            if (memcmp(hot, cold, N * 8)) return 6;
        }
        if (sigsetjmp(back, 1) == 0) { *(volatile int *)8 = 1; return 7; }
        break;
    }
    case 'f': /* forks */
        for (int i = 0; i < 3; i++) {
            pid_t child = fork();
            if (!child) { memset(cold, 2, N * 64); _exit(((char *)cold)[N] != 2); }
            int status;
            waitpid(child, &status, 0);
            if (status) return 8;
        }
        sum = work(hot, N, until);
        break;
    case 'p': /* phases */
        sum = work(hot, N, now() + (until - now()) / 2);
        sum += work(cold, N, until);
        break;
    case 'g': /* memory that nobody allocates */
        free(cold);
        free(hot);
        for (int i = 0; i < 1 << 24; i += 512) globals[i] = 1;
        sum = work(globals, 1 << 24, until);
        break;
    case 't': { /* huge pages */
        size_t bytes = 64 << 20;
        uint64_t *huge = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(huge, bytes, MADV_HUGEPAGE);
        memset(huge, 1, bytes);
        sum = work(huge, bytes / 8, until);
        munmap(huge, bytes / 2);
        munmap(huge + bytes / 16, bytes / 2);
        break;
    }
    }
    puts("worked");
    return sum == 1;
}
"#;

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("app.c", APP);
    ok(Command::new("gcc").current_dir(scratch.dir()).args(["-O1", "-g", "-o", "app", "app.c"]));
    scratch
}

fn run(scratch: &Scratch, options: &str, program: &str) -> Output {
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["plan", "--json", "--footprint", "64GiB"]);
    command.args(options.split_whitespace()).arg("--").args(program.split_whitespace());
    command.output().expect("it runs")
}

fn plan(scratch: &Scratch, options: &str, program: &str) -> Value {
    let output = run(scratch, options, program);
    assert!(output.status.success(), "{options} {program}: {}", stderr(&output));
    assert!(stderr(&output).contains("worked"), "the program's own output: {}", stderr(&output));
    let plan: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(plan["ended"], "exit status: 0", "{options} {program}");
    plan
}

fn site<'a>(plan: &'a Value, name: &str) -> &'a Value {
    let sites = plan["sites"].as_array().expect("sites");
    let found = sites.iter().find(|site| site["name"].as_str().is_some_and(|one| one.contains(name)));
    found.unwrap_or_else(|| panic!("no {name}: {plan:#}"))
}

fn warnings(plan: &Value) -> String {
    plan["warnings"].to_string()
}

fn line_of(text: &str) -> usize {
    APP.lines().position(|line| line.contains(text)).expect("it is there") + 1
}

#[test]
fn what_is_hot_stays_fast_without_recompiling_and_the_plan_is_carried_out() {
    let scratch = scratch();
    let plan = plan(&scratch, "", "./app h 1500");
    assert_eq!(plan["schema"], "strandline-plan-sites-1");
    let hot = site(&plan, &format!("app.c:{}", line_of("*hot = malloc")));
    let cold = site(&plan, &format!("app.c:{}", line_of("*cold = malloc")));
    assert!(hot["slow"].as_f64() < Some(0.5) && cold["slow"].as_f64() > Some(0.9), "{hot} {cold}");
    assert!(hot["share"].as_f64() > cold["share"].as_f64(), "{hot} {cold}");
    assert!(plan["recommended"]["bound"].as_f64() < Some(0.5), "{}", plan["recommended"]);
    assert!(plan["not_planned"][0].as_str().is_some_and(|why| why.starts_with("cache ways")));
    assert!(plan["unseen"].to_string().contains("strandline cc"), "{}", plan["unseen"]);
    // The program's addresses differ in each run, its sites do not.
    let again = self::plan(&scratch, "--kinds strandline-report/plan.kinds --apply", "./app h 300");
    let placed = again["placed"].as_array().expect("a list").iter().find(|one| one["key"] == cold["key"]);
    let placed = placed.unwrap_or_else(|| panic!("{again:#}"));
    assert_eq!((&placed["kind"], &placed["count"]), (&"slow".into(), &1.into()));
    assert!(placed["bytes"].as_u64() >= Some((1 << 25) - 8192), "{placed}");
    if std::path::Path::new("/sys/devices/system/node/node1").exists() {
        assert_eq!(placed["refused"], 0);
    } else {
        assert_eq!((&placed["refused"], &placed["error"]), (&1.into(), &22.into()), "there is no node 1");
        assert!(again["applied"]["refused"].as_str().is_some_and(|why| why.contains("one memory node")));
    }
}

#[test]
fn protection_and_watching_leave_the_program_as_it_is() {
    let scratch = scratch();
    let plan = self::plan(&scratch, "--source protect", "./app i 1200");
    assert_eq!(plan["source"], "protect");
    assert!(plan["looks"].as_u64() >= Some(3), "{plan:#}");
    let plan = self::plan(&scratch, "--source written", "./app i 800");
    let hot = site(&plan, &format!("app.c:{}", line_of("*hot = malloc")));
    if !plan["unseen"].to_string().contains("userfaultfd") {
        assert!(hot["stores"].as_f64() > Some(0.2), "{hot}");
    }
    let plan = self::plan(&scratch, "--source counters", "./app i 100");
    assert_eq!(plan["looks"], 0);
    assert!(
        plan["recommended"]["slow"] == 0.0,
        "nothing is known, so nothing moves: {}",
        plan["recommended"]
    );
}

#[test]
fn programs_that_are_hard_to_see_are_named() {
    let scratch = scratch();
    let said = |program: &str| warnings(&plan(&scratch, "", program));
    assert!(said("./app h 1").contains("ended after"));
    assert!(said("./app f 600").contains("forked 3 times"));
    let said = |program: &str, what: &str| {
        let plan = plan(&scratch, "", program);
        assert!(warnings(&plan).contains(what), "{program}: {plan:#}");
    };
    said("./app p 3000", "the program changes");
    let phases = self::plan(&scratch, "", "./app p 3000");
    let phases = phases["phases"].as_array().expect("a list").clone();
    assert!(phases.len() > 1, "{phases:?}");
    assert_ne!(phases[0]["hottest"], phases[phases.len() - 1]["hottest"], "{phases:?}");
    said("./app g 1200", "was not allocated by malloc");
    let huge = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if huge.contains("[never]") || huge.is_empty() {
        eprintln!("skipped: no huge pages here");
    } else {
        said("./app t 1000", "huge pages");
    }
}

/// Two lines allocate nodes and one a table; a C program names what it has.
#[test]
fn sites_are_joined_by_type_and_by_tag() {
    let scratch = scratch();
    scratch.file(
        "types.cc",
        r#"
#include <cstdio>
#include <cstring>
#include <ctime>
#include <vector>
struct Node { char bytes[64]; };
struct Table { char bytes[1 << 22]; };
static double now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main() {
    Node *one = new Node[1 << 14];
    std::vector<Node> two(1 << 14);
    Table *table = new Table;
    memset((void *)table, 1, sizeof(Table));
    double until = now() + 0.8;
    while (now() < until)
        for (int i = 0; i < 1 << 14; i++) one[i].bytes[0]++, two[i].bytes[0]++;
    puts("worked");
    return one[3].bytes[1] + table->bytes[7] == 99;
}
"#,
    );
    let mut compile = Command::new("g++");
    ok(compile.current_dir(scratch.dir()).args(["-O1", "-g", "-o", "types", "types.cc"]));
    let joined = plan(&scratch, "--group type", "./types");
    let nodes = site(&joined, "type Node");
    assert_eq!(nodes["keys"].as_array().map(Vec::len), Some(2), "{nodes}");
    assert!(nodes["bytes"].as_f64() >= Some(2.0 * 64.0 * f64::from(1 << 14)), "{nodes}");
    assert!(site(&joined, "type Table")["slow"].as_f64() > Some(0.5), "{joined:#}");
    scratch.file(
        "tags.c",
        r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
/* As strandline_tier.h has it; without the library nobody has it. */
__attribute__((weak)) int sl_tag(void *memory, size_t bytes, const char *name);
static char *named(size_t bytes, const char *name) {
    char *memory = malloc(bytes);
    if (sl_tag) sl_tag(memory, bytes, name);
    memset(memory, 1, bytes);
    return memory;
}
int main(void) {
    char *hot[2] = {named(1 << 20, "the hot one"), named(1 << 20, "the hot one")};
    named(1 << 24, "cold");
    clock_t until = clock() + CLOCKS_PER_SEC;
    while (clock() < until)
        for (int i = 0; i < 1 << 20; i += 64) hot[0][i]++, hot[1][i]++;
    puts("worked");
    return 0;
}
"#,
    );
    ok(Command::new("gcc").current_dir(scratch.dir()).args(["-O1", "-g", "-o", "tags", "tags.c"]));
    let joined = plan(&scratch, "--group tag", "./tags");
    let (hot, cold) = (site(&joined, "tag the_hot_one"), site(&joined, "tag cold"));
    assert_eq!((&hot["allocations"], &cold["allocations"]), (&2.0.into(), &1.0.into()), "{hot} {cold}");
    assert!(hot["slow"].as_f64() < Some(0.5) && cold["slow"].as_f64() > Some(0.9), "{hot} {cold}");
    let bytes = cold["bytes"].as_f64();
    assert!(bytes > Some(16e6) && bytes < Some(18e6), "what is named counts once: {cold}");
    // One line allocates both: by call stack the plan has a site for each name all the same, and its file of kinds, too.
    let kinds = std::fs::read_to_string(scratch.path("strandline-report/plan.kinds")).expect("a file");
    let key = cold["key"].as_str().expect("a key");
    assert!(kinds.contains(&format!("{key} slow")), "{kinds}");
    let again = plan(&scratch, "--kinds strandline-report/plan.kinds", "./tags");
    let placed = again["placed"].as_array().expect("a list").iter().any(|one| one["key"] == key);
    assert!(placed, "{:#}", again["placed"]);
}

#[test]
fn sources_that_are_not_there_are_refused_with_the_reason() {
    let scratch = scratch();
    for (source, reasons) in [
        ("sampled", ["addresses of accesses", "not permitted"]),
        ("damon", ["left alone", "DAMON: the kernel has none"]),
    ] {
        let output = run(&scratch, &format!("--source {source}"), "./app h 700");
        if output.status.success() {
            let plan: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
            assert!(plan["source"].as_str().is_some_and(|one| one.starts_with(source)), "{plan:#}");
            continue;
        }
        let said = stderr(&output);
        assert!(reasons.iter().any(|reason| said.contains(reason)) || said.contains("only root"), "{said}");
        assert!(!said.contains("worked"), "the program did not run: {said}");
    }
    // What others use is named where it is not used either.
    let plan = plan(&scratch, "", "./app h 300");
    let unseen = plan["unseen"].to_string();
    assert!(unseen.contains("PEBS or IBS: ") && unseen.contains("DAMON: "), "{unseen}");
}

#[test]
fn what_cannot_be_planned_is_said_with_the_remedy() {
    let scratch = scratch();
    scratch.file("bad.kinds", "# comment\n00000000000000ab slow 2\n");
    scratch.file("worse.kinds", "00000000000000ab pmem\n");
    for (options, program, message) in [
        ("", "./absent", "can't run ./absent"),
        ("--source referenced", "./absent", "no such program"),
        ("--verify 3", "./app h 1", "build it with `strandline cc`"),
        ("--kinds bad.kinds", "./app h 1", "bad.kinds:2: `2` is no share"),
        ("--kinds worse.kinds", "./app h 1", "no kind `pmem`: use one of"),
        ("--kinds none.kinds", "./app h 1", "none.kinds"),
        ("--source events", "./app h 1", "was not built with strandline cc"),
        ("--tiers cxl-asic --tiers cxl-fpga", "./app h 1", "give --tiers once"),
    ] {
        let output = run(&scratch, options, program);
        assert_eq!(output.status.code(), Some(2), "{options}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{options}: {}", stderr(&output));
    }
    scratch.file("static.c", "#include <unistd.h>\nint main(void) { usleep(100000); return 0; }");
    let mut command = Command::new("gcc");
    command.current_dir(scratch.dir()).args(["-static", "-o", "static", "static.c"]);
    if command.output().is_ok_and(|output| output.status.success()) {
        let said = stderr(&run(&scratch, "", "./static"));
        assert!(said.contains("linked statically") && said.contains("in memory at most"), "{said}");
    }
}
