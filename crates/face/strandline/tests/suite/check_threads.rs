//! Programs of several threads or processes: the checker finds what is wrong and says nothing of those that meet as they should,
//! however they do.

use crate::common::{Scratch, compile, has, stderr, strandline};
use serde_json::Value;

/// Whether the programs can run here.
fn can_run() -> bool {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let able = processor.split_whitespace().any(|word| word == "clwb");
    if !able {
        println!("skipped: this processor has no clwb");
    }
    able && has("g++")
}

/// What `check` finds in a run of `./NAME POOL ARGUMENTS`, whose recovery is its own.
fn check(scratch: &Scratch, name: &str, arguments: &[&str]) -> Vec<Value> {
    let pool = scratch.path("pool");
    std::fs::remove_file(&pool).ok();
    let (pool, program) = (pool.display().to_string(), format!("./{name}"));
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["check", "--json", "--jobs", "1", "--pmem", &pool, "--recover"]);
    command.arg(format!("./{name} --recover POOL {}", arguments.join(" ")));
    command.args(["--", &program, &pool]).args(arguments);
    let output = command.output().expect("it runs");
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{name} {arguments:?}: {error}: {}", stderr(&output)));
    assert!(answer["images"].as_u64() > Some(1), "{name} {arguments:?}: {answer:#}");
    answer["findings"].as_array().expect("a list").clone()
}

/// The lines of a source with this mark.
fn marked(source: &str, mark: &str) -> Vec<u64> {
    (1..).zip(source.lines()).filter(|(_, line)| line.contains(mark)).map(|(number, _)| number).collect()
}

/// Nothing is found in the right variant, and in the wrong one that the marked lines are in the wrong order.
fn right_and_wrong(scratch: &Scratch, name: &str, source: &str, way: &[&str]) {
    let found = check(scratch, name, way);
    assert!(found.is_empty(), "{name} {way:?}: {found:#?}");
    let found = check(scratch, name, &[way, &["wrong"]].concat());
    // A mark may be one of this way only.
    let lines = |mark: &str| {
        let of_all = marked(source, &format!("/* {mark} */"));
        [of_all, marked(source, &format!("/* {mark}: {} */", way[0]))].concat()
    };
    let (lost, survives) = (lines("lost"), lines("survives"));
    let is_it = |finding: &Value| {
        let line = |store: &Value| store["store"]["line"].as_u64().expect("a line");
        let missing = finding["missing"].as_array().expect("a list");
        missing.iter().all(|store| lost.contains(&line(store)))
            && survives.contains(&line(&finding["survived"]))
    };
    assert!(found.iter().any(is_it), "{name} {way:?} wrong: {found:#?}");
}

const MEET: &str = include_str!("../programs/meet.cc");
const WAYS: [&str; 38] = [
    "relaxed",
    "fences",
    "volatile",
    "in-pool",
    "assembly",
    "semaphore",
    "barrier",
    "condition",
    "pipe",
    "socket",
    "counter",
    "poll",
    "select",
    "epoll",
    "signal",
    "signalfd",
    "messages",
    "cancel",
    "flock",
    "range",
    "pthread-once",
    "c-once",
    "std-once",
    "static",
    "fork-wait",
    "fork-exit",
    "fork-kill",
    "fork-pipe",
    "fork",
    "exec",
    "vfork",
    "spawn",
    "popen",
    "system",
    "script",
    "last",
    "handler",
    "handled",
];

fn meet(compiler: &str, flags: &str, ways: &[&str]) {
    let scratch = Scratch::new();
    scratch.file("meet.cc", MEET);
    compile(scratch.dir(), "c++", &format!("--compiler={compiler} {flags} -g -pthread -o meet meet.cc"));
    for way in ways {
        right_and_wrong(&scratch, "meet", MEET, &[way]);
    }
    // The library's own code, which is in its headers, has a locked instruction, so the wrong variant is right.
    for way in [&["promise"][..], &["promise", "wrong"]] {
        let found = check(&scratch, "meet", way);
        assert!(found.is_empty(), "{way:?}: {found:#?}");
    }
}

#[test]
fn threads_meet_in_many_ways() {
    if can_run() {
        meet("g++", "-O2", &WAYS);
    }
}

#[test]
fn threads_meet_as_clang_compiles_them() {
    if can_run() && has("clang++") {
        meet("clang++", "-O1", &WAYS);
    }
}

/// Which moves are atomic is not in the instructions.
#[test]
fn threads_meet_in_code_as_it_ships() {
    if can_run() {
        meet("g++", "--as-shipped -O2", &WAYS);
        if has("clang++") {
            // Those by memory; the C library is the same for both.
            meet("clang++", "--as-shipped -O2", &WAYS[..8]);
        }
    }
}

/// The order in which the collector came by their events is not the trace's.
#[test]
fn a_token_of_threads_that_never_meet_repeats_its_failure() {
    if !can_run() {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("meet.cc", MEET);
    compile(scratch.dir(), "c++", "-g -O2 -pthread -o meet meet.cc");
    for _ in 0..2 {
        let found = check(&scratch, "meet", &["apart"]);
        let token = found[0]["token"].as_str().expect("a token");
        let mut again = strandline();
        again.current_dir(scratch.dir()).args(["check", "--json", "--recover"]);
        again.args(["./meet --recover POOL", "--replay", token]);
        let output = again.output().expect("it runs");
        let answer: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
        let (once, twice) = (&found[0], &answer["finding"]);
        assert_eq!((&once["message"], &once["missing"]), (&twice["message"], &twice["missing"]));
    }
}

#[test]
fn threads_meet_as_openmp_has_it() {
    if can_run() {
        meet("g++", "-O2 -fopenmp", &["omp-loop", "omp-barrier", "omp-task"]);
    }
}

const STRUCTURES: &str = include_str!("../programs/structures.cc");

#[test]
fn structures_of_several_threads_are_right_or_wrong() {
    if can_run() {
        let scratch = Scratch::new();
        scratch.file("structures.cc", STRUCTURES);
        compile(scratch.dir(), "c++", "-g -O2 -std=c++17 -pthread -o structures structures.cc");
        for kind in ["queue", "list", "stack", "work"] {
            right_and_wrong(&scratch, "structures", STRUCTURES, &[kind]);
        }
    }
}

const TIMER: &str = include_str!("../programs/timer.c");

/// The handler's own stores and the thread's are ordered, wherever in the thread's code the signal comes.
#[test]
fn a_thread_and_its_handler_for_a_timer_are_in_order() {
    if can_run() {
        let scratch = Scratch::new();
        scratch.file("timer.c", TIMER);
        for flags in ["-O0", "-O2"] {
            compile(scratch.dir(), "cc", &format!("-g {flags} -o timer timer.c"));
            for way in [&["thread"][..], &["handler"], &["thread", "asleep"], &["handler", "asleep"]] {
                right_and_wrong(&scratch, "timer", TIMER, way);
            }
        }
    }
}
