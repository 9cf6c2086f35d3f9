//! `faults`: what page faults cost a program, which allocations cause them, what removes them, and what a page-fault
//! offload engine would add.

mod cost;
mod output;
mod run;
mod stacks;
mod sweep;
mod system;
mod trial;

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::time::Duration;

use ::faults::advice::{self, HugePages, Machine, Predicted};
use ::faults::ahead::Rates;
use ::faults::attribute::{Assumed, Backing as Behind, Fault, Kind, Kinds, Reporting, Site, attribute};
use ::faults::cost::Costs;
use ::faults::estimate::{Besides, FaultTimes, Saved, estimate, formula};
use ::faults::timing::{TimingError, engine_time};
use capture::{Backing, CaptureError, FaultCause, FaultRun, Reports};

pub use sweep::{Sweeps, SweptFaults};
pub use trial::FaultTrial;

use crate::ending::ending;
use crate::error::Error;
use crate::input::Program;
use crate::observer::Observer;
use run::{Left, Preload};

/// Allocations of so many bytes and more are sites of their own: the C library maps those.
const FROM: u64 = 128 << 10;
/// Nanoseconds between two looks of the kernel at whether a program is in kernel mode, on most systems.
const TICK: f64 = 4e6;
/// Call stacks that are shown of a site.
const STACKS: usize = 3;

/// A program whose faults are to be estimated.
#[derive(Clone, Debug)]
pub struct Faults {
    /// The program.
    pub program: Program,
    /// Whether remedies are tried.
    pub trials: bool,
    /// Runs of each remedy, and of the program without.
    pub rounds: usize,
    /// Nanoseconds of a fault by the engine; by the modelled machine if not given.
    pub engine: Option<f64>,
    /// Which faults are reported.
    pub reports: Reports,
}

/// Reported faults by what is mapped there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Origins {
    /// Large blocks of `malloc`.
    pub malloc: u64,
    /// The rest of the heap that `brk` extends: small blocks.
    pub heap: u64,
    /// Anonymous memory that the program mapped, in large blocks.
    pub mmap: u64,
    /// Other anonymous memory.
    pub anonymous: u64,
    /// Stacks.
    pub stack: u64,
    /// Files and code.
    pub file: u64,
}

/// Faults of what a site allocates.
#[derive(Clone, Debug)]
pub struct FaultSite {
    /// Its key, the same in every run; none for what no large allocation covers.
    pub key: Option<u64>,
    /// Function and line that allocate.
    pub name: String,
    /// Whether by `malloc`.
    pub heap: bool,
    /// What happened.
    pub site: Site,
    /// Nanoseconds of its faults, by the costs of the machine.
    pub cost: f64,
    /// Call stacks that fault most.
    pub stacks: Vec<(String, u64)>,
    /// What remedies would gain.
    pub remedies: Vec<Predicted>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct FaultsFound {
    /// The command.
    pub command: Vec<String>,
    /// How the program ended.
    pub status: ExitStatus,
    /// How long it ran.
    pub elapsed: Duration,
    /// Processor time in user and in kernel mode.
    pub cpu: (Duration, Duration),
    /// Faults, exact: without reading from a disk, and with.
    pub minor: u64,
    /// See above.
    pub major: u64,
    /// Faults of user mode that reports stand for, and reports that were lost.
    pub reported: u64,
    /// See above.
    pub lost: u64,
    /// Reports: as many as `reported`, unless the program has faults so often that one in many is reported.
    pub samples: u64,
    /// Nanoseconds that reports took the program, by what one takes on this machine.
    pub reporting: f64,
    /// Whether programs in the kernel recorded each fault, those of kernel mode included.
    pub recorded: bool,
    /// Whether counts by kind and site are exact: each fault was reported, with what kind of access it was.
    pub exact: bool,
    /// Of what faults would take by what they cost one by one, the share that the program's time in kernel
    /// mode has room for.
    pub scale: f64,
    /// Processors that the program used, on average, at least 1.
    pub parallel: f64,
    /// Whether reads and writes were distinguished.
    pub kinds_known: bool,
    /// Reported faults by kind.
    pub kinds: Kinds,
    /// Reported faults by what is mapped there.
    pub origins: Origins,
    /// Huge pages of the system: `always`, `madvise`, `never`, `absent`.
    pub huge_pages: String,
    /// Processors.
    pub processors: usize,
    /// What faults cost here.
    pub costs: Costs,
    /// Sites, the most expensive first.
    pub sites: Vec<FaultSite>,
    /// Nanoseconds of all faults, those included that were not reported.
    pub cost: f64,
    /// Nanoseconds of a fault by the engine.
    pub engine: f64,
    /// What the source's formula says that an engine saves, in nanoseconds.
    pub formula: f64,
    /// The better estimate.
    pub saved: Saved,
    /// What was tried.
    pub trials: Vec<FaultTrial>,
    /// All that gained, together, against the program as it is.
    pub combined: Option<FaultTrial>,
    /// What a reader has to know.
    pub warnings: Vec<String>,
}

impl Faults {
    /// Estimates only.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Faults { program, trials: false, rounds: 5, engine: None, reports: Reports::Budget }
    }

