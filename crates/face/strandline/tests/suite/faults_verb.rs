//! `strandline faults` on real programs: sites, kinds, remedies tried, and what can't be seen.

use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{Scratch, ok, stderr, stdout, strandline};

/// Allocates the same again and again, once densely and once sparsely.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static char *dense(size_t bytes) {
    char *memory = malloc(bytes);
    memset(memory, 1, bytes);
    return memory;
}
static char *sparse(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < bytes; i += 1 << 20) memory[i] = 1;
    return memory;
}
int main(int count, char **words) {
    long sum = 0;
    sparse(256 << 20);
    for (int i = 0; i < atoi(words[1]); i++) {
        /* More than the C library's allocator ever keeps. */
        char *memory = dense(40 << 20);
        sum += memory[4096 * i];
        free(memory);
    }
    printf("summed %ld\n", sum);
    return 0;
}
"#;

fn program(scratch: &Scratch, flags: &[&str]) {
    scratch.file("app.c", PROGRAM);
    let mut command = Command::new("gcc");
    command.current_dir(scratch.dir()).args(["-O1", "-g", "-fno-omit-frame-pointer", "-o", "app", "app.c"]);
    ok(command.args(flags));
}

fn faults(scratch: &Scratch, options: &[&str], program: &[&str]) -> Output {
    let mut command = strandline();
    command.current_dir(scratch.dir()).arg("faults").args(options).arg("--").args(program);
    command.output().expect("it runs")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    assert!(stderr(output).contains("summed"), "the program's output: {}", stderr(output));
    serde_json::from_str(&stdout(output)).expect("JSON")
}

fn site<'a>(json: &'a Value, name: &str) -> &'a Value {
    let sites = json["sites"].as_array().expect("sites");
    let named = |site: &&Value| site["name"].as_str().is_some_and(|text| text.contains(name));
    sites.iter().find(named).unwrap_or_else(|| panic!("{name}: {json:#}"))
}

/// Whether the kernel reports faults here.
fn reported(json: &Value) -> bool {
    let reported = json["faults"]["reported"].as_u64().expect("a count") > 0;
    if !reported {
        eprintln!("skipped: {}", json["warnings"]);
    }
    reported
}

#[test]
fn sites_have_lines_and_sparse_ones_are_not_populated() {
    let scratch = Scratch::new();
    program(&scratch, &[]);
    let json = json(&faults(&scratch, &["--json"], &["./app", "6"]));
    assert_eq!((&json["schema"], &json["ended"]), (&"strandline-faults-1".into(), &"exit status: 0".into()));
    let count = |value: &Value| value.as_u64().expect("a count");
    // Pages of 2 MiB make it fewer where the system gives them unasked.
    let always = json["machine"]["huge_pages"] == "always";
    assert!(count(&json["faults"]["minor"]) > if always { 100 } else { 30_000 }, "{json:#}");
    if !reported(&json) {
        return;
    }
    let dense = site(&json, "dense at app.c:7");
    assert_eq!((&dense["way"], count(&dense["blocks"])), (&"malloc".into(), 6));
    let sparse = site(&json, "sparse at app.c:12");
    assert_eq!((&sparse["way"], count(&sparse["pages"])), (&"mmap".into(), 65_536));
    let advised = |site: &Value, remedy: &str| {
        let all = site["remedies"].as_array().expect("remedies");
        all.iter().find(|one| one["remedy"] == remedy).map(|one| one["advised"] == true)
    };
    if !always {
        assert!(dense["density"].as_f64().is_some_and(|density| density > 0.9), "{dense:#}");
        assert_ne!(advised(sparse, "populate"), Some(true), "{sparse:#}");
        assert_ne!(advised(sparse, "prefault"), Some(true), "{sparse:#}");
        assert_eq!(advised(dense, "keep"), Some(true), "{dense:#}");
        let stack = dense["stacks"][0]["frames"].as_str().expect("a stack");
        assert!(["app", "memset", "libc"].iter().any(|of| stack.contains(of)), "{stack}");
    }
}

