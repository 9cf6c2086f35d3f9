//! Virtualised NVM: the C library with four processes of which some are killed, and the command line.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::capi::link;
use crate::common::{Scratch, has, ok, stderr, stdout, strandline};
use serde_json::Value;

const ACCOUNTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/c/vnvm/accounts.c");

struct Bank {
    scratch: Scratch,
    program: PathBuf,
    memory: tempfile::TempDir,
}

impl Bank {
    fn new() -> Bank {
        let scratch = Scratch::new();
        let program = scratch.path("accounts");
        let mut command = Command::new("gcc");
        command.args("-std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror".split(' '));
        ok(command.arg("-o").arg(&program).arg(ACCOUNTS).args(link()));
        Bank { scratch, program, memory: tempfile::tempdir_in("/dev/shm").expect("tmpfs") }
    }
    fn nvm(&self) -> PathBuf {
        self.memory.path().join("nvm")
    }
    fn command(&self, verb: &str, number: u32) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(verb).arg(self.scratch.dir()).arg(number.to_string()).env("STRANDLINE_VNVM", self.nvm());
        command
    }
    fn run(&self, number: u32, transfers: u64) -> Child {
        let mut command = self.command("run", number);
        command.arg(transfers.to_string()).stdout(Stdio::null()).spawn().expect("a process")
    }
    fn vnvm(&self, verb: &str) -> Command {
        let mut command = strandline();
        command.args(["vnvm", verb]).arg(self.nvm());
        command
    }
    /// Transfers of a process, which are all there or its sum is wrong.
    fn check(&self, number: u32) -> u64 {
        let text = stdout(&ok(&mut self.command("check", number)));
        text.split_whitespace().next().and_then(|count| count.parse().ok()).expect("a number")
    }
}

#[test]
fn four_processes_of_which_two_are_killed() {
    if !has("gcc") {
        return;
    }
    let bank = Bank::new();
    for round in 1..4 {
        let mut killed: Vec<Child> = (0..2).map(|number| bank.run(number, 1 << 40)).collect();
        let mut others: Vec<Child> = (2..4).map(|number| bank.run(number, 4_000)).collect();
        thread::sleep(Duration::from_millis(60 * round));
        for child in &mut killed {
            child.kill().expect("it runs");
            child.wait().expect("it was killed");
        }
        for child in &mut others {
            assert!(child.wait().expect("it ends").success(), "who was not killed goes on to the end");
        }
        let transfers: Vec<u64> = (0..4).map(|number| bank.check(number)).collect();
        assert!(transfers[0] > 0 && transfers[1] > 0, "{transfers:?}");
        assert_eq!(transfers[2..], [4_000 * round; 2]);
    }
}

#[test]
fn an_nvm_is_looked_at_checked_and_recovered() {
    if !has("gcc") {
        return;
    }
    let bank = Bank::new();
    let mut child = bank.run(5, 1 << 40);
    thread::sleep(Duration::from_millis(150));
    let alive = stdout(&ok(&mut bank.vnvm("info")));
    assert!(alive.contains("1 living") && alive.contains("accounts-5 private"), "{alive}");
    let busy = bank.vnvm("recover").output().expect("it runs");
    assert_eq!(busy.status.code(), Some(2));
    assert!(stderr(&busy).contains("processes that live use this NVM"), "{}", stderr(&busy));
    child.kill().expect("it runs");
    child.wait().expect("it was killed");

    let whole: Value = serde_json::from_slice(&ok(bank.vnvm("check").arg("--json")).stdout).expect("JSON");
    assert_eq!((&whole["whole"], &whole["living"]), (&Value::Bool(true), &Value::from(0)));
    assert!(whole["files"].as_array().is_some_and(|files| files.len() == 2), "{whole}");
    damaged(&bank);
    let done: Value = serde_json::from_slice(&ok(bank.vnvm("recover").arg("--json")).stdout).expect("JSON");
    assert_eq!(done["recovered"], Value::Bool(true), "{done}");
    let again = stdout(&ok(&mut bank.vnvm("recover")));
    assert!(again.contains("nothing to recover"), "{again}");
    assert!(stdout(&ok(&mut bank.vnvm("info"))).contains("empty"));
    assert!(bank.check(5) > 0);
}

/// A damaged file record is found, by name, and nothing is recovered over it.
fn damaged(bank: &Bank) {
    let file = bank.nvm().join("nvm");
    let bytes = std::fs::read(&file).expect("the NVM");
    // The first file record begins behind the header and 64 slots.
    flip(&file, 128 + 64 * 64 + 16);
    let found = bank.vnvm("check").output().expect("it runs");
    assert_eq!(found.status.code(), Some(1));
    assert!(stdout(&found).contains("a file record is damaged"), "{}", stdout(&found));
    let refused = bank.vnvm("recover").output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("nothing was erased"), "{}", stderr(&refused));
    flip(&file, 128 + 64 * 64 + 16);
    assert!(std::fs::read(&file).expect("the NVM") == bytes, "nothing was written");
}

fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).expect("the NVM");
    bytes[at] ^= 0x10;
    std::fs::write(file, bytes).expect("the NVM");
}

#[test]
fn a_child_of_fork_joins_by_itself() {
    if !has("gcc") {
        return;
    }
    let bank = Bank::new();
    let source = bank.scratch.file("fork.c", FORK);
    let program = bank.scratch.path("fork");
    ok(Command::new("gcc").args(["-O2", "-o"]).arg(&program).arg(source).args(link()));
    let mut command = Command::new(&program);
    ok(command.env("STRANDLINE_VNVM", bank.nvm()).current_dir(bank.scratch.dir()));
}

const FORK: &str = r#"
#include <err.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "strandline_vnvm.h"

int main(void)
{
    struct nv_options wrong = { .cache_page = 5000 }, flags = { .flags = 1 << 20 };
    if (nv_txbegin() || nv_commit(1) != SL_E_STATE || nv_init_with(&wrong) != SL_E_ARGUMENT || nv_init_with(&flags) != SL_E_ARGUMENT)
        errx(1, "before init");
    if (nv_init() || !nv_init())
        errx(1, "init: %s", sl_error());
    char *own = nv_allocate("own", 8192, NV_PRIVATE), *all = nv_allocate("all", 8192, NV_SHARED);
    if (!own || !all || nv_allocate("own", 8192, NV_PRIVATE) || nv_allocate("own", 8192, 9))
        errx(1, "allocate: %s", sl_error());
    if (nv_write(1, own, "a", 1) != SL_E_STATE || nv_write(nv_txbegin(), own + 8190, "abc", 3) != SL_E_REFERENCE)
        errx(1, "write: %s", sl_error());
    if (fork() == 0) {
        if (nv_txbegin() || !strstr(sl_error(), "child"))
            errx(1, "the parent's NVM: %s", sl_error());
        if (nv_init() || nv_allocate("own", 8192, NV_PRIVATE) || !(all = nv_allocate("all", 8192, NV_SHARED)))
            errx(1, "in the child: %s", sl_error());
        uint64_t tid = nv_txbegin();
        if (nv_write(tid, all, "child", 5) != 5 || nv_commit(tid) || nv_release())
            errx(1, "in the child: %s", sl_error());
        _exit(0);
    }
    int status;
    wait(&status);
    if (status)
        return 1;
    if (memcmp(all, "child", 5))
        errx(1, "the child's commit is not seen");
    char *atomic = nv_allocate("atomic", 8192, NV_ATOMIC);
    atomic[5000] = 1;
    if (nv_sync(atomic) != 1 || nv_sync(atomic) != 0 || nv_sync(own) >= 0)
        errx(1, "sync: %s", sl_error());
    if (nv_free(atomic, 100) != SL_E_ARGUMENT || nv_free(atomic, 8192) || nv_failure())
        errx(1, "free: %s", sl_error());
    return nv_release() || nv_release() != SL_E_STATE;
}
"#;

#[test]
fn commits_and_records_are_compared() {
    let scratch = Scratch::new();
    let mut command = strandline();
    command.args("bench vnvm --scale 4096 --rounds 1 --json --disk".split(' ')).arg(scratch.dir());
    let json: Value = serde_json::from_str(&stdout(&ok(&mut command))).expect("JSON");
    let commits = json["results"]["commits"].as_array().expect("commits");
    assert!(commits.iter().any(|row| row["contender"] == "bare redo"), "{json:#}");
    assert!(commits.iter().all(|row| row["ns"].as_f64().is_some_and(|ns| ns > 0.0)), "{json:#}");
    let records = json["results"]["records"].as_array().expect("records");
    assert!(records.iter().any(|row| row["study"] == "log"), "{json:#}");
    let skipped = json["results"]["skipped"].as_array().expect("a list");
    let [process, spaces] =
        ["process", "spaces"].map(|study| records.iter().find(|row| row["study"] == study));
    assert!(process.is_some_and(|row| row["per_second"].as_f64().is_some_and(|rate| rate > 0.0)), "{json:#}");
    assert!(spaces.is_some() || skipped.iter().any(|row| row["name"] == "spaces"), "{json:#}");
    let left = std::fs::read_dir(scratch.dir()).expect("a folder").count();
    assert_eq!(left, 0, "its files are gone");
}
