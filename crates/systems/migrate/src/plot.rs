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
const HEIGHT: f64 = 380.0;

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

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// A number that the program counts up.
    Beats,
    /// Nanoseconds that its threads have run.
    ProcessorTime,
}

impl Counted {
    fn title(self) -> &'static str {
        match self {
            Self::Beats => "Beats of the program per second",
            Self::ProcessorTime => "Processor time of the program, in per cent of one core",
        }
    }

    /// A rate per second, in the unit of the curve.
    fn scaled(self, rate: f64) -> f64 {
        match self {
            Self::Beats => rate,
            Self::ProcessorTime => rate / 1e7,
        }
    }
}

/// The drawing: the axes' ends, and what of the area is the curve's.
struct Plot {
    first: f64,
    last: f64,
    most: f64,
}

impl Plot {
    const LEFT: f64 = 70.0;
    const RIGHT: f64 = 20.0;
    const TOP: f64 = 20.0;
    const BOTTOM: f64 = 100.0;
    /// Between two lines of text.
    const LINE: f64 = 15.0;

    fn of(points: &[(f64, f64)]) -> Self {
        let first = points.first().map_or(-0.1, |point| point.0);
        let last = points.last().map_or(1.0, |point| point.0).max(first + 0.01);
        let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
        Self { first, last, most: round_up(most) }
    }

    fn x(&self, at: f64) -> f64 {
        Self::LEFT + (at - self.first) / (self.last - self.first) * (WIDTH - Self::LEFT - Self::RIGHT)
    }

    fn y(&self, rate: f64) -> f64 {
        HEIGHT - Self::BOTTOM - rate / self.most * (HEIGHT - Self::BOTTOM - Self::TOP)
    }

    /// Axes with their numbers.
    fn axes(&self, out: &mut String) {
        let (floor, right) = (HEIGHT - Self::BOTTOM, WIDTH - Self::RIGHT);
        for part in 0..=4 {
            let rate = self.most * f64::from(part) / 4.0;
            let (y, left) = (self.y(rate), Self::LEFT);
            let _ = write!(
                out,
                "<path d=\"M{left} {y:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{0}\" y=\"{1:.1}\" \
                 text-anchor=\"end\">{2}</text>",
                left - 6.0,
                y + 4.0,
                short(rate)
            );
        }
        let step = round_up((self.last - self.first) / 8.0);
        let mut at = (self.first / step).ceil() * step;
        while at <= self.last {
            let _ = write!(
                out,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{} ms</text>",
                self.x(at),
                floor + Self::LINE,
                (at * 1e3).round() + 0.0
            );
            at += step;
        }
        let _ = write!(
            out,
            "<path d=\"M{0} {1}V{floor}H{right}\" fill=\"none\" stroke=\"#888\"/>",
            Self::LEFT,
            Self::TOP
        );
    }

    /// What happened when: each in a line of its own below the axis, to the left of its mark where the
    /// drawing ends.
    fn marks(&self, moved: &Moved, out: &mut String) {
        let marks = [
            (Some(0.0), "stopped"),
            (Some(moved.downtime_s), "runs there"),
            (Some(moved.busy_s), "source free"),
            (moved.total_s, "last page"),
        ];
        for (row, (at, name)) in (2_u32..).zip(marks) {
            let Some(at) = at.filter(|at| (self.first..=self.last).contains(at)) else { continue };
            let (x, y) = (self.x(at), HEIGHT - Self::BOTTOM + Self::LINE * f64::from(row));
            let (anchor, beside) = if x > WIDTH - 150.0 { ("end", x - 4.0) } else { ("start", x + 4.0) };
            let _ = write!(
                out,
                "<path d=\"M{x:.1} {0}V{y:.1}\" stroke=\"#c40\" stroke-dasharray=\"3\"/><text x=\"{beside:.1}\" \
                 y=\"{y:.1}\" text-anchor=\"{anchor}\">{name}</text>",
                Self::TOP
            );
        }
    }
}

/// The next number of one digit: 1, 2 or 5 and zeros.
fn round_up(value: f64) -> f64 {
    let value = value.max(1e-9);
    let ten = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|digit| digit * ten).into_iter().find(|one| *one >= value).unwrap_or(value)
}

/// A number with at most three digits before its unit.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    format!("{}{unit}", (value * 100.0).round() / 100.0)
}

