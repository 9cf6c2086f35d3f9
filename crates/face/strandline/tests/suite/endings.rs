//! How verbs end: one rule of exit statuses, interrupts, and the example in the help of `check`.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use event::{Sink, Source};

use crate::common::{Scratch, compile, has, has_flushes, ok, stderr, stdout, strandline};
use serde_json::Value;

/// What the observed programs do here: nothing that ends, and not at a signal either.
const ENDLESS: &str =
    "#include <signal.h>\nint main(void) { signal(SIGINT, SIG_IGN); for (volatile long i = 0;; i++) ; }\n";

#[test]
fn an_interrupt_ends_every_verb_and_says_what_was_kept() {
    let scratch = Scratch::new();
    let mut verbs = vec![
        "profile --workload btree-fill --ops 10000000",
        "simulate --workload btree-fill --ops 10000000",
        "reproduce",
        "measure --on xpoint",
    ];
    if has("gcc") {
        scratch.file("endless.c", ENDLESS);
        compile(scratch.dir(), "cc", "-O1 -o endless endless.c");
        verbs.extend([
            "record -o t.slt -- ./endless",
            "record --count -- ./endless",
            "profile -- ./endless",
            "check -- ./endless",
            "check --files f --recover true\u{a0}POOL -- ./endless",
            "simulate -- ./endless",
            "advise prestores -- ./endless",
        ]);
    }
    for verb in verbs {
        let words = verb.split(' ').map(|word| word.replace('\u{a0}', " "));
        let mut command = strandline();
        command.current_dir(scratch.dir()).args(words);
        let (ended, took) = interrupted(&mut command, "-INT", Duration::from_millis(400));
        // Half a second, and as much for a machine that has other things to do.
        assert!(took < Duration::from_secs(1), "{verb}: {took:?}");
        let said = stderr(&ended);
        assert_eq!(ended.status.code(), Some(2), "{verb}: {said}");
        assert!(said.contains("interrupted"), "{verb}: {said}");
    }
    // Nor does a recording leave what it would have removed at its end.
    let left = std::fs::read_dir(scratch.path("strandline-check"));
    let names = left.into_iter().flatten().map(|entry| entry.expect("a folder").file_name());
    let mapped: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("mapped-")).collect();
    assert!(mapped.is_empty(), "{mapped:?}");
}

/// Lets a command run for a while and sends it a signal: how it ended, and how long after.
fn interrupted(command: &mut Command, signal: &str, run: Duration) -> (Output, Duration) {
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("strandline starts");
    std::thread::sleep(run);
    let started = Instant::now();
    let kill = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success(), "{command:?}");
    let ended = child.wait_with_output().expect("it ends");
    (ended, started.elapsed())
}

