//! `strandline bench`: maps and key-value stores, ours and others', under the same load; and designs of
//! persistency (`bench_sfr.rs`).

use std::path::PathBuf;

use ::bench::{Contest, KeyKind, Known, Role, Subject};
use clap::{Args, Subcommand, ValueEnum};
use machine::Size;
use session::Bench;
use workload::load::{Distribution, Mix};

use crate::progress::terminal;
use crate::{command_line, say};

/// What is compared.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Ordered maps and hash tables of 8- or 16-byte pairs
    #[command(
        after_help = "Examples:\n  strandline bench index\n  strandline bench index --peers --threads 1,2\n  \
                            strandline bench index --workload a,e,put-50 --html bench.html\n  \
                            strandline bench index --variant list"
    )]
    Index(BenchArgs),
    /// Key-value stores of byte strings
    #[command(after_help = "Examples:\n  strandline bench kv --value 100B --peers\n  \
                            strandline bench kv --path /var/tmp --threads 1,4,16 --peers\n  \
                            strandline bench kv --workload b --rate 50000 --json\n  \
                            strandline bench kv --workload list")]
    Kv(BenchArgs),
    /// Designs of language-level persistency, on C programs with locks, recompiled for each
    #[command(after_help = "Examples:\n  strandline bench sfr\n  \
                            strandline bench sfr --threads 1,2 --stores-per-sfr 2,8,64 --html sfr.html\n  \
                            strandline bench sfr --benchmark sps,ll --design decoupled,atlas --json\n  \
                            strandline bench sfr --design list")]
    Sfr(crate::bench_sfr::BenchSfrArgs),
    /// Virtualised NVM: commits beside bare logs and libpmemobj; stores of large records beside NVM alone
    #[command(
        after_help = "Examples:\n  strandline bench vnvm\n  strandline bench vnvm --only commits --json\n  \
                            strandline bench vnvm --scale 32 --disk /var/tmp"
    )]
    Vnvm(crate::bench_vnvm::BenchVnvmArgs),
    /// Failure-atomic msync beside a plain one and beside manual write-ahead logging, on a file
    #[command(after_help = "Examples:\n  strandline bench msync\n  \
                            strandline bench msync --path /mnt/data --updates 1,16,256 --lines 1,8 --json")]
    Msync(crate::bench_msync::BenchMsyncArgs),
    /// A hash table, a sort and queries on a GPU, or a software accelerator, and on the CPU: alone and together
    #[command(after_help = "Examples:\n  strandline bench unified\n  \
                            strandline bench unified --on batch --launch 166 --interference 20 --only together\n  \
                            strandline bench unified --only prefetch --keys 100000000 --json")]
    Unified(crate::unified::BenchUnifiedArgs),
}

/// Arguments of `index` and `kv`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Operations of each workload [default: 1000000, or 20000 where each write waits for a disk]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub ops: Option<u64>,
    /// Records before the first workload [default: none if it only inserts, else as many as operations]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1 << 32))]
    pub records: Option<u64>,
    /// Numbers of threads, each measured by itself
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", value_parser = threads)]
    pub threads: Vec<u32>,
    /// Workloads, one after the other on the same records (`list` shows them)
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "fill,read")]
    pub workload: Vec<String>,
    /// Which records are touched [default: the workload's own]
    #[arg(long)]
    pub distribution: Option<Chosen>,
    /// Variants to compare (`list` shows them) [default: all but peers]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub variant: Vec<String>,
    /// Compare with other stores, too: those that are installed
    #[arg(long)]
    pub peers: bool,
    /// Keys: 8 bytes, 16 bytes, or text of 24 letters
    #[arg(long, default_value = "8")]
    pub keys: Keys,
    /// Bytes of a value, 8B to 64KiB [default: 8B or 16B as keys for index, 100B for kv]
    #[arg(long, value_name = "SIZE", value_parser = value_size)]
    pub value: Option<Size>,
    /// Reads that `read-many` hands over in one call
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = batch)]
    pub batch: usize,
    /// Operations that arrive per second, at random times, whether or not earlier ones are done; latency
    /// counts from the arrival [default: each begins when the one before ends]
    #[arg(long, value_name = "N", value_parser = rate)]
    pub rate: Option<f64>,
    /// Folder for files, which are removed afterwards: memory, persistent memory or a disk
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub path: PathBuf,
    /// Seed of keys and choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the results with plots as an HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Which records are touched.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Chosen {
    /// Each as often as any other
    Uniform,
    /// A few much more often than most
    Zipfian,
    /// Those that were inserted last more often
    Latest,
}

/// What keys are.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Keys {
    /// 8 bytes
    #[value(name = "8")]
    Word,
    /// 16 bytes
    #[value(name = "16")]
    Pair,
    /// 24 letters
    Text,
}

/// Runs the verb.
pub fn run(command: &BenchCommand) -> anyhow::Result<()> {
    let (subject, args) = match command {
        BenchCommand::Index(args) => (Subject::Index, args),
        BenchCommand::Kv(args) => (Subject::Kv, args),
        BenchCommand::Sfr(args) => return crate::bench_sfr::run(args),
        BenchCommand::Vnvm(args) => return crate::bench_vnvm::run(args),
        BenchCommand::Msync(args) => return crate::bench_msync::run(args),
        BenchCommand::Unified(args) => return crate::unified::bench(args),
    };
    if args.workload == ["list"] {
        let line = |mix: Mix| format!("{:<12}{} ({})\n", mix.name, mix.summary, mix.distribution.name());
        return say(&Mix::all().into_iter().map(line).collect::<String>());
    }
    if args.variant == ["list"] {
        return say(&Contest::known(subject).into_iter().map(line).collect::<String>());
    }
    // So that files do not stay.
    terminal().verb_ends_itself();
    let results = Bench { contest: contest(subject, args) }.run(terminal())?;
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

fn line(known: Known) -> String {
    let role = match known.role {
        Role::Ours => "ours",
        Role::Baseline => "baseline",
        Role::Peer => "peer",
    };
    format!("{:<18}{role:<10}{}\n", known.name, known.summary)
}

fn contest(subject: Subject, args: &BenchArgs) -> Contest {
    Contest {
        variants: args.variant.clone(),
        peers: args.peers,
        workloads: args.workload.clone(),
        distribution: args.distribution.map(|chosen| match chosen {
            Chosen::Uniform => Distribution::Uniform,
            Chosen::Zipfian => Distribution::Zipfian,
            Chosen::Latest => Distribution::Latest,
        }),
        operations: args.ops,
        records: args.records,
        threads: args.threads.clone(),
        key: match args.keys {
            Keys::Word => KeyKind::Word,
            Keys::Pair => KeyKind::Pair,
            Keys::Text => KeyKind::Text,
        },
        value: args.value.map(|size| size.0 as usize),
        many: args.batch,
        rate: args.rate,
        path: args.path.clone(),
        seed: args.seed,
        ..Contest::new(subject)
    }
}

/// Parses a number of threads.
fn threads(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|count| (1..=1024).contains(count)).ok_or_else(|| "1 to 1024".to_owned())
}

/// Parses a number of reads.
fn batch(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| (1..=64).contains(count)).ok_or_else(|| "1 to 64".to_owned())
}

/// Parses the size of a value.
fn value_size(text: &str) -> Result<Size, String> {
    match text.parse::<Size>() {
        Ok(size) if (8..=64 << 10).contains(&size.0) => Ok(size),
        Ok(_) => Err("a value has 8B to 64KiB".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a number per second.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("a number of operations per second, above 0".to_owned()),
    }
}
