//! `strandline unified`: what CPU and GPU share on this machine; `strandline bench unified`, `measure --on
//! gpu`.

use std::path::PathBuf;
use std::time::Duration;

use ::unified::litmus::Seen;
use ::unified::micro::Options;
use ::unified::{BatchOptions, Choice, Contest, Devices, Info, Part};
use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use session::{BenchUnified, DeviceLitmus, LitmusOnDevice, MeasureDevice, Observer};

use crate::measure_args::MeasureArgs;
use crate::progress::terminal;
use crate::{command_line, say};

/// What `strandline unified` does.
#[derive(Debug, Subcommand)]
pub enum UnifiedCommand {
    /// Which devices there are, and where their memory is
    #[command(after_help = "Examples:\n  strandline unified info\n  strandline unified info --json")]
    Info {
        /// Print JSON (docs/unified.md says what is in it)
        #[arg(long)]
        json: bool,
    },
    /// Can CPU and device synchronise while a kernel runs? Litmus tests, on the device at hand
    #[command(after_help = "Examples:\n  strandline unified litmus\n  \
                            strandline unified litmus --on vulkan --rounds 1000 --json my-test.toml")]
    Litmus(LitmusArgs),
}

/// Arguments of `strandline unified litmus`.
#[derive(Debug, Args)]
pub struct LitmusArgs {
    /// Files of tests; those that come with the program if there is none
    #[arg(value_name = "FILE.toml")]
    pub files: Vec<PathBuf>,
    /// The device: gpu, batch (the software accelerator), vulkan, wgpu, cuda
    #[arg(long, value_name = "DEVICE", value_parser = choice, default_value = "vulkan")]
    pub on: Choice,
    /// Launches of each test, of up to a hundred instances each
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rounds: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `strandline bench unified`.
#[derive(Debug, Args)]
pub struct BenchUnifiedArgs {
    /// The device: gpu, batch (the software accelerator), vulkan, wgpu, cuda [default: a GPU if there is
    /// one, else batch]
    #[arg(long, value_name = "DEVICE", value_parser = choice)]
    pub on: Option<Choice>,
    /// Only these parts
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub only: Vec<ChosenPart>,
    /// Keys in the table
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=402_653_184))]
    pub keys: u64,
    /// Keys of a batch
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = batch)]
    pub batch: usize,
    /// Workers of which some submit batches
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=1024))]
    pub workers: u16,
    /// Keys to sort and rows to query
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub rows: u32,
    /// Milliseconds of each point
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub milliseconds: u64,
    /// Threads of the software accelerator [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub batch_threads: Option<u16>,
    /// What a launch of the software accelerator costs, in microseconds
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub launch: u64,
    /// By how many nanoseconds CPU threads in the same region lengthen each of its lookups
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub interference: u64,
    /// Seed of keys, rows and choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON (docs/unified.md says what is in it)
    #[arg(long)]
    pub json: bool,
}

/// A part of the comparison.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ChosenPart {
    /// CPU lookups by the distance of prefetches, beside hashbrown
    Prefetch,
    /// Batches of lookups and changes of the device
    Batches,
    /// CPU and device at the same time: approaches 1 to 3
    Together,
    /// Radix sort beside a CPU's
    Sort,
    /// TPC-H Q1 and Q6
    Query,
}

/// Runs the verb. Returns whether nothing surprising was seen.
pub fn run(command: &UnifiedCommand) -> anyhow::Result<bool> {
    match command {
        UnifiedCommand::Info { json } => info(*json).map(|()| true),
        UnifiedCommand::Litmus(args) => litmus(args),
    }
}

fn info(as_json: bool) -> anyhow::Result<()> {
    let found = Devices::find();
    if as_json {
        let value = json!({ "schema": 1, "command": command_line(), "devices": found.devices, "absent": found.absent });
        return say(&format!("{value:#}\n"));
    }
    let mut text: String = found.devices.iter().map(about).collect();
    for absent in &found.absent {
        text.push_str(&format!("{:<8}none: {}\n", absent.backend, absent.reason));
    }
    say(&text)
}

fn about(info: &Info) -> String {
    let memory = match info.memory {
        ::unified::MemoryKind::Unified => "unified memory",
        ::unified::MemoryKind::HostVisible => "memory of its own that the CPU can map",
        ::unified::MemoryKind::Discrete => "memory of its own",
        ::unified::MemoryKind::Managed => "managed memory",
    };
    let size = match info.memory_bytes {
        0 => String::new(),
        bytes if bytes >= 1 << 40 => ", as much as the CPU's".to_owned(),
        bytes => format!(", {} MiB", bytes >> 20),
    };
    let concurrent = if info.concurrent { "while kernels run" } else { "between kernels, by copies" };
    let software = if info.software { "software, " } else { "" };
    format!(
        "{:<8}{} [{software}{}]\n        {memory}{size}; regions up to {} MiB; used by the CPU {concurrent}\n",
        info.backend,
        info.device,
        info.driver,
        info.region_bytes_max >> 20
    )
}

