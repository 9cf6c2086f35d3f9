//! `strandline reproduce`: every published result beside ours.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use anyhow::Context;
use studies::{Hardware, Lab, Outcome, Row, StudyError, Verdict};

use crate::cli::ReproduceArgs;
use crate::progress::Steps;
use crate::{files, profile, say};

/// Runs the verb. Returns whether no row missed.
pub fn run(args: &ReproduceArgs) -> anyhow::Result<bool> {
    let rows = studies::select(&args.names)?;
    let width = profile::width();
    if args.list {
        let lines: String = rows.iter().map(|row| studies::list(row, width)).collect();
        say(&lines)?;
        return Ok(true);
    }
    let quiet = args.json || args.html;
    let outcomes = judge_all(&rows, args.seed, |outcome| {
        if quiet { Ok(()) } else { say(&(studies::entry(outcome, width) + "\n")) }
    })?;
    let page = || studies::page(&outcomes, command(args));
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
        files::write(&folder.join("reproduce.html"), &page())?;
        files::write(&folder.join("reproduce.json"), &studies::json(&outcomes))?;
        files::write(&folder.join("reproduce.md"), &studies::markdown(&outcomes))?;
    }
    if args.json {
        say(&studies::json(&outcomes))?;
    } else if args.html {
        say(&page())?;
    } else {
        say(&format!("{}\n", studies::summary(&outcomes)))?;
    }
    Ok(outcomes.iter().all(|outcome| outcome.verdict != Verdict::Missed))
}

/// The command that makes the same page.
fn command(args: &ReproduceArgs) -> Vec<String> {
    let mut words: Vec<String> = ["strandline", "reproduce"].map(str::to_owned).into();
    words.extend(args.names.clone());
    if let Some(seed) = args.seed {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    words.push("--html".to_owned());
    words
}

/// Judges the rows on all cores and tells each, in the order of the rows, as soon as it and those before are done.
fn judge_all(
    rows: &[&'static Row],
    seed: Option<u64>,
    mut tell: impl FnMut(&Outcome) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Outcome>> {
    let lab = Lab::new(seed);
    let (hardware, next) = (hardware(), AtomicUsize::new(0));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let mut steps = Steps::new("reproducing", rows.len());
    std::thread::scope(|scope| {
        let (out, judged) = channel();
        for _ in 0..workers {
            let (out, next, lab) = (out.clone(), &next, &lab);
            scope.spawn(move || {
                while let Some((at, row)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    rows.get(at).map(|row| (at, *row))
                } {
                    let outcome = studies::judge(row, lab, hardware);
                    if out.send((at, row, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(out);
        let mut waiting = BTreeMap::new();
        let mut outcomes: Vec<Outcome> = Vec::new();
        for (at, row, outcome) in judged {
            let outcome: Result<Outcome, StudyError> = outcome;
            waiting.insert(at, outcome.with_context(|| row.id.to_owned())?);
            steps.done(row.id);
            while let Some(outcome) = waiting.remove(&outcomes.len()) {
                steps.aside(|| tell(&outcome))?;
                outcomes.push(outcome);
            }
        }
        Ok(outcomes)
    })
}

/// What this computer has. Emulated persistent memory (`memmap=`) makes regions, but no DIMMs.
fn hardware() -> Hardware {
    let devices = std::fs::read_dir("/sys/bus/nd/devices").into_iter().flatten().flatten();
    let dimms = devices.into_iter().any(|device| device.file_name().to_string_lossy().starts_with("nmem"));
    Hardware { dimms }
}
