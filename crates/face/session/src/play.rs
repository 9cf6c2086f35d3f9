//! An input played into sinks: opened, checked for what it can see, broadcast, reported.

use std::time::{Duration, Instant};

use capture::Outcome;
use event::{Sink, Tee};
use pipeline::broadcast;
use report::human;
use trace::{Info, Reader};

use crate::ending;
use crate::error::Error;
use crate::files;
use crate::input::{BuiltIn, Input, Program};
use crate::observer::{Observer, Watched};
use crate::traced;

/// What is known of an input after its events.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// How long it took, under observation.
    pub elapsed: Duration,
    /// What a reader has to know before trusting figures.
    pub warnings: Vec<String>,
    /// Those of the warnings that are about options which match nothing.
    pub unmatched: Vec<String>,
    /// Of a program: what its recording came to.
    pub recording: Option<Outcome>,
    /// Of a trace: its size and extent.
    pub trace: Option<Info>,
}

impl Input {
    /// Plays the input into sinks: `near` runs on the thread that brings the events, each of `far` on a
    /// thread of its own. `doing` says in progress reports what goes on.
    ///
    /// # Errors
    /// If the input can't be opened or lacks what a sink needs, if a program was not built with the compiler driver, or if a
    /// sink fails.
    pub fn play(
        &self,
        doing: &'static str,
        observer: &dyn Observer,
        near: &mut (dyn Sink + Send),
        far: &mut [&mut (dyn Sink + Send)],
    ) -> Result<Played, Error> {
        let mut near = Watched::new(doing, observer, near).expect(self.patterns());
        let played = if far.is_empty() {
            self.produce(&mut near)
        } else {
            broadcast(far, |relay| self.produce(&mut Tee(&mut near, relay)))
        };
        let mut played = played?;
        if let Input::Program(program) = self {
            played.unmatched = near.unmatched().iter().map(|pattern| unmatched(program, pattern)).collect();
            played.warnings.extend(played.unmatched.iter().cloned());
        }
        Ok(played)
    }

    /// What the user named, as the kernel names it.
    fn patterns(&self) -> Vec<String> {
        let Input::Program(program) = self else { return Vec::new() };
        let resolve = |paths: &Vec<String>| files::absolute(paths).unwrap_or_default();
        resolve(&program.pmem).into_iter().chain(resolve(&program.files)).collect()
    }

    fn produce(&self, sink: &mut (dyn Sink + Send)) -> Result<Played, Error> {
        match self {
            Input::Program(program) => of_program(program, sink),
            Input::Trace(path) => {
                let mut reader = Reader::open(path)?;
                let start = Instant::now();
                reader.replay(sink)?;
                let info = reader.info();
                let warnings = cut_short(&info).into_iter().collect();
                Ok(Played { elapsed: start.elapsed(), warnings, trace: Some(info), ..Played::default() })
            }
            Input::BuiltIn(built_in) => of_built_in(built_in, sink),
        }
    }
}

/// The warning that a pattern names nothing.
fn unmatched(program: &Program, pattern: &str) -> String {
    let files = files::absolute(&program.files).unwrap_or_default();
    let (option, what) = match files.iter().any(|file| file == pattern) {
        true => ("--files", "changed no such file"),
        false => ("--pmem", "mapped no such file"),
    };
    format!("{option} {pattern} matches nothing: the program {what}")
}

fn of_program(program: &Program, sink: &mut (dyn Sink + Send)) -> Result<Played, Error> {
    let outcome = match traced::applies(program) {
        true => traced::record(program, sink)?,
        false if program.acks.is_some() => return Err(Error::OfUnmodified { option: "--acks" }),
        false if program.fail_sync.is_some() => return Err(Error::OfUnmodified { option: "--fail-sync" }),
        false => capture::record(&program.options()?, sink)?,
    };
    if !outcome.attached {
        return Err(Error::NotObserved { why: ending::not_observed(&outcome) });
    }
    Ok(Played {
        elapsed: outcome.elapsed,
        warnings: outcome.warnings.iter().map(ToString::to_string).collect(),
        recording: Some(outcome),
        ..Played::default()
    })
}

fn of_built_in(built_in: &BuiltIn, sink: &mut (dyn Sink + Send)) -> Result<Played, Error> {
    let (workload, params) = built_in.find()?;
    let start = Instant::now();
    workload.record(&params, sink, pmem::Os::new)?;
    Ok(Played { elapsed: start.elapsed(), ..Played::default() })
}

/// How the warning of [`cut_short`] begins.
pub(crate) const CUT_SHORT: &str = "the trace was cut short";

/// The warning that a trace lacks its end, if it does.
#[must_use]
pub fn cut_short(trace: &Info) -> Option<String> {
    let cut = trace.truncated?;
    Some(format!(
        "{CUT_SHORT} at offset {}: its writer was killed or its disk was full; {} after it were lost",
        cut.offset,
        human::bytes(cut.lost_bytes)
    ))
}
