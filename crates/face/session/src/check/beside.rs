//! a check of the run that is profiled.

use std::time::SystemTime;

use crash::Contents;
use report::{CrashFinding, CrashFindings};

use super::command::RecoveryCommand;
use super::run::{self, Observed, Run};
use super::search::examine;
use super::{Check, CheckError, page, words};
use crate::error::Error;
use crate::input::Program;
use crate::observer::Observer;
use crate::play::Played;
use crate::temporary::Temporary;
use crate::trace_file::TraceFile;

/// A check whose events come from a run that another verb plays.
pub struct Beside {
    check: Check,
    command: RecoveryCommand,
    contents: Contents,
    mapped: Temporary,
    started: SystemTime,
    trace: TraceFile,
}

impl Beside {
    /// Checks that the command can be run, and keeps what is in the program's files; the program has not run
    /// yet.
    ///
    /// # Errors
    /// As [`Check::run`] before its run.
    pub fn new(check: Check) -> Result<Self, Error> {
        if let Some(program) = check.program() {
            program.refuse_missing()?;
        }
        let command = RecoveryCommand::new(check.recover.as_deref().ok_or(CheckError::NoCommand)?)?;
        command.names_a_file(&check)?;
        run::ready(&check)?;
        let contents = run::before(&check)?;
        let (mapped, trace) = (run::mapped_folder(&check)?, run::trace_of(&check)?);
        Ok(Beside { check, command, contents, mapped, started: SystemTime::now(), trace })
    }

    /// The program with what the check needs recorded.
    ///
    /// # Errors
    /// If there is no folder for what the recording leaves.
    pub fn recording(&self, program: &Program) -> Result<Program, Error> {
        let keep = Some(run::absolute_folder(self.mapped.path())?);
        Ok(Program { values: true, also_files: run::names(&self.contents), keep, ..program.clone() })
    }

    /// Where the check's events go.
    pub fn sink(&mut self) -> &mut TraceFile {
        &mut self.trace
    }

    /// Tries recovery on the images of the run.
    ///
    /// # Errors
    /// As [`Check::run`] behind its run.
    pub fn findings(mut self, played: &Played, observer: &dyn Observer) -> Result<CrashFindings, Error> {
        let observed = Observed::new(self.started, played);
        self.trace.complete()?;
        let (mapped, contents) = (self.mapped.path(), self.contents);
        let run = Run::of(&self.check, contents, mapped, observed, observer)?;
        if run.doubts.is_empty() && run.history.files().is_empty() {
            return Err(CheckError::NothingToRecover.into());
        }
        let checked = examine(&self.check, &self.command, run, observer)?;
        checked.save()?;
        if !checked.no_verdict().is_empty() {
            return Err(CheckError::NoVerdict(checked.no_verdict().to_vec()).into());
        }
        let (history, findings) = (&checked.run.history, &checked.outcome.findings);
        let articles = page::articles(&self.check, &checked.run, findings)?;
        let one = |(finding, article): (&crash::Finding, report::Article)| CrashFinding {
            message: finding.message.clone(),
            story: finding.story(history),
            images: finding.images,
            token: finding.token.to_string(),
            // Findings of the profile have numbers of their own.
            article: report::Article { id: format!("crash-{}", article.number), ..article },
        };
        Ok(CrashFindings {
            examined: [vec![words::examined(&checked)], words::partly(&checked)].concat().join("; "),
            folder: self.check.out.display().to_string(),
            findings: findings.iter().zip(articles).map(one).collect(),
        })
    }
}
