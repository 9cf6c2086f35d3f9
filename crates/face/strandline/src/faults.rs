//! `strandline faults`: what page faults cost, and what removes them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use session::{Faults, Program, Reports, Sweeps};

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
    /// What a first store takes whose fault an offload engine completes (as this machine is modelled, if not given)
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub engine: Option<Duration>,
    /// Report each fault of a program that has them often, too, which slows it down (else one in 17, and all
    /// are counted)
    #[arg(long)]
    pub each: bool,
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
    /// A page-fault offload engine on a modelled machine: table, period, cores, free memory, bursts, background, huge pages
    Poe(PoeArgs),
}

/// Arguments of `strandline faults poe`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  strandline faults poe\n  strandline faults poe --axis ring --axis period --json\n  \
                        strandline faults poe --machine dram --cores 8 --gap 500ns --kernel 2us --out poe\n\n\
                        Parameters: ring, period, cores, free, burst, background, work, huge."
)]
pub struct PoeArgs {
    /// A parameter to sweep; may be given again (all, if none is given)
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(Sweeps::names()))]
    pub axis: Vec<String>,
    /// A first store by the kernel, zeroing included (measured here, if not given)
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub kernel: Option<Duration>,
    /// The machine: `host`, a preset, or a file
    #[arg(long, value_name = "NAME", default_value = "host")]
    pub machine: String,
    /// The work of the thread that refills tables, per page (zeroing and half of a trap, measured here, if not given)
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub refill: Option<Duration>,
    /// Entries of each core's table
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(0..=65_536))]
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
    /// First uses are loads
    #[arg(long)]
    pub reads: bool,
    /// Pages of 2 MiB, in tables of their own
    #[arg(long)]
    pub huge: bool,
    /// Folder for faults-poe.html, with plots, and faults-poe.json
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
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
        reports: if args.each { Reports::All } else { Reports::Budget },
        ..Faults::new(program)
    };
    let found = faults.run(terminal())?;
    say(&if args.json { found.json()? } else { found.text() })
}

fn poe(args: &PoeArgs) -> anyhow::Result<()> {
    let sweeps = Sweeps {
        axes: args.axis.clone(),
        kernel: args.kernel.map(nanoseconds),
        machine: args.machine.clone(),
        refill: args.refill.map(nanoseconds),
        ring: args.ring,
        period: nanoseconds(args.period),
        cores: usize::from(args.cores),
        gap: nanoseconds(args.gap),
        reads: args.reads,
        huge: args.huge,
    };
    let swept = sweeps.run()?;
    if let Some(out) = &args.out {
        session::make_folder(out)?;
        session::write(&out.join("faults-poe.html"), &swept.html())?;
        session::write(&out.join("faults-poe.json"), &swept.json()?)?;
    }
    say(&if args.json { swept.json()? } else { swept.text() })
}
