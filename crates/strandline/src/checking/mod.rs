//! `strandline check`: does the program survive a crash at any moment?

pub mod args;
mod beside;
mod command;
mod folders;
mod images;
mod lints;
mod litmus;
mod output;
mod page;
mod pools;
mod recovery;
mod run;
mod trial;
mod warnings;

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use crash::{Bounds, Checker, Finding, Outcome};

use args::CheckArgs;
pub use beside::Beside;
use command::RecoveryCommand;
use images::Images;
use recovery::Recovery;
use run::Run;

/// What a check did.
pub struct Checked {
    pub run: Run,
    pub outcome: Outcome,
    pub elapsed: Duration,
}

/// Runs the verb; whether it found nothing.
pub fn run(args: &CheckArgs) -> anyhow::Result<bool> {
    if !args.litmus.is_empty() {
        return litmus::run(&args.litmus, args.json);
    }
    let Some(command) = &args.recover else { return lints::alone(args) };
    // A wrong command is told before the program runs, not after.
    let command = RecoveryCommand::new(command)?;
    command.names_a_file(args)?;
    let run = Run::get(args)?;
    if run.files.is_some() && run.history.atoms().is_empty() {
        bail!("the program changed none of the files that --files names");
    }
    if run.history.files().is_empty() {
        bail!(
            "the program mapped no persistent file; files under /dev/shm and on DAX mounts are, and those that --pmem PATH names; \
             for ordinary files say --files PATH"
        );
    }
    if let Some(token) = &args.replay {
        let mut recovery = Recovery::new(&command, args.timeout, &run)?;
        let finding = checker(args, &run).replay(token, &mut recovery)?;
        if let Some(error) = recovery.error {
            return Err(error).context("recovery");
        }
        return output::replayed(args, &run, finding.as_ref());
    }
    output::tell(args, &examine(args, &command, run)?)
}

/// The search as the options have it.
fn checker<'r>(args: &CheckArgs, run: &'r Run) -> Checker<'r> {
    let mut checker = Checker::new(&run.history, &run.contents);
    checker.bounds = Bounds { per_cut: args.images, findings: args.findings as usize, ..Bounds::default() };
    checker.strategy = args.strategy.into();
    checker.seed = args.seed;
    checker
}

/// Lets recovery look at the images of a run.
fn examine(args: &CheckArgs, command: &RecoveryCommand, mut run: Run) -> anyhow::Result<Checked> {
    let started = Instant::now();
    let checker = checker(args, &run);
    let mut recovery = Recovery::new(command, args.timeout, &run)?;
    let warning = trial::try_out(&checker, &mut recovery, command)?;
    drop(recovery);
    if let Some(warning) = &warning {
        crate::warn(warning);
    }
    let jobs = match args.jobs {
        Some(jobs) => jobs as usize,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let outcome = search(args, command, &run, &checker, jobs)?;
    save_images(args, &run, &checker, &outcome.findings)?;
    run.warnings.extend(warning);
    Ok(Checked { run, outcome, elapsed: started.elapsed() })
}

/// All parts of the search, each with an image of its own.
fn search(
    args: &CheckArgs,
    command: &RecoveryCommand,
    run: &Run,
    checker: &Checker<'_>,
    jobs: usize,
) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let points = checker.point_count();
    let meter = Mutex::new(output::Meter::new(points, jobs));
    let work = |part: usize| -> anyhow::Result<Outcome> {
        let mut recovery = Recovery::new(command, args.timeout, run)?;
        let outcome = checker.part(part, jobs, &mut recovery, &mut |outcome| {
            if let Ok(mut meter) = meter.lock() {
                meter.show(part, outcome);
            }
            args.time.is_none_or(|limit| started.elapsed() < limit)
        });
        match recovery.error {
            Some(error) => Err(error).context("recovery"),
            None => Ok(outcome),
        }
    };
    let parts: Vec<anyhow::Result<Outcome>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|part| scope.spawn(move || work(part))).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut whole = Outcome::default();
    for part in parts {
        whole.merge(part?);
    }
    Ok(whole)
}

/// Leaves each finding's image where a debugger can look at it.
fn save_images(
    args: &CheckArgs,
    run: &Run,
    checker: &Checker<'_>,
    findings: &[Finding],
) -> anyhow::Result<()> {
    let old = |number: usize| image_folder(&args.out, number);
    let mut number = 1;
    while old(number).is_dir() {
        std::fs::remove_dir_all(old(number)).ok();
        number += 1;
    }
    for (number, finding) in findings.iter().enumerate() {
        let mut images = Images::new(run)?;
        images.apply(&checker.image(&finding.token)?);
        let folder = image_folder(&args.out, number + 1);
        images.save(&folder).with_context(|| folder.display().to_string())?;
    }
    Ok(())
}

fn image_folder(out: &Path, number: usize) -> std::path::PathBuf {
    out.join(format!("image-{number}"))
}
