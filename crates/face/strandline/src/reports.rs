//! `strandline diff` and `strandline export`: what to do with reports of `profile`.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::say;

/// Lines that a comparison lists as text.
const LISTED: usize = 12;

/// Arguments of `strandline diff`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  strandline profile --out before -- ./app\n  strandline profile --out after -- ./app\n  \
                        strandline diff before/report.json after/report.json"
)]
pub struct DiffArgs {
    /// The report before the change
    pub before: PathBuf,
    /// The report after it
    pub after: PathBuf,
    /// Another report of the program before the change, with another --seed or of another run: what differs between them is
    /// noise (may be given again)
    #[arg(long, value_name = "REPORT")]
    pub again: Vec<PathBuf>,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `strandline export`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  strandline export folded --by read strandline-report/report.json | flamegraph.pl > read.svg"
)]
pub struct ExportArgs {
    /// The format
    pub format: Format,
    /// The report of `profile`
    pub report: PathBuf,
    /// The file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What folded stacks count
    #[arg(long, default_value = "read")]
    pub by: By,
}

/// A format that other tools read.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Format {
    /// A line per stack and its count, as flame graph tools read them
    Folded,
    /// A profile for pprof, not compressed: `pprof -http : FILE`
    Pprof,
    /// Counters and phases over time, as ui.perfetto.dev and chrome://tracing open them
    Perfetto,
}

/// What stacks are weighed by.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum By {
    /// Loads
    Loads,
    /// Stores
    Stores,
    /// Bytes read from memory
    Read,
    /// Bytes written to memory
    Written,
    /// Misses of the first-level caches
    Misses,
    /// Time that cores stood still on the model, nanoseconds
    Time,
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    let report: Value =
        serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))?;
    match report["schema"].as_u64() {
        Some(1) if report["machine"].is_object() => Ok(report),
        _ => bail!("{}: not a report.json of schema 1; make it with `strandline profile`", path.display()),
    }
}

/// Compares two reports.
pub fn diff(args: &DiffArgs) -> anyhow::Result<()> {
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let again = args.again.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let compared = compare(&before, &after, &again);
    if args.json {
        return say(&format!("{compared:#}\n"));
    }
    say(&text(&compared))
}

/// Sums of what sites of one name did: bytes read and written of memory.
fn by_label(report: &Value) -> BTreeMap<String, [u64; 2]> {
    let mut all: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for site in report["sites"].as_array().into_iter().flatten() {
        let sums = all.entry(site["label"].as_str().unwrap_or("?").to_owned()).or_default();
        for memory in ["persistent", "volatile"] {
            sums[0] += site[memory]["read_bytes"].as_u64().unwrap_or(0);
            sums[1] += site[memory]["controller_write_bytes"].as_u64().unwrap_or(0);
        }
    }
    all
}

fn rules(report: &Value) -> BTreeMap<String, f64> {
    let findings = report["findings"].as_array().into_iter().flatten();
    findings
        .map(|found| {
            (found["rule"].as_str().unwrap_or("?").to_owned(), found["share"].as_f64().unwrap_or(0.0))
        })
        .collect()
}

