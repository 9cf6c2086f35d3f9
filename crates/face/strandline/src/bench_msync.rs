//! `strandline bench msync`: failure-atomic msync, a plain one, and manual write-ahead logging.

use std::path::PathBuf;

use ::bench::MsyncContest;
use anyhow::Context;
use clap::Args;

use crate::progress::terminal;
use crate::say;

/// Its arguments.
#[derive(Debug, Args)]
pub struct BenchMsyncArgs {
    /// Updates of a record per commit, each number measured by itself
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,4,16,64,256",
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub updates: Vec<u64>,
    /// Cache lines that an update stores to, each number measured by itself
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,8",
          value_parser = clap::value_parser!(u64).range(1..=8))]
    pub lines: Vec<u64>,
    /// Records of 512 bytes in the file
    #[arg(long, value_name = "N", default_value_t = 16384,
          value_parser = clap::value_parser!(u64).range(1..=1 << 22))]
    pub records: u64,
    /// Commits of a run
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub commits: u64,
    /// How often each is run, in turn with the others; figures are medians
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Folder for the file, which is removed afterwards: of the file system to be measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub path: PathBuf,
    /// Seed of all choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs it.
pub fn run(args: &BenchMsyncArgs) -> anyhow::Result<()> {
    // So that files do not stay.
    terminal().verb_ends_itself();
    let program =
        std::env::current_exe().context("the compiler driver is this program, which can't be found")?;
    let contest = MsyncContest {
        records: args.records,
        commits: args.commits,
        updates: args.updates.clone(),
        lines: args.lines.clone(),
        rounds: args.rounds,
        path: args.path.clone(),
        seed: args.seed,
        driver: vec![program.into(), "cc".into()],
    };
    let results = contest.run()?;
    say(&if args.json { results.json()? } else { results.text() })
}
