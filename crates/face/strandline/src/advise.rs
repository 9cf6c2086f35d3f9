//! `strandline advise`: advisors that look at a program or a trace.

use std::ffi::OsString;
use std::path::PathBuf;

use ::advise::prestores::Options;
use anyhow::bail;
use clap::{Args, Subcommand};
use machine::Size;
use session::{Input, Prestores};

use crate::cli::ObserveArgs;
use crate::progress::terminal;
use crate::{profile, say};

/// The advisors that can be asked alone.
#[derive(Debug, Subcommand)]
pub enum AdviseCommand {
    /// Where to write back, move down or write around the caches early, and what that would gain
    Prestores(PrestoresArgs),
}

/// Arguments of `strandline advise prestores`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  strandline advise prestores -- ./app arguments\n  strandline advise prestores t.slt --machine \
                  xpoint\n  strandline advise prestores t.slt --target enzian-fast --phase run --min-sequential 0.8\n\nWithout a \
                  machine the advice is for any that could gain. For a target, advice that can't pay there is withheld; for a machine, \
                  the rest is tried on its model as well: what gains nothing is withdrawn."
)]
pub struct PrestoresArgs {
    /// A recorded trace
    #[arg(value_name = "FILE.slt", conflicts_with = "program")]
    pub trace: Option<PathBuf>,
    /// The machine to advise for and to try the advice on: a preset (`list` shows them) or a TOML file
    #[arg(long, value_name = "PRESET|FILE.toml")]
    pub machine: Option<String>,
    /// The machine to advise for, by its memory's unit and the order of its stores, without a trial
    #[arg(long, value_name = "PRESET|FILE.toml", conflicts_with = "machine")]
    pub target: Option<String>,
    /// Judge this phase only (as the program marks them); else all but load, setup, warmup and check, whose
    /// reading is no use of what others wrote unless the program comes back to them
    #[arg(long, value_name = "NAME")]
    pub phase: Option<String>,
    /// Print the advice as JSON
    #[arg(long)]
    pub json: bool,
    /// How to observe the program
    #[command(flatten)]
    pub observe: ObserveArgs,
    /// When to speak
    #[command(flatten)]
    pub thresholds: Thresholds,
    /// The program, built with `strandline cc`, and its arguments
    #[arg(last = true, value_name = "PROG ARGS")]
    pub program: Vec<OsString>,
}

/// When the advisor speaks. [`Options`] has the reasons.
#[derive(Debug, Args)]
#[command(next_help_heading = "Thresholds (shares are 0 to 1, distances are instructions)")]
pub struct Thresholds {
    /// Leave programs alone of whose loads and stores fewer are stores
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = Options::default().intensity_min)]
    pub min_intensity: f64,
    /// Leave functions alone that store a smaller part of the bytes, or make a smaller part of all loads and
    /// stores
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = Options::default().function_min)]
    pub min_function: f64,
    /// Leave lines out that store a smaller part of their function's bytes
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = Options::default().place_min)]
    pub min_place: f64,
    /// Leave lines out that store less in all
    #[arg(long, value_name = "BYTES", default_value_t = Size(Options::default().bytes_min))]
    pub min_bytes: Size,
    /// A line writes in sequence from this part of its bytes on
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = Options::default().sequential_min)]
    pub min_sequential: f64,
    /// A line writes before fences from this part of its bytes on
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = Options::default().fenced_min)]
    pub min_fenced: f64,
    /// A fence that comes sooner than this leaves nothing to gain
    #[arg(long, value_name = "DISTANCE", default_value_t = Options::default().fence_room)]
    pub min_fence_distance: u64,
    /// A fence that comes later than this waits for nothing
    #[arg(long, value_name = "DISTANCE", default_value_t = Options::default().fence_distance)]
    pub max_fence_distance: u64,
    /// Data used again after more than this was touched count as not used again: the caches have lost them
    #[arg(long, value_name = "BYTES", default_value_t = Size(Options::default().cache_bytes))]
    pub cache: Size,
    /// Data are used again if this part of their lines is
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = Options::default().reused_min)]
    pub min_reused: f64,
    /// Never advise to skip the cache if the functions that store most read this part of the lines again, in
    /// the thread that stored them
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = Options::default().writers_reread_min)]
    pub min_reread_by_writers: f64,
    /// Regions of a size with a smaller part of a line's bytes have no say
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = Options::default().class_min)]
    pub min_class: f64,
}

/// Runs the verb.
pub fn run(command: &AdviseCommand) -> anyhow::Result<()> {
    match command {
        AdviseCommand::Prestores(args) => prestores(args),
    }
}

fn prestores(args: &PrestoresArgs) -> anyhow::Result<()> {
    let machine = args.machine.as_ref().or(args.target.as_ref());
    if machine.is_some_and(|name| name == "list") {
        return profile::list_machines();
    }
    let input = match &args.trace {
        Some(trace) => Input::Trace(trace.clone()),
        None if args.program.is_empty() => {
            bail!("nothing to advise on: give a trace, or a program as in `-- PROG ARGS`")
        }
        None => Input::Program(args.observe.program(&args.program, args.json)),
    };
    let prestores = Prestores {
        input,
        machine: machine.cloned(),
        trial: args.machine.is_some(),
        options: args.options(),
    };
    let advised = prestores.run(terminal())?;
    say(&if args.json { advised.json()? } else { advised.text() })
}

impl PrestoresArgs {
    /// What the advisor is asked.
    pub fn options(&self) -> Options {
        let thresholds = &self.thresholds;
        Options {
            phase: self.phase.clone(),
            intensity_min: thresholds.min_intensity,
            function_min: thresholds.min_function,
            place_min: thresholds.min_place,
            bytes_min: thresholds.min_bytes.0,
            sequential_min: thresholds.min_sequential,
            fenced_min: thresholds.min_fenced,
            fence_room: thresholds.min_fence_distance,
            fence_distance: thresholds.max_fence_distance,
            cache_bytes: thresholds.cache.0,
            reused_min: thresholds.min_reused,
            writers_reread_min: thresholds.min_reread_by_writers,
            class_min: thresholds.min_class,
        }
    }
}

/// A part of something.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().map_err(|_| "use a number from 0 to 1".to_owned())?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("use a number from 0 to 1".to_owned()) }
}
