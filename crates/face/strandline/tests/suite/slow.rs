//! Small programs with one fault each: its rule speaks, and is silent on the mended twin.

use serde_json::Value;

use crate::common::{Scratch, compile, ok, stdout, strandline};

/// Programs of `examples/c/slow`, with the rule that each breaks.
const FAULTS: [(&str, &str); 16] = [
    ("false-sharing", "false-sharing"),
    ("true-sharing", "true-sharing"),
    ("contended-lock", "contended-lock"),
    ("unused-bytes", "unused-bytes"),
    ("against-the-rows", "against-the-rows"),
    ("pointer-chase", "pointer-chase"),
    ("dead-store", "dead-store"),
    ("zeroed-twice", "overwritten-unread"),
    ("churn", "allocation-churn"),
    ("leak", "leak"),
    ("tlb-reach", "tlb-reach"),
    ("conflicts", "conflict-misses"),
    ("packet", "overwritten-unread"),
    ("straddled", "straddled-lines"),
    ("long-lived", "lives-too-long"),
    ("tree", "pointer-chase"),
];

fn profile(scratch: &Scratch, name: &str, flags: &str) -> Value {
    let (verb, end) = if name == "tree" { ("c++", "cc") } else { ("cc", "c") };
    let source = format!("{}/../../../examples/c/slow/{name}.{end}", env!("CARGO_MANIFEST_DIR"));
    compile(scratch.dir(), verb, &format!("-O1 -g -pthread {flags} -o app {source}"));
    let output = ok(strandline().current_dir(scratch.dir()).args(["profile", "--json", "--", "./app"]));
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

/// The rules of the findings.
fn rules(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings");
    findings.iter().map(|finding| finding["rule"].as_str().expect("a rule")).collect()
}

fn both(range: std::ops::Range<usize>) {
    let scratch = Scratch::new();
    for (name, rule) in &FAULTS[range] {
        let faulty = profile(&scratch, name, "");
        assert_eq!(faulty["machine"]["name"], "host", "{name} maps no persistent memory");
        let found =
            faulty["findings"].as_array().expect("findings").iter().find(|found| found["rule"] == *rule);
        let found = found.unwrap_or_else(|| panic!("{name}: no {rule} in {:#}", faulty["findings"]));
        let label = found["sites"][0]["label"].as_str().expect("a place");
        // What the C++ library has inlined is named by its own lines.
        let named = label.contains(&format!("{name}.c:")) || *name == "tree";
        assert!(named, "{name}: the line is named: {found:#}");
        let mended = profile(&scratch, name, "-DMENDED");
        assert!(!rules(&mended).contains(rule), "{name}, mended: {:#}", mended["findings"]);
    }
}

#[test]
fn sharing_is_named_and_its_absence_is_not() {
    both(0..3);
}

#[test]
fn layout_and_walks_are_named() {
    both(3..6);
}

#[test]
fn needless_stores_and_blocks_are_named() {
    both(6..10);
}

#[test]
fn pages_and_sets_are_named() {
    both(10..12);
}

#[test]
fn packets_and_nodes_on_two_lines_are_named() {
    both(12..14);
}

#[test]
fn late_frees_are_named() {
    both(14..15);
}

#[test]
fn missing_prefetches_are_named_and_tried() {
    let report = profile(&Scratch::new(), "prefetch", "");
    let found = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .find(|found| found["rule"] == "missing-prefetch");
    let found = found.unwrap_or_else(|| panic!("{:#}", report["findings"]));
    assert!(found["gain"].as_f64().expect("it was tried") > 0.1, "{found:#}");
    let scratch = Scratch::new();
    let mended = profile(&scratch, "prefetch", "-DMENDED");
    let named = |rule: &&str| rule.ends_with("-prefetch");
    assert_eq!(
        rules(&mended).into_iter().find(named),
        None,
        "it prefetches in time: {:#}",
        mended["findings"]
    );
    let late = profile(&scratch, "prefetch", "-DMENDED -DSOON");
    assert!(!rules(&late).contains(&"missing-prefetch"), "{:#}", late["findings"]);
    assert!(rules(&late).contains(&"late-prefetch"), "{:#}", late["findings"]);
}

/// Fields of a type on the heap, in the findings, the text and the page.
#[test]
fn fields_are_named_by_debug_information() {
    let scratch = Scratch::new();
    let report = profile(&scratch, "unused-bytes", "");
    let found =
        report["findings"].as_array().expect("findings").iter().find(|found| found["rule"] == "unused-bytes");
    let evidence = found.expect("it is named")["evidence"].as_str().expect("evidence");
    assert!(
        evidence.contains("Of each item of 64 B it uses price (8 B); none that was looked at uses rest."),
        "{evidence}"
    );
    let structures = report["structures"].as_array().expect("structures");
    let known = structures.iter().find(|one| one["type_name"] == "item").expect("its type is known");
    let fields = known["fields"].as_array().expect("fields");
    assert!(fields.iter().any(|field| field["loads"].as_u64() > Some(1000)), "{fields:#?}");
    assert!(fields.iter().any(|field| field["loads"] == 0), "{fields:#?}");
    let page = std::fs::read_to_string(scratch.path("strandline-report/report.html")).expect("the page");
    assert!(page.contains("One item of 64"), "the heat map of one object is in the page");
}

#[test]
fn a_tree_where_a_flat_map_serves_is_named() {
    both(15..16);
}

#[test]
fn a_chained_table_on_one_line_of_source_is_no_fault() {
    let scratch = Scratch::new();
    let report = profile(&scratch, "table", "");
    assert!(!rules(&report).contains(&"pointer-chase"), "{:#}", report["findings"]);
}

#[test]
fn a_report_has_costs_structures_and_other_formats() {
    let scratch = Scratch::new();
    let report = profile(&scratch, "straddled", "");
    assert!(report["modelled"]["accesses"].as_u64().expect("accesses ran on the model") > 4096);
    assert!(!report["modelled"]["sites"].as_array().expect("sites").is_empty());
    let structure = &report["structures"][0];
    assert!(!structure["miss_curve"].as_array().expect("a curve").is_empty(), "{structure:#}");
    assert!(!structure["heat_by_thread"].as_array().expect("threads").is_empty());
    let page = std::fs::read_to_string(scratch.path("strandline-report/report.html")).expect("the page");
    assert!(page.contains("id=\"flames\"") && page.contains("A flame graph"), "flame graphs are in the page");
    let path = "strandline-report/report.json";
    ok(strandline().current_dir(scratch.dir()).args(["export", "pprof", "-o", "p.pb", path]));
    let bytes = std::fs::read(scratch.path("p.pb")).expect("a profile");
    assert!(bytes.windows(4).any(|part| part == b"main"), "functions are named in it");
    let folded =
        ok(strandline().current_dir(scratch.dir()).args(["export", "folded", "--by", "misses", path]));
    assert!(stdout(&folded).contains("straddled.c:"), "{}", stdout(&folded));
    let again = ["diff", "--json", "--again", path, path, path];
    let compared: Value =
        serde_json::from_str(&stdout(&ok(strandline().current_dir(scratch.dir()).args(again))))
            .expect("JSON");
    assert!(compared["figures"].as_array().expect("figures").iter().all(|of| of["beyond_noise"] == false));
}

#[test]
fn a_program_with_persistent_memory_is_still_judged_on_its_machine() {
    let scratch = Scratch::new();
    scratch.file(
        "map.c",
        "#include <fcntl.h>\n#include <sys/mman.h>\n#include <unistd.h>\nint main(int n, char **words) {\n\
         int fd = open(words[n - 1], O_RDWR | O_CREAT, 0600);\nif (fd < 0 || ftruncate(fd, 1 << 16)) return 1;\n\
         volatile char *pool = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);\n\
         for (int i = 0; i < 1 << 16; i++) pool[i] = i;\nreturn unlink(words[n - 1]);\n}\n",
    );
    compile(scratch.dir(), "cc", "-O1 -g -o map map.c");
    let pool = format!("/dev/shm/strandline-test-{}", std::process::id());
    let output =
        ok(strandline().current_dir(scratch.dir()).args(["profile", "--json", "--", "./map", &pool]));
    let report: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(report["machine"]["name"], "xpoint", "it mapped a file below /dev/shm by itself");
    assert!(report["counts"]["stores"].as_u64().expect("stores") >= 1 << 16);
}

#[test]
fn what_a_change_changed_is_shown() {
    let scratch = Scratch::new();
    let source = format!("{}/../../../examples/c/slow/against-the-rows.c", env!("CARGO_MANIFEST_DIR"));
    for (name, flags) in [("before", ""), ("after", "-DMENDED")] {
        compile(scratch.dir(), "cc", &format!("-O1 -g {flags} -o {name}-app {source}"));
        let program = format!("./{name}-app");
        ok(strandline().current_dir(scratch.dir()).args(["profile", "--out", name, "--", &program]));
    }
    let reports = ["before/report.json", "after/report.json"];
    let output = ok(strandline().current_dir(scratch.dir()).args(["diff", "--json"]).args(reports));
    let compared: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert!(compared["gone"].as_array().expect("rules").contains(&"against-the-rows".into()), "{compared:#}");
    let output =
        ok(strandline().current_dir(scratch.dir()).args(["export", "folded", "--by", "loads", reports[0]]));
    assert!(stdout(&output).lines().any(|line| line.starts_with("main;")), "{}", stdout(&output));
}

/// Ranks of numbers, from 0 on.
fn ranks(numbers: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&a, &b| numbers[a].total_cmp(&numbers[b]));
    let mut ranks = vec![0.0; numbers.len()];
    order.iter().enumerate().for_each(|(rank, &at)| ranks[at] = rank as f64);
    ranks
}

