//! The model held against this computer's own counters, where it has any: ten small programs, built twice. One is recorded and
//! run through the modelled machine, as `strandline profile` does; the other runs as it is while the processor counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use capture::{CaptureError, ProcessorEvent, count_events};
use serde_json::Value;

use crate::kernels::{Folder, KernelError};
use crate::{Check, Evidence, Lab, Means, Row, Source, StudyError};

/// The programs of `examples/c/slow`, by name.
const PROGRAMS: [(&str, &str); 10] = [
    ("false-sharing", include_str!("../../../../examples/c/slow/false-sharing.c")),
    ("true-sharing", include_str!("../../../../examples/c/slow/true-sharing.c")),
    ("contended-lock", include_str!("../../../../examples/c/slow/contended-lock.c")),
    ("unused-bytes", include_str!("../../../../examples/c/slow/unused-bytes.c")),
    ("against-the-rows", include_str!("../../../../examples/c/slow/against-the-rows.c")),
    ("pointer-chase", include_str!("../../../../examples/c/slow/pointer-chase.c")),
    ("dead-store", include_str!("../../../../examples/c/slow/dead-store.c")),
    ("tlb-reach", include_str!("../../../../examples/c/slow/tlb-reach.c")),
    ("conflicts", include_str!("../../../../examples/c/slow/conflicts.c")),
    ("straddled", include_str!("../../../../examples/c/slow/straddled.c")),
];
/// Runs of a program under the counters, of which the median counts.
const RUNS: usize = 5;
/// Counts below this are as much start and end of a program as its own doing.
const LEAST: f64 = 10_000.0;
/// Bytes of a line.
const LINE: f64 = 64.0;
/// How far a value may be off: prefetchers, speculation and what the counter counts are the processor's own.
const OFF: f64 = 0.5;
const LOWEST_CORRELATION: f64 = 0.8;
const TOLERANCE: &str = "shape: rank correlation of at least 0.8; value: each within 50 %, where the processor counts at least 10,000, since \
                         prefetchers and what a counter counts differ";
const METHOD: &str = "ten programs of examples/c/slow: `strandline profile --machine host` beside the processor's counts in user mode, the \
                      median of five runs of the program as gcc -O1 builds it";

const fn row(id: &'static str, claim: &'static str, note: &'static str, means: Means) -> Row {
    Row {
        source: Source::Here,
        id,
        claim,
        expected: "the processor's counts",
        tolerance: TOLERANCE,
        method: METHOD,
        calibration: "",
        note,
        means,
        lacks: "",
    }
}

/// The model against counters.
pub const ROWS: &[Row] = &[
    row(
        "here-first",
        "Misses of the first data cache are those that this processor counts",
        "The counter is of loads, the model counts loads and stores",
        Means::Here(first),
    ),
    row(
        "here-last",
        "Accesses that no cache has are those that this processor counts",
        "Prefetched lines are hits to some processors",
        Means::Here(last),
    ),
    row(
        "here-sharing",
        "Lines that come from another core's cache are those that this processor counts",
        "Intel's processors count loads only, and others have no such counter of a core. A recording on few cores runs threads one after another, so lines move less often in it",
        Means::Here(sharing),
    ),
    row(
        "here-bandwidth",
        "Bytes from memory by time are what this processor's misses and the clock say",
        "A line of 64 B for each miss; the model's time is that of the accesses that ran with time",
        Means::Here(bandwidth),
    ),
];

/// What one side says of a program.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    first: f64,
    last: f64,
    /// Lines from other cores; `None` where the processor does not count them.
    transfers: Option<f64>,
    seconds: f64,
}

/// A program on the model and here.
#[derive(Clone, Copy, Debug)]
struct Both {
    name: &'static str,
    model: Counts,
    here: Counts,
}

fn first(_: &Lab) -> Result<Evidence, StudyError> {
    Ok(held(measured()?, |counts| Some(counts.first)))
}

fn last(_: &Lab) -> Result<Evidence, StudyError> {
    Ok(held(measured()?, |counts| Some(counts.last)))
}