    /// Runs the program, and with trials again and again.
    ///
    /// # Errors
    /// If the program can't be run.
    pub fn run(&self, observer: &dyn Observer) -> Result<FaultsFound, Error> {
        self.program.refuse_missing()?;
        let costs = cost::measure();
        let preload = Preload::new()?;
        let mut warnings = Vec::new();
        let environment = preload.environment(FROM, &[], true)?;
        let run = self.observe(&environment, &mut warnings)?;
        let left = preload.left();
        let loaded = left.is_some();
        if !loaded {
            warnings.push(
                "the program did not load the library that notes allocations (it is linked statically, or runs as \
                 another user): faults are by call stack only, and no remedy can be tried"
                    .to_owned(),
            );
        }
        let mut found = self.found(run, left.unwrap_or_default(), costs, warnings);
        if self.trials && loaded {
            trial::run(self, &preload, &mut found, observer)?;
        }
        Ok(found)
    }

    /// The run with every fault reported, or only counted where the kernel does not permit that.
    fn observe(
        &self,
        environment: &[(std::ffi::OsString, std::ffi::OsString)],
        warnings: &mut Vec<String>,
    ) -> Result<FaultRun, Error> {
        let Program { command, stdout_to_stderr, .. } = &self.program;
        match capture::sample_faults(command, environment, self.reports, *stdout_to_stderr) {
            Err(error @ (CaptureError::NotPermitted { .. } | CaptureError::NoSampling(_))) => {
                warnings.push(format!(
                    "{error}. Faults are only counted: their kinds, sites and call stacks are unknown"
                ));
                let counts = capture::count_faults(command, environment, *stdout_to_stderr)?;
                Ok(FaultRun {
                    minor: counts.minor,
                    major: counts.major,
                    samples: Vec::new(),
                    sampled_from: None,
                    stacks: Vec::new(),
                    forks: Vec::new(),
                    lost: 0,
                    kinds: false,
                    recorded: false,
                    cpu: counts.cpu,
                    status: Some(counts.status),
                    elapsed: counts.elapsed,
                })
            }
            run => Ok(run?),
        }
    }

