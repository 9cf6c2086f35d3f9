//! Threads, crashes, kills, forks and full disks: what was written stays, and every end has a clear message.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use crate::common::{Scratch, compile, dump, info, number, ok, record, stderr, stdout, strandline};

const THREADS: &str = r"
#include <pthread.h>
#include <stdlib.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;
static void *work(void *arg) {
    volatile long *own = malloc(1000 * sizeof *own);
    for (int i = 0; i < 1000; i++) {
        own[i] = i;
        pthread_mutex_lock(&lock);
        total++;
        pthread_mutex_unlock(&lock);
    }
    free((void *)own);
    return arg;
}
int main(void) {
    pthread_t t[16];
    for (int i = 0; i < 16; i++) pthread_create(&t[i], NULL, work, NULL);
    for (int i = 0; i < 16; i++) pthread_join(t[i], NULL);
    return total == 16000 ? 0 : 1;
}
";

#[test]
fn many_threads_are_recorded_in_the_order_of_their_locks() {
    let scratch = Scratch::new();
    scratch.file("t.c", THREADS);
    compile(scratch.dir(), "cc", "-O2 -pthread -o t t.c");
    let info = record(&scratch, &[], &["./t"]);
    assert_eq!(number(&info, "threads"), 17, "{info:#}");
    assert!(number(&info, "stores") >= 16 * 2000, "{info:#}");
    let mut held: Option<String> = None;
    let mut locked = 0;
    for line in dump(&scratch.path("t.slt")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[1] {
            "lock" => {
                assert_eq!(held, None, "{line}");
                held = Some(words[0].to_owned());
                locked += 1;
            }
            "unlock" => assert_eq!(held.take().as_deref(), Some(words[0]), "{line}"),
            _ => {}
        }
    }
    assert_eq!(locked, 16_000);
}

#[test]
fn threads_that_are_many_at_a_time_all_get_buffers() {
    let scratch = Scratch::new();
    scratch.file(
        "t.c",
        r#"
#include <pthread.h>
#include <sched.h>
#define THREADS 100
static long there;
static volatile long kept[THREADS][1000];
/* Nobody sees this wait, in which a thread neither fills its buffer nor gives it back, as one that sleeps would. */
__attribute__((no_sanitize("thread"), noinline)) static void meet(void) {
    while (*(volatile long *)&there < THREADS) sched_yield();
}
static void *work(void *arg) {
    volatile long *own = kept[(long)arg];
    for (int i = 0; i < 1000; i++) own[i] = i;
    __atomic_fetch_add(&there, 1, __ATOMIC_RELAXED);
    meet();
    return arg;
}
int main(void) {
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    return 0;
}
"#,
    );
    compile(scratch.dir(), "cc", "-O2 -pthread -o t t.c");
    let info = record(&scratch, &[], &["./t"]);
    assert_eq!(number(&info, "threads"), 101, "{info:#}");
    let stores = number(&info, "stores");
    assert!((100_000..102_000).contains(&stores), "{info:#}");
}

#[test]
fn a_program_that_crashes_loses_nothing() {
    let scratch = Scratch::new();
    scratch.file(
        "c.c",
        r"
#include <stdlib.h>
#include <unistd.h>
#include <signal.h>
volatile long a[5000];
int main(int argc, char **argv) {
    for (int i = 0; i < 5000; i++) a[i] = i;
    switch (atoi(argv[1])) {
    case 0: abort();
    case 1: *(volatile int *)0 = 1;
    case 2: _exit(3);
    case 3: kill(getpid(), SIGKILL);
    }
    return 0;
}
",
    );
    compile(scratch.dir(), "cc", "-O2 -o c c.c");
    for end in ["0", "1", "2", "3"] {
        let info = record(&scratch, &[], &["./c", end]);
        let stores = number(&info, "stores");
        assert!((5000..=5001).contains(&stores), "end {end}: {info:#}");
        assert_eq!(info["truncated"], serde_json::Value::Null, "end {end}: {info:#}");
    }
    let trace = scratch.path("t.slt");
    let output = ok(strandline()
        .current_dir(scratch.dir())
        .arg("record")
        .arg("-o")
        .arg(&trace)
        .args(["--", "./c", "3"]));
    assert!(stderr(&output).contains("SIGKILL"), "{}", stderr(&output));
}

