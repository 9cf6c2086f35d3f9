//! What is asked for, and how it runs: all variants in turn, again and again, so that a machine whose speed
//! changes treats them alike.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pmem::Mapped;
use space::{LINE, Space};

use super::programs::{BENCHMARKS, Programs};
use super::results::{SfrResults, SfrRow, StepRow};
use super::run::{Cell, Outcome, run};
use super::variant::{Build, SfrVariant, VARIANTS, chosen};
use crate::clock::thread_cpu_ns;
use crate::contest::Watch;
use crate::error::Error;

/// A comparison of the designs of language-level persistency.
#[derive(Clone, Debug)]
pub struct SfrContest {
    /// The command of the compiler with persistency, such as `strandline cc`.
    pub driver: Vec<OsString>,
    /// Benchmarks by name; all if none is named.
    pub benchmarks: Vec<String>,
    /// Variants by name; all if none is named.
    pub variants: Vec<String>,
    /// Numbers of threads, each by itself.
    pub threads: Vec<u32>,
    /// 8-byte stores of data per SFR, each number by itself.
    pub stores: Vec<u32>,
    /// Operations of each run, of all threads together.
    pub operations: u64,
    /// How often each is run; figures are medians.
    pub rounds: u32,
    /// Whether to break the overhead down.
    pub breakdown: bool,
    /// A folder where pools are made, and removed afterwards.
    pub path: PathBuf,
    /// Start of all randomness.
    pub seed: u64,
}

/// The steps of logging, as the runtime's `STRANDLINE_PERSIST_STEPS` names them.
const STEPS: [&str; 4] = ["log", "flush", "data", "commit"];

impl SfrContest {
    /// The usual one: all variants and benchmarks, one thread, two stores per SFR, in `/dev/shm`.
    #[must_use]
    pub fn new(driver: Vec<OsString>) -> SfrContest {
        SfrContest {
            driver,
            benchmarks: Vec::new(),
            variants: Vec::new(),
            threads: vec![1],
            stores: vec![2],
            operations: 100_000,
            rounds: 3,
            breakdown: true,
            path: PathBuf::from("/dev/shm"),
            seed: 1,
        }
    }

    /// Names of what can be compared, with a line on each.
    #[must_use]
    pub fn known() -> Vec<(&'static str, &'static str)> {
        VARIANTS.iter().map(|variant| (variant.name, variant.summary)).collect()
    }

    /// Runs all; when it is stopped it gives what there is.
    ///
    /// # Errors
    /// If a name is not known, there is no compiler, or a program fails.
    pub fn run(&self, watch: &dyn Watch) -> Result<SfrResults, Error> {
        let (variants, benchmarks) = (chosen(&self.variants)?, self.chosen_benchmarks()?);
        let folder = |path: &Path| {
            let made = tempfile::Builder::new().prefix("strandline-bench-").tempdir_in(path);
            made.map_err(Error::file("make a folder in", path))
        };
        let (pools, sources) = (folder(&self.path)?, folder(&std::env::temp_dir())?);
        let programs = Programs::new(sources.path(), &self.driver)?;
        let mut builds: Vec<Build> = variants.iter().map(|variant| variant.build).collect();
        builds.sort_unstable();
        builds.dedup();
        for benchmark in &benchmarks {
            for build in &builds {
                programs.compile(benchmark, *build)?;
            }
        }
        let mut plan = self.plan(&benchmarks, &variants);
        let all = plan.len() * self.rounds as usize;
        let (mut done, mut floors) = (0, Vec::new());
        'rounds: for _ in 0..self.rounds {
            floors.push(floor()?);
            for point in &mut plan {
                if watch.stopped() {
                    break 'rounds;
                }
                watch.step(done, all, &point.label());
                let outcome = run(&programs, pools.path(), point.cell, point.variant, point.steps)?;
                point.outcomes.push(outcome);
                done += 1;
            }
        }
        Ok(self.results(&plan, median(floors)))
    }

    fn chosen_benchmarks(&self) -> Result<Vec<&'static str>, Error> {
        if self.benchmarks.is_empty() {
            return Ok(BENCHMARKS.to_vec());
        }
        let find = |name: &String| {
            let known = || BENCHMARKS.map(str::to_owned).to_vec();
            let found = BENCHMARKS.into_iter().find(|known| known == name);
            found.ok_or_else(|| Error::NoContender { name: name.clone(), known: known() })
        };
        self.benchmarks.iter().map(find).collect()
    }

    /// Everything that is run in one round, in order.
    fn plan(&self, benchmarks: &[&'static str], variants: &[SfrVariant]) -> Vec<Point<'static>> {
        let mut plan = Vec::new();
        for benchmark in benchmarks {
            for (threads, stores) in self.threads.iter().flat_map(|t| self.stores.iter().map(|s| (*t, *s))) {
                let (operations, seed) = (self.operations, self.seed);
                let cell = Cell { benchmark, threads, stores, operations, seed };
                let new = |variant, steps| Point { cell, variant, steps, outcomes: Vec::new() };
                plan.extend(variants.iter().map(|variant| new(*variant, None)));
                let first = (self.threads.first(), self.stores.first()) == (Some(&threads), Some(&stores));
                for variant in variants.iter().filter(|v| self.breakdown && first && is_logged(v)) {
                    // The last step is the whole design, which runs in any case.
                    plan.extend(STEPS[..3].iter().map(|steps| new(*variant, Some(*steps))));
                }
            }
        }
        plan
    }

    fn results(&self, plan: &[Point<'_>], floor_ns: f64) -> SfrResults {
        let plan = || plan.iter().filter(|point| !point.outcomes.is_empty());
        let whole = plan().filter(|point| point.steps.is_none());
        let mut results = SfrResults {
            operations: self.operations,
            rounds: self.rounds,
            seed: self.seed,
            path: self.path.display().to_string(),
            floor_ns,
            cautions: vec![format!(
                "times and counters leave out the setup, which is a process of its own; {} stands for \
                 persistent memory",
                self.path.display()
            )],
            rows: whole.map(Point::row).collect(),
            steps: Vec::new(),
            summaries: Vec::new(),
        };
        let mut steps = Vec::new();
        for point in plan().filter(|point| point.steps == Some(STEPS[0])) {
            let of = |steps: Option<&'static str>, variant: &str, name| {
                let same = |other: &&Point<'_>| {
                    other.cell.same(&point.cell) && other.steps == steps && other.variant.name == variant
                };
                plan().find(same).map(|other| other.step(point.variant.name, name))
            };
            let design = point.variant.name;
            steps.extend(of(None, "none", "none"));
            steps.extend(STEPS[..3].iter().filter_map(|step| of(Some(step), design, step)));
            steps.extend(of(None, design, "commit"));
        }
        results.steps = steps;
        results.summarise();
        results
    }
}

