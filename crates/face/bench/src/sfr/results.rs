//! What came out, as plain data.

use serde::{Deserialize, Serialize};

/// What the runtime counted in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Stores to the pool.
    pub stores: u64,
    /// Log entries.
    pub entries: u64,
    /// Their bytes.
    pub log_bytes: u64,
    /// Lines flushed.
    pub flushes: u64,
    /// Fences.
    pub fences: u64,
    /// SFRs that ended; critical sections for ATLAS.
    pub regions: u64,
    /// Commits, each of one SFR or of many.
    pub commits: u64,
    /// The most bytes of one log that were not committed at the end of an SFR.
    pub live_log_bytes_max: u64,
}

/// One benchmark, one variant, one number of threads and of stores: medians over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SfrRow {
    /// The benchmark.
    pub benchmark: String,
    /// The variant.
    pub variant: String,
    /// Threads.
    pub threads: u32,
    /// 8-byte stores of data per SFR.
    pub stores_per_sfr: u32,
    /// Wall time divided by operations of all threads, nanoseconds.
    pub wall_ns: f64,
    /// CPU time of an operation, of all threads of the process, nanoseconds.
    pub cpu_ns: f64,
    /// Operations per second.
    pub per_second: f64,
    /// Shortest and longest wall time of a round, divided by operations, nanoseconds.
    pub wall_range_ns: (f64, f64),
    /// Counters of the last round; none where nothing is logged by a runtime.
    pub counters: Option<Counters>,
}

/// What a benchmark takes with part of the logging.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepRow {
    /// The benchmark.
    pub benchmark: String,
    /// The design.
    pub variant: String,
    /// `none`, `log`, `flush`, `data` or `commit`: each does all before it, too.
    pub step: &'static str,
    /// Wall time divided by operations, nanoseconds: the median.
    pub wall_ns: f64,
    /// CPU time of an operation, nanoseconds: the median.
    pub cpu_ns: f64,
    /// Log entries of an operation.
    pub entries: f64,
}

/// How a variant compares with another one over all benchmarks, at one number of threads and of stores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The variant.
    pub variant: &'static str,
    /// What it is held against.
    pub against: &'static str,
    /// Threads.
    pub threads: u32,
    /// Stores per SFR.
    pub stores_per_sfr: u32,
    /// How many times as fast it is, by wall time: the geometric mean over the benchmarks.
    pub speedup: f64,
    /// By how much its wall time is shorter: the mean over the benchmarks of 1 − time / time.
    pub improvement: f64,
    /// How much CPU time it saves per operation: likewise.
    pub cpu_improvement: f64,
    /// The speedup in each benchmark.
    pub benchmarks: Vec<(String, f64)>,
}

/// What is held against what.
const PAIRS: [(&str, &str); 8] = [
    ("coupled", "atlas"),
    ("decoupled", "atlas"),
    ("strand", "atlas"),
    ("none", "atlas"),
    ("decoupled", "coupled"),
    ("decoupled", "none"),
    ("hooks", "plain"),
    ("none", "plain"),
];

/// Everything.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SfrResults {
    /// Operations of a run.
    pub operations: u64,
    /// Rounds.
    pub rounds: u32,
    /// Start of all randomness.
    pub seed: u64,
    /// Where pools were.
    pub path: String,
    /// One log line written, flushed and fenced, nanoseconds: the floor of a logged store.
    pub floor_ns: f64,
    /// What to keep in mind.
    pub cautions: Vec<String>,
    /// Medians.
    pub rows: Vec<SfrRow>,
    /// The breakdown of overhead, for one thread count and the first number of stores.
    pub steps: Vec<StepRow>,
    /// Comparisons.
    pub summaries: Vec<Summary>,
}

impl SfrResults {
    /// The row of these.
    #[must_use]
    pub fn row(&self, benchmark: &str, variant: &str, threads: u32, stores: u32) -> Option<&SfrRow> {
        self.rows.iter().find(|row| {
            (&*row.benchmark, &*row.variant) == (benchmark, variant)
                && (row.threads, row.stores_per_sfr) == (threads, stores)
        })
    }

    /// Makes the comparisons of the rows.
    pub(super) fn summarise(&mut self) {
        let mut cells: Vec<(u32, u32)> =
            self.rows.iter().map(|row| (row.threads, row.stores_per_sfr)).collect();
        cells.dedup();
        cells.sort_unstable();
        cells.dedup();
        self.summaries = cells
            .into_iter()
            .flat_map(|cell| PAIRS.into_iter().map(move |pair| (cell, pair)))
            .filter_map(|(cell, pair)| self.summary(cell, pair))
            .collect();
    }

    fn summary(
        &self,
        (threads, stores_per_sfr): (u32, u32),
        (variant, against): (&'static str, &'static str),
    ) -> Option<Summary> {
        let pairs: Vec<(&SfrRow, &SfrRow)> = self
            .rows
            .iter()
            .filter(|row| {
                row.variant == variant && (row.threads, row.stores_per_sfr) == (threads, stores_per_sfr)
            })
            .filter_map(|row| Some((row, self.row(&row.benchmark, against, threads, stores_per_sfr)?)))
            .collect();
        if pairs.is_empty() {
            return None;
        }
        let mean = |of: &dyn Fn(&SfrRow, &SfrRow) -> f64| {
            pairs.iter().map(|(row, other)| of(row, other)).sum::<f64>() / pairs.len() as f64
        };
        Some(Summary {
            variant,
            against,
            threads,
            stores_per_sfr,
            speedup: mean(&|row, other| (other.wall_ns / row.wall_ns).ln()).exp(),
            improvement: mean(&|row, other| 1.0 - row.wall_ns / other.wall_ns),
            cpu_improvement: mean(&|row, other| 1.0 - row.cpu_ns / other.cpu_ns),
            benchmarks: pairs
                .iter()
                .map(|(row, other)| (row.benchmark.clone(), other.wall_ns / row.wall_ns))
                .collect(),
        })
    }

    /// What the log entry of a store costs, in units of the floor: between no logging and entries that are
    /// written, flushed and fenced.
    #[must_use]
    pub fn logged_store(&self, benchmark: &str, variant: &str) -> Option<f64> {
        let find = |step: &str| {
            self.steps
                .iter()
                .find(|row| row.benchmark == benchmark && row.variant == variant && row.step == step)
        };
        let (before, after) = (find("none")?, find("flush")?);
        (after.entries > 0.0).then(|| (after.cpu_ns - before.cpu_ns) / after.entries / self.floor_ns)
    }

    /// As JSON, with the command line that makes it again.
    ///
    /// # Errors
    /// If a figure can't be written.
    pub fn json(&self, command: &[String]) -> Result<String, serde_json::Error> {
        let mut value = serde_json::to_value(self)?;
        if let Some(object) = value.as_object_mut() {
            object.insert("format".to_owned(), "strandline bench sfr".into());
            object.insert("version".to_owned(), 1.into());
            object.insert("command".to_owned(), command.into());
        }
        serde_json::to_string_pretty(&value).map(|text| text + "\n")
    }
}
