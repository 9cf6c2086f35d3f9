//! `bench`: maps and key-value stores, ours and others', under the same load.

use ::bench::{Contest, Results, SfrContest, SfrResults, VnvmContest, VnvmResults, Watch};

use crate::error::Error;
use crate::observer::{Observer, Progress};

/// A comparison to be made.
#[derive(Clone, Debug)]
pub struct Bench {
    /// What is compared, and how.
    pub contest: Contest,
}

impl Bench {
    /// Runs all contenders, one after the other; what there is when the observer stops it.
    ///
    /// # Errors
    /// If a name is not known, nothing can be compared, or one of ours fails.
    pub fn run(&self, observer: &dyn Observer) -> Result<Results, Error> {
        let results = self.contest.run(&Watched(observer));
        observer.finished();
        Ok(results?)
    }
}

/// A comparison of designs of language-level persistency, to be made.
#[derive(Clone, Debug)]
pub struct BenchSfr {
    /// What is compared, and how.
    pub contest: SfrContest,
}

impl BenchSfr {
    /// Runs all of it; what there is when the observer stops it.
    ///
    /// # Errors
    /// If a name is not known, there is no compiler, or a program fails.
    pub fn run(&self, observer: &dyn Observer) -> Result<SfrResults, Error> {
        let results = self.contest.run(&Watched(observer));
        observer.finished();
        Ok(results?)
    }
}

/// Virtualised NVM, to be measured.
#[derive(Clone, Debug)]
pub struct BenchVnvm {
    /// What is measured.
    pub contest: VnvmContest,
}

impl BenchVnvm {
    /// Runs all of it; what there is when the observer stops it.
    ///
    /// # Errors
    /// If memory or files can't be had, or a commit fails.
    pub fn run(&self, observer: &dyn Observer) -> Result<VnvmResults, Error> {
        let results = self.contest.run(&Watched(observer));
        observer.finished();
        Ok(results?)
    }
}

/// An observer to whom each workload is a step.
struct Watched<'a>(&'a dyn Observer);

impl Watch for Watched<'_> {
    fn step(&self, done: usize, all: usize, name: &str) {
        self.0.progress(&Progress::Steps { doing: "comparing", done, all, name });
    }

    fn stopped(&self) -> bool {
        self.0.stopped()
    }
}
