//! `strandline check` has no verdict on a run that it did not see whole, and has one where it only looks so.

use std::collections::BTreeSet;
use std::process::Output;

use crate::common::fields::{documented, paths};
use crate::common::{Scratch, compile, ok, stderr, strandline};
use serde_json::Value;

/// Writes by a system call of its own.
const LIBRARY: &str = r#"void library(int fd)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(1L), "D"((long)fd), "S"("by a library"), "d"(12L) : "rcx", "r11", "memory");
}
"#;

fn programs() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("around.c", include_str!("../programs/around.c"));
    scratch.file("library.c", LIBRARY);
    compile(scratch.dir(), "cc", "-O1 -g -o around around.c -pthread -ldl");
    let gcc = |arguments: &str| {
        ok(std::process::Command::new("gcc").current_dir(scratch.dir()).args(arguments.split(' ')));
    };
    gcc("-O1 -static -w -o plain around.c -pthread -ldl");
    gcc("-O1 -shared -fPIC -o library.so library.c");
    scratch
}

fn check(scratch: &Scratch, way: &str) -> (Output, Value) {
    let folder = scratch.path("data");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir(&folder).expect("the folder is made");
    let folder = folder.display().to_string();
    let output = strandline()
        .current_dir(scratch.dir())
        .args([
            "check",
            "--json",
            "--images",
            "16",
            "--files",
            &folder,
            "--recover",
            "test -d POOL",
            "--",
            "./around",
            way,
            &folder,
        ])
        .output()
        .expect("it runs");
    let answer =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{way}: {}", stderr(&output)));
    (output, answer)
}

#[test]
fn what_goes_round_the_recorder_leaves_no_verdict() {
    let scratch = programs();
    for (way, kind, names) in [
        ("assembly", "not-recorded", "write, "),
        ("made", "not-recorded", "/data/more was not expected"),
        ("removed", "not-recorded", "/data/other is missing"),
        ("child", "differs", "/data/other"),
        ("passed", "differs", "/data/other"),
        ("library", "differs", "/data/other"),
        ("named", "not-recorded", "name the folder of both names"),
        ("ring", "not-recorded", "io_uring_setup"),
        ("submitted", "not-recorded", "io_submit"),
        ("submitted-raw", "not-recorded", "io_submit"),
        ("asynchronous", "not-recorded", "aio_write"),
    ] {
        let (output, answer) = check(&scratch, way);
        let said = stderr(&output);
        if ["ring", "submitted", "submitted-raw"].contains(&way) && said.contains("exit status: 7") {
            // This system has none.
            continue;
        }
        assert_eq!(output.status.code(), Some(2), "{way}: {said}");
        assert!(said.starts_with("strandline: no verdict: ") && said.contains(names), "{way}: {said}");
        let doubt = &answer["no_verdict"][0];
        assert_eq!(doubt["kind"], kind, "{way}: {answer:#}");
        assert!(answer["findings"].is_null() && answer["images"].is_null(), "{way}: {answer:#}");
        if ["assembly", "submitted-raw"].contains(&way) {
            assert_eq!(doubt["code"]["function"], "raw", "{answer:#}");
        }
        if way == "submitted" {
            assert_eq!(doubt["code"]["function"], "submitted", "{answer:#}");
        }
        if way == "asynchronous" {
            assert_eq!(doubt["code"]["function"], "asynchronous", "{answer:#}");
            assert!(said.contains("around.c:") && said.contains("pwrite and fsync"), "{said}");
        }
    }
    // What is not carried out changes nothing.
    let (output, answer) = check(&scratch, "refused");
    assert_eq!((output.status.code(), &answer["no_verdict"]), (Some(0), &Value::Null), "{answer:#}");
    check(&scratch, "asynchronous");
    // A later check of the same run has none either, though the files are not what they were.
    std::fs::remove_dir_all(scratch.path("data")).expect("the folder is there");
    let again = strandline()
        .current_dir(scratch.dir())
        .args(["check", "--recover", "test -d POOL"])
        .output()
        .expect("it runs");
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("no verdict: not recorded: aio_write"), "{}", stderr(&again));
}

#[test]
fn a_pool_that_is_written_past_the_recorder_leaves_no_verdict() {
    let scratch = programs();
    let folder = scratch.path("data").display().to_string();
    let pool = format!("{folder}/other");
    for recover in [&["--recover", "test -f POOL"][..], &[]] {
        std::fs::remove_dir_all(&folder).ok();
        std::fs::create_dir(&folder).expect("the folder is made");
        let mut command = strandline();
        command.current_dir(scratch.dir()).args(["check", "--json", "--pmem", &pool]).args(recover);
        let output = command.args(["--", "./around", "pool", &folder]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
        let doubt = &answer["no_verdict"][0];
        assert_eq!(
            (&doubt["kind"], &doubt["file"]),
            (&"differs".into(), &pool.as_str().into()),
            "{answer:#}"
        );
        assert!(answer["lints"].is_null() && answer["findings"].is_null(), "{answer:#}");
    }
}

#[test]
fn every_field_of_a_reason_is_documented() {
    let scratch = programs();
    let (_, answer) = check(&scratch, "asynchronous");
    let mut written = BTreeSet::new();
    paths(&answer["no_verdict"], "no_verdict", &mut written);
    let documented = documented(include_str!("../../../../../docs/check-json.md"));
    written.retain(|field| !field.starts_with("no_verdict[].code."));
    let missing: Vec<_> = written.difference(&documented).collect();
    assert!(missing.is_empty() && written.len() > 6, "not in the document: {missing:?}, of {written:?}");
}

#[test]
fn what_only_looks_so_has_a_verdict() {
    let scratch = programs();
    for way in ["race", "lock", "objects", "gone", "sparse", "kinds", "killed", "worker", "fork"] {
        let (output, answer) = check(&scratch, way);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{way}: {said}");
        assert!(answer["no_verdict"].is_null() && answer["images"].as_u64() > Some(1), "{way}: {answer:#}");
        let killed = said.contains("so its last store or call may not be recorded");
        assert_eq!(killed, ["killed", "worker"].contains(&way), "{way}: {said}");
    }
}
