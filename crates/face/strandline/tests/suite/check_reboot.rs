//! `strandline check` recovers as after a reboot: what only the running system had is gone, and nothing else.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Scratch, compile, has, has_flushes, is_running, stderr, stdout, strandline};

/// Flags a value before that is durable. Recovery overlooks it while the system is the one of the run:
/// while the boot id is the one in the pool, or, with a third argument, while the file of that name is
/// there.
const PROGRAM: &str = r#"#include <fcntl.h>
#include <immintrin.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool { char boot[64]; volatile long set; char rest[56]; volatile long value; };

int main(int argc, char **argv)
{
    const int recover = !strcmp(argv[1], "--recover");
    const char *state = argc > 2 + recover ? argv[2 + recover] : 0;
    const int fd = open(argv[1 + recover], O_RDWR | O_CREAT, 0600);
    char boot[64] = "none";
    struct pool *p;
    if (ftruncate(fd, 4096))
        return 2;
    p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!state) {
        int id = open("/proc/sys/kernel/random/boot_id", O_RDONLY);
        if (read(id, boot, 36) != 36)
            return 2;
    }
    if (recover) {
        int same = state ? !access(state, F_OK) : !memcmp(p->boot, boot, 37);
        return !same && p->set && p->value != 7 ? puts("it points to nothing"), 1 : 0;
    }
    if (state)
        close(open(state, O_RDWR | O_CREAT, 0600));
    memcpy(p->boot, boot, 64);
    _mm_clwb(p->boot);
    _mm_sfence();
    p->set = 1;
    p->value = 7;
    _mm_clwb((void *)&p->set);
    _mm_clwb((void *)&p->value);
    _mm_sfence();
    return 0;
}
"#;

fn program() -> Option<Scratch> {
    if !has("gcc") || !has_flushes() {
        return None;
    }
    let scratch = Scratch::new();
    scratch.file("app.c", PROGRAM);
    compile(scratch.dir(), "cc", "-O1 -g -mclwb -o app app.c");
    Some(scratch)
}

/// `strandline check --json --recover RECOVER -- ./app POOL STATE`: the exit status and the answer.
fn check(scratch: &Scratch, recover: &str, more: &[&str], state: &[&str]) -> (i32, Value) {
    let pool = scratch.path("pool");
    std::fs::remove_file(&pool).ok();
    let output = strandline()
        .current_dir(scratch.dir())
        .args(["check", "--json", "--pmem", &pool.display().to_string(), "--recover", recover])
        .args(more)
        .args(["--", "./app", &pool.display().to_string()])
        .args(state)
        .output()
        .expect("strandline starts");
    let answer = serde_json::from_slice(&output.stdout);
    let answer = answer.unwrap_or_else(|error| panic!("{error}: {} {}", stdout(&output), stderr(&output)));
    (output.status.code().expect("no signal"), answer)
}

/// Whether the answer's recoveries ran as after a reboot.
fn rebooted(answer: &Value) -> bool {
    if answer["rebooted"] != true {
        println!("skipped: no namespaces: {}", answer["reboot_refused"]);
    }
    answer["rebooted"] == true
}

#[test]
fn the_boot_id_is_another_one() {
    let Some(scratch) = program() else { return };
    let (status, answer) = check(&scratch, "./app --recover POOL", &[], &[]);
    if rebooted(&answer) {
        assert_eq!(status, 1, "{answer}");
        assert_eq!(answer["findings"][0]["message"], "it points to nothing", "{answer}");
        assert_eq!(answer["warnings"], serde_json::json!([]));
        assert_eq!(answer["reboot_refused"], Value::Null);
    }
    let (status, answer) = check(&scratch, "./app --recover POOL", &["--no-reboot"], &[]);
    assert_eq!((status, &answer["rebooted"]), (0, &Value::from(false)), "{answer}");
    assert!(answer["warnings"][0].as_str().is_some_and(|text| text.contains("boot id")), "{answer}");
}

