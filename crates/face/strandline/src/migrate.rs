//! `strandline checkpoint`, `strandline restore`, `strandline migrate`: running processes saved, let go on, moved.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fam::Medium;
use migrate::freeze::{By, Checkpoint, Times, checkpoint_every};
use migrate::inspect::Options;
use migrate::live::{Lazy, Listener, Migrate, Moved, Way};
use migrate::restore::Restored;

/// Arguments of `checkpoint`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  strandline checkpoint --pid 4711 --leave-running /var/tmp/saved")]
pub struct CheckpointArgs {
    /// The process; its children are saved with it
    #[arg(long)]
    pid: i32,
    /// Let it go on afterwards (otherwise it is ended once all is on the disk)
    #[arg(long)]
    leave_running: bool,
    /// Save connections to the outside as ones that their peer has closed
    #[arg(long)]
    close_connections: bool,
    /// Do not wait for the disk: a crash of the system may lose the checkpoint, and those before it in the directory
    #[arg(long, conflicts_with = "criu")]
    no_sync: bool,
    /// Save it again every so often (`10s`) until it ends, each time only what has changed; it goes on meanwhile
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    every: Option<Duration>,
    /// With --every: stop after so many
    #[arg(long, requires = "every")]
    count: Option<u64>,
    /// How pages get out of the process: read by this command; writev: the process writes them itself, and
    /// stands for a shorter time; splice: through pipes of 2 MiB, as CRIU does, for comparison
    #[arg(long, value_enum, default_value_t = Pages::Read, conflicts_with = "every")]
    by: Pages,
    /// Write an image for CRIU (`criu restore -D DIRECTORY`) instead of a checkpoint of ours
    #[arg(long, conflicts_with = "every")]
    criu: bool,
    /// Print JSON (docs/migrate.md says what is in it); with --every a line for each
    #[arg(long)]
    json: bool,
    /// Where to save it
    directory: PathBuf,
}

/// How pages get out of a process.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Pages {
    Read,
    Writev,
    Splice,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  strandline restore /var/tmp/saved\n  strandline restore --lazy --clones 3 /var/tmp/saved"
)]
pub struct RestoreArgs {
    /// Let it run at once; its pages come when they are touched. Needed for what `migrate` left in a folder
    #[arg(long)]
    lazy: bool,
    /// Wait there (a path, or HOST:PORT) for a process that `strandline migrate --to` sends through the directory
    #[arg(long, value_name = "SOCKET", requires = "lazy")]
    listen: Option<String>,
    /// Only hold the checkpoint against its checksums
    #[arg(long, conflicts_with_all = ["lazy", "clones"])]
    check: bool,
    /// Restore it so many times, each in a PID namespace of its own
    #[arg(long)]
    clones: Option<u32>,
    #[command(flatten)]
    pages: PageArgs,
    /// Print JSON (docs/migrate.md says what is in it)
    #[arg(long)]
    json: bool,
    /// Where it was saved, by us or by `criu dump`
    directory: PathBuf,
}

/// How pages come on demand.
#[derive(Debug, Args)]
pub struct PageArgs {
    /// With --lazy: map pages in fabric-attached memory (a file in memory) instead of copying them; the process gets a page of its
    /// own at its first store
    #[arg(long)]
    map: bool,
    /// With --lazy: pages of 2 MiB once all have come, where the kernel has them
    #[arg(long)]
    huge_pages: bool,
    /// Make fabric-attached memory, or the network, as slow as this: dram, pcm (1 us, 2 GB/s), ethernet-10g, or LATENCY_NS:MB_PER_S
    #[arg(long, value_name = "MEDIUM", default_value = "dram", value_parser = medium)]
    throttle: Medium,
}

impl PageArgs {
    fn lazy(&self) -> Lazy {
        Lazy { map: self.map, huge: self.huge_pages, medium: self.throttle, ..Lazy::default() }
    }
}

/// A medium by its name, or by its latency and its bandwidth.
fn medium(text: &str) -> Result<Medium, String> {
    match text {
        "dram" => return Ok(Medium::DRAM),
        "pcm" => return Ok(Medium::PCM),
        "ethernet-10g" => return Ok(Medium::ETHERNET_10G),
        _ => {}
    }
    let numbers = text
        .split_once(':')
        .and_then(|(latency, rate)| Some((latency.parse().ok()?, rate.parse::<u64>().ok()?)));
    match numbers {
        Some((latency, rate)) if rate > 0 && latency <= 1_000_000_000 => Ok(Medium {
            read_ns: latency,
            write_ns: latency,
            bytes_per_second: Some(rate.saturating_mul(1_000_000)),
            occupies_core: true,
        }),
        _ => {
            Err("neither dram, pcm nor ethernet-10g, nor nanoseconds and MB per second (`1000:2000`)"
                .to_owned())
        }
    }
}