#[test]
fn processes_that_outlive_the_program_are_waited_for_and_that_is_reported() {
    let scratch = Scratch::new();
    let source = "#include <unistd.h>\nint main(void) { if (fork() == 0) sleep(5); return 0; }";
    scratch.file("left.c", source);
    compile(scratch.dir(), "cc", "-o left left.c");
    let mut command = strandline();
    command.args(["record", "-o"]).arg(scratch.path("t.slt")).arg("--").arg(scratch.path("left"));
    let output = ok(&mut command);
    assert!(stderr(&output).contains("processes that it left behind (1)"), "{}", stderr(&output));
}

#[test]
fn forked_and_executed_programs_are_recorded() {
    let scratch = Scratch::new();
    scratch.file(
        "f.c",
        r#"
#include <sys/wait.h>
#include <unistd.h>
volatile long a[1000];
int main(int argc, char **argv) {
    for (int i = 0; i < 1000; i++) a[i] = i;
    if (argc > 1) return 0;
    if (fork() == 0) {
        for (int i = 0; i < 1000; i++) a[i] = i;
        execl(argv[0], argv[0], "again", (char *)0);
        _exit(1);
    }
    int status;
    wait(&status);
    return status;
}
"#,
    );
    compile(scratch.dir(), "cc", "-O2 -o f f.c");
    let info = record(&scratch, &[], &["./f"]);
    let stores = number(&info, "stores");
    assert!((3000..3010).contains(&stores), "{info:#}");
}

#[test]
fn a_trace_that_is_asked_to_be_small_tells_the_same() {
    let scratch = Scratch::new();
    let source = "volatile long a[1000];\nint main(void) {\n    for (int turn = 0; turn < 500; turn++)\n        \
                  for (int i = 0; i < 1000; i++) a[i * 7 % 1000] = a[i];\n}\n";
    scratch.file("l.c", source);
    compile(scratch.dir(), "cc", "-O2 -o l l.c");
    let [light, small] = [&[][..], &["--small"]].map(|options| {
        let info = record(&scratch, options, &["./l"]);
        let bytes = std::fs::metadata(scratch.path("t.slt")).expect("a trace").len();
        (["events", "loads", "stores"].map(|what| number(&info, what)), bytes)
    });
    assert_eq!(light.0, small.0);
    assert!(light.0[2] >= 500_000 && small.1 < light.1, "{light:?} {small:?}");
}

#[test]
fn what_shows_up_only_after_the_program_has_ended_is_recorded() {
    const LATE: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile long a[1000];
static char stack[1 << 16];
static char *own;
static int again(void *unused) {
    usleep(3000);
    execl(own, own, "w", (char *)0);
    return 1;
}
int main(int argc, char **argv) {
    own = argv[0];
    switch (argc > 1 ? *argv[1] : ' ') {
    case 'c': return clone(again, stack + sizeof stack, SIGCHLD, 0) < 0;
    case 's': return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0 ? again(0) : 0;
    case 'f':
        if (_Fork() != 0) return 0;
        usleep(3000);
        // fall through
    case 'w':
        for (int i = 0; i < 1000; i++) a[i] = i;
    }
    return 0;
}
"#;
    let scratch = Scratch::new();
    scratch.file("late.c", LATE);
    compile(scratch.dir(), "cc", "-O1 -o late late.c");
    let runs: [&[&str]; 4] = [
        &["./late", "c"],
        &["./late", "s"],
        &["./late", "f"],
        &["sh", "-c", "(sleep 0.003; ./late w) & exec ./late"],
    ];
    for run in runs {
        // It is waited for some milliseconds, which on a busy machine may be too few.
        let found = (0..10).any(|_| number(&record(&scratch, &[], run), "stores") >= 1000);
        assert!(found, "{run:?}");
    }
}