fn compare(before: &Value, after: &Value, again: &[Value]) -> Value {
    let misses = |report: &Value, level: usize| report["machine"]["caches"][level]["misses"].as_u64();
    let total = |report: &Value, field: &str| {
        let of = |memory: &str| report["machine"][memory]["total"][field].as_u64().unwrap_or(0);
        Some(of("persistent") + of("volatile"))
    };
    type Figure = (&'static str, Box<dyn Fn(&Value) -> Option<u64>>);
    let figures: Vec<Figure> = vec![
        ("events", Box::new(|report| report["counts"]["events"].as_u64())),
        ("l1_misses", Box::new(move |report| misses(report, 0))),
        ("l2_misses", Box::new(move |report| misses(report, 1))),
        ("llc_misses", Box::new(move |report| misses(report, 2))),
        ("read_bytes", Box::new(move |report| total(report, "controller_read_bytes"))),
        ("written_bytes", Box::new(move |report| total(report, "controller_write_bytes"))),
    ];
    let figures: Vec<Value> = figures
        .iter()
        .filter_map(|(name, of)| {
            let (old, new) = (of(before)?, of(after)?);
            // Runs of the same program differ by so much.
            let others: Vec<u64> = again.iter().filter_map(of).collect();
            let noise = others.iter().map(|other| other.abs_diff(old)).max();
            let beyond = noise.map(|noise| new.abs_diff(old) > noise);
            Some(json!({"figure": name, "before": old, "after": new, "noise": noise, "beyond_noise": beyond}))
        })
        .collect();
    let (old, new) = (rules(before), rules(after));
    let gone: Vec<&String> = old.keys().filter(|rule| !new.contains_key(*rule)).collect();
    let come: Vec<&String> = new.keys().filter(|rule| !old.contains_key(*rule)).collect();
    let kept: Vec<Value> = old
        .iter()
        .filter_map(|(rule, share)| Some(json!({"rule": rule, "before": share, "after": new.get(rule)?})))
        .collect();
    let (old, new) = (by_label(before), by_label(after));
    let mut sites: Vec<(u64, Value)> = Vec::new();
    let labels: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for label in labels {
        let (a, b) =
            (old.get(label).copied().unwrap_or_default(), new.get(label).copied().unwrap_or_default());
        let change = a[0].abs_diff(b[0]) + a[1].abs_diff(b[1]);
        if change > 0 {
            let read = json!({"before": a[0], "after": b[0]});
            let written = json!({"before": a[1], "after": b[1]});
            sites.push((change, json!({"label": label, "read_bytes": read, "written_bytes": written})));
        }
    }
    sites.sort_by_key(|(change, _)| std::cmp::Reverse(*change));
    let sites: Vec<Value> = sites.into_iter().map(|(_, site)| site).collect();
    let same = before["machine"]["name"] == after["machine"]["name"];
    json!({
        "same_machine": same, "figures": figures, "gone": gone, "new": come, "kept": kept, "sites": sites,
    })
}

fn text(compared: &Value) -> String {
    let mut text = String::new();
    if compared["same_machine"] == false {
        text.push_str("The reports are of different machines: figures can't be compared.\n");
    }
    let list = |name: &str| -> Vec<&str> {
        compared[name].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    for (name, what) in [("gone", "No longer found"), ("new", "Newly found")] {
        if !list(name).is_empty() {
            text.push_str(&format!("{what}: {}\n", list(name).join(", ")));
        }
    }
    for kept in compared["kept"].as_array().into_iter().flatten() {
        let share = |when: &str| kept[when].as_f64().unwrap_or(0.0) * 100.0;
        let rule = kept["rule"].as_str().unwrap_or("?");
        text.push_str(&format!(
            "Still found: {rule}, {:.1} % before, {:.1} % now\n",
            share("before"),
            share("after")
        ));
    }
    text.push_str(&format!("\n{:<16}{:>16}{:>16}{:>10}\n", "", "before", "after", "change"));
    for figure in compared["figures"].as_array().into_iter().flatten() {
        let of = |when: &str| figure[when].as_u64().unwrap_or(0);
        let name = figure["figure"].as_str().unwrap_or("?").replace('_', " ");
        let noise = match figure["beyond_noise"].as_bool() {
            Some(false) => format!("  within noise ({})", of("noise")),
            Some(true) => format!("  noise {}", of("noise")),
            None => String::new(),
        };
        text.push_str(&format!(
            "{name:<16}{:>16}{:>16}{:>10}{noise}\n",
            of("before"),
            of("after"),
            change(of("before"), of("after"))
        ));
    }
    let sites = compared["sites"].as_array().map_or(&[][..], Vec::as_slice);
    if !sites.is_empty() {
        text.push_str("\nBytes read and written, by code that changed most\n");
    }
    for site in sites.iter().take(LISTED) {
        let of = |what: &str, when: &str| site[what][when].as_u64().unwrap_or(0);
        text.push_str(&format!(
            "  {}: read {} -> {}, written {} -> {}\n",
            site["label"].as_str().unwrap_or("?"),
            of("read_bytes", "before"),
            of("read_bytes", "after"),
            of("written_bytes", "before"),
            of("written_bytes", "after")
        ));
    }
    text
}

fn change(before: u64, after: u64) -> String {
    if before == 0 {
        return if after == 0 { "-".to_owned() } else { "new".to_owned() };
    }
    format!("{:+.1} %", (after as f64 / before as f64 - 1.0) * 100.0)
}

/// Writes a report in a format of other tools.
pub fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let report = read(&args.report)?;
    let bytes = match args.format {
        Format::Folded => folded(&report, args.by).into_bytes(),
        Format::Perfetto => format!("{}\n", perfetto(&report)).into_bytes(),
        Format::Pprof => crate::pprof::profile(&report),
    };
    match &args.output {
        Some(path) => std::fs::write(path, bytes).with_context(|| format!("can't write {}", path.display())),
        None if matches!(args.format, Format::Pprof) && std::io::stdout().is_terminal() => {
            bail!("a pprof profile is no text: give a file with -o, or redirect standard output")
        }
        None => crate::quiet_if_closed(std::io::stdout().lock().write_all(&bytes)),
    }
}

/// A line per stack: the first caller first, the compiled function, what was inlined behind it, the line of
/// code last.
fn folded(report: &Value, by: By) -> String {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for sample in crate::stacks::samples(report) {
        let weight = sample.values[by as usize];
        if weight == 0 {
            continue;
        }
        let name = |text: &Value| text.as_str().unwrap_or("?").replace(';', ":");
        let mut stack: Vec<String> = sample.frames().rev().map(|frame| name(&frame["function"])).collect();
        stack.push(name(&sample.site["label"]));
        *stacks.entry(stack.join(";")).or_default() += weight;
    }
    stacks.into_iter().map(|(stack, weight)| format!("{stack} {weight}\n")).collect()
}

/// Counters of each slice of the run. Without a clock an event is a microsecond.
fn perfetto(report: &Value) -> Value {
    let mut events = Vec::new();
    for slice in report["machine"]["timeline"].as_array().into_iter().flatten() {
        let time = match slice["time_ns"].as_u64() {
            Some(0) | None => slice["events"].as_f64().unwrap_or(0.0),
            Some(time) => time as f64 / 1000.0,
        };
        let of = |field: &str| -> u64 {
            ["persistent", "volatile"].iter().map(|memory| slice[*memory][field].as_u64().unwrap_or(0)).sum()
        };
        for (name, field) in
            [("bytes read", "controller_read_bytes"), ("bytes written", "controller_write_bytes")]
        {
            events.push(json!({"name": name, "ph": "C", "ts": time, "pid": 1, "args": {"bytes": of(field)}}));
        }
    }
    let clock = |at: &Value| match at["time_ns"].as_u64() {
        Some(0) | None => at["events"].as_f64().unwrap_or(0.0),
        Some(time) => time as f64 / 1000.0,
    };
    let end = report["machine"]["timeline"].as_array().and_then(|slices| slices.last()).map_or(0.0, &clock);
    let phases = report["phases"].as_array().map_or(&[][..], Vec::as_slice);
    for (at, phase) in phases.iter().enumerate() {
        let (from, to) = (clock(phase), phases.get(at + 1).map_or(end, &clock));
        events.push(json!({
            "name": phase["name"], "ph": "X", "ts": from, "dur": (to - from).max(0.0), "pid": 1, "tid": 1, "cat": "phase",
        }));
    }
    let (frames, samples) = sampled(report);
    json!({
        "traceEvents": events, "displayTimeUnit": "ns", "stackFrames": frames, "samples": samples,
    })
}

/// Call stacks by the time that cores stood still, or by misses if none was measured: frames with their
/// callers, and a sample for each stack, one behind the other in time.
fn sampled(report: &Value) -> (Value, Value) {
    let all = crate::stacks::samples(report);
    let timed = all.iter().any(|sample| sample.values[By::Time as usize] > 0);
    let (by, unit) = if timed { (By::Time, "ns") } else { (By::Misses, "misses") };
    let (mut numbers, mut frames) = (BTreeMap::new(), serde_json::Map::new());
    let (mut samples, mut at) = (Vec::new(), 0.0);
    for sample in all.iter().filter(|sample| sample.values[by as usize] > 0) {
        let mut parent: Option<usize> = None;
        for frame in sample.frames().rev() {
            let name = frame["function"].as_str().unwrap_or("?");
            let next = numbers.len() + 1;
            let number = *numbers.entry((parent, name.to_owned())).or_insert(next);
            let above = parent.map(|parent| parent.to_string());
            frames.insert(number.to_string(), json!({"name": name, "category": "code", "parent": above}));
            parent = Some(number);
        }
        let weight = sample.values[by as usize];
        samples.push(json!({
            "cpu": 0, "tid": 2, "ts": at, "name": unit, "sf": parent.map(|parent| parent.to_string()), "weight": weight,
        }));
        at += weight as f64 / 1000.0;
    }
    (Value::Object(frames), Value::Array(samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(read: u64, rules: &[&str]) -> Value {
        let findings: Vec<Value> = rules.iter().map(|rule| json!({"rule": rule, "share": 0.5})).collect();
        json!({
            "schema": 1, "findings": findings, "counts": {"events": 10},
            "machine": {"name": "host", "caches": [{"misses": 4}, {"misses": 2}, {"misses": 1}],
                "volatile": {"total": {"controller_read_bytes": read, "controller_write_bytes": 0}},
                "timeline": [{"time_ns": 2000, "events": 5, "volatile": {"controller_read_bytes": read}}]},
            "sites": [{"label": "walk (a.c:3)", "loads": 7, "frames": [{"function": "walk"}, {"function": "main"}],
                "volatile": {"read_bytes": read}}],
        })
    }

    #[test]
    fn what_changed_is_named() {
        let compared = compare(
            &report(640, &["leak", "tlb-reach"]),
            &report(64, &["leak", "dead-store"]),
            &[report(600, &[])],
        );
        assert_eq!(compared["gone"], json!(["tlb-reach"]));
        assert_eq!(compared["new"], json!(["dead-store"]));
        assert_eq!(compared["sites"][0]["read_bytes"], json!({"before": 640, "after": 64}));
        assert!(text(&compared).contains("-90.0 %"), "{}", text(&compared));
        let same = compare(&report(64, &[]), &report(64, &[]), &[]);
        assert_eq!(same["sites"], json!([]));
        let read =
            compared["figures"].as_array().expect("figures").iter().find(|of| of["figure"] == "read_bytes");
        let read = read.expect("bytes read");
        assert_eq!((&read["noise"], &read["beyond_noise"]), (&json!(40), &json!(true)));
        let small = compare(&report(640, &[]), &report(630, &[]), &[report(600, &[])]);
        assert!(text(&small).contains("within noise"), "{}", text(&small));
    }

    #[test]
    fn stacks_fold_from_the_outermost_function() {
        assert_eq!(folded(&report(64, &[]), By::Loads), "main;walk;walk (a.c:3) 7\n");
        assert_eq!(folded(&report(0, &[]), By::Read), "");
        assert_eq!(perfetto(&report(64, &[]))["traceEvents"][0]["ts"], json!(2.0));
        let mut phased = report(64, &[]);
        phased["phases"] = json!([{"name": "load", "time_ns": 500, "events": 1}]);
        let events = &perfetto(&phased)["traceEvents"];
        let phase = events.as_array().expect("events").last().expect("a phase");
        assert_eq!((&phase["name"], &phase["dur"]), (&json!("load"), &json!(1.5)));
    }
}
