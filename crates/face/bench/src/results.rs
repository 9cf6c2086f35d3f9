//! What came out, as plain data.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;
use workload::load::{Kind, Tally};

use crate::clock::Spent;
use crate::terms::{Durability, Role, Skipped};

/// Latencies, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Operations that were timed.
    pub timed: u64,
    /// The mean.
    pub mean: f64,
    /// Half of them took at most this.
    pub p50: u64,
    /// 90 % of them.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Latency {
        let at = |quantile| histogram.value_at_quantile(quantile);
        let (p50, p90, p99, p999) = (at(0.5), at(0.9), at(0.99), at(0.999));
        Latency { timed: histogram.len(), mean: histogram.mean(), p50, p90, p99, p999, max: histogram.max() }
    }
}

/// One workload on one contender.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseFigures {
    /// The workload.
    pub workload: String,
    /// Operations done.
    pub operations: u64,
    /// Records that reads and scans found.
    pub found: u64,
    /// Operations per second, of all threads together, by the wall clock.
    pub per_second: f64,
    /// CPU time of an operation, nanoseconds; of all threads of the process, also those that work behind.
    pub cpu_ns: f64,
    /// Wall time divided by operations, nanoseconds.
    pub wall_ns: f64,
    /// The unit, measured between the slices: the median, nanoseconds.
    pub unit_ns: f64,
    /// CPU time of an operation in units.
    pub cpu_ratio: f64,
    /// Wall time divided by operations in units.
    pub wall_ratio: f64,
    /// Latencies of all operations that were timed.
    pub latency: Option<Latency>,
    /// The same by what they did.
    pub latency_by_kind: BTreeMap<&'static str, Latency>,
}

impl PhaseFigures {
    /// From what slices gave, and the units between them.
    pub(crate) fn new(workload: &str, tally: &Tally, spent: Spent, mut units: Vec<f64>) -> PhaseFigures {
        units.sort_by(f64::total_cmp);
        let unit_ns = units.get(units.len() / 2).copied().unwrap_or(f64::NAN);
        let each = |nanoseconds: u64| nanoseconds as f64 / tally.operations.max(1) as f64;
        let (cpu_ns, wall_ns) = (each(spent.cpu_ns), each(spent.wall_ns));
        let by_kind =
            tally.latencies.iter().map(|(kind, histogram): (&Kind, _)| (kind.name(), Latency::of(histogram)));
        PhaseFigures {
            workload: workload.to_owned(),
            operations: tally.operations,
            found: tally.found,
            per_second: if wall_ns > 0.0 { 1e9 / wall_ns } else { 0.0 },
            cpu_ns,
            wall_ns,
            unit_ns,
            cpu_ratio: cpu_ns / unit_ns,
            wall_ratio: wall_ns / unit_ns,
            latency: all_kinds(tally).as_ref().map(Latency::of),
            latency_by_kind: by_kind.collect(),
        }
    }
}

fn all_kinds(tally: &Tally) -> Option<Histogram<u64>> {
    let mut histograms = tally.latencies.values();
    let mut all = histograms.next()?.clone();
    // All have the same bounds.
    histograms.for_each(|histogram| _ = all.add(histogram));
    Some(all)
}

/// One contender with one number of threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The contender.
    pub variant: String,
    /// Whose it is.
    pub role: Role,
    /// What it promises of a write that has returned.
    pub durability: Durability,
    /// The same in words.
    pub durability_text: &'static str,
    /// Threads of the load.
    pub threads: u32,
    /// Inserts per second of the first workload that only inserts.
    pub inserts_per_second: Option<f64>,
    /// Reads per second of the first workload that only reads.
    pub gets_per_second: Option<f64>,
    /// The workloads, in the order in which they ran.
    pub phases: Vec<PhaseFigures>,
}

/// What came out of a contest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Results {
    /// `index` or `kv`.
    pub subject: &'static str,
    /// Where files were.
    pub path: String,
    /// What keys are.
    pub key: crate::record::KeyKind,
    /// Bytes of a value.
    pub value: usize,
    /// Operations of a workload.
    pub operations: u64,
    /// Records that were there before the first workload.
    pub records: u64,
    /// Operations per second that were asked for; none: as fast as they go.
    pub rate: Option<f64>,
    /// Start of all randomness.
    pub seed: u64,
    /// The unit over the whole contest, nanoseconds: the median.
    pub unit_ns: f64,
    /// What a reader has to know before trusting the figures.
    pub cautions: Vec<String>,
    /// Those that did not take part.
    pub skipped: Vec<Skipped>,
    /// Those that did.
    pub rows: Vec<Row>,
}

impl Results {
    /// The results as `docs/bench-json.md` describes them; `command` is the command line that makes them
    /// again.
    ///
    /// # Errors
    /// If a number has no form in JSON.
    pub fn json(&self, command: &[String]) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct Whole<'a> {
            format: &'static str,
            version: &'static str,
            command: &'a [String],
            #[serde(flatten)]
            results: &'a Results,
        }
        let (format, version) = ("strandline bench 1", env!("CARGO_PKG_VERSION"));
        Ok(serde_json::to_string_pretty(&Whole { format, version, command, results: self })? + "\n")
    }

    /// The phase of that workload.
    pub(crate) fn phase<'a>(row: &'a Row, workload: &str) -> Option<&'a PhaseFigures> {
        row.phases.iter().find(|phase| phase.workload == workload)
    }

    /// Names of the workloads, in the order in which they ran.
    pub(crate) fn workloads(&self) -> Vec<&str> {
        let longest = self.rows.iter().max_by_key(|row| row.phases.len());
        longest.map_or(Vec::new(), |row| row.phases.iter().map(|phase| &*phase.workload).collect())
    }
}
