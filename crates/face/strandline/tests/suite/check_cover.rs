//! To have found nothing in a part of what was to be examined is no verdict: each way in which a check ends
//! before it has looked at everything.

use std::process::Output;

use serde_json::Value;

use crate::common::{Scratch, stderr, stdout, strandline};

/// Writes and syncs ten files, a line printed for each.
const WRITER: &str = "for i in 0 1 2 3 4 5 6 7 8 9; do echo $i > d/f$i; sync d/f$i; sync d; echo $i; done\n";

fn written(scratch: &Scratch) {
    scratch.file("write.sh", WRITER);
    std::fs::remove_dir_all(scratch.path("d")).ok();
    std::fs::create_dir(scratch.path("d")).expect("the folder is made");
}

fn check(scratch: &Scratch, words: &str, recover: &str, program: &[&str]) -> (Output, Value) {
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["check", "--out", "found"]).args(words.split_whitespace());
    if !recover.is_empty() {
        command.args(["--recover", recover]);
    }
    if !program.is_empty() {
        command.args(["--files", "d", "--platform", "posix", "--"]).args(program);
    }
    let output = command.output().expect("strandline starts");
    let text = std::fs::read(scratch.path("found/check.json"));
    let answer = text.ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    (output, answer)
}

/// That there is no verdict for this reason, in both forms.
fn holds_uncovered((output, answer): &(Output, Value), reason: &str) {
    let said = format!("{}{}", stdout(output), stderr(output));
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(stderr(output).contains("no verdict: ") && said.contains(reason), "{said}");
    assert!(!said.contains("nothing found\n"), "{said}");
    assert_eq!(answer["no_verdict"][0]["kind"], "not-covered", "{answer:#}");
    assert_eq!(answer["findings"].as_array().map(Vec::len), Some(0), "{answer:#}");
}

#[test]
fn a_time_limit_that_ends_a_search_leaves_no_verdict_but_findings() {
    let scratch = Scratch::new();
    let slow = |verdict: &str| format!("sh -c 'sleep 0.2; test -d POOL{verdict}'");
    written(&scratch);
    let cut = check(&scratch, "--jobs 1 --time 1s", &slow(""), &["sh", "write.sh"]);
    holds_uncovered(&cut, "stopped after --time 1s: ");
    let share = cut.1["share_examined"].as_f64().expect("a number");
    assert!((0.0..1.0).contains(&share), "{:#}", cut.1);
    assert!(stdout(&cut.0).contains("crash points examined ("), "{}", stdout(&cut.0));
    assert!(cut.1["crash_points"].as_u64() > cut.1["crash_points_examined"].as_u64(), "{:#}", cut.1);
    // Time enough is a verdict.
    written(&scratch);
    let (whole, answer) = check(&scratch, "--time 10m --images 4", "test -d POOL", &["sh", "write.sh"]);
    assert_eq!(whole.status.code(), Some(0), "{}{}", stdout(&whole), stderr(&whole));
    assert_eq!((&answer["share_examined"], &answer["no_verdict"]), (&Value::from(1.0), &Value::Null));
    // A finding is one, whatever the share is.
    written(&scratch);
    let wrong = "sh -c 'sleep 0.2; test -s POOL/f9' POOL";
    let (found, answer) = check(&scratch, "--jobs 1 --time 2s --findings 16", wrong, &["sh", "write.sh"]);
    assert_eq!(found.status.code(), Some(1), "{}{}", stdout(&found), stderr(&found));
    assert!(answer["no_verdict"].is_null(), "{answer:#}");
}

/// `--images` is a choice that was made; an exhaustive search is to be one.
#[test]
fn fewer_images_are_a_verdict_but_of_an_exhaustive_search() {
    let scratch = Scratch::new();
    written(&scratch);
    let (chosen, _) = check(&scratch, "--images 1", "test -d POOL", &["sh", "write.sh"]);
    assert_eq!(chosen.status.code(), Some(0), "{}{}", stdout(&chosen), stderr(&chosen));
    assert!(stdout(&chosen).contains("more images than --images 1 allows"), "{}", stdout(&chosen));
    written(&scratch);
    let all = check(&scratch, "--images 1 --strategy exhaustive", "test -d POOL", &["sh", "write.sh"]);
    holds_uncovered(&all, "--strategy exhaustive: ");
}

