//! `strandline checkpoint`, `strandline restore`, `strandline migrate`: running processes saved, let go on, moved.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use migrate::freeze::{Checkpoint, Times, checkpoint_every};
use migrate::inspect::Options;
use migrate::live::{Lazy, Listener, Migrate, Way};

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
    /// Save it again every so often (`10s`) until it ends, each time only what has changed; it goes on meanwhile
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    every: Option<Duration>,
    /// With --every: stop after so many
    #[arg(long, requires = "every")]
    count: Option<u64>,
    /// Print JSON (docs/migrate.md says what is in it); with --every a line for each
    #[arg(long)]
    json: bool,
    /// Where to save it
    directory: PathBuf,
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
    /// Print JSON (docs/migrate.md says what is in it)
    #[arg(long)]
    json: bool,
    /// Where it was saved
    directory: PathBuf,
}

/// Runs `checkpoint`.
pub fn checkpoint(args: &CheckpointArgs) -> anyhow::Result<()> {
    let options = Options { close_connections: args.close_connections };
    let how = Checkpoint { leave_running: args.leave_running, options, ..Checkpoint::default() };
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
    let times = migrate::freeze::checkpoint(args.pid, &args.directory, &how)?;
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
    if args.check {
        let generation = migrate::live::check(folder)?;
        if args.json {
            println!("{}", serde_json::json!({ "generation": generation }));
        } else {
            println!("checkpoint {generation} is whole");
        }
        return Ok(0);
    }
    let listener = args.listen.as_deref().map(Listener::bind).transpose()?;
    let one = || -> migrate::Result<migrate::restore::Made> {
        if let Some(listener) = &listener {
            let came = migrate::live::target(listener, folder, Lazy::default())?;
            return Ok((came.restored, Box::new(|| drop(came.pages.join()))));
        }
        if args.lazy {
            let (restored, pages) = migrate::live::restore_lazy(folder, Lazy::default())?;
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
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        for one in &all {
            eprintln!("process {} runs after {:.1} ms", one.pid, (one.check_s + one.resume_s) * 1e3);
        }
    }
    let mut code = 0;
    for one in &all {
        match migrate::restore::exit_code(one.pid)? {
            0 => {}
            other => code = other,
        }
    }
    if let Some(then) = after {
        then();
    }
    Ok(code)
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
    /// Move connections to the outside as ones that their peer has closed
    #[arg(long)]
    close_connections: bool,
    /// Return once all pages have come, and leave the process running (otherwise wait for its end)
    #[arg(long)]
    detach: bool,
    /// Print JSON (docs/migrate.md says what is in it)
    #[arg(long)]
    json: bool,
}

/// Runs `migrate`: the exit status of the process that moved, if its target is a child of this command.
pub fn migrate(args: &MigrateArgs) -> anyhow::Result<u8> {
    let how = Migrate {
        to: args.to.clone(),
        way: if args.by_socket { Way::Socket } else { Way::Fam },
        lazy: Lazy { timer: Duration::from_millis(args.timer), ..Lazy::default() },
        options: Options { close_connections: args.close_connections },
    };
    let moved = migrate::live::migrate(args.pid, &args.fam, &how)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&moved)?);
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
    std::io::stdout().flush()?;
    match moved.child.filter(|_| !args.detach) {
        Some(child) => Ok(migrate::restore::exit_code(child)?),
        None => Ok(0),
    }
}

/// Ends this command with the exit status of the process that it waited for.
pub fn end(code: u8) {
    std::process::exit(code.into());
}
