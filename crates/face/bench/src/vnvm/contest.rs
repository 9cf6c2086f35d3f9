//! What is measured, and what both parts need.

use std::path::PathBuf;

use crate::Skipped;
use crate::error::Error;

use super::results::VnvmResults;

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct VnvmContest {
    /// Everything of the source is smaller by this factor: memory, records, operations. Records have 64 KiB
    /// all the same.
    pub scale: u64,
    /// How often commits, and stores that are processes, are measured; medians count.
    pub rounds: u32,
    /// Whether commits are measured.
    pub commits: bool,
    /// Whether the record store is.
    pub records: bool,
    /// The folder of NVM.
    pub nvm: PathBuf,
    /// The folder of files behind it.
    pub disk: PathBuf,
    /// CPU time of a record store's request apart from the record, in nanoseconds: what a server does besides.
    pub service_ns: u64,
    /// For all choices.
    pub seed: u64,
    /// The program whose `bench vnvm --instance N` calls [`VnvmContest::store`]; without it studies `process` and
    /// `spaces` are skipped.
    pub worker: Option<PathBuf>,
}

impl VnvmContest {
    /// A size of the source's, scaled, in whole MiB.
    pub(super) fn scaled(&self, bytes: u64) -> u64 {
        (bytes / self.scale).next_multiple_of(1 << 20)
    }

    /// A number of the source's, scaled.
    pub(super) fn count(&self, count: u64) -> u64 {
        (count / self.scale).max(16)
    }
}

pub(super) fn skip(results: &mut VnvmResults, name: &str, why: String, package: Option<&str>) {
    let package = package.map(str::to_owned);
    results.skipped.push(Skipped { name: name.to_owned(), why, package });
}

/// What one of ours says.
pub(super) fn failed(error: ::vnvm::Error) -> Error {
    Error::of("vnvm", error)
}

/// The middle one.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