/// Whether a variant's overhead has steps.
fn is_logged(variant: &SfrVariant) -> bool {
    variant.build == Build::Pool && variant.name != "none"
}

/// Something that is run in each round.
struct Point<'a> {
    cell: Cell<'a>,
    variant: SfrVariant,
    steps: Option<&'static str>,
    outcomes: Vec<Outcome>,
}

impl Point<'_> {
    fn label(&self) -> String {
        let Cell { benchmark, threads, stores, .. } = self.cell;
        let threads = report::human::plural(threads as usize, "thread");
        format!("{benchmark}, {}, {threads}, {stores} stores", self.variant.name)
    }

    /// What each round took per operation, in order of size.
    fn per_operation(&self, of: fn(&Outcome) -> u64) -> Vec<f64> {
        let operations = self.cell.operations.max(1) as f64;
        let mut all: Vec<f64> = self.outcomes.iter().map(|one| of(one) as f64 / operations).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    fn row(&self) -> SfrRow {
        let wall = self.per_operation(|outcome| outcome.wall_ns);
        let range = (wall.first().copied().unwrap_or(0.0), wall.last().copied().unwrap_or(0.0));
        let wall_ns = median(wall);
        SfrRow {
            benchmark: self.cell.benchmark.to_owned(),
            variant: self.variant.name.to_owned(),
            threads: self.cell.threads,
            stores_per_sfr: self.cell.stores,
            wall_ns,
            cpu_ns: median(self.per_operation(|outcome| outcome.cpu_ns)),
            per_second: 1e9 / wall_ns,
            wall_range_ns: range,
            counters: self.outcomes.last().and_then(|outcome| outcome.counters),
        }
    }

    /// The figures of this point as a step of a design.
    fn step(&self, design: &str, step: &'static str) -> StepRow {
        let entries = |outcome: &Outcome| outcome.counters.map_or(0, |counters| counters.entries);
        StepRow {
            benchmark: self.cell.benchmark.to_owned(),
            variant: design.to_owned(),
            step,
            wall_ns: median(self.per_operation(|outcome| outcome.wall_ns)),
            cpu_ns: median(self.per_operation(|outcome| outcome.cpu_ns)),
            entries: median(self.per_operation(entries)),
        }
    }
}

impl Cell<'_> {
    fn same(&self, other: &Cell<'_>) -> bool {
        (self.benchmark, self.threads, self.stores) == (other.benchmark, other.threads, other.stores)
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(0.0)
}

/// What it takes to write one log line, flush it and fence it, line after line in memory of its own.
fn floor() -> Result<f64, Error> {
    const LINES: u64 = 100_000;
    let folder = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." });
    let folder = folder.map_err(Error::file("make a folder in", Path::new("/dev/shm")))?;
    let memory = Mapped::create(&folder.path().join("floor"), 1 << 20)?;
    memory.prefault(0, 1 << 20)?;
    let spent = thread_cpu_ns(|| {
        for line in 0..LINES {
            let at = line % ((1 << 20) / LINE) * LINE;
            for word in 0..LINE / 8 {
                memory.store_u64(at + word * 8, line + word);
            }
            memory.persist(at, LINE);
        }
    });
    Ok(spent as f64 / LINES as f64)
}
