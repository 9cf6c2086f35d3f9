//! `strandline wear` on traces whose wear is known.

use std::path::Path;

use event::{Batch, Capabilities, Event, FlushKind, Op, Sink, SiteId, Source, ThreadId};
use serde_json::Value;
use trace::Writer;

use crate::common::{Scratch, ok, stderr, stdout, strandline};

/// Where the traces store.
const BASE: u64 = 1 << 32;
const LINE: u64 = 64;

/// Writes a trace of one second, in which each line is stored to and flushed.
fn write(path: &Path, lines: impl Iterator<Item = u64>) {
    let mut writer = Writer::create(path).expect("a trace");
    let source = Source {
        capabilities: Capabilities::all() - Capabilities::VALUES - Capabilities::CALLS,
        ..Source::synthetic("a test")
    };
    writer.begin(&source).expect("a header");
    let event = |op| Event { op, site: SiteId(0), instructions: 1 };
    let both = |line: u64| {
        let addr = BASE + line * LINE;
        [event(Op::Store { addr, len: 8 }), event(Op::Flush { addr, kind: FlushKind::Clwb })]
    };
    let events: Vec<Event> = lines.flat_map(both).collect();
    let batches = events.len().div_ceil(1000) as u64;
    for (number, events) in (1..).zip(events.chunks(1000)) {
        // The first batch begins the clock.
        let time_ns = if number == 1 { 1 } else { 1_000_000_001 * number / batches };
        writer.push(Batch { thread: ThreadId(0), time_ns, events, values: &[] }).expect("a batch");
    }
    writer.finish().expect("the end");
}

fn wear(scratch: &Scratch, arguments: &str) -> Value {
    let mut command = strandline();
    command.current_dir(scratch.dir()).arg("wear").args(arguments.split_whitespace()).arg("--json");
    serde_json::from_str(&stdout(&ok(&mut command))).expect("JSON")
}

fn near(value: &Value, expected: f64, tolerance: f64) {
    let value = value.as_f64().expect("a number");
    assert!((value / expected - 1.0).abs() <= tolerance, "{value} for {expected}");
}

#[test]
fn one_hot_line_is_worn_out_first() {
    let scratch = Scratch::new();
    // Half of 20,000 writes go to one line, the others to 100 pages of a line each.
    write(
        &scratch.path("t.slt"),
        (0..20_000).map(|at| if at % 2 == 0 { 0 } else { (1 + at / 2 % 100) * 64 }),
    );
    let json = wear(&scratch, "--trace t.slt --endurance 1e6 --duration 1s");
    let found = &json["wear"];
    assert_eq!((&found["writes"], &found["written_pages"]), (&20_000.into(), &101.into()));
    assert_eq!(found["hottest"][0]["address"], BASE);
    assert_eq!(found["hottest"][0]["writes"], 10_000);
    near(&found["lifetime_first"], 100.0, 1e-9);
    // The hundredth of 101 pages is two: the second hottest ends the life.
    near(&found["lifetime_pages"], 10_000.0, 1e-9);
    near(&found["lifetime_ideal"], 1e6 * 101.0 / 20_000.0, 1e-9);
    // In pages of 2 MiB there is one page, which wears with every write.
    let large = wear(&scratch, "--trace t.slt --endurance 1e6 --duration 1s --page 2MiB");
    assert_eq!(large["wear"]["written_pages"], 1);
    near(&large["wear"]["lifetime_pages"], 50.0, 1e-9);
    // Without --duration the recorded time counts, which is a second.
    let recorded = wear(&scratch, "--trace t.slt --endurance 1e6");
    assert_eq!(recorded["clock"], "recorded");
    near(&recorded["wear"]["lifetime_first"], 100.0, 0.01);
}

#[test]
fn uniform_writes_need_no_levelling_and_a_reserve_in_two_readings() {
    let scratch = Scratch::new();
    write(&scratch.path("t.slt"), (0..38_400).map(|at| at % 6400));
    let json = wear(&scratch, "--trace t.slt --endurance 1e6 --duration 1s --goal 1h");
    let found = &json["wear"];
    near(&found["lifetime_pages"], 1e6 / 384.0, 1e-9);
    assert_eq!(found["lifetime_pages"], found["lifetime_ideal"]);
    assert_eq!(found["best"]["shuffles"], 0);
    // 2604 s are short of an hour by a factor of 1.38.
    near(&found["reserve"]["total"], 3600.0 * 384.0 / 1e6, 1e-6);
    near(&found["reserve"]["extra"], 3600.0 * 384.0 / 1e6 - 1.0, 1e-6);
    assert_eq!(found["reaches_goal"], false);
    let roomy = wear(&scratch, "--trace t.slt --endurance 1e6 --duration 1s --goal 1h --capacity 16MiB");
    assert_eq!(roomy["wear"]["pages"], 4096);
    assert_eq!(
        (roomy["wear"]["reserve"]["extra"].as_f64(), &roomy["wear"]["reaches_goal"]),
        (Some(0.0), &true.into())
    );
}

