//! Recovery commands: what `strandline check` says of those that can't be right and of pools that are not fresh, and that `strandline
//! profile` takes them, too.

use std::process::Output;

use crate::common::{Scratch, compile, has, has_flushes, is_running, stderr, stdout, strandline};
use serde_json::Value;

/// Stores a value and what points to it, in the wrong order, into a pool that it leaves as it is.
const PROGRAM: &str = r#"#include <fcntl.h>
#include <immintrin.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool { long set; char rest[56]; long value; };

int main(int argc, char **argv)
{
    const int recover = !strcmp(argv[1], "--recover");
    const int fd = open(argv[1 + recover], O_RDWR | O_CREAT, 0600);
    struct pool *p;
    if (argc < 2 + recover || ftruncate(fd, 4096))
        return 2;
    p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (recover)
        return p->set && p->value != 7 ? puts("it points to nothing"), 1 : 0;
    if (argc > 2)
        return 0;
    *(volatile long *)&p->set = 1;
    p->value = 7;
    _mm_clwb(&p->set);
    _mm_clwb(&p->value);
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

/// `strandline check --recover RECOVER -- ./app POOL`, on whatever pool there is.
fn check(scratch: &Scratch, recover: &str, more: &[&str]) -> Output {
    let pool = scratch.path("pool").display().to_string();
    strandline()
        .current_dir(scratch.dir())
        .args(["check", "--out", "found", "--pmem", &pool, "--recover", recover, "--", "./app", &pool])
        .args(more)
        .output()
        .expect("strandline starts")
}

#[test]
fn a_command_that_can_not_be_run_is_reported_before_the_program_runs() {
    let Some(scratch) = program() else { return };
    for (command, wanted) in [
        ("./no-such-program POOL", "no program ./no-such-program"),
        ("./app.c --recover POOL", "app.c is not executable"),
        ("./app --recover 'POOL", "the shell can't read the recovery command"),
        ("no-such-program POOL; true", "the shell knows no no-such-program"),
        ("./app --recover", "write POOL where it takes the file"),
    ] {
        let output = check(&scratch, command, &[]);
        assert_eq!(output.status.code(), Some(2), "{command}");
        assert!(stderr(&output).contains(wanted), "{command}: {}", stderr(&output));
        assert!(!scratch.path("pool").exists(), "{command}: the program ran");
    }
}

#[test]
fn a_command_that_never_succeeds_is_no_finding() {
    let Some(scratch) = program() else { return };
    scratch.file("always.sh", "echo looking; echo \"no rights to $1\"; exit 3\n");
    let output = check(&scratch, "sh always.sh POOL", &[]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in [
        "recovery rejects the undisturbed result",
        "sh always.sh POOL",
        "exit status 3",
        "looking",
        "no rights to",
    ] {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    // So does one that fails at the end only.
    std::fs::remove_file(scratch.path("pool")).expect("the pool is there");
    let output = check(&scratch, "test ! -s POOL || ! grep -q $(printf '\\001') POOL", &[]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("recovery rejects the undisturbed result"), "{}", stderr(&output));
}

#[test]
fn a_pool_that_holds_the_result_already_is_reported_and_reported_again() {
    let Some(scratch) = program() else { return };
    let recover = "./app --recover POOL";
    let fresh = check(&scratch, recover, &[]);
    assert_eq!(fresh.status.code(), Some(1), "{}", stderr(&fresh));
    assert_eq!(stderr(&fresh), "");
    let again = check(&scratch, recover, &[]);
    assert_eq!(again.status.code(), Some(0), "{}", stdout(&again));
    let warning =
        "was there before the run, which did not make it anew: of 2 words that the run stored, 0 changed";
    assert!(stderr(&again).contains(warning), "{}", stderr(&again));
    let read = || -> Value {
        let text = std::fs::read(scratch.path("found/check.json")).expect("it is there");
        serde_json::from_slice(&text).expect("it is JSON")
    };
    assert!(read()["warnings"][0].as_str().is_some_and(|text| text.contains(warning)), "{:#}", read());
    // What is read from the recorded run has them, too.
    let output = strandline()
        .current_dir(scratch.dir())
        .args(["check", "--out", "found", "--recover", recover])
        .output()
        .expect("strandline starts");
    assert!(stderr(&output).contains(warning), "{}", stderr(&output));
    // A run that stores nothing at all.
    let idle = check(&scratch, recover, &["idle"]);
    assert!(stderr(&idle).contains("stored nothing into its persistent files"), "{}", stderr(&idle));
}

#[test]
fn a_replay_repeats_the_warnings_of_its_run() {
    let Some(scratch) = program() else { return };
    // What `set` is to be is there; the value is not.
    let mut pool = vec![0; 4096];
    pool[4000] = 1;
    std::fs::write(scratch.path("pool"), pool).expect("the pool is written");
    let recover = "./app --recover POOL";
    let output = check(&scratch, recover, &[]);
    let text = std::fs::read(scratch.path("found/check.json")).expect("it is there");
    let mut answer: Value = serde_json::from_slice(&text).expect("it is JSON");
    let token = answer["findings"][0]["token"].as_str().unwrap_or_else(|| panic!("{}", stderr(&output)));
    let token = token.to_owned();
    answer["warnings"] = serde_json::json!(["a thing to be known"]);
    std::fs::write(scratch.path("found/check.json"), answer.to_string()).expect("it is written");
    let again = strandline()
        .current_dir(scratch.dir())
        .args(["check", "--out", "found", "--recover", recover, "--replay", &token])
        .output()
        .expect("strandline starts");
    assert_eq!(again.status.code(), Some(1), "{}", stderr(&again));
    assert!(stderr(&again).contains("strandline: a thing to be known"), "{}", stderr(&again));
    let wrong = token.split("-c").next().expect("a part").to_owned() + "-c77.1" + &token[token.len() - 10..];
    let output = strandline()
        .current_dir(scratch.dir())
        .args(["check", "--out", "found", "--recover", recover, "--replay", &wrong])
        .output()
        .expect("strandline starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("`c77.1` of the token is out of range"), "{}", stderr(&output));
}

#[test]
fn the_profile_tries_recovery_on_its_run() {
    let Some(scratch) = program() else { return };
    let pool = scratch.path("pool").display().to_string();
    let recover = "./app --recover POOL";
    let profile = |recover: &str| {
        std::fs::remove_file(&pool).ok();
        let mut command = strandline();
        command.current_dir(scratch.dir()).args([
            "profile",
            "--check",
            "--recover",
            recover,
            "--pmem",
            &pool,
        ]);
        command.args(["--", "./app", &pool]).output().expect("strandline starts")
    };
    let output = profile(recover);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed = stdout(&output);
    let again = "check --out strandline-report --recover";
    for part in
        ["A crash can leave what recovery does not mend", "it points to nothing", "was not durable", again]
    {
        assert!(printed.contains(part), "no `{part}` in {printed}");
    }
    let folder = scratch.path("strandline-report");
    let page = std::fs::read_to_string(folder.join("report.html")).expect("the page is there");
    assert!(page.contains("it points to nothing") && page.contains("not made"), "{page}");
    let text = std::fs::read(folder.join("report.json")).expect("report.json is there");
    let report: Value = serde_json::from_slice(&text).expect("it is JSON");
    let findings = report["crash_findings"].as_array().expect("findings");
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let again = strandline()
        .current_dir(scratch.dir())
        .args(["check", "--out", "strandline-report", "--recover", recover, "--replay"])
        .arg(findings[0]["token"].as_str().expect("a token"))
        .output()
        .expect("strandline starts");
    assert_eq!(again.status.code(), Some(1), "{}", stderr(&again));
    assert!(stdout(&again).contains("it points to nothing"), "{}", stdout(&again));
    // What is right is reported as that, and a wrong command as such.
    let right = profile("test -e POOL");
    assert!(stdout(&right).contains("Recovery mended every image"), "{}", stdout(&right));
    let wrong = profile("test ! -e POOL");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("recovery rejects the undisturbed result"), "{}", stderr(&wrong));
}

/// Neither the recovery command goes on, nor its image stays in memory.
#[test]
fn an_interrupted_check_leaves_nothing_behind() {
    let Some(scratch) = program() else { return };
    let pool = scratch.path("pool").display().to_string();
    let sleep = format!("sleep 600.{}", std::process::id());
    let recover = format!("sh -c 'echo $0 > at.new; mv at.new at; {sleep}' POOL");
    let checking = strandline()
        .current_dir(scratch.dir())
        .args(["check", "--pmem", &pool, "--timeout", "500s", "--recover", &recover, "--", "./app", &pool])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("strandline starts");
    let said = loop {
        if let Ok(said) = std::fs::read_to_string(scratch.path("at")) {
            break said;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let kill = |arguments: &[&str]| {
        std::process::Command::new("kill").args(arguments).stderr(std::process::Stdio::null()).status()
    };
    kill(&["-INT", &checking.id().to_string()]).expect("kill runs");
    let ended = checking.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(2), "to have found nothing so far is no success");
    assert!(stdout(&ended).contains("interrupted: "), "{}", stdout(&ended));
    assert!(!std::path::Path::new(said.trim()).exists(), "{said}");
    // Whoever inherited it may take a moment to bury it.
    let mut looks = 500;
    while is_running(&sleep) {
        looks -= 1;
        assert!(looks > 0, "{sleep} goes on");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Recovery that fails once, and not again on the same image, is no witness.
#[test]
fn a_recovery_that_contradicts_itself_is_reported_as_such() {
    let Some(scratch) = program() else { return };
    scratch.file("n", "0");
    let pool = scratch.path("pool").display().to_string();
    let recover = "sh -c 'n=$(cat n); echo $((n + 1)) > n; test $n -ne 2 -o -z \"$0\"' POOL";
    let output = strandline()
        .current_dir(scratch.dir())
        .args(["check", "--jobs", "1", "--pmem", &pool, "--recover", recover, "--", "./app", &pool])
        .output()
        .expect("strandline starts");
    let said = stderr(&output);
    assert!(said.contains("does not say the same of one image each time"), "{said}{}", stdout(&output));
    assert_eq!(output.status.code(), Some(2), "neither found nor nothing: {said}{}", stdout(&output));
    assert!(!stdout(&output).contains("1 finding"), "{}", stdout(&output));
}
