//! `strandline sweep`: every combination of inputs, machines, designs and parameters: of a file, or of a few options.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use session::{Observer, Progress};
use sweep::{Grid, STORE, Store};

use crate::progress::terminal;
use crate::say;

/// Arguments of `strandline sweep`.
#[derive(Debug, Args)]
#[command(
    override_usage = "strandline sweep FILE.toml [OPTIONS]\n       \
                      strandline sweep --persistency NAME... --workload NAME... [OPTIONS]",
    after_help = "Examples:\n  strandline sweep sweep.toml\n  strandline sweep --persistency x86 strandweaver --workload rb-tree nstore-write --threads 1,8 \
                        --vary cores.pipeline.strand_buffers=1,2,4 -o strands.jsonl\n\n\
                        sweep.toml, a whole one:\n\n\
                        \x20 workload = \"hash-scatter\"          # or trace = \"t.slt\", or row = [\"xpoint-9\"]\n\
                        \x20 operations = 2000\n\
                        \x20 machine = [\"dram\", \"xpoint\"]\n\
                        \x20 [set]\n\
                        \x20 llc.size = [\"11MiB\", \"22MiB\"]\n\n\
                        The table goes to sweep.parquet, a row per combination. Results are kept by a hash of everything that they depend on: the \
                        same command computes only what is missing, also after it was killed. With -o FILE.jsonl there is a line of JSON \
                        per combination instead. docs/sweep.md has all words."
)]
pub struct SweepArgs {
    /// A grid
    #[arg(value_name = "FILE.toml", conflicts_with_all = ["persistency", "workload", "vary", "ops"])]
    pub file: Option<PathBuf>,
    /// Persistency designs, as `simulate --persistency` has them
    #[arg(long, value_name = "NAME", required_unless_present = "file", num_args = 1..)]
    pub persistency: Vec<String>,
    /// Built-in workloads (`strandline simulate --workload list`)
    #[arg(long, value_name = "NAME", required_unless_present = "file", num_args = 1..)]
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
    /// The file of results: a Parquet table, or lines of JSON if its name ends with .jsonl (sweep.parquet)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Folder that keeps results for later sweeps (.strandline-sweep)
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Print what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the verb.
pub fn run(args: &SweepArgs) -> anyhow::Result<()> {
    let values = |text: &String| text.split(',').map(str::to_owned).collect::<Vec<String>>();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = args.jobs.unwrap_or(cores);
    if let Some(file) = &args.file {
        return table(&Grid::load(file)?, args, jobs);
    }
    let mut grid = json!({
        "workload": args.workload, "threads": args.threads, "machine": args.machine,
        "persistency": args.persistency, "language": args.map_regions.name(),
    });
    if let Some(operations) = args.ops {
        grid["operations"] = json!(operations);
    }
    args.vary.iter().for_each(|(key, text)| grid[key] = json!(values(text)));
    table(&Grid::parse(&grid.to_string())?, args, jobs)
}

/// A grid into a table.
fn table(grid: &Grid, args: &SweepArgs, jobs: usize) -> anyhow::Result<()> {
    let folder = args.store.clone().or_else(|| grid.store()).unwrap_or_else(|| PathBuf::from(STORE));
    let output = args.output.clone().or_else(|| grid.output());
    let output = output.unwrap_or_else(|| PathBuf::from("sweep.parquet"));
    sweep::Table::writes_to(&output)?;
    let mut sweep = sweep::Sweep::open(grid, Store::open(folder)?)?;
    let tally = sweep.tally();
    let done = |done, all| {
        terminal().progress(&Progress::Steps { doing: "sweeping", done, all, name: "" });
        !terminal().stopped()
    };
    let ran = sweep.run(jobs, &done);
    terminal().finished();
    ran?;
    let missing = sweep.missing();
    let table = sweep.table();
    table.write(&output)?;
    publish(args, &output, tally, missing, errors(&table))
}

/// Configurations that no machine can have.
fn errors(table: &sweep::Table) -> usize {
    match table.column("error") {
        Some(sweep::Data::Text(values)) => values.iter().flatten().count(),
        _ => 0,
    }
}

fn publish(
    args: &SweepArgs,
    output: &Path,
    tally: sweep::Tally,
    missing: usize,
    errors: usize,
) -> anyhow::Result<()> {
    let ran = tally.all - tally.known - missing;
    if args.json {
        let answer = json!({
            "file": output, "configurations": tally.all, "known": tally.known, "computed": ran,
            "missing": missing, "errors": errors,
        });
        say(&format!("{answer:#}\n"))?;
    } else {
        let wrong = match errors {
            0 => String::new(),
            errors => format!(", {errors} can't be (column `error`)"),
        };
        let combinations = if ran == 1 { "combination" } else { "combinations" };
        say(&format!("{ran} {combinations} run, {} were there{wrong}: {}\n", tally.known, output.display()))?;
    }
    if missing > 0 {
        anyhow::bail!("interrupted: {missing} combinations are missing; the same command goes on");
    }
    Ok(())
}
