//! The first command of the README, and what it leaves behind.

use crate::common::{Scratch, compile, ok, stdout, strandline};

#[test]
fn without_arguments_it_reports_on_the_built_in_workload() {
    let scratch = Scratch::new();
    let output = ok(strandline().current_dir(scratch.dir()).args(["profile", "--ops", "20000"]));
    let text = stdout(&output);
    for part in ["btree-fill", "EWR", "xpoint"] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    let page =
        std::fs::read_to_string(scratch.path("strandline-report/report.html")).expect("report.html is there");
    assert!(page.contains("<svg") && page.contains("btree.rs"), "the page has no plot or no source");
    let json =
        std::fs::read_to_string(scratch.path("strandline-report/report.json")).expect("report.json is there");
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert!(json["findings"].is_array(), "{json:#}");
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let scratch = Scratch::new();
    let run = || {
        let output = ok(strandline()
            .current_dir(scratch.dir())
            .args(["profile", "--ops", "5000", "--seed", "7", "--json"]));
        let mut json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        json.as_object_mut().expect("an object").remove("run");
        json
    };
    assert_eq!(run(), run());
}

#[test]
fn a_program_with_small_random_flushed_stores_is_advised() {
    let scratch = Scratch::new();
    scratch.file(
        "scatter.c",
        r#"
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
enum { LINES = 1 << 18 };
static uint64_t state = 88172645463325252ULL;
__attribute__((noinline)) static void scatter(char *pool) {
    for (int i = 0; i < 200000; i++) {
        state ^= state << 13; state ^= state >> 7; state ^= state << 17;
        char *line = pool + 64 * (state % LINES);
        *(uint64_t *)line = i;
        _mm_clwb(line);
        _mm_sfence();
    }
}
int main(int argc, char **argv) {
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 64 * LINES)) return 1;
    char *pool = mmap(0, 64 * LINES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pool == MAP_FAILED) return 1;
    scatter(pool);
    puts("not JSON");
    return 0;
}
"#,
    );
    compile(scratch.dir(), "cc", "-O2 -mclwb -o scatter scatter.c");
    let output = ok(strandline().current_dir(scratch.dir()).args([
        "profile",
        "--json",
        "--pmem",
        "pool",
        "--",
        "./scatter",
        "pool",
    ]));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = json["findings"].as_array().expect("findings");
    let small = findings
        .iter()
        .find(|f| f["rule"] == "small-random-stores")
        .unwrap_or_else(|| panic!("{findings:#?}"));
    assert!(small["share"].as_f64().expect("a share") > 0.9, "{small:#}");
    assert!(small.to_string().contains("scatter"), "the function is named: {small:#}");
    assert!(
        !findings.iter().any(|f| f["rule"] == "useless-fence" || f["rule"] == "redundant-flush"),
        "{findings:#?}"
    );
}

/// What a program prints stays out of the JSON also where its functions are only sampled.
#[test]
fn a_sampled_programs_output_is_not_in_the_json() {
    let scratch = Scratch::new();
    scratch.file("plain.c", "#include <stdio.h>\nint main(void) { return puts(\"not JSON\") < 0; }\n");
    ok(std::process::Command::new("gcc").current_dir(scratch.dir()).args(["-o", "plain", "plain.c"]));
    let mut command = strandline();
    let output = command.current_dir(scratch.dir()).args(["profile", "--json", "--", "./plain"]).output();
    let output = output.expect("strandline starts");
    let said = crate::common::stderr(&output);
    if output.stdout.is_empty() && said.contains("perf_event") {
        println!("skipped: {said}");
        return;
    }
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert!(json["summary"]["headline"].as_str().is_some_and(|line| line.contains("sampled")), "{json:#}");
    assert!(said.contains("not JSON"), "its output is among the messages: {said}");
}

#[test]
fn misuse_ends_with_status_2_and_a_remedy() {
    for (arguments, part) in [
        (vec!["profile", "--machine", "no-such-machine"], "xpoint"),
        (vec!["profile", "--workload", "no-such-workload"], "btree-fill"),
        (vec!["profile", "--trace", "no-such-file.slt"], "no-such-file.slt"),
        (vec!["profile", "--", "./no-such-program"], "no-such-program"),
        (vec!["profile", "--ops", "0"], "1.."),
        (vec!["profile", "--ops", "18446744073709551615"], "fewer operations"),
        (vec!["profile", "--workload", "log-append", "--ops", "72057594037927937"], "fewer operations"),
        (vec!["profile", "--workload", "log-append", "--pmem", "/data"], "PROG ARGS"),
        (vec!["profile", "--sample", "1/2"], "PROG ARGS"),
        (vec!["trace", "info"], "Usage"),
    ] {
        let scratch = Scratch::new();
        let output =
            strandline().current_dir(scratch.dir()).args(&arguments).output().expect("strandline starts");
        let message = crate::common::stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(part), "{arguments:?}: {message}");
    }
}

#[test]
fn the_seed_of_the_machine_file_counts_unless_one_is_given() {
    let scratch = Scratch::new();
    let preset = include_str!("../../../../model/machine/presets/xpoint.toml");
    let run = |file: &str, extra: &[&str]| {
        let output = ok(strandline()
            .current_dir(scratch.dir())
            .args(["profile", "--workload", "hash-scatter", "--ops", "200000", "--json", "--machine", file])
            .args(extra));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        json["machine"]["persistent"].to_string()
    };
    scratch.file("one.toml", preset);
    scratch.file("two.toml", &preset.replace("seed = 1\n", "seed = 2\n"));
    assert_ne!(run("one.toml", &[]), run("two.toml", &[]));
    assert_eq!(run("one.toml", &["--seed", "3"]), run("two.toml", &["--seed", "3"]));
}

#[test]
fn an_import_that_fails_leaves_its_input() {
    let scratch = Scratch::new();
    let log = scratch.file("l.txt", " L 10,8\n");
    let import = |input: &str, output: &str| {
        let output = strandline()
            .current_dir(scratch.dir())
            .args(["trace", "import", "-o", output, input])
            .output()
            .expect("strandline starts");
        (output.status.code(), crate::common::stderr(&output))
    };
    for (input, output, part) in [
        ("l.txt", "l.txt", "both"),
        ("no-such.txt", "l.txt", "no-such.txt"),
        ("/dev/null", "empty.slt", "no memory access"),
    ] {
        let (code, message) = import(input, output);
        assert!(code == Some(2) && message.contains(part), "{input}: {code:?} {message}");
    }
    assert_eq!(std::fs::read_to_string(log).expect("it is there"), " L 10,8\n");
    assert_eq!(import("l.txt", "l.slt").0, Some(0));
}

#[test]
fn the_page_opens_in_a_browser() {
    let scratch = Scratch::new();
    ok(strandline().current_dir(scratch.dir()).args(["profile", "--ops", "20000"]));
    let Some(dom) = crate::common::browse(&scratch, &scratch.path("strandline-report/report.html")) else {
        return;
    };
    // That this policy holds, and that a request would be noticed, is tested in `report`.
    assert!(dom.contains("default-src 'none'"), "the page may fetch");
    assert!(dom.matches("<svg").count() >= 4, "plots are missing");
    assert!(dom.matches("<table").count() >= 2, "tables are missing");
}