/// Runs `checkpoint`.
pub fn checkpoint(args: &CheckpointArgs) -> anyhow::Result<()> {
    let options = Options { close_connections: args.close_connections, ..Options::default() };
    let how = Checkpoint {
        leave_running: args.leave_running,
        no_sync: args.no_sync,
        options,
        by: match args.by {
            Pages::Read => By::Read,
            Pages::Writev => By::Writev,
            Pages::Splice => By::Splice,
        },
        ..Checkpoint::default()
    };
    if let Some(period) = args.every {
        let mut report = |result: migrate::Result<Times>| match result {
            Ok(times) if args.json => println!("{}", serde_json::to_string(&times).unwrap_or_default()),
            Ok(times) => println!(
                "{}: {:.1} MiB written, {:.1} MiB as before, stopped for {:.1} ms",
                times.generation,
                times.bytes as f64 / f64::from(1 << 20),
                times.kept_bytes as f64 / f64::from(1 << 20),
                times.downtime_s * 1e3,
            ),
            Err(error) => eprintln!("strandline: not saved this time: {error}"),
        };
        return Ok(checkpoint_every(args.pid, &args.directory, &how, period, args.count, &mut report)?);
    }
    let times = if args.criu {
        criu::save(args.pid, &args.directory, &how)?
    } else {
        migrate::freeze::checkpoint(args.pid, &args.directory, &how)?
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&times)?);
        return Ok(());
    }
    for note in &times.notes {
        println!("note: {note}");
    }
    println!(
        "{} processes, {} threads, {:.1} MiB of pages in {}: stopped for {:.1} ms, {:.1} ms in all",
        times.processes,
        times.threads,
        times.bytes as f64 / f64::from(1 << 20),
        args.directory.display(),
        times.downtime_s * 1e3,
        times.total_s * 1e3,
    );
    Ok(())
}

/// Runs `restore`: the exit status of the restored process, or of the last clone that failed.
pub fn restore(args: &RestoreArgs) -> anyhow::Result<u8> {
    let folder = &args.directory;
    if args.check && criu::is_image(folder) {
        let image = criu::read(folder)?;
        println!("an image of CRIU's with {} processes", image.processes.len());
        return Ok(0);
    }
    if args.check {
        let generation = migrate::live::check(folder)?;
        if args.json {
            println!("{}", serde_json::json!({ "generation": generation }));
        } else {
            println!("checkpoint {generation} is whole");
        }
        return Ok(0);
    }
    if criu::is_image(folder) {
        return restore_criu(args);
    }
    let listener = args.listen.as_deref().map(Listener::bind).transpose()?;
    let one = || -> migrate::Result<migrate::restore::Made> {
        if let Some(listener) = &listener {
            let came = migrate::live::target(listener, folder, args.pages.lazy())?;
            return Ok((came.restored, Box::new(|| drop(came.pages.join()))));
        }
        if args.lazy {
            let (restored, pages) = migrate::live::restore_lazy(folder, args.pages.lazy())?;
            return Ok((restored, Box::new(move || complain(pages.wait().err()))));
        }
        Ok((migrate::restore::restore(folder)?, Box::new(|| ())))
    };
    let mut all = Vec::new();
    let mut after: Option<Box<dyn FnOnce()>> = None;
    match args.clones {
        None => {
            let (restored, then) = one()?;
            (all, after) = (vec![restored], Some(then));
        }
        Some(count) => {
            for _ in 0..count {
                all.push(migrate::restore::in_namespace(&mut || one())?);
            }
        }
    }
    let code = until_all_end(args, &all)?;
    if let Some(then) = after {
        then();
    }
    Ok(code)
}

/// Reports what runs, and waits for all: the exit status of the last one that failed.
fn until_all_end(args: &RestoreArgs, all: &[Restored]) -> anyhow::Result<u8> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(all)?);
    } else {
        for one in all {
            eprintln!("process {} runs after {:.1} ms", one.pid, (one.check_s + one.resume_s) * 1e3);
        }
    }
    let mut code = 0;
    for one in all {
        match migrate::restore::exit_code(one.pid)? {
            0 => {}
            other => code = other,
        }
    }
    Ok(code)
}

