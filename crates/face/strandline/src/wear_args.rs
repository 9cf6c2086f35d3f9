//! The words of `strandline wear`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use session::Chosen;

use crate::cli::{InputArgs, ObserveArgs};

/// Arguments of `strandline wear`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  strandline wear\n  strandline wear --goal 4y --endurance 1e7 -- ./app\n  \
                  strandline wear --sampled=10007 -- ./any-program\n  \
                  strandline wear --trace t.slt --duration 10s --page 2MiB --capacity 1GiB --json\n  \
                  strandline wear level --policy start-gap --policy kevlar --trace t.slt\n  \
                  strandline wear run --goal 4y -- ./app"
)]
pub struct WearArgs {
    /// Something else than an estimate
    #[command(subcommand)]
    pub command: Option<WearCommand>,
    /// Where events come from
    #[command(flatten)]
    pub input: InputArgs,
    /// The modelled machine: a preset (`list` shows them) or a TOML file
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "xpoint")]
    pub machine: String,
    /// A value that replaces the machine's own, as in llc.size=16MiB; may be given again
    #[arg(long, value_name = "KEY=VALUE", value_parser = crate::machines::setting)]
    pub set: Vec<(String, String)>,
    /// Writes that a cell survives (if not given, device.endurance of the machine, or 1e7)
    #[arg(long, value_name = "N")]
    pub endurance: Option<f64>,
    /// How long the memory is to last
    #[arg(long, value_name = "TIME", default_value = "4y", value_parser = humantime::parse_duration)]
    pub goal: Duration,
    /// Bytes that levelling moves together: 4KiB, 2MiB
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    pub page: device::Size,
    /// Memory over which levelling can spread writes (what was written to, if not given)
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<device::Size>,
    /// How long the run takes when nobody observes it (the recorded time, if not given)
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub duration: Option<Duration>,
    /// What the copying of a page counts as: a write-back per line, or one write of each location
    #[arg(long, value_enum, default_value_t = Copies::Lines)]
    pub copies: Copies,
    /// Compare estimates from samples of stores with the exact counts
    #[arg(long)]
    pub accuracy: bool,
    /// When the filters of these estimates change roles
    #[arg(long, value_enum, default_value_t = Swaps::Misses, requires = "accuracy")]
    pub swap: Swaps,
    /// Estimate from the processor's own samples (PEBS, IBS) of every N-th store, a prime, of a program that need
    /// not be built anew
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10007", require_equals = true)]
    #[arg(conflicts_with_all = ["accuracy", "trace"])]
    pub sampled: Option<u32>,
    /// Seed of the built-in workload and of the machine's random choices
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Folder for wear.html and wear.json
    #[arg(long, value_name = "DIR", default_value = "strandline-report")]
    pub out: PathBuf,
    /// Print wear.json instead of the summary
    #[arg(long)]
    pub json: bool,
    /// How to observe the program
    #[command(flatten)]
    pub observe: ObserveArgs,
}

impl WearArgs {
    /// The machine with what replaces its own values.
    pub fn chosen(&self) -> Chosen {
        Chosen { machine: self.machine.clone(), settings: self.set.clone() }
    }
}

/// What a copy counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Copies {
    /// A write-back per line.
    Lines,
    /// One write of each location.
    Location,
}

/// When filters change roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Swaps {
    /// After as many misses as a filter holds blocks.
    Misses,
    /// After as many insertions.
    Insertions,
}

/// The verbs of `strandline wear`.
#[derive(Debug, Subcommand)]
pub enum WearCommand {
    /// Levelling policies on the same writes: lifetime, extra writes, latency
    Level(LevelArgs),
    /// Run a program on memory that wears: its pages are levelled, the hottest ones go to DRAM
    Run(RunArgs),
}

/// Arguments of `strandline wear run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  strandline wear run --goal 4y -- ./app\n  \
                        strandline wear run --endurance 1e8 --capacity 4GiB --page 2MiB -- ./app\n  \
                        strandline wear run --nodes 1,0 -- ./app\n\n\
                        Allocations of --from bytes and more come from memory that stands for persistent memory. \
                        A library in the program watches its pages and moves them under running threads.")]
