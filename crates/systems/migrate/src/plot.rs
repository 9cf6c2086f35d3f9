//! How fast a process works while it moves: samples of a heartbeat, and a page that shows them.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::freeze::monotonic;
use crate::live::Moved;

/// Between two samples.
const PERIOD: Duration = Duration::from_millis(2);
/// Samples that make one point of the curve.
const JOINED: usize = 5;
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 320.0;

/// A count at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub at_ns: u64,
    /// What had been counted.
    pub count: u64,
}

/// A file whose first eight bytes are a number that the program counts up (a mapping that it shares).
#[derive(Debug)]
pub struct Heartbeat(File);

impl Heartbeat {
    /// Opens the file.
    ///
    /// # Errors
    /// If it cannot be opened, or is too short.
    pub fn open(path: &Path) -> Result<Self> {
        let file =
            File::open(path).map_err(|source| Error::file(path, "the heartbeat cannot be opened", source))?;
        let beat = Self(file);
        let first = beat.read_first();
        first.map_err(|source| Error::file(path, "a heartbeat is a number of eight bytes", source))?;
        Ok(beat)
    }

    fn read_first(&self) -> std::io::Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, 0)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// The number.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.read_first().unwrap_or(0)
    }
}

/// Takes samples until `over`.
pub fn sample(count: impl Fn() -> u64, over: &AtomicBool) -> Vec<Sample> {
    let mut found = Vec::new();
    while !over.load(Ordering::Relaxed) {
        found.push(Sample { at_ns: monotonic().as_nanos() as u64, count: count() });
        std::thread::sleep(PERIOD);
    }
    found
}

/// Points of the curve: seconds since the stop, and the rate per second.
#[must_use]
pub fn rates(samples: &[Sample], stop_ns: u64) -> Vec<(f64, f64)> {
    let joined: Vec<Sample> = samples.iter().copied().step_by(JOINED).collect();
    let rate = |pair: &[Sample]| {
        let seconds = (pair[1].at_ns - pair[0].at_ns) as f64 / 1e9;
        let middle = (pair[0].at_ns as f64 + pair[1].at_ns as f64) / 2.0 - stop_ns as f64;
        (middle / 1e9, pair[1].count.saturating_sub(pair[0].count) as f64 / seconds.max(1e-9))
    };
    joined.windows(2).map(rate).collect()
}

/// The longest time without a beat that lies around the stop, in seconds.
#[must_use]
pub fn gap(samples: &[Sample]) -> f64 {
    let (mut longest, mut since) = (0, samples.first().map_or(0, |one| one.at_ns));
    for pair in samples.windows(2) {
        if pair[1].count != pair[0].count {
            longest = longest.max(pair[1].at_ns - since);
            since = pair[1].at_ns;
        }
    }
    longest as f64 / 1e9
}