fn sharing(_: &Lab) -> Result<Evidence, StudyError> {
    let all = measured()?;
    if all.iter().any(|both| both.here.transfers.is_none()) {
        return Err(StudyError::NoCounters("it does not count lines that come from other cores".to_owned()));
    }
    Ok(held(all, |counts| counts.transfers))
}

fn bandwidth(_: &Lab) -> Result<Evidence, StudyError> {
    let speed = |counts: &Counts| (counts.last >= LEAST).then(|| counts.last * LINE / counts.seconds);
    Ok(held(measured()?, speed))
}

/// Holds what the model says of each program against what was counted.
fn held(all: &[Both], what: impl Fn(&Counts) -> Option<f64>) -> Evidence {
    let pairs: Vec<(&str, f64, f64)> =
        all.iter().filter_map(|both| Some((both.name, what(&both.model)?, what(&both.here)?))).collect();
    let (model, here): (Vec<f64>, Vec<f64>) = pairs.iter().map(|pair| (pair.1, pair.2)).unzip();
    let correlation = correlation(&model, &here);
    let mut checks = vec![Check::at_least("rank correlation", LOWEST_CORRELATION, correlation)];
    let counted = pairs.iter().filter(|pair| pair.2 >= LEAST);
    checks.extend(counted.map(|(name, model, here)| Check::near(name, *here, OFF, *model)));
    Evidence { checks, ..Evidence::default() }
}

/// Spearman's coefficient; equal values share their rank.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let ranks = |values: &[f64]| -> Vec<f64> {
        let rank = |value: &f64| {
            let below = values.iter().filter(|other| *other < value).count();
            let equal = values.iter().filter(|other| *other == value).count();
            below as f64 + (equal as f64 - 1.0) / 2.0
        };
        values.iter().map(rank).collect()
    };
    let mean = (a.len() as f64 - 1.0) / 2.0;
    let product =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum() };
    let (a, b) = (ranks(a), ranks(b));
    product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
}

/// All programs, once for all rows.
fn measured() -> Result<&'static [Both], StudyError> {
    static ALL: OnceLock<Result<Vec<Both>, (bool, String)>> = OnceLock::new();
    let once = || {
        let failed = |error: std::io::Error| (false, error.to_string());
        let folder = Folder::new().map_err(failed)?;
        let own = std::env::current_exe().map_err(failed)?;
        if own.file_name().is_none_or(|name| name != "strandline") {
            return Err((true, "only the command line has `profile`".to_owned()));
        }
        PROGRAMS.iter().map(|&(name, source)| one(&folder.0, &own, name, source)).collect()
    };
    ALL.get_or_init(once).as_deref().map_err(|(skipped, reason)| match skipped {
        true => StudyError::NoCounters(reason.clone()),
        false => StudyError::Kernels(KernelError::Build(reason.clone())),
    })
}

/// A program on both sides. The error says whether this computer merely has no counters.
fn one(folder: &Path, own: &Path, name: &'static str, source: &str) -> Result<Both, (bool, String)> {
    let failed = |text: String| (false, format!("{name}: {text}"));
    let path = |end: &str| -> PathBuf { folder.join(format!("{name}{end}")) };
    fs::write(path(".c"), source).map_err(|error| failed(error.to_string()))?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-pthread", "-w", "-o"]).args([path("-plain"), path(".c")]);
    ran(&mut gcc).map_err(failed)?;
    // First, since it says whether there is anything to compare with.
    let here = counted(&path("-plain"))?;
    let mut cc = Command::new(own);
    cc.args(["cc", "-O1", "-g", "-pthread", "-w", "-o"]).args([path("-app"), path(".c")]);
    ran(&mut cc).map_err(failed)?;
    let mut profile = Command::new(own);
    profile.current_dir(folder).args(["profile", "--machine", "host", "--json", "--"]).arg(path("-app"));
    let report = serde_json::from_str(&ran(&mut profile).map_err(failed)?);
    let report = report.map_err(|error| failed(error.to_string()))?;
    let model = modelled(&report).ok_or_else(|| failed("its report has no counts".to_owned()))?;
    Ok(Both { name, model, here })
}