#[test]
fn remedies_are_tried_and_remove_faults() {
    let scratch = Scratch::new();
    program(&scratch, &[]);
    let json = json(&faults(&scratch, &["--try", "--rounds", "2", "--json"], &["./app", "6"]));
    if !reported(&json) || json["machine"]["huge_pages"] == "always" {
        return;
    }
    let trials = json["trials"].as_array().expect("trials");
    let keep = trials.iter().find(|trial| trial["remedies"][0][1] == "keep");
    let keep = keep.unwrap_or_else(|| panic!("memory that is allocated again can be kept: {json:#}"));
    let faults = |trial: &Value, at: usize| trial["faults"][at].as_u64().expect("a count");
    assert!(2 * faults(keep, 1) < faults(keep, 0), "{keep:#}");
    assert!(trials.iter().all(|trial| trial["gained"].is_number() && trial["predicted"].is_number()));
    assert!(trials.iter().all(|trial| !trial["place"].as_str().unwrap_or_default().contains("sparse")));
}

#[test]
fn what_cannot_be_seen_is_said() {
    let scratch = Scratch::new();
    let output = faults(&scratch, &[], &["./absent"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no such program"), "{}", stderr(&output));
    scratch.file("short.c", "int main(void) { return 3; }");
    ok(Command::new("gcc").current_dir(scratch.dir()).args(["-o", "short", "short.c"]));
    let text = stdout(&faults(&scratch, &["--try"], &["./short"]));
    assert!(text.contains("ended with exit status: 3") && text.contains("nothing was tried"), "{text}");
    let mut command = Command::new("gcc");
    command.current_dir(scratch.dir()).args(["-static", "-o", "static", "short.c"]);
    if command.output().is_ok_and(|output| output.status.success()) {
        let text = stdout(&faults(&scratch, &["--try"], &["./static"]));
        assert!(text.contains("linked statically"), "{text}");
    }
}

#[test]
fn the_engine_is_swept() {
    let scratch = Scratch::new();
    let mut command = strandline();
    let words = ["faults", "poe", "--machine", "dram", "--axis", "ring", "--axis", "huge", "--kernel", "1us"];
    command.current_dir(scratch.dir()).args(words).args(["--refill", "500ns", "--out", "poe", "--json"]);
    let json: Value = serde_json::from_str(&stdout(&ok(&mut command))).expect("JSON");
    assert_eq!((&json["schema"], &json["machine"]), (&"strandline-faults-poe-2".into(), &"dram".into()));
    let points = json["sweeps"]["ring"].as_array().expect("points");
    let engine = |point: &Value| point["with"]["engine"].as_u64().expect("a count");
    assert!(points.windows(2).all(|two| engine(&two[0]) <= engine(&two[1])), "{points:?}");
    assert!(points.iter().all(|point| point["with"]["bytes"] == 32 * engine(point)), "{points:?}");
    assert_eq!(json["sweeps"]["huge"].as_array().map(Vec::len), Some(2));
    let page = std::fs::read_to_string(scratch.dir().join("poe/faults-poe.html")).expect("a page");
    assert!(page.contains("<svg") && page.contains("Entries of each core"), "{page}");
    for words in [["--axis", "colour"], ["--machine", "none"], ["--ring", "99999999"]] {
        let output = strandline().args(["faults", "poe"]).args(words).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
    }
}

/// A program of which each kind of fault has a place.
const KINDS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { M = 1 << 20, PAGE = 4096 };
static long read_first(char *memory, long bytes) {
    long sum = 0;
    for (long i = 0; i < bytes; i += PAGE) sum += memory[i];
    return sum;
}
int main(void) {
    char *zeros = mmap(NULL, 8 * M, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long sum = read_first(zeros, 8 * M);
    for (long i = 0; i < 4 * M; i += PAGE) zeros[i] = 1;
    char *shared = malloc(16 * M);
    memset(shared, 1, 16 * M);
    pid_t child = fork();
    if (child == 0) {
        for (long i = 0; i < 16 * M; i += PAGE) shared[i] = 2;
        _exit(0);
    }
    waitpid(child, NULL, 0);
    int file = open("data", O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, 4 * M)) return 1;
    char *mapped = mmap(NULL, 4 * M, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memset(mapped, 3, 4 * M);
    printf("summed %ld\n", sum + mapped[5]);
    return 0;
}
"#;

#[test]
fn kinds_and_origins_are_distinguished() {
    let scratch = Scratch::new();
    scratch.file("app.c", KINDS);
    ok(Command::new("gcc").current_dir(scratch.dir()).args(["-O1", "-g", "-w", "-o", "app", "app.c"]));
    let json = json(&faults(&scratch, &["--json"], &["./app"]));
    if !reported(&json) || json["faults"]["kinds_known"] != true || json["machine"]["huge_pages"] == "always"
    {
        eprintln!("skipped: kinds are not known here: {}", json["warnings"]);
        return;
    }
    let count = |value: &Value| value.as_u64().expect("a count");
    let kinds = &json["faults"]["kinds"];
    let near = |value: &Value, expected: u64| {
        let got = count(value);
        assert!((expected..expected + 1500).contains(&got), "{expected}: {got}: {}", json["faults"]);
    };
    // 2048 pages read, 1024 of these written, 4096 written, 4096 copied by the child, 1024 of a file.
    near(&kinds["read"], 2048);
    near(&kinds["upgrade"], 1024);
    near(&kinds["write"], 4096);
    near(&kinds["copy"], 4096);
    assert!(count(&kinds["file"]) >= 64, "{kinds}");
    let origins = &json["faults"]["origins"];
    near(&origins["malloc"], 2 * 4096);
    near(&origins["mmap"], 2048 + 1024);
    let all: u64 = origins.as_object().expect("an object").values().map(count).sum();
    assert_eq!(all, count(&json["faults"]["reported"]));
    // The child has its parent's blocks.
    let sites = json["sites"].as_array().expect("sites");
    let malloc = sites.iter().find(|site| site["way"] == "malloc").expect("a site");
    near(&malloc["kinds"]["copy"], 4096);
    assert!((4095..=4097).contains(&count(&malloc["pages"])), "{malloc:#}");
}

/// The allocator keeps small enough blocks: those that come again are in memory.
const AGAIN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    long sum = 0;
    /* Freed once, blocks of up to 2 MiB come from the heap and stay in it. */
    free(malloc(4 << 20));
    char *first = malloc(2 << 20);
    memset(first, 1, 2 << 20);
    char *guard = malloc(64);
    free(first);
    for (int i = 0; i < 50; i++) {
        char *memory = malloc(2 << 20);
        memset(memory, i, 2 << 20);
        sum += memory[4096 * i];
        free(memory);
    }
    printf("summed %ld %p\n", sum, (void *)guard);
    return 0;
}
"#;

#[test]
fn memory_that_the_allocator_kept_is_not_taken_for_sparse() {
    let scratch = Scratch::new();
    scratch.file("app.c", AGAIN);
    ok(Command::new("gcc").current_dir(scratch.dir()).args(["-O1", "-g", "-w", "-o", "app", "app.c"]));
    let json = json(&faults(&scratch, &["--json"], &["./app"]));
    if !reported(&json) || json["machine"]["huge_pages"] == "always" {
        return;
    }
    let again = site(&json, "app.c:14");
    let count = |value: &Value| value.as_u64().expect("a count");
    assert_eq!(count(&again["blocks"]), 50);
    // All but the first page or so of each are there.
    assert!(count(&again["new_pages"]) < count(&again["pages"]) / 10, "{again:#}");
    let why = again["remedies"].as_array().expect("remedies").iter();
    let sparse = why.filter_map(|one| one["against"].as_str()).any(|why| why.contains("of the new pages"));
    assert!(!sparse || count(&again["new_pages"]) < 100, "{again:#}");
}

/// Without permission there are the counts, and a warning.
#[test]
fn without_permission_faults_are_counted_and_it_is_said() {
    let scratch = Scratch::new();
    program(&scratch, &[]);
    // Another user, where this one may sample everything.
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !root || level.trim().parse::<i32>().unwrap_or(0) < 2 {
        eprintln!("skipped: only root can be another user, and perf_event_paranoid is {}", level.trim());
        return;
    }
    ok(Command::new("chmod").args(["-R", "a+rwX"]).arg(scratch.dir()));
    let tool = scratch.dir().join("tool");
    std::fs::copy(env!("CARGO_BIN_EXE_strandline"), &tool).expect("a copy");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]);
    command.env("HOME", scratch.dir()).current_dir(scratch.dir());
    let output = command.arg(&tool).args(["faults", "--json", "--", "./app", "3"]).output();
    let Ok(output) = output else {
        eprintln!("skipped: no setpriv");
        return;
    };
    let json = json(&output);
    let warnings = json["warnings"].to_string();
    assert_eq!(json["faults"]["kinds_known"], false, "{json:#}");
    assert!(json["faults"]["minor"].as_u64() > Some(1000), "{json:#}");
    assert!(
        warnings.contains("only counted") || warnings.contains("does not tell reads from writes"),
        "what is missing is said: {warnings}"
    );
}

