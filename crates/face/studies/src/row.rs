//! A row: one published result, how it is held against the model, and what came of it.

use std::fmt;

use report::Curves;
use serde::Serialize;

use crate::{Check, Kind, Lab, StudyError};

/// Where results were published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// "An Empirical Guide to the Behavior and Use of Scalable Persistent Memory", FAST '20.
    Xpoint,
    /// X. Wu, "Optimizing the Use of Heterogeneous Memory", Sydney 2026, chapter 3.
    Prestores,
    /// The same, chapter 2.
    Kv,
    /// Y. Ni, "Enabling Efficient Persistent Memory Systems", Santa Cruz 2022, chapter 3.
    Ssp,
    /// The same, chapter 5.
    Index,
    /// The same, chapter 4.
    Tmc,
    /// C.-C. Chou, "Optimizing Emerging Memory Systems for Performance", Texas A&M 2020, chapter 2 and section 3.3.3.2.
    Vnvm,
    /// V. Gogte, "Runtime Systems for Persistent Memories", Michigan 2020, chapter III.
    Kevlar,
    /// V. Gogte, "Runtime Systems for Persistent Memories", Michigan 2020, chapter V.
    Strand,
    /// The same, appendix A.
    Hare,
    /// The same, chapter IV.
    Sfr,
    /// C.-C. Chou, "Optimizing Emerging Memory Systems for Performance", Texas A&M 2020, section 3: migration.
    Migrate,
    /// X. Wu, "Optimizing the Use of Heterogeneous Memory", Sydney 2026, chapter 4.
    Unified,
    /// C.-C. Chou, "Optimizing Emerging Memory Systems for Performance", Texas A&M 2020, chapter 4: POE, and its successor.
    Poe,
    /// Measurements of CXL cards by several authors; each row names its own.
    Cxl,
    /// The counters of the computer that runs it.
    Here,
}

/// One published result.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Where it was published.
    pub source: Source,
    /// Its name on the command line.
    pub id: &'static str,
    /// What was claimed.
    pub claim: &'static str,
    /// The shape or value that was claimed, in numbers.
    pub expected: &'static str,
    /// How far a result may be off, and why so far. Written before the model's result was known.
    pub tolerance: &'static str,
    /// How it is measured here.
    pub method: &'static str,
    /// What was chosen in the model on this very result, so that a match shows no more than that the model
    /// holds its input; empty if nothing was.
    pub calibration: &'static str,
    /// What the model's result rests on, where that is not what was claimed; shown whatever the verdict,
    /// empty if nothing is to be said.
    pub note: &'static str,
    /// What it takes.
    pub means: Means,
    /// If it misses: what the model seems to lack, read from its curves and not yet proven by an experiment.
    /// Written after, and shown only then.
    pub lacks: &'static str,
}

impl Row {
    /// Whether the result, or a part of it, was an input of the model's calibration.
    #[must_use]
    pub fn is_input(&self) -> bool {
        !self.calibration.is_empty()
    }
}

/// What it takes to judge a row.
#[derive(Clone, Copy, Debug)]
pub enum Means {
    /// The modelled machine.
    Model(fn(&Lab) -> Result<Evidence, StudyError>),
    /// Times of the computer that runs it: measured only where it is asked for by name, since nothing else may run.
    Here(fn(&Lab) -> Result<Evidence, StudyError>),
    /// Hardware: which.
    Hardware(&'static str),
    /// Parts of this project that are still to come: which.
    Later(&'static str),
}

/// What a measurement showed.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The claims, one by one.
    pub checks: Vec<Check>,
    /// Curves, beside the published points where there are any.
    pub charts: Vec<Curves>,
}

/// What came of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All shapes and values hold.
    Matched,
    /// All shapes hold, a value does not.
    ShapeOnly,
    /// A shape does not hold, or there is only a value and it does not.
    Missed,
    /// Can't be judged on this computer.
    NeedsHardware,
    /// Can't be judged yet.
    NotYet,
}