/// Runs a command to its end; what it printed.
fn ran(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// What the processor counts of a program: medians.
fn counted(program: &Path) -> Result<Counts, (bool, String)> {
    let runs = |events: &[ProcessorEvent]| -> Result<Vec<f64>, CaptureError> {
        let mut all = Vec::new();
        for _ in 0..RUNS {
            let mut command = Command::new(program);
            command.stdout(std::process::Stdio::null());
            let run = count_events(command, events)?;
            all.push([run.counts, vec![run.elapsed.as_secs_f64()]].concat());
        }
        let median = |at: usize| {
            let mut values: Vec<f64> = all.iter().map(|run| run[at]).collect();
            values.sort_by(f64::total_cmp);
            values[RUNS / 2]
        };
        Ok((0..=events.len()).map(median).collect())
    };
    let usual = runs(&[ProcessorEvent::FirstLevelMisses, ProcessorEvent::LastLevelMisses]);
    let usual = usual.map_err(|error| match error {
        CaptureError::NotPermitted { .. } | CaptureError::NoSampling(_) => (true, error.to_string()),
        _ => (false, error.to_string()),
    })?;
    let transfers = runs(&[ProcessorEvent::Transfers]).ok().map(|run| run[0]);
    Ok(Counts { first: usual[0], last: usual[1], transfers, seconds: usual[2] })
}

/// What a report of `profile` says of its program.
fn modelled(report: &Value) -> Option<Counts> {
    let caches = report["machine"]["caches"].as_array()?;
    let number = |value: &Value| value.as_f64();
    let last = caches.last()?;
    let transfers = number(&last["forwards"])?;
    let accesses = number(&report["counts"]["loads"])? + number(&report["counts"]["stores"])?;
    let timed = &report["modelled"];
    let seconds = number(&timed["elapsed_ns"])? / 1e9 * accesses / number(&timed["accesses"])?;
    Some(Counts {
        first: number(&caches.first()?["misses"])?,
        last: number(&last["misses"])? - transfers,
        transfers: Some(transfers),
        seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    fn programs(model: [f64; 4]) -> Vec<Both> {
        let here = [2e4, 5e4, 1e5, 9e5];
        let both = |(model, here): (f64, f64)| Both {
            name: "one",
            model: Counts { first: model, ..Counts::default() },
            here: Counts { first: here, ..Counts::default() },
        };
        model.into_iter().zip(here).map(both).collect()
    }

    #[test]
    fn a_model_that_counts_otherwise_misses() {
        let verdict = |model| Verdict::of(&held(&programs(model), |counts| Some(counts.first)).checks);
        assert_eq!(verdict([2.1e4, 4e4, 1.2e5, 8e5]), Verdict::Matched);
        assert_eq!(verdict([2.1e4, 4e4, 1.2e5, 2e6]), Verdict::ShapeOnly);
        assert_eq!(verdict([9e5, 1e5, 5e4, 2e4]), Verdict::Missed);
    }

    #[test]
    fn what_is_rarer_than_a_start_is_not_held_to_a_value() {
        let mut all = programs([2e4, 5e4, 1e5, 9e5]);
        all.push(Both {
            name: "small",
            model: Counts { first: 1.0, ..Counts::default() },
            here: Counts { first: 900.0, ..Counts::default() },
        });
        assert_eq!(held(&all, |counts| Some(counts.first)).checks.len(), 5);
    }

    #[test]
    fn equal_values_share_their_rank() {
        assert!((correlation(&[1.0, 1.0, 3.0], &[2.0, 2.0, 9.0]) - 1.0).abs() < 1e-9);
        assert!((correlation(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]) + 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_report_is_read_as_it_is_written() {
        let report = serde_json::json!({
            "counts": {"loads": 3000, "stores": 1000},
            "machine": {"caches": [{"misses": 70}, {"misses": 50}, {"misses": 40, "forwards": 15}]},
            "modelled": {"elapsed_ns": 500, "accesses": 2000},
        });
        let counts = modelled(&report).expect("counts");
        assert_eq!((counts.first, counts.last, counts.transfers), (70.0, 25.0, Some(15.0)));
        assert!((counts.seconds - 1e-6).abs() < 1e-12);
        assert!(modelled(&serde_json::json!({"machine": {"caches": []}})).is_none());
    }
}