pub struct RunArgs {
    /// How long the memory is to last
    #[arg(long, value_name = "TIME", default_value = "4y", value_parser = humantime::parse_duration)]
    pub goal: Duration,
    /// Writes that a cell survives
    #[arg(long, value_name = "N", default_value = "1e7")]
    pub endurance: f64,
    /// Bytes of the memory
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub capacity: device::Size,
    /// Bytes of a page: what is moved together
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    pub page: device::Size,
    /// Allocations of so many bytes and more come from the memory
    #[arg(long, value_name = "SIZE", default_value = "64KiB")]
    pub from: device::Size,
    /// How often the control loop acts
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub interval: Duration,
    /// How often within an interval written pages are looked for
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub ticks: u32,
    /// Writes per second and GiB above which pages go to DRAM (by goal and endurance, if not given)
    #[arg(long, value_name = "N")]
    pub limit: Option<f64>,
    /// In which time all pages are shuffled once; 0s for never (8192 times in the goal, if not given)
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub shuffle_every: Option<Duration>,
    /// The file that is the memory, on tmpfs (memory of the kernel's, if not given)
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    pub pm: Option<PathBuf>,
    /// NUMA nodes instead of files: of the memory that wears, and of DRAM
    #[arg(long, value_name = "PM,DRAM", value_parser = nodes)]
    pub nodes: Option<(u32, u32)>,
    /// Print JSON; what the program prints goes to standard error
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<std::ffi::OsString>,
}

/// Two nodes with a comma.
fn nodes(text: &str) -> Result<(u32, u32), String> {
    let pair = text.split_once(',').and_then(|(near, far)| Some((near.parse().ok()?, far.parse().ok()?)));
    pair.ok_or_else(|| "two numbers of nodes with a comma, as in 1,0".to_owned())
}

/// Arguments of `strandline wear level`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  strandline wear level --trace t.slt\n  \
                        strandline wear level --policy kevlar --policy start-gap --trace t.slt --json\n  \
                        strandline wear level --attack birthday --capacity 16MiB --writes 100000000\n\n\
                        Policies: none, kevlar, start-gap, security-refresh, row-shift, age-based.")]
pub struct LevelArgs {
    /// Where writes come from
    #[command(flatten)]
    pub input: InputArgs,
    /// A policy; may be given again (all, if none is given)
    #[arg(long, value_name = "NAME")]
    pub policy: Vec<String>,
    /// An attack instead of an input
    #[arg(long, value_enum, conflicts_with_all = ["program", "trace", "workload", "stores"])]
    pub attack: Option<Attacks>,
    /// The modelled machine whose write-backs are levelled
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "xpoint")]
    pub machine: String,
    /// Take every store for a write of the memory, as if each were flushed
    #[arg(long)]
    pub stores: bool,
    /// Bytes of the units that wear
    #[arg(long, value_name = "SIZE", default_value = "64B")]
    pub unit: device::Size,
    /// Bytes of a page
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    pub page: device::Size,
    /// Bytes of the memory (what is written to, rounded up, 1 MiB at least, if not given)
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<device::Size>,
    /// Writes to simulate; the input's come again and again
    #[arg(long, value_name = "N", default_value = "50000000", value_parser = from_one())]
    pub writes: u64,
    /// Writes that a unit survives in the simulation, which ends when 1 % of the units are dead
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub endurance: Option<u32>,
    /// Writes per page between two shuffles of it
    #[arg(long, value_name = "N", value_parser = from_one())]
    pub shuffle_every: Option<u64>,
    /// Writes per move of Start-Gap and Security Refresh
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub interval: Option<u32>,
    /// Where contents wait while the shuffle exchanges pages
    #[arg(long, value_enum, default_value_t = Temporaries::Spare)]
    pub temporary: Temporaries,
    /// Seed of random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// How to observe the program
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// Attacks on a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Attacks {
    /// One unit, again and again.
    Hammer,
    /// Random units, each for a while.
    Birthday,
    /// Every unit at random.
    Uniform,
    /// All units in order.
    Sequential,
}

/// Where contents wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Temporaries {
    /// In DRAM.
    Dram,
    /// In a spare frame that wanders.
    Spare,
    /// In a frame that is always the same.
    Fixed,
}

/// Whole numbers above 0.
fn from_one() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..)
}
