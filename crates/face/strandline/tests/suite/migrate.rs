//! `strandline checkpoint`, `restore` and `migrate` on a program that works meanwhile.

use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::common::{Scratch, compile, stderr, strandline};
use serde_json::Value;

/// The program, built; none where process numbers may not be chosen.
fn prepared() -> Option<Scratch> {
    if !std::fs::read_to_string("/proc/self/status").is_ok_and(|text| text.contains("CapEff:\t000001ff")) {
        println!("skipped: choosing process numbers needs root");
        return None;
    }
    let scratch = Scratch::new();
    scratch.file("works.c", include_str!("../programs/works.c"));
    compile(scratch.dir(), "cc", "-O1 -w -o works works.c");
    Some(scratch)
}

fn started(scratch: &Scratch, rounds: &str) -> Child {
    let mut command = Command::new(scratch.path("works"));
    command.arg(scratch.path("out")).arg(rounds);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    std::thread::sleep(Duration::from_millis(100));
    child.expect("it was just built")
}

fn run(scratch: &Scratch, arguments: &[&str]) -> Output {
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(arguments).stdin(Stdio::null());
    command.output().expect("it runs")
}

fn fine(output: &Output) {
    assert!(output.status.success(), "{}", stderr(output));
}

fn lines(scratch: &Scratch) -> Vec<String> {
    let text = std::fs::read_to_string(scratch.path("out")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_process_moves_and_its_exit_status_is_the_commands() {
    let Some(scratch) = prepared() else { return };
    let mut child = started(&scratch, "60");
    let moved = run(&scratch, &["migrate", "--json", "--pid", &child.id().to_string(), "--fam", "fam"]);
    assert_eq!(moved.status.code(), Some(7), "{}", stderr(&moved));
    let times: Value = serde_json::from_slice(&moved.stdout).expect("it prints JSON");
    assert_eq!((times["processes"].as_u64(), times["way"].as_str()), (Some(1), Some("fam")), "{times:#}");
    assert!(times["downtime_s"].as_f64() <= times["busy_s"].as_f64(), "{times:#}");
    let _ = child.wait();
    assert_eq!(lines(&scratch).len(), 1, "it ran to its end once");
    let again = run(&scratch, &["restore", "--lazy", "fam"]);
    assert_eq!(again.status.code(), Some(7), "{}", stderr(&again));
    let lines = lines(&scratch);
    assert!(lines.len() == 2 && lines[0] == lines[1], "the same from memory alone: {lines:?}");
}

#[test]
fn a_process_moves_to_whoever_listens() {
    let Some(scratch) = prepared() else { return };
    let mut child = started(&scratch, "60");
    let mut command = strandline();
    command
        .current_dir(scratch.dir())
        .args(["restore", "--lazy", "--clones", "1", "--listen", "./there", "fam"]);
    let mut there = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("it runs");
    while !scratch.path("there").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    fine(&run(&scratch, &["migrate", "--json", "--pid", &pid, "--fam", "fam", "--to", "./there"]));
    assert_eq!(there.wait().expect("our child").code(), Some(7));
    let _ = child.wait();
    assert_eq!(lines(&scratch).len(), 1, "it ran to its end once");
}

#[test]
fn a_checkpoint_now_and_then_and_clones_of_the_last() {
    let Some(scratch) = prepared() else { return };
    let mut child = started(&scratch, "60");
    let pid = child.id().to_string();
    let arguments = ["checkpoint", "--json", "--pid", &pid, "--every", "100ms", "--count", "3", "saved"];
    let saved = run(&scratch, &arguments);
    fine(&saved);
    let text = String::from_utf8_lossy(&saved.stdout).into_owned();
    let all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(all.len(), 3, "{text}");
    assert!(all[2]["kept_bytes"].as_u64() > Some(0), "{text}");
    assert_eq!(child.wait().expect("our child").code(), Some(7));
    fine(&run(&scratch, &["restore", "--check", "saved"]));
    let clones = run(&scratch, &["restore", "--lazy", "--clones", "2", "saved"]);
    assert_eq!(clones.status.code(), Some(7), "{}", stderr(&clones));
    let lines = lines(&scratch);
    assert!(lines.len() == 3 && lines.iter().all(|line| *line == lines[0]), "{lines:?}");
    std::fs::write(scratch.path("saved/state"), "strandline-image 1 5 0\nhello").expect("written");
    let refused = run(&scratch, &["restore", "--check", "saved"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("damaged at byte"), "{}", stderr(&refused));
}

#[test]
fn a_process_moves_without_copies_before_it_stops_and_a_page_shows_it() {
    let Some(scratch) = prepared() else { return };
    let mut child = started(&scratch, "200");
    let pid = child.id().to_string();
    let ways = ["--precopy", "--map", "--huge-pages", "--throttle", "1000:2000", "--html", "page.html"];
    let moved = run(&scratch, &[&["migrate", "--json", "--pid", &pid, "--fam", "fam"], &ways[..]].concat());
    assert_eq!(moved.status.code(), Some(7), "{}", stderr(&moved));
    let times: Value = serde_json::from_slice(&moved.stdout).expect("it prints JSON");
    assert!(times["before"]["rounds"][0].as_u64() > Some(0), "{times:#}");
    let _ = child.wait();
    assert_eq!(lines(&scratch).len(), 1, "it ran to its end once");
    let page = std::fs::read_to_string(scratch.path("page.html")).expect("written");
    assert!(page.contains("<polyline") && page.contains("runs there"), "{page}");
    let again = run(&scratch, &["restore", "--lazy", "--map", "--clones", "2", "fam"]);
    assert_eq!(again.status.code(), Some(7), "{}", stderr(&again));
    let lines = lines(&scratch);
    assert!(
        lines.len() == 3 && lines.iter().all(|line| *line == lines[0]),
        "the same from memory alone: {lines:?}"
    );
    let refused = run(&scratch, &["migrate", "--pid", "1", "--fam", "x", "--throttle", "tape"]);
    assert!(stderr(&refused).contains("neither dram, pcm nor ethernet-10g"), "{}", stderr(&refused));
}

#[test]
fn an_image_of_crius_is_written_and_restored() {
    let Some(scratch) = prepared() else { return };
    let mut child = started(&scratch, "60");
    let pid = child.id().to_string();
    let saved = run(&scratch, &["checkpoint", "--criu", "--json", "--pid", &pid, "image"]);
    fine(&saved);
    let _ = child.wait();
    assert!(scratch.path("image/inventory.img").exists() && !scratch.path("image/state").exists());
    fine(&run(&scratch, &["restore", "--check", "image"]));
    let restored = run(&scratch, &["restore", "--json", "image"]);
    assert_eq!(restored.status.code(), Some(7), "{}", stderr(&restored));
    assert_eq!(lines(&scratch).len(), 1);
    std::fs::write(scratch.path("image/pstree.img"), "nonsense").expect("written");
    let refused = run(&scratch, &["restore", "image"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("pstree.img: damaged at byte 0"), "{}", stderr(&refused));
}

/// What `check --files` finds in two checkpoints that are added to a folder.
fn checked(scratch: &Scratch, pid: &str, platform: &str, more: &[&str]) -> Value {
    let binary = strandline().get_program().to_string_lossy().into_owned();
    let recover = format!("{binary} restore --check POOL");
    let mut arguments = vec!["check", "--json", "--files", "saved", "--platform", platform];
    arguments.extend(["--no-reboot", "--time", "8s", "--recover", &recover]);
    let writer = ["--", &binary, "checkpoint", "--pid", pid, "--every", "1ms", "--count", "2", "saved"];
    let checked = run(scratch, &[&arguments[..], &writer[..], more].concat());
    serde_json::from_slice(&checked.stdout).unwrap_or_else(|_| panic!("it prints JSON: {}", stderr(&checked)))
}

/// `check --files` on our own writer: whatever the disk has kept at a crash, the last whole checkpoint restores.
#[test]
#[ignore = "--long: a checkpoint recorded and its crash images restored, on two file systems"]
fn no_crash_while_a_checkpoint_is_written_harms_the_one_before() {
    let Some(scratch) = prepared() else { return };
    let mut child = started(&scratch, "60000");
    let pid = child.id().to_string();
    fine(&run(&scratch, &["checkpoint", "--leave-running", "--pid", &pid, "saved"]));
    for platform in ["ext4", "posix"] {
        let answer = checked(&scratch, &pid, platform, &[]);
        assert_eq!(answer["findings"].as_array().map(Vec::len), Some(0), "{platform}: {answer:#}");
        assert!(answer["images"].as_u64() > Some(3), "{platform}: {answer:#}");
    }
    // The same writer that does not wait for pages before the state takes its name: a crash leaves a state without pages.
    let answer = checked(&scratch, &pid, "posix", &["--no-sync"]);
    assert!(
        answer["findings"].as_array().is_some_and(|all| !all.is_empty()),
        "the twin's fault is found: {answer:#}"
    );
    let _ = child.kill();
    let _ = child.wait();
}