#[test]
fn a_child_by_clone_and_its_parent_tell_each_their_own() {
    const BESIDE: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long a[1000];
static char stack[1 << 16];
static char *own;
static int again(void *stays) {
    for (int i = 0; i < 1000; i++) a[i] = i;
    if (stays) return 0;
    execl(own, own, "child", (char *)0);
    return 1;
}
int main(int argc, char **argv) {
    own = argv[0];
    int turns = 1, status = 0;
    if (argc == 1 || *argv[1] != 'c') {
        if (clone(again, stack + sizeof stack, SIGCHLD, argc > 1 ? own : 0) < 0) return 1;
        turns = 300;
    }
    for (int turn = 0; turn < turns; turn++)
        for (int i = 0; i < 1000; i++) a[i] = i;
    if (turns > 1) wait(&status);
    return status;
}
"#;
    let scratch = Scratch::new();
    scratch.file("beside.c", BESIDE);
    compile(scratch.dir(), "cc", "-O1 -o beside beside.c");
    for (arguments, expected) in [(&["./beside"][..], 302_000), (&["./beside", "stays"], 301_000)] {
        let stores = number(&record(&scratch, &[], arguments), "stores");
        assert!((expected..expected + 10).contains(&stores), "{arguments:?}: {stores}");
        let count = ok(strandline()
            .current_dir(scratch.dir())
            .args(["record", "--count", "--json", "--"])
            .args(arguments));
        let counted: serde_json::Value = serde_json::from_slice(&count.stdout).expect("JSON");
        assert_eq!(number(&counted, "stores"), stores, "{arguments:?}");
    }
}

#[test]
fn a_killed_recorder_leaves_a_trace_that_opens() {
    let scratch = Scratch::new();
    scratch.file(
        "loop.c",
        // Ends when its parent is gone.
        "#include <unistd.h>\nvolatile long a[1000];\nint main(void) {\n    int parent = getppid();\n    \
         while (getppid() == parent)\n        for (int i = 0; i < 1000; i++) a[i] = i;\n}\n",
    );
    compile(scratch.dir(), "cc", "-O2 -o loop loop.c");
    let trace = scratch.path("t.slt");
    let mut recorder = strandline()
        .current_dir(scratch.dir())
        .arg("record")
        .arg("-o")
        .arg(&trace)
        .args(["--", "./loop"])
        .stderr(Stdio::null())
        .spawn()
        .expect("strandline starts");
    // Wait for some blocks, not for a time.
    while std::fs::metadata(&trace).map_or(0, |m| m.len()) < 4 << 20 {
        std::thread::sleep(Duration::from_millis(20));
    }
    recorder.kill().expect("it is killed");
    let status = recorder.wait().expect("it ended");
    assert_eq!(status.signal(), Some(9));
    let info = info(&trace);
    assert!(info["truncated"].is_object(), "{info:#}");
    assert!(number(&info, "stores") > 100_000, "{info:#}");
}

#[test]
fn a_full_disk_is_reported() {
    let scratch = Scratch::new();
    scratch.file("t.c", THREADS);
    compile(scratch.dir(), "cc", "-O2 -pthread -o t t.c");
    let output = strandline()
        .current_dir(scratch.dir())
        .args(["record", "-o", "/dev/full", "--", "./t"])
        .output()
        .expect("strandline starts");
    assert!(!output.status.success());
    let message = stderr(&output);
    assert!(message.contains("/dev/full") && message.contains("No space left"), "{message}");
    assert!(message.trim_end().ends_with("the program was stopped, if it had not ended"), "{message}");
}

