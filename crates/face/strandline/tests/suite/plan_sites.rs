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
    said("./app g 1200", "was not allocated by malloc");
    let huge = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if huge.contains("[never]") || huge.is_empty() {
        eprintln!("skipped: no huge pages here");
    } else {
        said("./app t 1000", "huge pages");
    }
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