fn litmus(args: &LitmusArgs) -> anyhow::Result<bool> {
    let accelerator = args.on.open(BatchOptions::default())?;
    let run = LitmusOnDevice { accelerator, files: args.files.clone(), rounds: args.rounds };
    let found = run.run(terminal())?;
    let surprising = found.tests.iter().any(|test| test.surprising > 0);
    let ended = |found: &DeviceLitmus| match found.tests.iter().find(|test| test.instances == 0) {
        _ if terminal().stopped() => bail!("interrupted: what was printed is not all"),
        Some(test) if !surprising => bail!("{}: {UNENDED}", test.test),
        _ => Ok(!surprising),
    };
    if args.json {
        let value =
            json!({ "schema": 1, "command": command_line(), "device": found.device, "tests": found.tests });
        say(&format!("{value:#}\n"))?;
        return ended(&found);
    }
    let mut text = about(&found.device);
    for test in &found.tests {
        text.push_str(&format!("\n{}: {}\n  promised: {}\n", test.test, test.question, test.promised));
        for (outcome, count) in &test.outcomes {
            let values: Vec<String> =
                test.values.iter().zip(outcome).map(|(name, value)| format!("{name}={value}")).collect();
            text.push_str(&format!("  {count:>8}  {}\n", values.join(" ")));
        }
        text.push_str(&format!("  {}\n", verdict(test)));
    }
    say(&text)?;
    ended(&found)
}

/// Why a test has no verdict.
const UNENDED: &str = "no instance ran to its end in every thread; try fewer `repeats`, or more --rounds";

/// What a test showed about the device.
fn verdict(test: &Seen) -> String {
    match (test.surprising, test.instances) {
        (0, 0) => format!("no verdict: {UNENDED}"),
        (0, _) => "as a coherent memory".to_owned(),
        (count, all) => format!("{count} of {all} that a coherent memory does not allow"),
    }
}

/// Refuses to call a result whole that was interrupted.
fn whole() -> anyhow::Result<()> {
    if terminal().stopped() {
        bail!("interrupted: what was printed is not all");
    }
    Ok(())
}

/// Runs `strandline bench unified`.
pub fn bench(args: &BenchUnifiedArgs) -> anyhow::Result<()> {
    let mut options = BatchOptions {
        launch: Duration::from_micros(args.launch),
        interference: Duration::from_nanos(args.interference),
        ..BatchOptions::default()
    };
    if let Some(threads) = args.batch_threads {
        options.threads = usize::from(threads);
    }
    let accelerator = match args.on {
        Some(choice) => choice.open(options)?,
        None => Choice::Gpu.open(options).or_else(|_| Choice::Batch.open(options))?,
    };
    let parts = args.only.iter().map(|part| match part {
        ChosenPart::Prefetch => Part::Prefetch,
        ChosenPart::Batches => Part::Batches,
        ChosenPart::Together => Part::Together,
        ChosenPart::Sort => Part::Sort,
        ChosenPart::Query => Part::Query,
    });
    let contest = Contest {
        accelerator,
        parts: parts.collect(),
        keys: args.keys,
        batch: args.batch,
        workers: usize::from(args.workers),
        duration: Duration::from_millis(args.milliseconds),
        rows: args.rows as usize,
        seed: args.seed,
    };
    let figures = BenchUnified { contest }.run(terminal())?;
    if args.json {
        let value = json!({ "schema": 1, "command": command_line(), "results": figures });
        say(&format!("{value:#}\n"))?;
    } else {
        say(&figures.text())?;
    }
    if !figures.right() {
        bail!("a result was wrong; the lines above say which");
    }
    whole()
}

/// The device that `measure --on` names, if it names one.
pub fn named(on: &str) -> Option<Choice> {
    Choice::named(on)
}

/// Runs `strandline measure --on gpu`.
pub fn measure(args: &MeasureArgs, on: Choice) -> anyhow::Result<()> {
    let parameters = &args.parameters;
    let region = match &*parameters.region {
        [] => 64 << 20,
        [one] => one.parse::<machine::Size>().with_context(|| format!("--region {one}"))?.0,
        _ => bail!("--region: one size for a device"),
    };
    if !(64 << 10..=16 << 30).contains(&region) {
        bail!("--region: 64KiB to 16GiB for a device");
    }
    for parameter in args.parameters.chosen()?.keys() {
        if parameter.name() != "region" {
            bail!("--{} changes nothing on a device; --region and --repeat do", parameter.name());
        }
    }
    if args.csv || args.out.is_some() || args.sweep.is_some() || args.derive_curve.is_some() {
        bail!("measurements of a device are printed as a table or as --json");
    }
    let accelerator = on.open(BatchOptions::default())?;
    let repeats = args.real.repeat.unwrap_or(3);
    let options = Options { bytes: region as usize, repeats, batch_max: 1_000_000, seed: 1 };
    let found = MeasureDevice { accelerator, studies: args.studies.clone(), options }.run(terminal())?;
    if args.json {
        let value = json!({
            "schema": 1,
            "command": command_line(),
            "subject": found.device.device,
            "device": found.device,
            "measurements": found.measurements,
            "left_out": found.left_out,
        });
        say(&format!("{value:#}\n"))?;
        return whole();
    }
    let mut text = about(&found.device);
    for point in &found.measurements {
        text.push_str(&format!(
            "{:<12}{:<34}{:>12.3} {}\n",
            point.study, point.what, point.value, point.unit
        ));
    }
    for reason in &found.left_out {
        text.push_str(&format!("left out: {reason}\n"));
    }
    say(&text)?;
    whole()
}

/// Parses a device's name.
fn choice(text: &str) -> Result<Choice, String> {
    Choice::named(text).ok_or_else(|| "gpu, batch, vulkan, wgpu or cuda".to_owned())
}

/// Parses the keys of a batch.
fn batch(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=134_217_728) => Ok(count),
        _ => Err("1 to 134217728 keys".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_never_ended_has_no_verdict() {
        let seen = |surprising, instances| {
            let (test, question, promised) = ("t".to_owned(), String::new(), String::new());
            verdict(&Seen {
                test,
                question,
                promised,
                values: vec![],
                outcomes: vec![],
                surprising,
                instances,
            })
        };
        assert!(seen(0, 0).starts_with("no verdict"));
        assert_eq!(seen(0, 3), "as a coherent memory");
        assert!(seen(2, 3).starts_with("2 of 3"));
    }
}
