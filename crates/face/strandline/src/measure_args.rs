//! The arguments of `strandline measure`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use machine::Size;
use measure::{Interleave, Parameter, Setting};

/// Arguments of `strandline measure`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    strandline measure                                       this machine's memory: latency, bandwidth by threads\n  \
    strandline measure list                                  all studies\n  \
    strandline measure access-size --on xpoint --op load,ntstore\n  \
    strandline measure threads --on my-machine.toml --set device.buffer.lines=128 --out results\n  \
    strandline measure stride --file /mnt/pmem/scratch --threads 2\n  \
    strandline measure numa --node 1 --runtime 2s\n  \
    strandline measure --on gpu                              a GPU: copies, kernels, launches, batches of lookups\n  \
    strandline measure --sweep sweep.jsonl --on xpoint      the systematic grid; run again to go on\n  \
    strandline measure --derive-curve x.csv --on xpoint     curves of one DIMM, for `kind = \"curve\"` in a machine file\n\n\
    Parameters take one value or several with commas. On the parameter that a study varies they are its axis; on \
    another one each value is a curve for each of the study's; `--op` picks those that have it, if any has. Sizes are 64B, 4KiB, 2MiB; times 300ns, 2us.")]
pub struct MeasureArgs {
    /// Studies to run (`list` shows them, `all` is every one); idle-latency and threads if none is named
    #[arg(value_name = "STUDY")]
    pub studies: Vec<String>,
    /// What to measure: `real` is this machine's memory, `gpu` (or `vulkan`, `wgpu`, `cuda`, `batch`) a device, else a
    /// modelled machine: a preset or a TOML file
    #[arg(long, value_name = "real|gpu|PRESET|FILE.toml", default_value = "real")]
    pub on: String,
    /// What tasks do
    #[command(flatten)]
    pub parameters: Parameters,
    /// Which memory of this machine
    #[command(flatten)]
    pub real: RealArgs,
    /// How to model
    #[command(flatten)]
    pub model: ModelArgs,
    /// Run the systematic grid (or the named studies) into this file; an interrupted sweep goes on where it
    /// stopped
    #[arg(long, value_name = "FILE.jsonl", help_heading = "Output")]
    pub sweep: Option<PathBuf>,
    /// Write the device's bandwidth-latency curves into a file for a curve device, instead of running studies
    #[arg(long, value_name = "FILE.csv", help_heading = "Output", conflicts_with_all = ["studies", "sweep", "out", "csv", "json", "events", "other_memory"])]
    pub derive_curve: Option<PathBuf>,
    /// Measure this machine's latencies, some seconds, and keep them for the machine `host`; refused on a busy machine
    #[arg(long, help_heading = "Output", conflicts_with_all = ["studies", "sweep", "out", "csv", "json", "derive_curve"])]
    pub calibrate: bool,
    /// Folder for measure.html, measure.csv and measure.json
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Print one line of comma-separated values per point instead of tables
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub csv: bool,
    /// Print JSON instead of tables
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Parameters of tasks, as text; a study's own values hold for those that are not given.
#[derive(Debug, Args)]
#[command(next_help_heading = "Parameters")]
pub struct Parameters {
    /// Operation: load, ntstore, store, store+clwb, copy (the first half of an access over the second)
    #[arg(long, value_name = "OP", value_delimiter = ',')]
    pub op: Vec<String>,
    /// Where the next access is: sequential, random
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub pattern: Vec<String>,
    /// Bytes of an access
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub access_size: Vec<String>,
    /// Bytes from one sequential access to the next (0: always the same place)
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub stride: Vec<String>,
    /// Threads, each on its own core
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub threads: Vec<String>,
    /// Bytes that each thread works in
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub region: Vec<String>,
    /// Whether all threads work in one region: true, false
    #[arg(long, value_name = "BOOL", value_delimiter = ',')]
    pub shared: Vec<String>,
    /// Time between two accesses of a thread (at most 100ms)
    #[arg(long, value_name = "TIME", value_delimiter = ',')]
    pub delay: Vec<String>,
    /// Accesses in a row between two delays, as load generators inject them
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub burst: Vec<String>,
    /// Writing accesses per store fence (0: no fences)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub fence_every: Vec<String>,
    /// Bytes stored before their lines are flushed (at most one access)
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub flush_every: Vec<String>,
    /// Reads beside writes: none, 2:1 (reads:writes of each thread in turn), 6r (six of the threads read)
    #[arg(long, value_name = "MIX", value_delimiter = ',')]
    pub mix: Vec<String>,
    /// Neighbouring DIMMs that each thread keeps to (0: all)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub dimms: Vec<String>,
    /// Where threads run: as-given, near the memory, far from it
    #[arg(long, value_name = "PLACE", value_delimiter = ',')]
    pub locality: Vec<String>,
    /// Way to read after writing: separate, combined, chase
    #[arg(long, value_name = "WAY", value_delimiter = ',')]
    pub raw: Vec<String>,
    /// Timed samples of latencies (1 to 67108864)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub samples: Vec<String>,
}

impl Parameters {
    /// The chosen values.
    pub fn chosen(&self) -> anyhow::Result<BTreeMap<Parameter, Vec<Setting>>> {
        let given = [
            (Parameter::Op, &self.op),
            (Parameter::Pattern, &self.pattern),
            (Parameter::AccessSize, &self.access_size),
            (Parameter::Stride, &self.stride),
            (Parameter::Threads, &self.threads),
            (Parameter::Region, &self.region),
            (Parameter::Shared, &self.shared),
            (Parameter::Delay, &self.delay),
            (Parameter::Burst, &self.burst),
            (Parameter::FenceEvery, &self.fence_every),
            (Parameter::FlushEvery, &self.flush_every),
            (Parameter::Mix, &self.mix),
            (Parameter::Dimms, &self.dimms),
            (Parameter::Locality, &self.locality),
            (Parameter::Raw, &self.raw),
            (Parameter::Samples, &self.samples),
        ];
        let mut chosen = BTreeMap::new();
        for (parameter, texts) in given.into_iter().filter(|(_, texts)| !texts.is_empty()) {
            let mut values: Vec<Setting> = Vec::new();
            for text in texts {
                let value = parameter.parse(text)?;
                if values.contains(&value) {
                    bail!("--{} names {value} twice", parameter.name());
                }
                values.push(value);
            }
            chosen.insert(parameter, values);
        }
        Ok(chosen)
    }
}

/// Which memory of this machine.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --on real")]
pub struct RealArgs {
    /// Measure a new file, which is removed afterwards; on a file system with DAX that is persistent memory
    #[arg(long, value_name = "PATH", conflicts_with = "dax")]
    pub file: Option<PathBuf>,
    /// Measure a DAX device such as /dev/dax0.0
    #[arg(long, value_name = "DEVICE", requires = "overwrite")]
    pub dax: Option<PathBuf>,
    /// The contents of the DAX device may be lost
    #[arg(long, requires = "dax")]
    pub overwrite: bool,
    /// NUMA node to take anonymous memory from
    #[arg(long, value_name = "N", conflicts_with_all = ["file", "dax"])]
    pub node: Option<u32>,
    /// CPUs to run on, first thread first: 0,2,4 (all that the process may use if not given)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = cpu)]
    pub cpus: Vec<usize>,
    /// How a DAX device's addresses are spread over DIMMs: 6x4KiB
    #[arg(long, value_name = "NxSIZE", value_parser = interleave, requires = "dax")]
    pub interleave: Option<Interleave>,
    /// Time of one run (LATTester's scripts run 5s) [default: 400ms]
    #[arg(long, value_name = "TIME", value_parser = runtime)]
    pub runtime: Option<Duration>,
    /// Runs per point, of which the median counts [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// Memory to use at most [default: half of what is free]
    #[arg(long, value_name = "SIZE")]
    pub memory_limit: Option<Size>,
}

impl RealArgs {
    /// The first of these options that was given.
    pub fn given(&self) -> Option<&'static str> {
        [
            (self.file.is_some(), "--file"),
            (self.dax.is_some(), "--dax"),
            (self.node.is_some(), "--node"),
            (!self.cpus.is_empty(), "--cpus"),
            (self.runtime.is_some(), "--runtime"),
            (self.repeat.is_some(), "--repeat"),
            (self.memory_limit.is_some(), "--memory-limit"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }
}

/// How to model.
#[derive(Debug, Args)]
#[command(next_help_heading = "With a modelled machine")]
pub struct ModelArgs {
    /// Change a value of the machine: device.buffer.lines=128 (may be given again)
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Seed of the machine's random choices and of random accesses (the machine's own if not given)
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Simulated events per point [default: 1048576]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub events: Option<u64>,
    /// Measure the machine's other memory instead of its persistent one
    #[arg(long)]
    pub other_memory: bool,
}

impl ModelArgs {
    /// The first of these options that was given.
    pub fn given(&self) -> Option<&'static str> {
        [
            (!self.set.is_empty(), "--set"),
            (self.seed.is_some(), "--seed"),
            (self.events.is_some(), "--events"),
            (self.other_memory, "--other-memory"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }
}

/// Parses one of a list of CPUs.
fn cpu(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "write the numbers of CPUs with commas, as in 0,2,4".to_owned())
}

/// Parses `6x4KiB`.
fn interleave(text: &str) -> Result<Interleave, String> {
    let parsed = text.split_once('x').and_then(|(dimms, bytes)| {
        Some(Interleave { dimms: dimms.parse().ok()?, bytes: bytes.parse::<Size>().ok()?.0 })
    });
    match parsed {
        Some(i) if (1..=64).contains(&i.dimms) && i.bytes > 0 && i.bytes.is_multiple_of(measure::LINE) => {
            Ok(i)
        }
        _ => Err("DIMMs, x, and the bytes in a row on one of them, as in 6x4KiB".to_owned()),
    }
}

/// Parses a time of day-to-day length.
fn runtime(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time > Duration::ZERO => Ok(time),
        Ok(_) => Err("a run takes longer than no time".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