/// One page with the curve and the times. `what` says what was counted.
#[must_use]
pub fn page(moved: &Moved, samples: &[Sample], what: &str) -> String {
    let points = rates(samples, moved.stopped_at_ns);
    let first = points.first().map_or(-0.1, |point| point.0);
    let last = points.last().map_or(1.0, |point| point.0).max(first + 0.01);
    let most = points.iter().map(|point| point.1).fold(1.0, f64::max);
    let x = |at: f64| 60.0 + (at - first) / (last - first) * (WIDTH - 80.0);
    let y = |rate: f64| HEIGHT - 40.0 - rate / most * (HEIGHT - 70.0);
    let before: Vec<f64> = points.iter().filter(|point| point.0 < -0.005).map(|point| point.1).collect();
    let usual = before.iter().sum::<f64>() / before.len().max(1) as f64;
    let mut out = String::from(
        "<!doctype html><meta charset=\"utf-8\"><title>A process that moved</title><style>body{font:15px sans-serif;\
         max-width:920px;margin:2em auto}td{padding:.1em 1em .1em 0}text{font-size:12px}</style><h1>A process that \
         moved</h1>",
    );
    let _ = write!(out, "<p>{what}, over time since the stop.</p><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\">");
    let _ = write!(
        out,
        "<path d=\"M60 20V{0}H{1}\" fill=\"none\" stroke=\"#888\"/><text x=\"4\" y=\"{2:.0}\">{most:.3e}/s</text>",
        HEIGHT - 40.0,
        WIDTH - 20.0,
        y(most) + 4.0
    );
    let curve: Vec<String> =
        points.iter().map(|(at, rate)| format!("{:.1},{:.1}", x(*at), y(*rate))).collect();
    let _ = write!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#246\" stroke-width=\"1.5\"/>",
        curve.join(" ")
    );
    let marks = [
        (Some(0.0), "stopped"),
        (Some(moved.downtime_s), "runs there"),
        (Some(moved.busy_s), "source free"),
        (moved.total_s, "last page"),
    ];
    for (row, (at, name)) in marks.into_iter().enumerate() {
        let Some(at) = at.filter(|at| (first..=last).contains(at)) else { continue };
        let _ = write!(
            out,
            "<path d=\"M{0:.1} 20V{1}\" stroke=\"#c40\" stroke-dasharray=\"3\"/><text x=\"{0:.1}\" y=\"{2}\">{name}</text>",
            x(at),
            HEIGHT - 40.0,
            HEIGHT - 28.0 + 9.0 * row as f64 % 28.0
        );
    }
    out.push_str("</svg><table>");
    let mut row = |name: &str, value: String| {
        let _ = write!(out, "<tr><td>{name}</td><td>{value}</td></tr>");
    };
    row("stopped (downtime)", format!("{:.1} ms", moved.downtime_s * 1e3));
    row("longest time without a beat", format!("{:.1} ms", gap(samples) * 1e3));
    if let Some(total) = moved.total_s {
        row("until the last page was there (total)", format!("{:.1} ms", total * 1e3));
        row(
            "of it running with pages missing (resume)",
            format!("{:.1} ms", (total - moved.downtime_s) * 1e3),
        );
        let during = points.iter().filter(|point| (moved.downtime_s..total).contains(&point.0));
        let rates: Vec<f64> = during.map(|point| point.1).collect();
        if usual > 0.0 && !rates.is_empty() {
            let share = rates.iter().sum::<f64>() / rates.len() as f64 / usual;
            row("speed meanwhile, of that before", format!("{:.0} %", share * 100.0));
        }
    }
    row("source busy", format!("{:.1} ms", moved.busy_s * 1e3));
    row("pages", format!("{:.1} MiB", (moved.lazy_bytes + moved.eager_bytes) as f64 / f64::from(1 << 20)));
    row("page faults served", moved.faults.to_string());
    out.push_str("</table>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_shows_in_rates_and_gap() {
        let at = |ms: u64, count| Sample { at_ns: 1_000_000_000 + ms * 1_000_000, count };
        // 1 beat per ms, none from 100 ms to 150 ms.
        let beats = |ms: u64| if ms <= 100 { ms } else { 100 + ms.saturating_sub(150) };
        let samples: Vec<Sample> = (0..150).map(|index| at(2 * index, beats(2 * index))).collect();
        let found = rates(&samples, 1_100_000_000);
        let near =
            |seconds: f64| found.iter().find(|point| (point.0 - seconds).abs() < 0.006).expect("a point").1;
        assert!((near(-0.05) - 1000.0).abs() < 1.0 && near(0.025) == 0.0 && (near(0.1) - 1000.0).abs() < 1.0);
        assert!((gap(&samples) - 0.052).abs() < 0.003, "{}", gap(&samples));
        let moved =
            Moved { stopped_at_ns: 1_100_000_000, downtime_s: 0.05, total_s: Some(0.1), ..Moved::default() };
        let page = page(&moved, &samples, "Beats");
        for part in ["<polyline", "runs there", "last page", "50.0 ms", "longest time without a beat"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
