//! `strandline bench vnvm`: virtualised NVM.

use std::path::PathBuf;

use ::bench::VnvmContest;
use clap::{Args, ValueEnum};
use session::BenchVnvm;

use crate::progress::terminal;
use crate::{command_line, say};

/// Its arguments.
#[derive(Debug, Args)]
pub struct BenchVnvmArgs {
    /// Memory, records and operations are those of the source (2 GiB of log, 8 GiB of cache) divided by this
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub scale: u64,
    /// How often commits, and stores that are processes, are measured by turns; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// What a request of a record store takes apart from the record, in microseconds of a processor
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub service: u64,
    /// Only one of the two parts
    #[arg(long)]
    pub only: Option<Part>,
    /// Folder of the NVM: a DAX file system, or memory
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub path: PathBuf,
    /// Folder of the files behind it
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub disk: PathBuf,
    /// Seed of all choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// One of four stores that are processes; started by the command itself
    #[arg(long, value_name = "N", hide = true)]
    pub instance: Option<u32>,
    /// Print JSON (docs/vnvm.md says what is in it)
    #[arg(long)]
    pub json: bool,
}

/// A part of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Commits of 32 writes, beside bare logs and libpmemobj
    Commits,
    /// Stores of records of 64 KiB, beside NVM alone
    Records,
}

/// Runs it.
pub fn run(args: &BenchVnvmArgs) -> anyhow::Result<()> {
    // So that files do not stay.
    terminal().verb_ends_itself();
    let contest = VnvmContest {
        scale: args.scale,
        rounds: args.rounds,
        commits: args.only != Some(Part::Records),
        records: args.only != Some(Part::Commits),
        nvm: args.path.clone(),
        disk: args.disk.clone(),
        service_ns: args.service * 1000,
        seed: args.seed,
        worker: std::env::current_exe().ok(),
    };
    if let Some(instance) = args.instance {
        return Ok(contest.store(instance)?);
    }
    let results = BenchVnvm { contest }.run(terminal())?;
    if args.json {
        return say(&results.json(&command_line())?);
    }
    say(&results.text())
}