/// A recovery that needs what a reboot takes away, without any crash.
#[test]
fn a_recovery_that_only_the_reboot_fails_names_the_option() {
    let Some(scratch) = program() else { return };
    let state = format!("/dev/shm/strandline-needed-{}", std::process::id());
    std::fs::write(&state, "").expect("it is written");
    let (status, answer) = check(&scratch, &format!("test -e {state} -a -f POOL"), &[], &[]);
    std::fs::remove_file(&state).ok();
    if answer["no_verdict"].is_null() {
        println!("skipped: no namespaces: {}", answer["reboot_refused"]);
    } else {
        assert_eq!((status, &answer["no_verdict"][0]["kind"]), (2, &"rejected".into()), "{answer:#}");
        let remedy = answer["no_verdict"][0]["remedy"].as_str().expect("a remedy");
        assert!(remedy.contains("--no-reboot"), "{remedy}");
    }
    let (_, answer) = check(&scratch, "test -d POOL", &[], &[]);
    let remedy = answer["no_verdict"][0]["remedy"].as_str().expect("a remedy");
    assert!(!remedy.contains("--no-reboot"), "{remedy}");
}

#[test]
fn what_was_in_memory_alone_is_gone() {
    let Some(scratch) = program() else { return };
    let name = format!("strandline-state-{}", std::process::id());
    for place in ["/dev/shm", "/run"] {
        let state = Path::new(place).join(&name);
        if std::fs::write(&state, "").is_err() {
            println!("skipped: {place} can't be written");
            continue;
        }
        std::fs::remove_file(&state).expect("it was written");
        let state = state.display().to_string();
        let recover = format!("./app --recover POOL {state}");
        let (status, answer) = check(&scratch, &recover, &[], &[&state]);
        if rebooted(&answer) {
            assert_eq!(status, 1, "{place}: {answer}");
        }
        let (status, answer) = check(&scratch, &recover, &["--no-reboot"], &[&state]);
        assert_eq!(status, 0, "{place}: {answer}");
        std::fs::remove_file(&state).expect("the program made it");
    }
}

#[test]
fn nothing_else_changes() {
    let Some(scratch) = program() else { return };
    let folder = scratch.dir().display().to_string();
    std::fs::write("/dev/shm/strandline-tool", "#!/bin/sh\nexit 0\n").expect("a program in /dev/shm");
    let script = format!(
        "test \"$(pwd)\" = {folder} && test -r app.c && test \"$(id -u)\" = {} && test -w POOL && \
         test -r \"$STRANDLINE_POOL\" && \
         test -r /proc/self/status && /dev/shm/strandline-tool",
        rustix::process::getuid().as_raw()
    );
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions("/dev/shm/strandline-tool", mode).expect("it is ours");
    let (status, answer) = check(&scratch, &script, &[], &[]);
    std::fs::remove_file("/dev/shm/strandline-tool").expect("it is still there");
    assert_eq!((status, &answer["images_failing"]), (0, &Value::from(0)), "{answer}");
}

#[test]
fn nothing_runs_on_behind_a_recovery() {
    let Some(scratch) = program() else { return };
    let sleep = format!("sleep 987.{}", std::process::id());
    let recover = format!("setsid {sleep} & {sleep} & test -e POOL");
    let (status, answer) = check(&scratch, &recover, &[], &[]);
    assert_eq!(status, 0, "{answer}");
    if rebooted(&answer) {
        assert!(!is_running(&sleep), "one sleeps on");
    }
}

#[test]
fn a_system_that_allows_no_namespaces_says_so() {
    let Some(scratch) = program() else { return };
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-U", "--map-root-user", "sh", "-c", script, "sh"]).current_dir(scratch.dir());
        command
    };
    let forbid = "echo 0 > /proc/sys/user/max_mnt_namespaces";
    if !unshare(forbid).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: no user namespace to forbid others in");
        return;
    }
    let pool = scratch.path("pool").display().to_string();
    let output = unshare(&format!("{forbid} && exec \"$@\""))
        .arg(env!("CARGO_BIN_EXE_strandline"))
        .args(["check", "--pmem", &pool, "--recover", "./app --recover POOL", "--", "./app", &pool])
        .output()
        .expect("unshare starts");
    let text = stdout(&output);
    assert!(text.contains("recovery ran without a reboot, which this system does not allow"), "{text}");
    assert!(stderr(&output).contains("boot id"), "{}", stderr(&output));
    let kept = std::fs::read(scratch.path("strandline-check/check.json")).expect("it is kept");
    let kept: Value = serde_json::from_slice(&kept).expect("it is JSON");
    assert_eq!(kept["rebooted"], false);
    assert!(kept["reboot_refused"].as_str().is_some_and(|why| why.contains("namespaces")), "{kept}");
}