/// One page with the curve and the times.
#[must_use]
pub fn page(moved: &Moved, samples: &[Sample], counted: Counted) -> String {
    let points: Vec<(f64, f64)> = rates(samples, moved.stopped_at_ns)
        .into_iter()
        .map(|(at, rate)| (at, counted.scaled(rate)))
        .collect();
    let plot = Plot::of(&points);
    let mut out = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>A process that moved</title><style>body{font:15px \
         sans-serif;max-width:920px;margin:2em auto}td{padding:.1em 1em .1em 0}text{font-size:12px}</style><h1>A process \
         that moved</h1>",
    );
    let title = counted.title();
    let _ =
        write!(out, "<p>{title}, over the time since the stop.</p><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\">");
    plot.axes(&mut out);
    let curve: Vec<String> =
        points.iter().map(|(at, rate)| format!("{:.1},{:.1}", plot.x(*at), plot.y(*rate))).collect();
    let _ = write!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#246\" stroke-width=\"1.5\"/>",
        curve.join(" ")
    );
    plot.marks(moved, &mut out);
    out.push_str("</svg><table>");
    for (name, value) in table(moved, samples, &points, counted) {
        let _ = write!(out, "<tr><td>{name}</td><td>{value}</td></tr>");
    }
    let numbers = serde_json::to_string_pretty(moved).unwrap_or_default();
    let numbers = numbers.replace('&', "&amp;").replace('<', "&lt;");
    let _ =
        write!(out, "</table><details><summary>All numbers, as JSON</summary><pre>{numbers}</pre></details>");
    out
}

/// Names and values of the table.
fn table(
    moved: &Moved,
    samples: &[Sample],
    points: &[(f64, f64)],
    counted: Counted,
) -> Vec<(&'static str, String)> {
    let milliseconds = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
    let gap_name = match counted {
        Counted::Beats => "longest time without a beat",
        Counted::ProcessorTime => "longest time without running",
    };
    let mut rows =
        vec![("stopped (downtime)", milliseconds(moved.downtime_s)), (gap_name, milliseconds(gap(samples)))];
    if let Some(total) = moved.total_s {
        rows.push(("until the last page was there (total)", milliseconds(total)));
        rows.push(("of it running with pages missing (resume)", milliseconds(total - moved.downtime_s)));
        let before: Vec<f64> = points.iter().filter(|point| point.0 < -0.005).map(|point| point.1).collect();
        let usual = before.iter().sum::<f64>() / before.len().max(1) as f64;
        // A process that is being made has used processor time before it runs.
        let made = if counted == Counted::Beats { 0.0 } else { 2.0 * JOINED as f64 * PERIOD.as_secs_f64() };
        let during = points.iter().filter(|point| (moved.downtime_s + made..total).contains(&point.0));
        let rates: Vec<f64> = during.map(|point| point.1).collect();
        if usual > 0.0 && !rates.is_empty() {
            let share = rates.iter().sum::<f64>() / rates.len() as f64 / usual;
            rows.push(("speed meanwhile, of that before", format!("{:.0} %", share * 100.0)));
        }
    }
    rows.push(("source busy", milliseconds(moved.busy_s)));
    let bytes = (moved.lazy_bytes + moved.eager_bytes) as f64;
    rows.push(("pages", format!("{:.1} MiB", bytes / f64::from(1 << 20))));
    rows.push(("page faults served", moved.faults.to_string()));
    rows
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
        let page = page(&moved, &samples, Counted::Beats);
        for part in ["<polyline", "runs there", "last page", "50.0 ms", "longest time without a beat"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    /// Position and text of each label in a drawing.
    fn labels(page: &str) -> Vec<(f64, f64, String)> {
        let attribute = |text: &str, name: &str| {
            let (_, rest) = text.split_once(&format!(" {name}=\""))?;
            rest.split_once('"')?.0.parse::<f64>().ok()
        };
        let label = |text: &str| {
            let (head, rest) = text.split_once('>')?;
            Some((attribute(head, "x")?, attribute(head, "y")?, rest.split_once('<')?.0.to_owned()))
        };
        page.split("<text").skip(1).filter_map(label).collect()
    }

    #[test]
    fn labels_are_inside_and_apart() {
        let sample = |ms: u64| Sample { at_ns: ms * 1_000_000, count: ms * 900_000 };
        let samples: Vec<Sample> = (0..1000).step_by(2).map(sample).collect();
        for (busy_s, total_s) in [(0.001, 0.002), (0.001, 0.47), (0.469, 0.47)] {
            let moved = Moved {
                stopped_at_ns: 500_000_000,
                downtime_s: 0.0005,
                busy_s,
                total_s: Some(total_s),
                ..Moved::default()
            };
            let page = page(&moved, &samples, Counted::ProcessorTime);
            let found = labels(&page);
            assert!(found.len() > 12 && found.iter().any(|label| label.2 == "100"), "{found:?}");
            for (index, (x, y, text)) in found.iter().enumerate() {
                assert!((0.0..WIDTH).contains(x) && (8.0..HEIGHT - 3.0).contains(y), "{text}: {x}, {y}");
                let near =
                    |other: &&(f64, f64, String)| (other.0 - x).abs() < 40.0 && (other.1 - y).abs() < 12.0;
                let other = found[index + 1..].iter().find(near);
                assert!(other.is_none(), "{text} over {other:?}");
            }
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 7.5, 1500.0, 2e6, 3.25e9].map(short), ["0", "7.5", "1.5k", "2M", "3.25G"]);
        assert_eq!([0.3, 1.0, 1.2, 61.0, 900.0].map(round_up), [0.5, 1.0, 2.0, 100.0, 1000.0]);
    }
}
