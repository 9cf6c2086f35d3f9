//! `advise prestores`: where a program should clean, demote or skip, and what that would gain.

mod loops;
mod output;
mod patch;
mod trials;

use std::path::Path;

use advise::prestores::{Advice, Options, Target, Watcher};
use machine::Config;
use trace::Compression;

pub use trials::Trials;

use crate::ending;
use crate::error::Error;
use crate::input::Input;
use crate::observer::Observer;
use crate::trace_file::TraceFile;

/// Advice on pre-stores to be given.
#[derive(Clone, Debug)]
pub struct Prestores {
    /// Where events come from. A program and a built-in workload are recorded first, because events are
    /// needed several times.
    pub input: Input,
    /// The machine to advise for: a preset's name, or the path of a TOML file; any that could gain if not
    /// given.
    pub machine: Option<String>,
    /// Whether the advice is tried on the model of that machine.
    pub trial: bool,
    /// When the advisor speaks.
    pub options: Options,
}

/// Advice on pre-stores.
pub struct Advised {
    /// What watched the events.
    pub watcher: Watcher,
    /// The advice.
    pub advice: Advice,
    /// The machine that it is for, if it is for one.
    pub machine: Option<Config>,
    /// What trying it there gave.
    pub trials: Option<Trials>,
}

impl Prestores {
    /// Advice for any machine.
    #[must_use]
    pub fn new(input: Input) -> Self {
        Prestores { input, machine: None, trial: false, options: Options::default() }
    }

    /// Watches the input and tries the advice.
    ///
    /// # Errors
    /// If there is no such machine, the input can't be played, or the program has no phase of the name in the options.
    pub fn run(&self, observer: &dyn Observer) -> Result<Advised, Error> {
        let machine = self.machine.as_deref().map(crate::host::load).transpose()?;
        let folder = tempfile::tempdir().map_err(Error::file("make a folder in", &std::env::temp_dir()))?;
        let trace = match &self.input {
            Input::Trace(trace) => trace.clone(),
            input => {
                let trace = folder.path().join("program.slt");
                record(input, &trace, observer)?;
                trace
            }
        };
        let trace = Input::Trace(trace);
        let mut watcher = Watcher::with_options(self.options.clone());
        let played = trace.play("looking for patterns", observer, &mut watcher, &mut [])?;
        played.warnings.iter().for_each(|warning| observer.warn(warning));
        let advice = watcher.advice(machine.as_ref().map(Target::of));
        if let Some(wanted) = &self.options.phase {
            let known: Vec<String> = advice.phases.iter().filter_map(|phase| phase.phase.clone()).collect();
            if !known.contains(wanted) {
                return Err(Error::NoPhase { phase: wanted.clone(), known });
            }
        }
        let trials = match &machine {
            Some(machine) if self.trial => Some(trials::run(&trace, machine, &watcher, &advice, observer)?),
            _ => None,
        };
        Ok(Advised { watcher, advice, machine, trials })
    }
}

/// Records the input.
fn record(input: &Input, trace: &Path, observer: &dyn Observer) -> Result<(), Error> {
    if let Input::Program(program) = input {
        program.refuse_unobservable()?;
    }
    let mut sink = TraceFile::open(trace, Compression::Light)?;
    let played = input.play("recording", observer, &mut sink, &mut [])?;
    sink.complete()?;
    if let Some(outcome) = &played.recording {
        ending::warnings(outcome, &played.warnings).iter().for_each(|warning| observer.warn(warning));
    }
    Ok(())
}
