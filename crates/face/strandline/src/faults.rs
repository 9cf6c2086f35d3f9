//! `strandline faults`: what page faults cost, and what removes them.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand};
use session::{Faults, Program, Sweeps};

use crate::progress::terminal;
use crate::say;

/// Arguments of `strandline faults`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  strandline faults -- ./app arguments\n  strandline faults --try -- ./app arguments\n  \
                  strandline faults --try --json -- ./app | jq .combined\n  strandline faults poe --axis ring\n\n\
                  Any program, as it is. Faults are counted by the kernel; with the right to trace (root) reads and writes are \
                  distinguished. --try runs the program again and again, so it must not mind."
)]
pub struct FaultsArgs {
    /// Something else than an estimate
    #[command(subcommand)]
    pub command: Option<FaultsCommand>,
    /// Try remedies in further runs, measure them, and keep what gains
    #[arg(long = "try")]
    pub trials: bool,
    /// Runs of each remedy
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,
    /// What a fault takes that an offload engine completes (by its accesses to memory, if not given)
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub engine: Option<Duration>,
    /// Print JSON; what the program prints goes to standard error
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// The verbs of `strandline faults`.
#[derive(Debug, Subcommand)]
pub enum FaultsCommand {
    /// A page-fault offload engine in time: table, period, cores, free memory, bursts, background
    Poe(PoeArgs),
}

/// Arguments of `strandline faults poe`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  strandline faults poe\n  strandline faults poe --axis ring --axis period --json\n  \
                        strandline faults poe --huge --cores 8 --gap 500ns --kernel 2us --engine 127ns\n\n\
                        Parameters: ring, period, cores, free, burst, background."
)]
pub struct PoeArgs {
    /// A parameter to sweep; may be given again (all, if none is given)
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(Sweeps::names()))]
    pub axis: Vec<String>,
    /// A fault by the kernel (measured here, if not given)
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub kernel: Option<Duration>,
    /// A fault by the engine (by its accesses to memory, if not given)
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub engine: Option<Duration>,
    /// Entries of each core's table
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub ring: u64,
    /// Between two refills of the tables
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = positive)]
    pub period: Duration,
    /// Cores
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub cores: u16,
    /// Between two new pages of a core
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = humantime::parse_duration)]
    pub gap: Duration,
    /// Pages of 2 MiB, in tables of their own
    #[arg(long)]
    pub huge: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn positive(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("a time above 0".to_owned()) } else { Ok(time) }
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// Runs the verb.
pub fn run(args: &FaultsArgs) -> anyhow::Result<()> {
    if let Some(FaultsCommand::Poe(args)) = &args.command {
        return poe(args);
    }
    let mut program = Program::new(args.program.clone());
    program.stdout_to_stderr = args.json;
    let faults = Faults {
        trials: args.trials,
        rounds: usize::from(args.rounds),
        engine: args.engine.map(nanoseconds),
        ..Faults::new(program)
    };
    let found = faults.run(terminal())?;
    say(&if args.json { found.json()? } else { found.text() })
}

fn poe(args: &PoeArgs) -> anyhow::Result<()> {
    let sweeps = Sweeps {
        axes: args.axis.clone(),
        kernel: args.kernel.map(nanoseconds),
        engine: args.engine.map(nanoseconds),
        ring: args.ring,
        period: nanoseconds(args.period),
        cores: usize::from(args.cores),
        gap: nanoseconds(args.gap),
        huge: args.huge,
    };
    let swept = sweeps.run()?;
    say(&if args.json { swept.json()? } else { swept.text() })
}
