//! `check --files` without a recovery command: each order that a crash can break is named with its call, its call stack
//! and a remedy; its twin, in which a sync stands where it has to, gives nothing.

use std::process::Output;

use crate::common::{Scratch, has, ok, stderr, stdout, strandline};

/// One program, each of whose mistakes a word asks for.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static const char *how;
static int is(const char *word) { return strcmp(how, word) == 0; }
static void folder(void) { int d = open("d", O_RDONLY); fsync(d); close(d); }
__attribute__((noinline)) static void put(int fd, const char *text) { if (write(fd, text, strlen(text)) < 0) exit(3); }
__attribute__((noinline)) static void install(void) { if (rename("d/m.tmp", "d/m")) exit(3); }
__attribute__((noinline)) static void replace(void) {
    int fd = open("d/m.tmp", O_CREAT | O_WRONLY | O_TRUNC, 0600);
    put(fd, "new version");
    if (!is("contents")) fsync(fd);
    close(fd);
    install();
    if (!is("folder")) folder();
}
__attribute__((noinline)) static void record(void) {
    char payload[100] = "payload";
    uint32_t len = sizeof payload;
    int fd = open("d/log", O_RDWR | O_CREAT, 0600);
    fsync(fd); folder();
    if (is("length")) { pwrite(fd, &len, 4, 0); pwrite(fd, payload, sizeof payload, 4); fsync(fd); }
    else { pwrite(fd, payload, sizeof payload, 4); fsync(fd); pwrite(fd, &len, 4, 0); fsync(fd); }
    close(fd);
}
__attribute__((noinline)) static void in_place(void) {
    int fd = open("d/old", O_WRONLY | O_TRUNC);
    put(fd, "rewritten");
    fsync(fd);
    close(fd);
}
__attribute__((noinline)) static void direct(int unaligned) {
    char *buffer;
    int fd = open("d/direct", O_CREAT | O_WRONLY | O_DIRECT, 0600);
    if (fd < 0 || posix_memalign((void **)&buffer, 4096, 8192)) { puts("no O_DIRECT here"); exit(0); }
    memset(buffer, 'x', 8192);
    if (write(fd, buffer + unaligned, unaligned ? 100 : 4096) < 0 && !unaligned) { puts("no O_DIRECT here"); exit(0); }
    if (!is("direct")) fsync(fd);
    folder();
}
__attribute__((noinline)) static void twice(void) {
    int fd = open("d/t", O_CREAT | O_WRONLY, 0600);
    folder();
    put(fd, "first");
    if (fsync(fd) && !is("swallowed")) { fputs("no sync\n", stderr); exit(1); }
    put(fd, "second");
    fsync(fd);
    puts("saved");
}
int main(int count, char **words) {
    how = count > 1 ? words[1] : "";
    if (is("length") || is("no-length")) record();
    else if (is("in-place")) in_place();
    else if (is("direct") || is("synced-direct")) direct(0);
    else if (is("unaligned")) direct(1);
    else if (is("swallowed") || is("stops")) twice();
    else replace();
    return 0;
}
"#;

fn program() -> Option<Scratch> {
    if !has("gcc") {
        return None;
    }
    let scratch = Scratch::new();
    scratch.file("app.c", PROGRAM);
    let mut gcc = std::process::Command::new("gcc");
    ok(gcc.current_dir(scratch.dir()).args(["-g", "-O1", "-w", "-o", "app", "app.c"]));
    Some(scratch)
}

fn check(scratch: &Scratch, options: &[&str], word: &str) -> Output {
    let folder = scratch.path("d");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir(&folder).expect("the folder is made");
    std::fs::write(folder.join("old"), "the old version").expect("a file");
    let mut command = strandline();
    command
        .current_dir(scratch.dir())
        .args(["check", "--files", "d"])
        .args(options)
        .args(["--", "./app", word]);
    command.output().expect("it runs")
}