#[test]
fn damaged_traces_are_reported_with_the_offset() {
    let scratch = Scratch::new();
    scratch.file("t.c", THREADS);
    compile(scratch.dir(), "cc", "-O2 -pthread -o t t.c");
    record(&scratch, &[], &["./t"]);
    let whole = std::fs::read(scratch.path("t.slt")).expect("trace is read");

    let cut = scratch.path("cut.slt");
    std::fs::write(&cut, &whole[..whole.len() * 2 / 3]).expect("cut trace is written");
    let answer = info(&cut);
    assert!(answer["truncated"].is_object(), "{answer:#}");
    // A reader of the events is warned, and on standard error; not who asks for no more than are there.
    let reported = |arguments: &[&str]| {
        let output = strandline().args(arguments).arg(&cut).output().expect("strandline starts");
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stderr(&output).contains("cut short at offset")
    };
    assert!(
        reported(&["trace", "dump"])
            && reported(&["trace", "dump", "--json"])
            && reported(&["advise", "prestores"])
    );
    assert!(!reported(&["trace", "dump", "--limit", "1"]));

    let mut flipped = whole.clone();
    let middle = whole.len() / 2;
    flipped[middle] ^= 0x55;
    let bad = scratch.path("bad.slt");
    std::fs::write(&bad, flipped).expect("damaged trace is written");
    let output = strandline().args(["trace", "dump"]).arg(&bad).output().expect("strandline starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("at byte"), "{}", stderr(&output));

    let foreign = scratch.file("foreign.slt", "#!/bin/sh\necho this is no trace\n");
    let output = strandline().args(["trace", "info"]).arg(&foreign).output().expect("strandline starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("foreign.slt"), "{}", stderr(&output));
}

#[test]
fn a_run_that_yields_no_event_costs_no_older_trace() {
    let scratch = Scratch::new();
    // Only a trace may be replaced, so the older file begins as traces do.
    let older = [b"\x89SLT\r\n\x1a\n".as_slice(), b"an older trace"].concat();
    let trace = scratch.path("t.slt");
    std::fs::write(&trace, &older).expect("the folder can be written to");
    let log = scratch.file("l.txt", "nothing that lackey would say\n");
    let mut missing = strandline();
    missing.args(["record", "-o"]).arg(&trace).args(["--", "./no-such-program"]);
    let mut plain = strandline();
    plain.args(["record", "-o"]).arg(&trace).args(["--", "/bin/true"]);
    let mut import = strandline();
    import.args(["trace", "import", "-o"]).arg(&trace).arg(&log);
    for (mut command, part) in
        [(missing, "no-such-program"), (plain, "strandline cc"), (import, "not a trace that is known")]
    {
        let output = command.output().expect("starts");
        assert_eq!(output.status.code(), Some(2), "{part}");
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
        assert_eq!(std::fs::read(&trace).expect("it is still there"), older);
    }
}

#[test]
fn traces_of_other_tools_are_profiled_and_say_what_they_cannot_see() {
    let scratch = Scratch::new();
    let mut text = String::new();
    for at in 0..30_000u64 {
        text +=
            &format!("0x401000: R {:#x}\n0x401008: W {:#x}\n", 0x10_0000 + at * 4096, 0x9000 + at % 8 * 8);
    }
    let out = scratch.file("pinatrace.out", &(text + "#eof\n"));
    let output =
        ok(strandline().args(["trace", "import", "--json", "-o"]).arg(scratch.path("t.slt")).arg(&out));
    let answer: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!((answer["format"].as_str(), answer["events"].as_u64()), (Some("pinatrace"), Some(60_000)));
    assert!(stderr(&output).contains("no threads"), "{}", stderr(&output));
    let profiled = ["profile", "--machine", "dram", "--json", "--trace", "t.slt"];
    let output = ok(strandline().current_dir(scratch.dir()).args(profiled));
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(report["counts"]["loads"], 30_000);
    let wrong = strandline()
        .args(["trace", "import", "--format", "dinero", "-o"])
        .arg(scratch.path("u.slt"))
        .arg(&out)
        .output();
    let wrong = wrong.expect("starts");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("pinatrace.out:1:"), "{}", stderr(&wrong));
}

#[test]
fn a_shorter_trace_replaces_a_longer_one() {
    let scratch = Scratch::new();
    scratch.file("a.c", "volatile int a; int main(void) { a = 1; return 0; }");
    compile(scratch.dir(), "cc", "-O2 -o a a.c");
    let older = [b"\x89SLT\r\n\x1a\n".to_vec(), b"an older trace".repeat(10_000)].concat();
    std::fs::write(scratch.path("t.slt"), older).expect("the folder can be written to");
    assert_eq!(record(&scratch, &[], &["./a"])["truncated"], serde_json::Value::Null);
}

#[test]
fn a_trace_goes_through_a_fifo() {
    let scratch = Scratch::new();
    scratch.file("a.c", "volatile int a[999]; int main(void) { for (int i = 0; i < 999; i++) a[i] = i; }");
    compile(scratch.dir(), "cc", "-O2 -o a a.c");
    let (fifo, copy) = (scratch.path("fifo"), scratch.path("copy.slt"));
    ok(std::process::Command::new("mkfifo").arg(&fifo));
    let mut reader = std::process::Command::new("cp").arg(&fifo).arg(&copy).spawn().expect("cp starts");
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["record", "--json", "-o", "fifo", "--", "./a"]);
    let reported: serde_json::Value = serde_json::from_slice(&ok(&mut command).stdout).expect("JSON");
    assert!(reader.wait().expect("cp ends").success());
    let copied = std::fs::metadata(&copy).expect("the copy is there").len();
    assert_eq!(number(&reported, "bytes"), copied);
    assert!(number(&info(&copy), "stores") >= 999);
}

