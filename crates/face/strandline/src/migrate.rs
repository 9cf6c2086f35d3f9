//! `strandline checkpoint`, `strandline restore`: running processes saved and let go on.

use std::path::PathBuf;

use clap::Args;
use migrate::freeze::Checkpoint;
use migrate::inspect::Options;

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
    /// Print JSON (docs/migrate.md says what is in it)
    #[arg(long)]
    json: bool,
    /// Where to save it
    directory: PathBuf,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  strandline restore /var/tmp/saved\n  strandline restore --clones 3 /var/tmp/saved"
)]
pub struct RestoreArgs {
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
    let how = Checkpoint { leave_running: args.leave_running, options, no_sync: false };
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
    let mut all = Vec::new();
    match args.clones {
        None => all.push(migrate::restore::restore(&args.directory)?),
        Some(count) => {
            for _ in 0..count {
                all.push(migrate::restore::restore_clone(&args.directory)?);
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
    Ok(code)
}
