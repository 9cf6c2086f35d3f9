//! The words of `strandline plan`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::{InputArgs, ObserveArgs};

/// Arguments of `strandline plan`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  strandline plan -- ./app arguments\n  \
                  strandline plan --tiers cascade-lake --prices prices.toml --verify 4 --json -- ./app\n  \
                  strandline plan --source referenced --apply -- ./any-program\n  strandline plan --trace t.slt --footprint 64GiB\n  strandline plan fleet fleet.toml --json"
)]
pub struct PlanArgs {
    /// Something else than a plan for one program
    #[command(subcommand)]
    pub command: Option<PlanCommand>,
    /// Where events come from
    #[command(flatten)]
    pub input: InputArgs,
    /// A machine whose memory is the slow tier and whose `other_memory` is the fast one (the preset dram's, if it has none): a preset
    /// (`list` shows them) or a TOML file; given again, its memory is a further slow tier
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "cxl-asic")]
    pub tiers: Vec<String>,
    /// Prices per hour, a TOML file (made-up ones, if not given)
    #[arg(long, value_name = "FILE.toml")]
    pub prices: Option<PathBuf>,
    /// Configurations may cost so much more than the cheapest, as a share, if they pack better
    #[arg(long, value_name = "SHARE", default_value_t = 0.025)]
    pub tolerance: f64,
    /// The working set to be rented, if the program was given a smaller input: 64GiB
    #[arg(long, value_name = "SIZE")]
    pub footprint: Option<device::Size>,
    /// Simulate the recommended configuration and others in full, so many in all, and hold predictions against them
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub verify: usize,
    /// How to look at a program: `events` needs one built with `strandline cc`, the others any that is linked with the shared C library.
    /// `auto` is `events` where that can be, else `referenced`: the kernel's referenced bits of pages. `written` sees stores besides,
    /// `protect` takes pages' access rights away, `sampled` needs a processor with PEBS or IBS, `damon` a kernel whose monitor nobody uses,
    /// `counters` sees sizes of allocations only
    #[arg(long, value_name = "SOURCE", value_enum, default_value = "auto")]
    pub source: SourceName,
    /// What counts as one structure: what a call stack allocates, what is of a C++ type, or what the program named by `sl_tag`
    #[arg(long, value_name = "HOW", value_enum, default_value = "stack")]
    pub group: GroupName,
    /// Carry a plan out while looking: allocations of the sites in the file go to the memory that it names (plan.kinds of an earlier
    /// plan, or with memkind's names)
    #[arg(long, value_name = "FILE")]
    pub kinds: Option<PathBuf>,
    /// Run the program again with its allocations where the plan says, if the machine has two memory nodes
    #[arg(long)]
    pub apply: bool,
    /// Seed of the built-in workload and of the machine's random choices
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Folder for plan.html and plan.json
    #[arg(long, value_name = "DIR", default_value = "strandline-report")]
    pub out: PathBuf,
    /// Print plan.json instead of the tables
    #[arg(long)]
    pub json: bool,
    /// How to observe the program
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// Sources of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SourceName {
    /// Events if the program has them, else referenced bits
    Auto,
    /// Every access of a program that was built with `strandline cc`
    Events,
    /// Referenced bits of pages
    Referenced,
    /// Referenced bits and stores
    Written,
    /// First uses of pages whose rights were taken
    Protect,
    /// Loads that missed all caches, sampled by the processor (PEBS, IBS)
    Sampled,
    /// Regions of DAMON's, the kernel's monitor, if nobody else uses it
    Damon,
    /// Sizes of allocations, counters of the process
    Counters,
}

/// What counts as one structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum GroupName {
    /// A call stack; of events, a line of source
    Stack,
    /// A C++ type, from debug information and the line of source
    Type,
    /// A name that the program gave by `sl_tag`
    Tag,
}

/// The verbs of `strandline plan`.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// How many machines do virtual machines need? Policies side by side
    Fleet(FleetArgs),
}

/// Arguments of `strandline plan fleet`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  strandline plan fleet fleet.toml\n  strandline plan fleet fleet.toml --seed 2 --json\n\n\
                        docs/plan.md describes the file."
)]
pub struct FleetArgs {
    /// Machines and virtual machines
    #[arg(value_name = "FILE.toml")]
    pub file: PathBuf,
    /// Seed of the queue's and the machines' order (the file's, or 1, if not given)
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
