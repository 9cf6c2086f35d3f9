//! `strandline cc --as-shipped`: what is checked is the code that ships, with the order that the compiler gave its stores.

use std::process::Command;

use serde_json::Value;

use crate::common::{Scratch, compile, dump, has, number, ok, record, stderr, stdout, strandline};

const PROGRAM: &str = include_str!("../programs/shipped.c");

/// What `check` finds of a variant that a compiler has built.
fn findings(scratch: &Scratch, variant: &str) -> Vec<Value> {
    let pool = scratch.path("pool");
    std::fs::remove_file(&pool).ok();
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["check", "--json", "--jobs", "1", "--pmem", "./pool"]);
    command.args(["--recover", &format!("./shipped --recover POOL {variant}"), "--"]);
    let output = command.args(["./shipped", "./pool", variant]).output().expect("it runs");
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{variant}: {error}: {}", stderr(&output)));
    assert!(!stderr(&output).contains("are not what the stores"), "{variant}: {}", stderr(&output));
    answer["findings"].as_array().expect("a list").clone()
}

/// Compilers with levels at which they put the last store of these variants before another one, or leave one out.
const MOVED: [(&str, &str, &[&str]); 4] = [
    ("gcc", "-O2", &["sunk", "again"]),
    ("gcc", "-O3", &["sunk", "added", "vectors", "again"]),
    ("clang", "-O2", &["again"]),
    ("clang", "-O3", &["again"]),
];

#[test]
fn the_order_that_the_compiler_made_is_checked() {
    for (compiler, level, variants) in MOVED.into_iter().filter(|(compiler, ..)| has(compiler)) {
        let scratch = Scratch::new();
        scratch.file("shipped.c", PROGRAM);
        let build = |option: &str| {
            let options =
                format!("--as-shipped --compiler={compiler} {level} {option} -Wall -Wextra -Werror");
            compile(scratch.dir(), "cc", &format!("{options} -o shipped shipped.c"));
        };
        build("");
        for variant in variants {
            assert!(!findings(&scratch, variant).is_empty(), "{compiler} {level} {variant}");
        }
        build("-DBARRIER");
        for variant in variants {
            let found = findings(&scratch, variant);
            assert!(found.is_empty(), "{compiler} {level} {variant} with a barrier: {found:#?}");
        }
    }
}

#[test]
fn atomics_order_threads_of_a_program_that_includes_our_header() {
    if !std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default().contains("clflushopt") {
        return println!("skipped: this processor has no clflushopt");
    }
    for compiler in ["gcc", "clang"].into_iter().filter(|compiler| has(compiler)) {
        for (option, says) in [("-DRIGHT", false), ("-DWRONG", true)] {
            let scratch = Scratch::new();
            scratch.file("handed_over.c", include_str!("../programs/handed_over.c"));
            let options = format!("--as-shipped --compiler={compiler} -O2 -mclflushopt {option}");
            compile(scratch.dir(), "cc", &format!("{options} -o handed_over handed_over.c -pthread"));
            let mut command = strandline();
            command.current_dir(scratch.dir()).args(["check", "--json", "--jobs", "1", "--pmem", "./pool"]);
            command.args(["--recover", "./handed_over --recover POOL", "--", "./handed_over", "./pool"]);
            let output = command.output().expect("it runs");
            assert_eq!(
                output.status.code(),
                Some(i32::from(says)),
                "{compiler} {option}: {}",
                stdout(&output)
            );
        }
    }
}

const HOSTILE: &str = include_str!("../programs/hostile.cc");

/// What hooks must keep: flags, vector registers, the red zone, the floating-point stack, jumps out of functions.
#[test]
fn programs_compute_what_they_compute_without_us() {
    for compiler in ["g++", "clang++"].into_iter().filter(|compiler| has(compiler)) {
        let scratch = Scratch::new();
        scratch.file("h.cc", HOSTILE);
        for flags in
            ["-O0", "-O1", "-O2 -fPIC -fcf-protection", "-O3 -march=haswell -ffast-math", "-Os -fno-plt"]
        {
            let flags = format!("{flags} -fwrapv -o h h.cc -pthread");
            ok(Command::new(compiler).current_dir(scratch.dir()).args(flags.split(' ')));
            let plain = stdout(&ok(&mut Command::new(scratch.path("h"))));
            assert!(plain.lines().count() > 8, "{plain}");
            compile(scratch.dir(), "c++", &format!("--as-shipped --compiler={compiler} {flags}"));
            assert_eq!(stdout(&ok(&mut Command::new(scratch.path("h")))), plain, "{compiler} {flags}");
            // Where each store asks for room, the hooks' long way is taken.
            let mut recorded = strandline();
            recorded.current_dir(scratch.dir()).args(["record", "--values", "-o", "t.slt", "--", "./h"]);
            let said = stdout(&ok(&mut recorded));
            assert!(said.contains(&plain), "{compiler} {flags}:\n{plain}{said}");
        }
    }
}

