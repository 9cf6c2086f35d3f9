//! `strandline wear run`: programs on memory whose pages move under their threads.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{Scratch, ok, stderr, stdout, strandline};

/// Threads count in words of their own, in eight hot pages mostly, and check every word that they read.
const COUNTS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
enum { PAGES = 512, WORDS = 512, HOT = 8, THREADS = 2 };
static unsigned long *memory;
static volatile int stop;
static unsigned long sums[THREADS];
static void *work(void *argument) {
    long me = (long)argument;
    unsigned long done = 0;
    unsigned random = me + 1;
    while (!stop) {
        random = random * 1103515245 + 12345;
        unsigned r = random >> 8;
        unsigned page = r % 4096 ? (r / 4096) % HOT * (PAGES / HOT) : (r / 4096) % PAGES;
        volatile unsigned long *word = memory + page * WORDS + r / 7919 % 64 * 8 + me;
        unsigned long before = *word;
        *word = before + 1;
        if (*word != before + 1) abort();
        done++;
        if (done % 1000 == 0) usleep(200);
    }
    sums[me] = done;
    return NULL;
}
int main(int count, char **words) {
    memory = calloc(PAGES, WORDS * 8);
    unsigned long *old = memory;
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    usleep(atoi(words[1]) * 500);
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        /* A child's memory is its own. */
        memset(memory, 0, PAGES * WORDS * 8);
        char *other = malloc(1 << 20);
        memset(other, 7, 1 << 20);
        free(other);
        _exit(7);
    }
    waitpid(child, &status, 0);
    usleep(atoi(words[1]) * 500);
    stop = 1;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    memory = realloc(memory, 2 * PAGES * WORDS * 8);
    if (memory == old) return 2;
    for (int i = 0; i < THREADS; i++) {
        unsigned long sum = 0;
        for (int page = 0; page < PAGES; page++)
            for (int k = 0; k < 64; k++) sum += memory[page * WORDS + k * 8 + i];
        if (sum != sums[i]) return 3;
    }
    free(memory);
    char *again = calloc(PAGES, WORDS * 8);
    for (int i = 0; i < PAGES * WORDS * 8; i++) if (again[i]) return 4;
    puts("counted");
    return WEXITSTATUS(status) == 7 ? 0 : 5;
}
"#;

fn program(scratch: &Scratch) {
    scratch.file("counts.c", COUNTS);
    ok(Command::new("gcc").current_dir(scratch.dir()).args(["-O1", "-pthread", "-o", "counts", "counts.c"]));
}

fn run(scratch: &Scratch, arguments: &str, program: &[&str]) -> Output {
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["wear", "run", "--json"]).args(arguments.split_whitespace());
    command.arg("--").args(program).output().expect("it runs")
}

/// The result, unless the kernel can't watch pages or hold writers here.
fn result(output: &Output) -> Option<Value> {
    let said = stderr(output);
    if said.contains("ran without levelling") {
        eprintln!("skipped: {said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    assert!(said.contains("counted"), "the program's own output: {said}");
    Some(serde_json::from_str(&stdout(output)).expect("JSON"))
}

#[test]
fn pages_move_under_threads_and_nothing_is_lost() {
    let scratch = Scratch::new();
    program(&scratch);
    let options = "--capacity 16MiB --limit 1000 --interval 200ms --ticks 4 --shuffle-every 1s";
    let Some(json) = result(&run(&scratch, options, &["./counts", "2400"])) else { return };
    let counts = &json["counts"];
    let count = |name: &str| counts[name].as_u64().unwrap_or_else(|| panic!("{name}: {json}"));
    assert_eq!(json["ended"], "exit status: 0");
    assert!(count("used") >= 512 && count("near") > 0, "{counts}");
    assert!(count("out") >= 8, "the hot pages went to DRAM: {counts}");
    assert!(count("exchanged") > 0, "pages were shuffled: {counts}");
    assert_eq!(counts["stopped"], Value::Null);
    let rates: Vec<f64> =
        counts["rates"].as_array().expect("rates").iter().filter_map(Value::as_f64).collect();
    // The last interval has the copy that `realloc` makes.
    let late = rates[rates.len() / 2];
    assert!(late < rates[0] / 2.0, "most writes go to DRAM in the end: {rates:?}");
    let worst = |name: &str| json[name].as_u64().expect("a count");
    assert!(2 * worst("worst_frame") < worst("worst_page"), "{json}");
    // The hottest page is one of the eight.
    assert_eq!(json["hottest"][0]["page"].as_u64().map(|page| page % 64), Some(0), "{}", json["hottest"]);
}

#[test]
fn huge_pages_move_as_well_and_a_quiet_program_is_left_alone() {
    let scratch = Scratch::new();
    program(&scratch);
    let options = "--capacity 64MiB --page 2MiB --limit 1000 --interval 200ms --ticks 4 --shuffle-every 0s";
    let Some(json) = result(&run(&scratch, options, &["./counts", "1000"])) else { return };
    assert!(json["counts"]["out"].as_u64().is_some_and(|out| (1..=2).contains(&out)), "{json}");
    let options = "--capacity 16MiB --limit 1e12 --interval 100ms --ticks 2 --shuffle-every 0s";
    let Some(json) = result(&run(&scratch, options, &["./counts", "600"])) else { return };
    assert_eq!((&json["counts"]["out"], &json["counts"]["copied"]), (&0.into(), &0.into()));
}

#[test]
fn what_cannot_be_done_is_said() {
    let scratch = Scratch::new();
    program(&scratch);
    let refused = |options: &str, program: &[&str]| {
        let output = run(&scratch, options, program);
        assert_eq!(output.status.code(), Some(2), "{options}");
        stderr(&output)
    };
    assert!(refused("", &["./absent"]).contains("no such program"));
    assert!(refused("--page 1000B", &["./counts", "1"]).contains("use a power of two"));
    assert!(refused("--limit 0", &["./counts", "1"]).contains("a limit of 0"));
    if !Path::new("/sys/devices/system/node/node9").exists() {
        assert!(refused("--nodes 9,0", &["./counts", "1"]).contains("this machine has the nodes"));
    }
    scratch.file("static.c", "int main(void) { return 0; }");
    let mut command = Command::new("gcc");
    command.current_dir(scratch.dir()).args(["-static", "-o", "static", "static.c"]);
    if command.output().is_ok_and(|output| output.status.success()) {
        assert!(refused("", &["./static"]).contains("linked statically"));
    }
}
