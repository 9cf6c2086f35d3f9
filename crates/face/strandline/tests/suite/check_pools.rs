//! Pools that only the program knows of: a check begins with what they held when they were mapped.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Command, Output};

use crate::common::{Scratch, compile, has, ok, stderr, strandline};
use serde_json::Value;

fn can_run() -> bool {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let able = processor.split_whitespace().any(|word| word == "clwb") && has("gcc");
    if !able {
        println!("skipped: there is no clwb, or no gcc");
    }
    able
}

fn check(scratch: &Scratch, options: &[&str], program: &[&str]) -> (Output, Value) {
    let mut command = strandline();
    command.current_dir(scratch.dir()).args([
        "check",
        "--json",
        "--jobs",
        "1",
        "--recover",
        "./config --recover POOL",
    ]);
    command.args(options).env("CONFIGURED_POOL", scratch.path("a.pool")).args(program);
    let output = command.output().expect("it runs");
    let answer = serde_json::from_slice(&output.stdout);
    let answer = answer.unwrap_or_else(|error| panic!("{program:?}: {error}: {}", stderr(&output)));
    (output, answer)
}

#[test]
fn a_pool_that_only_the_environment_names_is_not_empty() {
    if !can_run() {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("config.c", include_str!("../programs/config.c"));
    compile(scratch.dir(), "cc", "-O2 -g -o config config.c");
    let make = || {
        std::fs::remove_file(scratch.path("a.pool")).ok();
        let mut command = Command::new(scratch.path("config"));
        ok(command.arg("make").env("CONFIGURED_POOL", scratch.path("a.pool")));
    };
    make();
    let (output, answer) = check(&scratch, &["--pmem", "*/a.pool"], &["--", "./config"]);
    assert_eq!(output.status.code(), Some(0), "{answer:#}");
    assert!(answer["images"].as_u64() > Some(1), "{answer:#}");
    assert_eq!(stderr(&output).matches("warning").count(), 0, "{}", stderr(&output));

    make();
    let (_, answer) = check(&scratch, &["--pmem", "*/a.pool"], &["--", "./config", "wrong"]);
    let findings = answer["findings"].as_array().expect("a list");
    let messages: Vec<&str> = findings.iter().filter_map(|finding| finding["message"].as_str()).collect();
    assert_eq!(messages, ["the flag is set and there are no data"], "{answer:#}");
    let token = findings[0]["token"].as_str().expect("a token");
    let (output, again) = check(&scratch, &["--replay", token], &[]);
    assert_eq!((output.status.code(), &again["finding"]["message"]), (Some(1), &findings[0]["message"]));
}

#[test]
fn a_large_pool_with_holes_is_kept_with_holes() {
    if !can_run() {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("config.c", include_str!("../programs/config.c"));
    compile(scratch.dir(), "cc", "-O2 -g -o config config.c");
    let pool = std::fs::File::create(scratch.path("a.pool")).expect("the file is made");
    pool.set_len(1 << 28).expect("it has holes");
    pool.write_all_at(&[7; 5000], 1 << 27).expect("it has data");
    let path = scratch.path("a.pool").display().to_string();
    let recover = format!("cmp -s -i {} -n 5000 POOL {path}", 1 << 27);
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["check", "--pmem", &path, "--recover", &recover]);
    let output = command.args(["--", "./config"]).env("CONFIGURED_POOL", &path).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let kept = std::fs::metadata(scratch.path("strandline-check/before/0")).expect("it is kept");
    assert_eq!(kept.len(), 1 << 28);
    assert!(kept.blocks() * 512 < 1 << 20, "{} blocks", kept.blocks());
}
