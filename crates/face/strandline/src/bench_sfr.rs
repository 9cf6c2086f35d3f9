//! `strandline bench sfr`: the designs of language-level persistency, on C programs that are recompiled.

use std::path::PathBuf;

use ::bench::SfrContest;
use anyhow::Context;
use clap::Args;
use session::BenchSfr;

use crate::progress::terminal;
use crate::{command_line, say};

/// Its arguments.
#[derive(Debug, Args)]
pub struct BenchSfrArgs {
    /// Numbers of threads, each measured by itself
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: Vec<u32>,
    /// Operations of a run, of all threads together
    #[arg(long, value_name = "N", default_value_t = 100_000,
          value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub ops: u64,
    /// 8-byte stores of data per synchronisation-free region, each number measured by itself
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub stores_per_sfr: Vec<u32>,
    /// Designs to compare, and builds without (`list` shows them) [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub design: Vec<String>,
    /// Benchmarks: cq, sps, pc, rbtree, tatp, ll, tpcc, ycsb [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub benchmark: Vec<String>,
    /// How often each is run, in turn with the others; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Leave out the breakdown of overhead
    #[arg(long)]
    pub no_breakdown: bool,
    /// Folder for pools, which are removed afterwards: memory or persistent memory
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub path: PathBuf,
    /// Seed of all choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the results with plots as an HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs it.
pub fn run(args: &BenchSfrArgs) -> anyhow::Result<()> {
    if args.design == ["list"] {
        let line = |(name, summary): (&str, &str)| format!("{name:<12}{summary}\n");
        return say(&SfrContest::known().into_iter().map(line).collect::<String>());
    }
    // So that files do not stay.
    terminal().verb_ends_itself();
    let program =
        std::env::current_exe().context("the compiler driver is this program, which can't be found")?;
    let contest = SfrContest {
        benchmarks: args.benchmark.clone(),
        variants: args.design.clone(),
        threads: args.threads.clone(),
        stores: args.stores_per_sfr.clone(),
        operations: args.ops,
        rounds: args.rounds,
        breakdown: !args.no_breakdown,
        path: args.path.clone(),
        seed: args.seed,
        ..SfrContest::new(vec![program.into(), "cc".into()])
    };
    let results = BenchSfr { contest }.run(terminal())?;
    if let Some(page) = &args.html {
        session::write(page, &results.html(command_line()))?;
    }
    if args.json {
        return say(&results.json(&command_line())?);
    }
    let mut text = results.text();
    if let Some(page) = &args.html {
        text.push_str(&format!("The page: {}\n", page.display()));
    }
    say(&text)
}