#[test]
fn a_trace_is_not_mixed_with_what_the_program_prints() {
    let scratch = Scratch::new();
    scratch.file("a.c", "#include <stdio.h>\nint main(void) { puts(\"the program's words\"); }");
    compile(scratch.dir(), "cc", "-O2 -o a a.c");
    // Into a pipe, and into a file that is named.
    let file = std::fs::File::create(scratch.path("both")).expect("a file");
    for (name, stdout) in [("/dev/stdout", Stdio::piped()), ("both", Stdio::from(file))] {
        let mut command = strandline();
        command.current_dir(scratch.dir()).args(["record", "-o", name, "--", "./a"]).stdout(stdout);
        let output = command.output().expect("strandline starts");
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(output.stdout.is_empty(), "{name}: the program did not run");
        let message = stderr(&output);
        assert!(message.contains(name) && message.contains("FIFO"), "{message}");
    }
    let devnull = std::fs::OpenOptions::new().write(true).open("/dev/null").expect("/dev/null is there");
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["record", "-o", "/dev/null", "--", "./a"]).stdout(devnull);
    ok(&mut command);
}

#[test]
fn a_plain_program_is_reported_how_to_be_built() {
    let scratch = Scratch::new();
    let trace = scratch.path("t.slt");
    let output =
        strandline().arg("record").arg("-o").arg(&trace).args(["--", "/bin/true"]).output().expect("starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("strandline cc"), "{}", stderr(&output));
}

#[test]
fn an_answer_that_nobody_reads_is_no_panic() {
    let scratch = Scratch::new();
    scratch.file("a.c", "volatile int a; int main(void) { a = 1; return 0; }");
    compile(scratch.dir(), "cc", "-O2 -o a a.c");
    for options in [vec!["--count"], vec!["--count", "--json"], vec!["-o", "t.slt", "--json"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full is there");
        let mut command = strandline();
        command.current_dir(scratch.dir()).arg("record").args(&options).args(["--", "./a"]).stdout(full);
        let output = command.output().expect("strandline starts");
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("standard output"), "{options:?}: {}", stderr(&output));
    }
}

#[test]
fn a_recording_of_nothing_removes_no_device() {
    let scratch = Scratch::new();
    // Not /dev/null itself: a failing test must not cost the machine its devices.
    let link = scratch.path("null");
    std::os::unix::fs::symlink("/dev/null", &link).expect("a link");
    let output = strandline()
        .arg("record")
        .arg("-o")
        .arg(&link)
        .args(["--", "/bin/true"])
        .output()
        .expect("strandline starts");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(link.exists());
}