/// Spearman's coefficient.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let squares: f64 = ranks(a).iter().zip(ranks(b)).map(|(a, b)| (a - b) * (a - b)).sum();
    let count = a.len() as f64;
    1.0 - 6.0 * squares / (count * (count * count - 1.0))
}

/// The best of five runs, nanoseconds.
fn best(scratch: &Scratch, program: &str) -> f64 {
    let one = |_| {
        let start = std::time::Instant::now();
        ok(std::process::Command::new(program).current_dir(scratch.dir()));
        start.elapsed().as_nanos() as f64
    };
    (0..5).map(one).fold(f64::INFINITY, f64::min)
}

#[test]
fn ranks_that_agree_correlate() {
    assert!((correlation(&[1.0, 5.0, 9.0], &[2.0, 3.0, 40.0]) - 1.0).abs() < 1e-9);
    assert!((correlation(&[1.0, 5.0, 9.0], &[40.0, 3.0, 2.0]) + 1.0).abs() < 1e-9);
}

/// A program of `examples/c/slow`, built without us.
fn plain(scratch: &Scratch, name: &str, flags: &str) {
    let (compiler, end) = if name == "tree" { ("c++", "cc") } else { ("cc", "c") };
    let source = format!("{}/../../../examples/c/slow/{name}.{end}", env!("CARGO_MANIFEST_DIR"));
    let mut plain = std::process::Command::new(compiler);
    plain.current_dir(scratch.dir()).args(["-O1", "-pthread", "-o", "plain"]);
    ok(plain.args(flags.split_whitespace()).arg(source));
}

