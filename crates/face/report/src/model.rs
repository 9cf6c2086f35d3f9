//! The report as a plain structure.

use std::time::Duration;

use advise::Finding;
use event::{Counts, SiteTable, Source};
use machine::Figures;
use serde::Serialize;

use crate::costs::{Costs, PhaseMark};
use crate::crashes::CrashFindings;
use crate::lints::CrashLints;
use crate::prestores::Prestores;
use crate::structures::{Structure, Trial};

/// Everything that one run of `strandline profile` has to tell.
#[derive(Clone, Debug)]
pub struct Report {
    /// What ran, where, and how to run it again.
    pub run: Run,
    /// What the producer of the events could see.
    pub source: Source,
    /// Events by kind.
    pub counts: Counts,
    /// What the modelled machine measured.
    pub figures: Figures,
    /// Names of the code sites that `figures` and `findings` number.
    pub sites: SiteTable,
    /// What the advisors found, the most important first.
    pub findings: Vec<Finding>,
    /// Rules that were not applied.
    pub withheld: Vec<Withheld>,
    /// Where the program could send data towards memory early; `None` if nobody looked.
    pub prestores: Option<Prestores>,
    /// Sizes of the program's writes; `None` if nobody counted them.
    pub write_sizes: Option<WriteSizes>,
    /// Data structures by allocation site, the most fetched first.
    pub structures: Vec<Structure>,
    /// What trials of the findings' remedies gave.
    pub trials: Vec<Trial>,
    /// What accesses cost on the modelled machine with time; `None` if they did not run there.
    pub costs: Option<Costs>,
    /// Phases that the program marked.
    pub phases: Vec<PhaseMark>,
    /// How the program was observed; `None` for workloads that run inside Strandline.
    pub capture: Option<CaptureStats>,
    /// Where a program spent its time that could only be sampled; `None` for instrumented ones.
    pub samples: Option<Samples>,
    /// When the memory is worn out, and what wears it; `None` if nobody looked.
    pub wear: Option<crate::Wear>,
    /// What the order of stores, flushes and fences says about crashes; `None` if nobody looked.
    pub crash_lints: Option<CrashLints>,
    /// What recovery found in images of what a crash could have left; `None` if it was not asked.
    pub crash_findings: Option<CrashFindings>,
}

impl Report {
    /// Part of the time that a finding's remedy saved when it was tried.
    pub(crate) fn gain(&self, finding: &Finding) -> Option<f64> {
        let name = finding.rule.name();
        self.trials.iter().find(|trial| trial.rule == name && !trial.withdrawn).map(|trial| trial.gain)
    }

    /// Whether it is worth a sentence what the order of stores, flushes and fences says: that nothing looks
    /// wrong is no news behind what recovery found.
    pub(crate) fn lints_are_news(&self, lints: &CrashLints) -> bool {
        let found = self.crash_findings.as_ref().is_some_and(|crashes| !crashes.findings.is_empty());
        !(found && lints.lints.is_empty())
    }
}

/// The run's header.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was observed.
    pub subject: Subject,
    /// The command line that repeats the run, one string per argument.
    pub reproduce: Vec<String>,
    /// Version of Strandline.
    pub version: String,
    /// Seed of the workload and of whatever the machine draws; `None` if nothing was drawn.
    pub seed: Option<u64>,
    /// Date as the caller wants it printed: `2026-11-21 07:30 UTC`.
    pub date: String,
    /// The computer it ran on: `x86-64, 2 cores, Linux 6.1`.
    pub host: String,
    /// How the program ended.
    pub exit: Exit,
    /// From the program's start to its end, under observation.
    pub duration: Duration,
    /// What the reader should know before trusting the figures.
    pub warnings: Vec<String>,
    /// What was not done, and why.
    pub skipped: Vec<Skipped>,
}

/// What was observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Subject {
    /// A program with its arguments.
    Program {
        /// Program and arguments.
        command: Vec<String>,
    },
    /// A workload that is built into Strandline.
    Workload {
        /// Its name.
        name: String,
    },
    /// A recorded trace.
    Trace {
        /// The trace file.
        path: String,
        /// The program that was recorded; empty if the trace does not say.
        command: Vec<String>,
    },
}

/// How the observed program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Exit {
    /// There was no process of its own: a built-in workload, or a trace.
    None,
    /// It exited.
    Status {
        /// The exit status.
        code: i32,
    },
    /// A signal ended it.
    Signal {
        /// The signal's number.
        number: i32,
        /// Its name: `SIGSEGV`.
        name: String,
    },
}

/// Something that was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// What.
    pub what: String,
    /// Why.
    pub reason: String,
}

/// A rule that was not applied, because what it needs was not recorded or modelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Withheld {
    /// The rule's name, as `advise::Rule::name` gives it.
    pub rule: String,
    /// Why.
    pub reason: String,
}

/// How many writes to the memory that the run is about had which size. A write is a run of stores next to
/// each other, up to the flush or fence that makes it durable. Bucket `i` counts those of `2^i` to `2^(i+1) -
/// 1` bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WriteSizes {
    /// Ordinary stores.
    pub temporal: Vec<u64>,
    /// Non-temporal stores.
    pub nt: Vec<u64>,
    /// Part of the events whose stores were looked at, 0 to 1; below 1 the numbers are estimates.
    pub watched: f64,
}

/// How a program was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CaptureStats {
    /// Processes, the first one and its children.
    pub processes: u32,
    /// Bytes of the trace file, if one was written or read.
    pub trace_bytes: Option<u64>,
}

/// Where a program spent its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Samples {
    /// How samples were taken: `cpu-clock, 1000 per second`.
    pub method: String,
    /// All samples, those outside the listed functions too.
    pub total: u64,
    /// The functions with the most samples.
    pub functions: Vec<FunctionSample>,
}

/// One sampled function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionSample {
    /// Demangled name.
    pub function: String,
    /// Program or library that it belongs to.
    pub module: String,
    /// Samples in it.
    pub samples: u64,
}