/// What no compiler merges is the same with the pass and without.
#[test]
fn flushes_and_fences_are_those_that_the_pass_sees() {
    let scratch = Scratch::new();
    scratch.file("shipped.c", PROGRAM);
    for compiler in ["gcc", "clang"].into_iter().filter(|compiler| has(compiler)) {
        let counts = |mode: &str| {
            let options = format!("{mode} --compiler={compiler} -O1 -DBARRIER -o shipped shipped.c");
            compile(scratch.dir(), "cc", &options);
            let info = record(&scratch, &["--pmem", "./pool"], &["./shipped", "./pool", "again"]);
            ["flushes", "fences", "nt_stores", "file_syncs"].map(|key| number(&info, key))
        };
        assert_eq!(counts("--as-shipped"), counts(""), "{compiler}");
    }
}

/// Whatever a compiler warns of, it does not warn of our doing.
#[test]
fn programs_without_a_warning_have_none() {
    let every = "-Wall -Wextra -Werror -pedantic -Wconversion -Wshadow -Wcast-align -Wformat=2 -Wundef -Wstrict-prototypes";
    for compiler in ["gcc", "gcc-11", "clang", "clang-19"].into_iter().filter(|compiler| has(compiler)) {
        for mode in ["", "--as-shipped"] {
            for level in ["-O0", "-O2 -D_FORTIFY_SOURCE=2", "-O3 -flto", "-Os -fPIC -fvisibility=hidden"] {
                let scratch = Scratch::new();
                scratch.file("c.c", CONSTRUCTS);
                let options = format!("{mode} --compiler={compiler} -std=c11 {level} {every} -o c c.c");
                compile(scratch.dir(), "cc", &options);
                record(&scratch, &[], &["./c"]);
                let lines = dump(&scratch.path("t.slt"));
                assert!(lines.iter().any(|line| line.contains(" mfence ")), "{options}: {lines:?}");
            }
        }
    }
}

/// Constructs that tools and warnings are known to quarrel about.
const CONSTRUCTS: &str = r#"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
static atomic_int flag;
static atomic_long count;
static _Thread_local int own;
static jmp_buf back;
struct packet { unsigned char kind; unsigned length : 12, rest : 20; double values[4]; };
static int publish(int value)
{
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&flag, value, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&flag, memory_order_acquire);
}
static struct packet copied(const struct packet *from)
{
    struct packet made = *from;
    made.length = 7;
    return made;
}
int main(void)
{
    char text[32];
    volatile int rounds = 0;
    struct packet *packet = calloc(1, sizeof *packet);
    if (packet == NULL)
        return 3;
    if (setjmp(back) == 0)
        longjmp(back, 1);
    for (rounds = 0; rounds < 3; rounds++)
        packet->values[rounds] = rounds;
    *packet = copied(packet);
    own = publish(4);
    atomic_fetch_add(&count, own);
    snprintf(text, sizeof text, "%d %u", own, (unsigned)packet->length);
    free(packet);
    return strcmp(text, "4 7");
}
"#;

#[test]
fn the_compiler_is_the_one_that_is_named() {
    let scratch = Scratch::new();
    scratch.file("a.c", "int main(void) { return 0; }\n");
    let says = |variable: &str, value: &str, option: &str| {
        let mut command = strandline();
        command.current_dir(scratch.dir()).arg("cc").env(variable, value);
        let output = command.args(option.split_whitespace()).args(["-c", "a.c"]).output().expect("it runs");
        let object = std::fs::read(scratch.path("a.o")).unwrap_or_default();
        let clang = object.windows(5).any(|word| word == b"clang");
        std::fs::remove_file(scratch.path("a.o")).ok();
        (output.status.code(), stderr(&output), clang)
    };
    if has("clang") && has("gcc") {
        for (variable, value, option, clang) in [
            ("CC", "clang", "", true),
            ("STRANDLINE_CC", "clang", "", true),
            ("CC", "strandline cc", "", false),
            ("CC", "clang", "--compiler=gcc", false),
            ("CC", "gcc", "--as-shipped --compiler=clang", true),
        ] {
            let said = says(variable, value, option);
            assert_eq!(said, (Some(0), String::new(), clang), "{variable}={value} {option}");
        }
    }
    scratch.file("odd", "#!/bin/sh\necho odd 1.0\n");
    ok(Command::new("chmod").arg("+x").arg(scratch.path("odd")));
    for (name, words) in [("clang-99", "can't run clang-99"), ("./odd", "./odd is neither gcc nor clang")] {
        let (status, said, _) = says("CC", name, "");
        assert!(status == Some(2) && said.contains(words), "{name}: {said}");
    }
}
