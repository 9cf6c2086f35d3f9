//! `strandline sweep`: designs, workloads and parameters, every combination.

use std::path::PathBuf;

use clap::Args;
use session::{Chosen, Sweep};

use crate::say;

/// Arguments of `strandline sweep`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  strandline sweep --persistency x86 strandweaver --workload rb-tree nstore-write --threads 1,8 \
                        --vary cores.pipeline.strand_buffers=1,2,4 -o strands.jsonl\n\n\
                        The file has a line of JSON per combination. The same command goes on where it stopped."
)]
pub struct SweepArgs {
    /// Persistency designs, as `simulate --persistency` has them
    #[arg(long, value_name = "NAME", required = true, num_args = 1..)]
    pub persistency: Vec<String>,
    /// Built-in workloads (`strandline simulate --workload list`)
    #[arg(long, value_name = "NAME", required = true, num_args = 1..)]
    pub workload: Vec<String>,
    /// Numbers of threads
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: Vec<u32>,
    /// A key of the machine and its values; may be repeated
    #[arg(long, value_name = "KEY=VALUE,VALUE", value_parser = crate::machines::setting)]
    pub vary: Vec<(String, String)>,
    /// The machine: a preset or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "table-5.1")]
    pub machine: String,
    /// Operations of each workload; their own number if not given
    #[arg(long, value_name = "N")]
    pub ops: Option<u64>,
    /// Language of software logs: tx, atlas or sfr
    #[arg(long, value_name = "LANGUAGE", value_parser = crate::cli::language, default_value = "tx")]
    pub map_regions: hardware::Language,
    /// Combinations at a time; as many as there are cores if not given
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// The file of results
    #[arg(short, long, value_name = "FILE", default_value = "sweep.jsonl")]
    pub output: PathBuf,
}

/// Runs the verb.
pub fn run(args: &SweepArgs) -> anyhow::Result<()> {
    let values = |text: &String| text.split(',').map(str::to_owned).collect();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let sweep = Sweep {
        machine: Chosen::new(args.machine.clone()),
        designs: args.persistency.clone(),
        workloads: args.workload.clone(),
        threads: args.threads.clone(),
        settings: args.vary.iter().map(|(key, text)| (key.clone(), values(text))).collect(),
        operations: args.ops,
        language: args.map_regions,
        jobs: args.jobs.unwrap_or(cores),
        file: args.output.clone(),
    };
    let (ran, known) = sweep.run(&|_| {})?;
    say(&format!("{ran} combinations run, {known} were there: {}\n", args.output.display()))
}
