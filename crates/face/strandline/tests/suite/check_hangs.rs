//! `strandline check` of recoveries that hang, crash and fail: which is which, and that hanging costs little.

use serde_json::Value;

use crate::common::{Scratch, compile, has, has_flushes, stderr, stdout, strandline};

/// A lock in persistent memory, on which recovery waits for ever; a taken one with `b` set is no reason to.
/// Recovery crashes or fails where the value behind a flag is missing.
const PROGRAM: &str = r#"#include <fcntl.h>
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool { volatile long lock, b, pad[6]; volatile long flag, pad2[7]; volatile long value, pad3[7]; };

static void keep(volatile void *p) { _mm_clwb((void *)p); _mm_sfence(); }

int main(int c, char **v)
{
    int recover = c > 2, f = open(v[1 + recover], O_RDWR | O_CREAT, 0600);
    if (ftruncate(f, 4096)) return 2;
    struct pool *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    if (recover) {
        while (p->lock && !p->b) _mm_pause();
        if (p->lock && p->flag != p->value) puts("torn while it was locked"), exit(1);
        if (p->flag != p->value) abort();
        return 0;
    }
    for (int i = 1; i <= 60; i++) {
        p->b = 0; keep(&p->b);
        p->lock = 1; keep(&p->lock);
        p->pad[1] = i; keep(&p->pad[1]);
        p->b = i == 50; keep(&p->b);
        p->flag = i; p->value = i; _mm_clwb((void *)&p->flag); keep(&p->value);
        p->lock = 0; keep(&p->lock);
        p->flag = -i; p->value = -i; _mm_clwb((void *)&p->flag); keep(&p->value);
    }
    return 0;
}
"#;

/// `strandline check --json --jobs 2 -- ./app POOL`: the exit status and the answer.
fn check(scratch: &Scratch, recover: &str, more: &[&str]) -> (i32, Value) {
    let pool = scratch.path("pool").display().to_string();
    std::fs::remove_file(&pool).ok();
    let output = strandline()
        .current_dir(scratch.dir())
        .args(["check", "--json", "--jobs", "2", "--pmem", &pool, "--recover", recover])
        .args(more)
        .args(["--", "./app", &pool])
        .output()
        .expect("strandline starts");
    let answer = serde_json::from_slice(&output.stdout);
    let answer = answer.unwrap_or_else(|error| panic!("{error}: {} {}", stdout(&output), stderr(&output)));
    (output.status.code().expect("no signal"), answer)
}

fn program(text: &str) -> Option<Scratch> {
    if !has("gcc") || !has_flushes() {
        return None;
    }
    let scratch = Scratch::new();
    scratch.file("app.c", text);
    compile(scratch.dir(), "cc", "-O1 -g -mclwb -o app app.c");
    Some(scratch)
}

#[test]
fn a_lock_that_a_crash_leaves_taken_is_found_without_waiting_for_each_image() {
    let Some(scratch) = program(include_str!("../programs/hang.c")) else { return };
    let (status, answer) = check(&scratch, "./app --recover POOL", &[]);
    assert_eq!(status, 1, "{answer}");
    let findings = answer["findings"].as_array().expect("a list");
    assert_eq!(findings.len(), 1, "{answer}");
    assert_eq!(findings[0]["ending"], "hung");
    assert_eq!(findings[0]["message"], "recovery hangs");
    // 8 images hang, and two at a time would be waited for 40 s: --timeout is 10 s. This takes 2 to 4.
    assert!(answer["seconds"].as_f64().is_some_and(|seconds| seconds <= 20.0), "{answer}");
}

#[test]
fn what_hangs_hides_no_other_mistake() {
    let Some(scratch) = program(PROGRAM) else { return };
    let (status, answer) = check(&scratch, "./app --recover POOL", &[]);
    assert_eq!(status, 1, "{answer}");
    let findings = answer["findings"].as_array().expect("a list");
    let found = |ending: &str, message: &str| {
        findings.iter().any(|finding| finding["ending"] == ending && finding["message"] == message)
    };
    assert!(found("hung", "recovery hangs"), "{answer}");
    assert!(found("crashed", "SIGABRT"), "{answer}");
    assert!(found("failed", "torn while it was locked"), "{answer}");
    assert!(answer["images_expected"].as_u64().is_some_and(|count| count > 0), "{answer}");
}

#[test]
fn a_signal_is_seen_through_a_shell() {
    let Some(scratch) = program(PROGRAM) else { return };
    let recover = "timeout 0.05 ./app --recover POOL; status=$?; test $status -eq 134 && exit 134; true";
    let (_, answer) = check(&scratch, recover, &["--findings", "1"]);
    assert_eq!(answer["findings"][0]["ending"], "crashed", "{answer}");
}

/// The limit is far above what a slow recovery takes.
#[test]
fn slow_recoveries_do_not_hang() {
    let Some(scratch) = program(include_str!("../programs/hang.c")) else { return };
    let recover = "sh -c 'case $(od -An -tx1 -j0 -N1 $0) in *01) sleep 0.15;; esac' POOL";
    let (status, answer) = check(&scratch, recover, &["--images", "2"]);
    assert_eq!((status, &answer["images_failing"]), (0, &Value::from(0)), "{answer}");
}