/// Runs a command without huge pages: the kernel gives its process tree none, whatever the system's setting
/// is.
const WITHOUT_HUGE: &str = "#include <sys/prctl.h>\n#include <unistd.h>\nint main(int n, char **words) { \
                            if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)) return 9; execvp(words[1], words + 1); return 9; }\n";

#[test]
fn without_huge_pages_it_is_said_that_they_are_not_possible() {
    let scratch = Scratch::new();
    program(&scratch, &[]);
    scratch.file("without.c", WITHOUT_HUGE);
    ok(Command::new("gcc").current_dir(scratch.dir()).args(["-o", "without", "without.c"]));
    let mut command = Command::new(scratch.dir().join("without"));
    command.arg(env!("CARGO_BIN_EXE_strandline")).args(["faults", "--json", "--", "./app", "3"]);
    let json = json(&command.current_dir(scratch.dir()).output().expect("it runs"));
    if !reported(&json) {
        return;
    }
    assert_eq!(json["machine"]["costs_ns"]["huge"], Value::Null, "{json:#}");
    let dense = site(&json, "dense at app.c:7");
    let huge = dense["remedies"].as_array().expect("remedies").iter().find(|one| one["remedy"] == "huge");
    let against = huge.and_then(|one| one["against"].as_str()).expect("it is said why");
    assert!(against.contains("not possible here"), "{against}");
    assert_eq!(dense["kinds"]["huge"], 0);
}

