//! `strandline profile --check --recover`: a check of the run that is profiled.

use std::ffi::OsString;
use std::time::SystemTime;

use anyhow::bail;
use clap::Parser;
use crash::Contents;
use report::{CrashFinding, CrashFindings};

use super::args::CheckArgs;
use super::command::RecoveryCommand;
use super::run::{self, Run};
use super::{examine, output, page};
use crate::cli::ProfileArgs;
use crate::output::Output;
use crate::record;

/// The words of a check without the rest of the command line.
#[derive(Debug, Parser)]
struct Words {
    #[command(flatten)]
    check: CheckArgs,
}

/// A check that takes its events from somebody else's run.
pub struct Beside {
    args: CheckArgs,
    command: RecoveryCommand,
    contents: Contents,
    mapped: tempfile::TempDir,
    started: SystemTime,
    trace: Output,
}

impl Beside {
    /// Sees that the command can be run, and keeps what is in the program's files; the program has not run yet.
    ///
    /// # Errors
    /// As `strandline check` before its run.
    pub fn new(profile: &ProfileArgs, command: &str) -> anyhow::Result<Self> {
        let mut words: Vec<OsString> = ["check", "--recover", command, "--out"].map(OsString::from).into();
        words.push(profile.out.clone().into());
        words.extend(record::arguments(&profile.observe).into_iter().map(OsString::from));
        words.push("--".into());
        words.extend(profile.program.iter().cloned());
        let args = Words::try_parse_from(words)?.check;
        let command = RecoveryCommand::new(command)?;
        command.names_a_file(&args)?;
        run::ready(&args)?;
        let contents = run::before(&args)?;
        let (mapped, trace) = (run::mapped_folder(&args)?, run::trace_of(&args)?);
        Ok(Beside { args, command, contents, mapped, started: SystemTime::now(), trace })
    }

    /// What the recording has to tell.
    ///
    /// # Errors
    /// When there is no folder for what it is to leave.
    pub fn ask(&self, options: &mut capture::Options) -> std::io::Result<()> {
        options.values = true;
        options.files = run::names(&self.contents);
        options.keep = Some(self.mapped.path().canonicalize()?);
        Ok(())
    }

    /// Where its events go.
    pub fn sink(&mut self) -> &mut Output {
        &mut self.trace
    }

    /// Tries recovery on the images of the run.
    ///
    /// # Errors
    /// As `strandline check` behind its run.
    pub fn findings(mut self, outcome: &capture::Outcome) -> anyhow::Result<CrashFindings> {
        self.trace.complete()?;
        let warnings = record::warnings(outcome);
        let run = Run::of(&self.args, self.contents, self.mapped.path(), self.started, warnings)?;
        if run.history.files().is_empty() {
            bail!("the program mapped no persistent file, so --recover has nothing to work on");
        }
        let checked = examine(&self.args, &self.command, run)?;
        output::write(&self.args, &checked)?;
        let (history, findings) = (&checked.run.history, &checked.outcome.findings);
        let articles = page::articles(&self.args, &checked.run, findings)?;
        let one = |(finding, article): (&crash::Finding, report::Article)| CrashFinding {
            message: finding.message.clone(),
            story: finding.story(history.files(), history.table()),
            images: finding.images,
            token: finding.token.to_string(),
            // Findings of the profile have numbers of their own.
            article: report::Article { id: format!("crash-{}", article.number), ..article },
        };
        Ok(CrashFindings {
            examined: output::examined(&checked),
            folder: self.args.out.display().to_string(),
            findings: findings.iter().zip(articles).map(one).collect(),
        })
    }
}