    fn found(&self, run: FaultRun, left: Left, costs: Costs, mut warnings: Vec<String>) -> FaultsFound {
        let (huge_pages, processors) = (system::huge_pages(), system::processors());
        let faults: Vec<Fault> = run.samples.iter().map(fault).collect();
        let huge = permitted(&huge_pages, &costs);
        let huge_always = huge == HugePages::Always;
        let rates = Rates::of(&costs, huge_always);
        let (each, many) = costs.reports;
        let reports = Reporting { each, many, many_from: run.sampled_from };
        let assumed = Assumed { huge_always, rates, reports };
        let reporting = reporting(&run, reports);
        let machine = Machine { huge, processors };
        let mut by_site = attribute(&faults, &left.logs, &run.forks, assumed);
        let (mut kinds, mut origins) = (Kinds::default(), Origins::default());
        by_site.values().for_each(|site| kinds.sum(&site.kinds));
        let reported = run.samples.iter().map(|sample| sample.weight).sum();
        let unreported = (run.minor + run.major).saturating_sub(reported);
        // Those that the kernel has for the program: stores into its buffers, mostly.
        let modelled = advice::cost(&kinds, &costs) + unreported as f64 * costs.write.mean;
        let cpu = (run.cpu.0 + run.cpu.1).as_secs_f64() * 1e9 - reporting.all;
        let kernel = run.cpu.1.as_secs_f64() * 1e9 - reporting.all;
        let cost = advice::bounded(modelled, kernel, cpu, TICK);
        let scale = if modelled > 0.0 { cost / modelled } else { 1.0 };
        let (measured, costs) = (costs.clone(), costs.scaled(scale));
        if scale < 1.0 {
            let assumed = Assumed { rates: Rates::of(&costs, huge_always), ..assumed };
            by_site = attribute(&faults, &left.logs, &run.forks, assumed);
        }
        let sites = named_sites(by_site, &left, &run, &costs, machine, &mut origins);
        let engine = self.engine.unwrap_or_else(|| modelled_engine(&mut warnings));
        let times = FaultTimes { write: costs.write.mean, read: costs.read.mean, engine };
        let writes = (kinds.write + kinds.unknown).saturating_sub(of_kernel(&run));
        let besides = Besides {
            cache: costs.cache,
            background: costs.zero + costs.trap * 0.5,
            idle: if processors > 1 { 1.0 } else { 0.0 },
            hits: 1.0,
        };
        say(&run, reported, processors, &left, &mut warnings);
        let words = self.program.command.iter().map(|word| word.to_string_lossy().into_owned());
        FaultsFound {
            command: words.collect(),
            status: run.status.unwrap_or_default(),
            elapsed: run.elapsed,
            cpu: run.cpu,
            minor: run.minor,
            major: run.major,
            reported,
            samples: run.samples.len() as u64,
            reporting: reporting.elapsed,
            recorded: run.recorded,
            exact: run.kinds && run.lost == 0 && run.samples.iter().all(|sample| sample.weight == 1),
            scale,
            parallel: (cpu / (run.elapsed.as_secs_f64() * 1e9 - reporting.elapsed).max(1.0)).max(1.0),
            lost: run.lost,
            kinds_known: run.kinds,
            kinds,
            origins,
            huge_pages,
            processors,
            costs: measured,
            sites,
            cost,
            engine,
            formula: formula(writes, kinds.read, times),
            saved: estimate(writes, kinds.read, times, besides),
            trials: Vec::new(),
            combined: None,
            warnings,
        }
    }
}

/// The sites with faults, those that cost most first, with what would help there.
fn named_sites(
    by_site: BTreeMap<Option<u64>, Site>,
    left: &Left,
    run: &FaultRun,
    costs: &Costs,
    machine: Machine,
    origins: &mut Origins,
) -> Vec<FaultSite> {
    let mut sites: Vec<FaultSite> = Vec::new();
    for (key, site) in by_site {
        let named = key.and_then(|key| left.names.get(&key)).cloned();
        let (heap, name) = named.unwrap_or_else(|| (false, nameless(key).to_owned()));
        origins.add(&site, key.map(|_| heap));
        let remedies = match key {
            Some(_) => advice::predict(&site, heap, costs, machine),
            None => Vec::new(),
        };
        let stacks = stacks_of(&site, run);
        let cost = advice::cost(&site.kinds, costs);
        sites.push(FaultSite { key, name, heap, cost, stacks, remedies, site });
    }
    sites.retain(|site| site.site.kinds.total() > 0);
    sites.sort_by(|one, two| two.cost.total_cmp(&one.cost).then(one.key.cmp(&two.key)));
    sites
}

/// First stores that the kernel had for the program: an engine completes those of user mode.
fn of_kernel(run: &FaultRun) -> u64 {
    let stores = run.samples.iter().filter(|sample| !sample.user && sample.cause == FaultCause::Write);
    stores.map(|sample| sample.weight).sum()
}

/// What a site without a name is.
fn nameless(key: Option<u64>) -> &'static str {
    if key.is_some() { "an allocation" } else { "small allocations, stacks, files, code" }
}

/// Whether programs get pages of 2 MiB here, by the system's setting and what was measured.
fn permitted(setting: &str, costs: &Costs) -> HugePages {
    match (setting, &costs.huge) {
        ("always", Some(_)) => HugePages::Always,
        ("madvise", Some(_)) => HugePages::Asked,
        ("always" | "madvise", None) => HugePages::Refused,
        _ => HugePages::Never,
    }
}

/// Nanoseconds that reports took.
struct Reported {
    /// Of all threads' processor time.
    all: f64,
    /// Of the program's run: threads have theirs at the same time.
    elapsed: f64,
}

fn reporting(run: &FaultRun, reports: Reporting) -> Reported {
    let all: f64 = run.samples.iter().map(|sample| reports.of(sample.time, sample.weight)).sum();
    let (elapsed, cpu) = (run.elapsed.as_secs_f64(), (run.cpu.0 + run.cpu.1).as_secs_f64());
    let of_run = (all * (elapsed / cpu.max(1e-9)).min(1.0)).min(0.9 * elapsed * 1e9);
    Reported { all: all.min(0.9 * cpu * 1e9), elapsed: of_run }
}

