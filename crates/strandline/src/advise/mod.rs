//! `strandline advise prestores`: where a program should clean, demote or skip, and what that would gain.

mod args;
mod loops;
mod output;
mod patch;
mod trials;

use std::path::{Path, PathBuf};

use ::advise::prestores::{Target, Watcher};
use anyhow::bail;
use event::Sink;
use event::trace::{Reader, Writer};
use machine::Config;
use output::Answer;

use crate::progress::Progress;
use crate::{profile, record, samples, say};
pub use args::{AdviseCommand, PrestoresArgs};

/// Runs the verb.
pub fn run(command: &AdviseCommand) -> anyhow::Result<()> {
    match command {
        AdviseCommand::Prestores(args) => prestores(args),
    }
}

fn prestores(args: &PrestoresArgs) -> anyhow::Result<()> {
    let named = args.machine.as_deref().or(args.target.as_deref());
    if named == Some("list") {
        return profile::list_machines();
    }
    let machine = named.map(Config::load).transpose()?;
    let folder = tempfile::tempdir()?;
    let trace = match &args.trace {
        Some(trace) => trace.clone(),
        None => recorded(args, &folder.path().join("program.slt"))?,
    };
    let mut watcher = Watcher::with_options(args.options());
    let mut reader = Reader::open(&trace)?;
    reader.replay(&mut Progress::new("looking for patterns", &mut watcher))?;
    profile::cut_short(&reader.info()).iter().for_each(|warning| crate::warn(warning));
    let advice = watcher.advice(machine.as_ref().map(Target::of));
    if let Some(wanted) = &args.phase {
        let phases: Vec<&str> = advice.phases.iter().filter_map(|phase| phase.phase.as_deref()).collect();
        if !phases.contains(&wanted.as_str()) {
            let has = if phases.is_empty() {
                "it marks none (sl_phase)".to_owned()
            } else {
                format!("it has {}", phases.join(", "))
            };
            bail!("the program has no phase `{wanted}`; {has}");
        }
    }
    let trials = match &machine {
        Some(machine) if args.machine.is_some() => Some(trials::run(&trace, machine, &watcher, &advice)?),
        _ => None,
    };
    let answer =
        Answer { watcher: &watcher, advice: &advice, trials: trials.as_ref(), machine: machine.as_ref() };
    say(&if args.json { output::json(&answer)? } else { output::text(&answer) })
}

/// A trace of the program: it is needed several times.
fn recorded(args: &PrestoresArgs, trace: &Path) -> anyhow::Result<PathBuf> {
    if args.program.is_empty() {
        bail!("nothing to advise on: give a trace, or a program as in `-- PROG ARGS`");
    }
    if samples::only(&args.program)? {
        bail!(
            "{} was not built with strandline cc, so its memory can't be seen",
            args.program[0].to_string_lossy()
        );
    }
    let mut sink = Progress::new("recording", Writer::create(trace)?);
    let options = record::options(&args.program, &args.observe, args.json);
    let sinks: &mut [&mut (dyn Sink + Send)] = &mut [&mut sink];
    let outcome = capture::broadcast(sinks, |relay| capture::record(&options, relay))?;
    if !outcome.attached {
        bail!("{}", record::not_observed(&outcome));
    }
    record::tell(&outcome);
    Ok(trace.to_path_buf())
}