impl Verdict {
    /// What the checks add up to.
    #[must_use]
    pub fn of(checks: &[Check]) -> Verdict {
        let all = |kind| checks.iter().filter(|check| check.kind == kind).all(|check| check.holds);
        let shapes = checks.iter().any(|check| check.kind == Kind::Shape);
        match (all(Kind::Shape), all(Kind::Value)) {
            (true, true) => Verdict::Matched,
            (true, false) if shapes => Verdict::ShapeOnly,
            _ => Verdict::Missed,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Matched => "matched",
            Verdict::ShapeOnly => "shape only",
            Verdict::Missed => "missed",
            Verdict::NeedsHardware => "needs hardware",
            Verdict::NotYet => "not yet",
        })
    }
}

impl Source {
    /// All of them.
    pub const ALL: [Source; 16] = [
        Source::Xpoint,
        Source::Prestores,
        Source::Kv,
        Source::Index,
        Source::Ssp,
        Source::Strand,
        Source::Tmc,
        Source::Vnvm,
        Source::Migrate,
        Source::Poe,
        Source::Kevlar,
        Source::Hare,
        Source::Sfr,
        Source::Unified,
        Source::Cxl,
        Source::Here,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Source::Xpoint => "xpoint",
            Source::Prestores => "prestores",
            Source::Kv => "kv",
            Source::Index => "index",
            Source::Ssp => "ssp",
            Source::Strand => "strand",
            Source::Tmc => "tmc",
            Source::Vnvm => "vnvm",
            Source::Migrate => "migrate",
            Source::Poe => "poe",
            Source::Kevlar => "kevlar",
            Source::Hare => "hare",
            Source::Sfr => "sfr",
            Source::Unified => "unified",
            Source::Cxl => "cxl",
            Source::Here => "here",
        }
    }

    /// Author, title, year.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Source::Xpoint => {
                "Yang et al., An Empirical Guide to the Behavior and Use of Scalable Persistent Memory (2020)"
            }
            Source::Prestores => {
                "Wu, Optimizing the Use of Heterogeneous Memory (2026), chapter 3: pre-stores"
            }
            Source::Kv => {
                "Wu, Optimizing the Use of Heterogeneous Memory (2026), chapter 2: persistent key-value stores"
            }
            Source::Index => "Ni, Enabling Efficient Persistent Memory Systems (2022), chapter 5: B+-trees",
            Source::Ssp => {
                "Ni, Enabling Efficient Persistent Memory Systems (2022), chapter 3: shadow sub-paging"
            }
            Source::Tmc => {
                "Ni, Enabling Efficient Persistent Memory Systems (2022), chapter 4: tiered memory"
            }
            Source::Vnvm => {
                "Chou, Optimizing Emerging Memory Systems for Performance (2020), chapter 2 and section 3.3.3.2: virtualised NVM, ways to write"
            }
            Source::Migrate => {
                "Chou, Optimizing Emerging Memory Systems for Performance (2020), chapter 3: migration over fabric-attached memory"
            }
            Source::Poe => {
                "Chou, Optimizing Emerging Memory Systems for Performance (2020), chapter 4: page-fault offload"
            }
            Source::Kevlar => {
                "Gogte, Runtime Systems for Persistent Memories (2020), chapter III: wear (Kevlar)"
            }
            Source::Strand => {
                "Gogte, Runtime Systems for Persistent Memories (2020), chapter V: strand persistency"
            }
            Source::Hare => {
                "Gogte, Runtime Systems for Persistent Memories (2020), appendix A: regular expressions in hardware"
            }
            Source::Sfr => {
                "Gogte, Runtime Systems for Persistent Memories (2020), chapter IV: failure-atomic SFRs"
            }
            Source::Unified => {
                "Wu, Optimizing the Use of Heterogeneous Memory (2026), chapter 4: memory that CPU and GPU share"
            }
            Source::Cxl => "Measured CXL memory: cards, switches and tiers by several authors (2023 to 2026)",
            Source::Here => "This computer's own counters, where its processor has any",
        }
    }
}