/// The system's setting, as it was when this goes.
struct Setting(String);

const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

impl Drop for Setting {
    fn drop(&mut self) {
        std::fs::write(SETTING, &self.0).ok();
    }
}

#[test]
#[ignore = "--long: changes the system's setting of huge pages for some seconds, as root only"]
fn each_setting_of_huge_pages_is_respected() {
    let text = std::fs::read_to_string(SETTING).unwrap_or_default();
    let Some(was) = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) else { return };
    let _back = Setting(was.0.to_owned());
    let scratch = Scratch::new();
    program(&scratch, &[]);
    for setting in ["always", "never"] {
        if std::fs::write(SETTING, setting).is_err() {
            eprintln!("skipped: the setting can't be changed");
            return;
        }
        let json = json(&faults(&scratch, &["--json"], &["./app", "3"]));
        if !reported(&json) {
            return;
        }
        let dense = site(&json, "dense at app.c:7");
        let remedies = dense["remedies"].as_array().expect("remedies");
        let huge = remedies.iter().find(|one| one["remedy"] == "huge").expect("it is said");
        assert_eq!(huge["advised"], false, "{setting}: {huge:#}");
        let against = huge["against"].as_str().expect("why");
        let wanted = if setting == "always" { "already" } else { "not possible" };
        assert!(against.contains(wanted), "{setting}: {against}");
        assert_eq!(dense["kinds"]["huge"].as_u64() > Some(0), setting == "always", "{dense:#}");
    }
}