/// The same for an image of CRIU's.
fn restore_criu(args: &RestoreArgs) -> anyhow::Result<u8> {
    anyhow::ensure!(!args.lazy, "{} is an image of CRIU's: leave --lazy away", args.directory.display());
    let mut all = Vec::new();
    for _ in 0..args.clones.unwrap_or(0) {
        all.push(criu::restore_clone(&args.directory)?);
    }
    if args.clones.is_none() {
        all.push(criu::restore(&args.directory)?);
    }
    until_all_end(args, &all)
}

/// A process whose pages could not be had has been killed; here is why.
fn complain(error: Option<migrate::Error>) {
    if let Some(error) = error {
        eprintln!("strandline: {error}");
    }
}

/// Arguments of `migrate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  strandline migrate --pid 4711 --fam /dev/shm/moved\n  strandline restore --lazy --clones 1 \
                  --listen /run/there /mnt/fam/moved &\n  strandline migrate --pid 4711 --fam /mnt/fam/moved --to /run/there"
)]
pub struct MigrateArgs {
    /// The process; its children move with it
    #[arg(long)]
    pid: i32,
    /// A folder in fabric-attached memory that both sides see (a DAX file system, /dev/shm)
    #[arg(long, value_name = "DIR")]
    fam: PathBuf,
    /// Where `strandline restore --listen` waits (otherwise the target is made here, in namespaces of its own)
    #[arg(long, value_name = "SOCKET")]
    to: Option<String>,
    /// Send pages by the socket, one for each fault, instead of through fabric-attached memory: the baseline
    #[arg(long)]
    by_socket: bool,
    /// After so many milliseconds without a fault the target gets its remaining pages unasked
    #[arg(long, value_name = "MS", default_value_t = 100)]
    timer: u64,
    /// Send pages before the stop, too, while the process runs: then round after round what it has written to since
    #[arg(long, conflicts_with = "by_socket")]
    precopy: bool,
    #[command(flatten)]
    pages: PageArgs,
    /// Move connections to the outside as ones that their peer has closed
    #[arg(long)]
    close_connections: bool,
    /// Write a page that shows how fast the process worked while it moved
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// With --html: a file whose first eight bytes are a number that the program counts up (otherwise its processor time counts)
    #[arg(long, value_name = "FILE", requires = "html")]
    heartbeat: Option<PathBuf>,
    /// Return once all pages have come, and leave the process running (otherwise wait for its end)
    #[arg(long)]
    detach: bool,
    /// Print JSON (docs/migrate.md says what is in it)
    #[arg(long)]
    json: bool,
}

/// Runs `migrate`: the exit status of the process that moved, if its target is a child of this command.
pub fn migrate(args: &MigrateArgs) -> anyhow::Result<u8> {
    if let Some(html) = &args.html {
        return crate::migrate_html::watched(args.pid, html, args.heartbeat.as_deref(), |moved| {
            show(args, moved)
        });
    }
    let how = Migrate {
        to: args.to.clone(),
        way: if args.by_socket { Way::Socket } else { Way::Fam },
        lazy: Lazy { timer: Duration::from_millis(args.timer), ..args.pages.lazy() },
        precopy: args.precopy,
        options: Options { close_connections: args.close_connections, ..Options::default() },
    };
    let moved = migrate::live::migrate(args.pid, &args.fam, &how)?;
    show(args, &moved)?;
    match moved.child.filter(|_| !args.detach) {
        Some(child) => Ok(migrate::restore::exit_code(child)?),
        None => Ok(0),
    }
}

fn show(args: &MigrateArgs, moved: &Moved) -> anyhow::Result<()> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(moved)?);
    } else {
        for note in &moved.notes {
            println!("note: {note}");
        }
        println!(
            "{} processes, {} threads, {:.1} MiB of pages: stopped for {:.1} ms, source free after {:.1} ms",
            moved.processes,
            moved.threads,
            (moved.lazy_bytes + moved.eager_bytes) as f64 / f64::from(1 << 20),
            moved.downtime_s * 1e3,
            moved.busy_s * 1e3,
        );
    }
    Ok(std::io::stdout().flush()?)
}

/// Ends this command with the exit status of the process that it waited for.
pub fn end(code: u8) {
    std::process::exit(code.into());
}