/// A search for crash images ends by itself, and says what it found; the other verbs that read much end as
/// well.
#[test]
fn the_other_signals_end_a_search_a_trace_and_a_pool() {
    if !has("gcc") || !has_flushes() {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("app.c", include_str!("../programs/two_words.c"));
    compile(scratch.dir(), "cc", "-O1 -g -mclwb -o app app.c");
    let pool = scratch.path("pool").display().to_string();
    // Each recovery takes longer than the whole run; `sleep` itself is ended with it.
    let mut search = strandline();
    search.current_dir(scratch.dir()).args(["check", "--pmem", &pool, "--recover", "sh -c 'sleep 0.1' POOL"]);
    let (ended, took) =
        interrupted(search.args(["--", "./app", &pool, "200"]), "-TERM", Duration::from_secs(2));
    assert!(took < Duration::from_secs(1), "{took:?}");
    let said = stderr(&ended);
    assert!(ended.status.code() == Some(2) && said.contains("interrupted"), "{:?} {said}", ended.status);
    let answer = std::fs::read(scratch.path("strandline-check/check.json"));
    let answer: Value = serde_json::from_slice(&answer.expect("check.json is there")).expect("JSON");
    assert!(answer["images"].as_u64() > Some(0), "{answer:#}");

    // What is read ends nowhere.
    for verb in ["trace dump fifo", "trace info fifo", "pool info fifo", "pool check fifo"] {
        let fifo = scratch.path("fifo");
        std::fs::remove_file(&fifo).ok();
        ok(Command::new("mkfifo").arg(&fifo));
        let mut command = strandline();
        command.current_dir(scratch.dir()).args(verb.split(' '));
        let (ended, took) = interrupted(&mut command, "-TERM", Duration::from_millis(300));
        assert!(took < Duration::from_secs(1), "{verb}: {took:?}");
        assert_eq!(ended.status.code(), Some(2), "{verb}: {}", stderr(&ended));
    }
}

#[test]
fn a_missing_program_is_the_first_cause_and_one_beside_is_named() {
    let scratch = Scratch::new();
    let run = |arguments: &[&str]| {
        let output = strandline().current_dir(scratch.dir()).args(arguments).output().expect("it starts");
        (output.status.code(), stderr(&output))
    };
    let (status, said) = run(&["check", "--recover", "true", "--", "/nonexistent"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("can't run /nonexistent: no such program"), "{said}");
    scratch.file("strandline-here", "");
    let (status, said) = run(&["check", "--recover", "strandline-here POOL", "--", "true"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("write ./strandline-here"), "{said}");
}

#[test]
fn a_file_that_is_no_program_is_not_called_absent() {
    let scratch = Scratch::new();
    scratch.file("text", "");
    std::fs::create_dir(scratch.path("folder")).expect("made");
    let mut trace = trace::Writer::create(scratch.path("run.slt")).expect("a trace");
    trace.begin(&Source::synthetic("a test")).expect("a header");
    trace.finish().expect("the end");
    for verb in [
        "plan",
        "profile",
        "simulate",
        "faults --",
        "check --recover true",
        "wear run --",
        "record -o new --",
    ] {
        for (program, remedy) in [
            ("run.slt", "it is a trace: read it by --trace run.slt"),
            ("./run.slt", "it is a trace: read it by --trace ./run.slt"),
            ("./text", "chmod +x ./text"),
            ("text", "write ./text"),
            ("./folder", "but a folder"),
        ] {
            let mut command = strandline();
            command.current_dir(scratch.dir()).args(verb.split(' ')).arg(program);
            let output = command.output().expect("it starts");
            assert_eq!(output.status.code(), Some(2), "{verb} {program}");
            assert!(stderr(&output).contains(remedy), "{verb} {program}: {}", stderr(&output));
        }
    }
}

#[test]
fn no_verb_has_a_verdict_on_a_program_that_was_not_built_for_it() {
    if !has("gcc") {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("plain.c", "int main(void) { for (volatile long i = 0; i < 30000000; i++) ; return 0; }\n");
    let mut gcc = std::process::Command::new("gcc");
    ok(gcc.args(["-o", "plain", "plain.c"]).current_dir(scratch.dir()));
    for verb in
        ["profile -- ./plain", "record -o t.slt -- ./plain", "check -- ./plain", "simulate -- ./plain"]
    {
        let output =
            strandline().current_dir(scratch.dir()).args(verb.split(' ')).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{verb}: {}", stderr(&output));
        assert!(stderr(&output).contains("strandline cc"), "{verb}: {}", stderr(&output));
    }
}

#[test]
fn every_help_has_an_example_and_the_rule_of_exit_statuses() {
    for verb in [
        "profile",
        "record",
        "check",
        "simulate",
        "reproduce",
        "trace info",
        "trace dump",
        "trace import",
        "pool info",
        "pool check",
        "pool dump",
        "pool recover",
        "measure",
        "advise prestores",
        "cc",
        "c++",
    ] {
        let text = stdout(&ok(strandline().args(verb.split(' ')).arg("--help")));
        assert!(text.contains("Exit status: "), "{verb}: {text}");
        assert!(text.contains(&format!("strandline {verb}")) && text.contains("Example"), "{verb}: {text}");
    }
}

#[test]
fn the_example_in_the_help_of_check_compiles_and_runs() {
    if !has("gcc") {
        return;
    }
    let help = stdout(&ok(strandline().args(["check", "--help"])));
    let example = help.split("A whole program, ex.c:\n\n").nth(1).expect("it is there");
    let (program, commands) = example.split_once("\n\n").expect("a blank line behind it");
    assert_eq!(program.lines().count(), 10);
    let commands: Vec<&str> = commands.lines().take(2).map(str::trim).collect();
    let scratch = Scratch::new();
    let check = |text: &str| {
        scratch.file("ex.c", text);
        std::fs::remove_file(scratch.path("f")).ok();
        let script = commands.join(" && ").replace("strandline ", "\"$0\" ");
        let output = std::process::Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_strandline")])
            .current_dir(scratch.dir())
            .output();
        let output = output.expect("sh runs");
        (output.status.code(), stdout(&output) + &stderr(&output))
    };
    let (status, said) = check(program);
    assert_eq!(status, Some(0), "{said}");
    let (status, said) = check(&program.replace("fsync(f);", ""));
    assert_eq!(status, Some(1), "{said}");
}