#[test]
fn each_mistake_is_named_and_its_twin_is_not() {
    let Some(scratch) = program() else { return };
    let cases: [(&[&str], &str, &[&str]); 10] = [
        (
            &[],
            "contents",
            &["rename-before-contents", "called from install (app.c:13)", "called from replace"],
        ),
        (&[], "folder", &["folder-not-synced", "called from install (app.c:13)"]),
        (&[], "right", &[]),
        (&[], "length", &["length-before-contents", "called from record", "100 B"]),
        (&[], "no-length", &[]),
        (&[], "in-place", &["overwritten-in-place", "called from in_place"]),
        (&["--fail-sync", "2"], "swallowed", &["failed-sync-ignored", "EIO", "called from twice"]),
        (&["--fail-sync", "2"], "stops", &[]),
        (&[], "direct", &["direct-not-synced", "called from direct"]),
        (&[], "synced-direct", &[]),
    ];
    for (options, word, wanted) in cases {
        let output = check(&scratch, options, word);
        let said = stdout(&output);
        if said.contains("no O_DIRECT here") {
            println!("skipped: {word}: no O_DIRECT here");
            continue;
        }
        let status = i32::from(!wanted.is_empty());
        assert_eq!(output.status.code(), Some(status), "{word}: {said}{}", stderr(&output));
        for wanted in wanted {
            assert!(said.contains(wanted), "{word}: no `{wanted}` in {said}");
        }
        assert!(status == 0 || said.contains("what to do: "), "{word}: {said}");
        assert_eq!(said.matches("\n- ").count(), usize::from(!wanted.is_empty()), "{word}: {said}");
    }
}

#[test]
fn an_unaligned_write_is_said_with_what_is_not_aligned() {
    let Some(scratch) = program() else { return };
    let output = check(&scratch, &[], "unaligned");
    let said = stdout(&output);
    if said.contains("no O_DIRECT here") {
        println!("skipped: no O_DIRECT here");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("direct-unaligned") && said.contains("its length, 100 B"), "{said}");
}

#[test]
fn json_has_the_fields_of_other_lints() {
    let Some(scratch) = program() else { return };
    let output = check(&scratch, &["--json", "--platform", "posix"], "contents");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["platform"], "posix");
    let lint = &json["lints"][0];
    assert_eq!(lint["lint"], "rename-before-contents");
    assert_eq!(lint["danger"], true);
    assert_eq!(lint["code"]["function"], "rename");
    assert_eq!(lint["code"]["callers"][0]["function"], "install");
    assert_eq!(lint["code"]["callers"][0]["line"], 13);
    assert_eq!(lint["flush"]["callers"][0]["function"], "put");
    assert!(lint["place"]["file"].as_str().is_some_and(|file| file.ends_with("/m.tmp")), "{lint}");
    // The trace says the same again.
    let mut again = strandline();
    again.current_dir(scratch.dir()).args(["check", "--files", "d", "--trace", "strandline-check/check.slt"]);
    let again = again.output().expect("it runs");
    assert_eq!(again.status.code(), Some(1), "{}", stderr(&again));
    assert!(stdout(&again).contains("rename-before-contents"), "{}", stdout(&again));
}

#[test]
fn a_run_that_syncs_nothing_is_said_once() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("d")).expect("the folder is made");
    let mut command = strandline();
    command.current_dir(scratch.dir()).args([
        "check",
        "--files",
        "d",
        "--",
        "sh",
        "-c",
        "echo a > d/a; echo b > d/b",
    ]);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(stdout(&output).matches("never-synced").count(), 1, "{}", stdout(&output));
}

/// SQLite with `synchronous=FULL` syncs what it has to, in rollback and in WAL mode.
#[test]
fn nothing_is_said_of_sqlite() {
    if !has("python3") {
        return;
    }
    let scratch = Scratch::new();
    scratch.file(
        "fill.py",
        "import sqlite3,sys\ndb=sqlite3.connect('d/x.db')\ndb.execute('pragma journal_mode='+sys.argv[1])\n\
         db.execute('pragma synchronous=full')\ndb.execute('create table t(k)')\n\
         for n in range(20):\n  with db: db.execute('insert into t values(?)',('x'*500,))\nprint('saved',flush=True)\n",
    );
    for mode in ["delete", "wal"] {
        std::fs::remove_dir_all(scratch.path("d")).ok();
        std::fs::create_dir(scratch.path("d")).expect("the folder is made");
        let mut command = strandline();
        command.current_dir(scratch.dir()).args(["check", "--files", "d", "--", "python3", "fill.py", mode]);
        let output = command.output().expect("it runs");
        if stderr(&output).contains("No module named") {
            println!("skipped: no python3 with sqlite3");
            return;
        }
        assert_eq!(output.status.code(), Some(0), "{mode}: {}{}", stdout(&output), stderr(&output));
    }
}