/// A trace whose writer was killed, or whose disk was full.
#[test]
fn a_trace_without_its_end_leaves_no_verdict() {
    let scratch = Scratch::new();
    written(&scratch);
    let (whole, _) = check(&scratch, "", "test -d POOL", &["sh", "write.sh"]);
    assert_eq!(whole.status.code(), Some(0), "{}{}", stdout(&whole), stderr(&whole));
    let trace = std::fs::read(scratch.path("found/check.slt")).expect("the trace");
    std::fs::write(scratch.path("found/cut.slt"), &trace[..trace.len() - 40]).expect("it is written");
    let cut = check(&scratch, "--trace found/cut.slt", "test -d POOL", &[]);
    holds_uncovered(&cut, "the trace was cut short");
    let (_, answer) = &cut;
    assert_eq!(answer["share_examined"], 1.0, "{answer:#}");
    // The reason is that of the trace, and is not kept for a whole one.
    let (again, answer) = check(&scratch, "--trace found/check.slt", "test -d POOL", &[]);
    assert_eq!(again.status.code(), Some(0), "{}{}", stdout(&again), stderr(&again));
    assert!(answer["no_verdict"].is_null(), "{answer:#}");
    assert!(!stderr(&again).contains("cut short"), "{}", stderr(&again));
}

/// What a program did until it was killed is a run like any other.
#[test]
fn a_killed_program_has_a_verdict_on_what_it_did() {
    let scratch = Scratch::new();
    written(&scratch);
    scratch.file("killed.sh", &format!("{WRITER}kill -9 $$\n"));
    let (killed, answer) = check(&scratch, "--images 4", "test -d POOL", &["sh", "killed.sh"]);
    assert_eq!(killed.status.code(), Some(0), "{}{}", stdout(&killed), stderr(&killed));
    assert!(stderr(&killed).contains("the program ended with SIGKILL"), "{}", stderr(&killed));
    assert!(answer["warnings"].to_string().contains("SIGKILL"), "{answer:#}");
}

/// A recovery that hangs on what nothing is missing from says nothing of a crash.
#[test]
fn a_recovery_that_never_ends_leaves_no_verdict() {
    let scratch = Scratch::new();
    written(&scratch);
    let (hung, answer) = check(&scratch, "--timeout 300ms", "sh -c 'sleep 60' POOL", &["sh", "write.sh"]);
    assert_eq!(hung.status.code(), Some(2), "{}{}", stdout(&hung), stderr(&hung));
    assert_eq!(answer["no_verdict"][0]["kind"], "rejected", "{answer:#}");
}

/// Of a run that writes much, crash points are chosen; the share of them is said, and is no verdict.
#[test]
fn a_run_that_writes_much_is_examined_in_part() {
    let scratch = Scratch::new();
    written(&scratch);
    let append = "tr '\\0' x < /dev/zero | dd of=d/log bs=1M count=64 iflag=fullblock oflag=dsync";
    scratch.file("append.sh", append);
    let checked = check(&scratch, "--time 30s --images 4 --jobs 1", "test -d POOL", &["sh", "append.sh"]);
    holds_uncovered(&checked, "crash points examined");
    let share = checked.1["share_examined"].as_f64().expect("a share");
    assert!(share > 0.0 && share < 1.0, "{:#}", checked.1);
    let words = checked.1["stored_words"].as_u64().expect("a number");
    assert!(words < 3 << 20, "{words} of the run's 8 million words are followed");
    // The time counts from the end of the program on, and may be over before there is any image.
    written(&scratch);
    let late = check(&scratch, "--time 1ms --images 4", "test -d POOL", &["sh", "append.sh"]);
    assert_eq!(late.0.status.code(), Some(2), "{}", stderr(&late.0));
    assert!(stderr(&late.0).contains("no verdict: stopped after --time 1ms, while"), "{}", stderr(&late.0));
    assert_eq!(late.1["no_verdict"][0]["kind"], "not-covered", "{:#}", late.1);
}
