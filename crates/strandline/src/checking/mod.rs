//! `strandline check`: does the program survive a crash at any moment?

pub mod args;
mod beside;
mod command;
mod folders;
mod images;
mod interrupt;
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
use report::human::plural;

use args::CheckArgs;
pub use beside::Beside;
use command::RecoveryCommand;
use images::Images;
use interrupt::Watch;
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
        let _watch = Watch::begin()?;
        let mut recovery = Recovery::new(&command, args.timeout, &run)?;
        let finding = checker(args, &run).replay(token, &mut recovery)?;
        if interrupt::stopped() {
            bail!("interrupted before recovery could say anything");
        }
        if let Some(error) = recovery.error {
            return Err(error).context("recovery");
        }
        return output::replayed(args, &run, finding.as_ref());
    }
    let right = output::tell(args, &examine(args, &command, run)?)?;
    if right && interrupt::stopped() {
        bail!("interrupted before the search had ended");
    }
    Ok(right)
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
    let watch = Watch::begin()?;
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
    let mut outcome = search(args, command, &run, &checker, jobs)?;
    let mut notes: Vec<String> = warning.into_iter().collect();
    if interrupt::stopped() {
        notes.push(
            "the search was interrupted; crash points that were not looked at may have more".to_owned(),
        );
        crate::warn(&notes[notes.len() - 1]);
    } else {
        notes.extend(confirm(args, command, &run, &checker, &mut outcome)?);
    }
    drop(watch);
    save_images(args, &run, &checker, &outcome.findings)?;
    run.warnings.extend(notes);
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
            !interrupt::stopped() && args.time.is_none_or(|limit| started.elapsed() < limit)
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

/// Repeats each finding, as its token would; drops those that recovery does not call wrong again. What is to be told of these.
fn confirm(
    args: &CheckArgs,
    command: &RecoveryCommand,
    run: &Run,
    checker: &Checker<'_>,
    outcome: &mut Outcome,
) -> anyhow::Result<Option<String>> {
    let before = outcome.findings.len();
    let mut confirmed = Vec::new();
    for finding in outcome.findings.drain(..) {
        let mut recovery = Recovery::new(command, args.timeout, run)?;
        if checker.fails(&finding.token, &mut recovery)? {
            confirmed.push(finding);
        }
        if let Some(error) = recovery.error {
            return Err(error).context("recovery");
        }
    }
    outcome.findings = confirmed;
    let dropped = before - outcome.findings.len();
    let warning = (dropped > 0).then(|| {
        format!(
            "recovery does not say the same of one image each time: it called {} wrong and, asked again, right; not among the findings",
            plural(dropped, "image")
        )
    });
    warning.iter().for_each(|warning| crate::warn(warning));
    Ok(warning)
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