/// The call stacks of most faults of a site, by name.
fn stacks_of(site: &Site, run: &FaultRun) -> Vec<(String, u64)> {
    let mut stacks: Vec<_> = site.stacks.iter().map(|(stack, count)| (*stack, *count)).collect();
    stacks.sort_by_key(|(stack, count)| (std::cmp::Reverse(*count), *stack));
    // Not of each fault the stack was taken: those that were stand for all.
    let taken: u64 = stacks.iter().map(|(_, count)| count).sum();
    let all =
        |count: u64| (u128::from(count) * u128::from(site.kinds.total()) / u128::from(taken.max(1))) as u64;
    let named =
        stacks.into_iter().take(STACKS).map(|(stack, count)| (stacks::name(&run.stacks[stack]), all(count)));
    named.collect()
}

/// Nanoseconds of a first store by the engine on this machine as it is modelled.
fn modelled_engine(warnings: &mut Vec<String>) -> f64 {
    let machine = crate::host::host().map_err(TimingError::from);
    machine.and_then(|machine| engine_time(&machine, true)).unwrap_or_else(|error| {
        warnings.push(format!("the engine's time is not known: {error}"));
        0.0
    })
}

fn say(run: &FaultRun, reported: u64, processors: usize, left: &Left, warnings: &mut Vec<String>) {
    if run.lost > 0 {
        warnings.push(format!(
            "{} faults were not reported, the kernel's ring being full; the counts of all faults are exact",
            run.lost
        ));
    }
    if reported > 0 && !run.kinds {
        warnings.push(
            "the kernel does not tell reads from writes: that takes the right to trace (root, or a mounted tracefs that you \
             may read, and kernel.perf_event_paranoid at most -1); the faulting instructions say it, stores to \
             shared pages count as writes, and what an instruction does not say counts as a write"
                .to_owned(),
        );
    }
    let between = system::sizes_between();
    if !between.is_empty() {
        let sizes: Vec<String> = between.iter().map(|size| format!("{size} KiB")).collect();
        warnings.push(format!(
            "the system gives pages of {} unasked (transparent_hugepage/hugepages-*kB/enabled): a fault brings several pages, \
             costs are of pages of 4 KiB",
            sizes.join(", ")
        ));
    }
    if run.elapsed < Duration::from_millis(20) {
        warnings.push(format!(
            "the program ended after {:.1} ms: most of its faults are of being loaded",
            run.elapsed.as_secs_f64() * 1e3
        ));
    }
    if left.forks > 0 {
        warnings.push(format!(
            "{} children of fork have their parent's blocks; what they allocate themselves has no sites",
            left.forks
        ));
    }
    if processors < 2 {
        warnings.push("one processor: nothing runs in the background for free".to_owned());
    }
    if let Some(status) = run.status.filter(|status| !status.success()) {
        warnings.push(format!("the program ended with {}", ending(status)));
    }
}

fn fault(sample: &capture::FaultSample) -> Fault {
    let kind = match sample.cause {
        FaultCause::Read => Kind::Read,
        FaultCause::Write => Kind::Write,
        FaultCause::Copy => Kind::Copy,
        FaultCause::Code => Kind::Code,
        FaultCause::Unknown => Kind::Unknown,
    };
    let backing = match sample.backing {
        Backing::Heap => Behind::Heap,
        Backing::Anonymous => Behind::Anonymous,
        Backing::Stack => Behind::Stack,
        Backing::File => Behind::File,
    };
    let &capture::FaultSample { pid, time, address, stack, weight, .. } = sample;
    Fault { pid, time, address, kind, backing, stack, weight }
}

impl Origins {
    /// Those of a site: of large blocks by `malloc` or not, or of none.
    fn add(&mut self, site: &Site, heap: Option<bool>) {
        let [brk, anonymous, stack, file] = site.backing;
        match heap {
            Some(true) => self.malloc += brk + anonymous,
            Some(false) => self.mmap += brk + anonymous,
            None => {
                self.heap += brk;
                self.anonymous += anonymous;
            }
        }
        self.stack += stack;
        self.file += file;
    }
}

/// Sites by key.
fn by_key(sites: &[FaultSite]) -> BTreeMap<u64, &FaultSite> {
    sites.iter().filter_map(|site| Some((site.key?, site))).collect()
}