#[test]
fn two_phases_add_up_and_show_in_the_timeline() {
    let scratch = Scratch::new();
    // First four pages evenly, then one of them alone, for as long.
    let lines = (0..16_384).map(|at| if at < 8192 { at % 256 } else { 64 + at % 64 });
    write(&scratch.path("t.slt"), lines);
    let json = wear(&scratch, "--trace t.slt --endurance 1e6 --duration 2s");
    let found = &json["wear"];
    let writes: Vec<u64> = found["hottest"]
        .as_array()
        .expect("pages")
        .iter()
        .filter_map(|page| page["writes"].as_u64())
        .collect();
    assert_eq!(writes, [10_240, 2048, 2048, 2048]);
    near(&found["lifetime_pages"], 2e6 / 10_240.0, 1e-9);
    near(&found["lifetime_ideal"], 2e6 / 4096.0, 1e-9);
    let timeline = json["timeline"].as_array().expect("slices");
    assert_eq!(timeline.iter().filter_map(|slice| slice["writes"].as_u64()).sum::<u64>(), 16_384);
}

#[test]
fn levellers_save_a_hammered_line_and_say_what_they_cost() {
    let scratch = Scratch::new();
    let level = |arguments: &str| {
        let json = wear(&scratch, &format!("level {arguments}"));
        json["policies"].as_array().expect("policies").clone()
    };
    let found = level("--policy none --policy start-gap --attack hammer --writes 20000000");
    assert_eq!((found[0]["policy"].as_str(), found[1]["policy"].as_str()), (Some("none"), Some("start-gap")));
    let first = |policy: &Value| policy["first"].as_f64().expect("a lifetime");
    assert!(first(&found[0]) < 1e-4, "{}", found[0]);
    assert!(first(&found[1]) > 10.0 * first(&found[0]), "{}", found[1]);
    near(&found[1]["amplification"], 1.01, 1e-3);
    // The same on a trace of one hot line, with all policies.
    write(&scratch.path("t.slt"), (0..1000).map(|_| 5));
    let found = level("--trace t.slt --stores --writes 8000000 --interval 40");
    assert_eq!(found.len(), 6);
    for policy in &found[1..] {
        assert!(first(policy) > 3.0 * first(&found[0]), "{policy}");
        assert!(policy["amplification"].as_f64().is_some_and(|more| (1.0..1.5).contains(&more)), "{policy}");
    }
    let mut command = strandline();
    command.args(["wear", "level", "--policy", "gap", "--attack", "hammer"]);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("start-gap, security-refresh"), "{}", stderr(&output));
}

#[test]
fn a_profile_says_when_memory_wears_out() {
    let scratch = Scratch::new();
    let mut command = strandline();
    command.current_dir(scratch.dir()).args([
        "profile",
        "--workload",
        "log-append",
        "--ops",
        "2000",
        "--json",
    ]);
    let json: Value = serde_json::from_str(&stdout(&ok(&mut command))).expect("JSON");
    let wear = &json["wear"];
    assert_eq!(wear["unit"], "runs");
    assert!(wear["writes"].as_u64().is_some_and(|writes| writes > 1000), "{wear}");
    let label = wear["hottest"][0]["label"].as_str().expect("a site");
    assert!(label.contains("log.rs"), "{label}");
    let page = std::fs::read_to_string(scratch.path("strandline-report/report.html")).expect("a page");
    assert!(page.contains("id=\"wear\"") && page.contains("What each counter-measure gives"));
    // The command that it names works, and finds as many writes.
    let words: Vec<&str> =
        wear["command"].as_array().expect("words").iter().filter_map(Value::as_str).collect();
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(&words[1..]).arg("--json");
    let again: Value = serde_json::from_str(&stdout(&ok(&mut command))).expect("JSON");
    assert_eq!(again["wear"]["writes"], wear["writes"]);
}

/// Where the processor samples no addresses, the reason is said and the program does not run.
#[test]
fn samples_of_stores_are_used_or_refused_with_the_reason() {
    let scratch = Scratch::new();
    let mut command = strandline();
    command.current_dir(scratch.dir()).args(["wear", "--sampled=997", "--json", "--", "touch", "ran"]);
    let output = command.output().expect("it runs");
    if output.status.success() {
        let json: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        assert_eq!(json["clock"], "measured");
        return;
    }
    println!("skipped: {}", stderr(&output));
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("/sys/bus/event_source/devices") || stderr(&output).contains("perf_event")
    );
    assert!(!scratch.path("ran").exists());
    for (arguments, said) in
        [("--sampled=1000 -- true", "prime"), ("--sampled=997 --workload btree", "is for a program")]
    {
        let mut command = strandline();
        let output = command.arg("wear").args(arguments.split(' ')).output().expect("it runs");
        assert!(!output.status.success() && stderr(&output).contains(said), "{}", stderr(&output));
    }
}