/// Prints the gain that each remedy has on the model beside that of the mended program on this machine, both
/// of runs as long. It measures, so it judges nothing.
#[test]
#[ignore = "--long: sixteen programs, profiled and timed"]
fn predicted_gains_and_measured_ones_side_by_side() {
    let scratch = Scratch::new();
    scratch.file("nothing.c", "int main(void) { return 0; }");
    ok(std::process::Command::new("cc").current_dir(scratch.dir()).args(["-o", "nothing", "nothing.c"]));
    let start = best(&scratch, "./nothing");
    for (name, rule) in FAULTS {
        let end = if name == "tree" { "cc" } else { "c" };
        let path = format!("{}/../../../examples/c/slow/{name}.{end}", env!("CARGO_MANIFEST_DIR"));
        let source = std::fs::read_to_string(path).expect("the source");
        let rounds = source.split("#define ROUNDS ").nth(1).and_then(|rest| rest.lines().next());
        let mut rounds: u64 = rounds.and_then(|number| number.parse().ok()).expect("a number of rounds");
        let most = rounds * 16;
        let faulty = loop {
            plain(&scratch, name, &format!("-DROUNDS={rounds}"));
            let took = best(&scratch, "./plain") - start;
            if took > 2e7 || rounds >= most {
                break took;
            }
            rounds *= 2;
        };
        plain(&scratch, name, &format!("-DROUNDS={rounds} -DMENDED"));
        let mended = best(&scratch, "./plain") - start;
        let report = profile(&scratch, name, &format!("-DROUNDS={rounds}"));
        let findings = report["findings"].as_array().expect("findings");
        let found = findings.iter().find(|found| found["rule"] == rule);
        let gain = found.and_then(|found| found["gain"].as_f64());
        println!(
            "{name} ({rounds} rounds, {:.1} ms): {} predicted {}, measured {:.0} %",
            faulty / 1e6,
            if found.is_some() { "found," } else { "not found," },
            gain.map_or("nothing".to_owned(), |gain| format!("{:.0} %", 100.0 * gain)),
            100.0 * (1.0 - mended / faulty)
        );
    }
}

/// Prints the modelled time of each program beside its real time, and how their ranks correlate. It measures, so it judges nothing.
#[test]
#[ignore = "--long: thirty-three programs, profiled and timed"]
fn modelled_time_and_real_time_side_by_side() {
    let scratch = Scratch::new();
    scratch.file("nothing.c", "int main(void) { return 0; }");
    ok(std::process::Command::new("cc").current_dir(scratch.dir()).args(["-o", "nothing", "nothing.c"]));
    let start = best(&scratch, "./nothing");
    let (mut modelled, mut real) = (Vec::new(), Vec::new());
    let all = FAULTS.iter().flat_map(|(name, _)| [(*name, ""), (*name, "-DMENDED")]).chain([("table", "")]);
    for (name, flags) in all {
        let report = profile(&scratch, name, flags);
        plain(&scratch, name, flags);
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let accesses = number(&report["counts"]["loads"]) + number(&report["counts"]["stores"]);
        let each =
            number(&report["modelled"]["elapsed_ns"]) / number(&report["modelled"]["accesses"]).max(1.0);
        let (model, measured) = (accesses * each, (best(&scratch, "./plain") - start).max(1.0));
        println!("{name}{flags}: modelled {:.2} ms, measured {:.2} ms", model / 1e6, measured / 1e6);
        modelled.push(model);
        real.push(measured);
    }
    println!("rank correlation over {} programs: {:.2}", real.len(), correlation(&modelled, &real));
}
