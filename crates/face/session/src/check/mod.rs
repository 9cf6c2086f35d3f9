//! `check`: does the program survive a crash at any moment?

mod beside;
mod boot_id;
mod command;
mod cover;
mod doubt;
pub(crate) mod error;
mod folders;
mod images;
mod judge;
mod known;
mod laid;
mod limit;
mod lints;
mod noted;
mod ordinary;
mod output;
mod pace;
mod page;
mod pattern;
mod place;
mod placeholder;
mod pools;
mod recovery;
mod reproducer;
mod run;
mod search;
mod warnings;
mod whole;
mod words;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crash::{Checker, Finding, Outcome, Platform, Sector, Strategy, Token};

pub use doubt::{Code, Doubt, Kind as DoubtKind};
pub use error::{CheckError, CommandFault};
pub use judge::{Judge, Laid};
pub use lints::Linted;
pub use noted::Noted;
pub use ordinary::Ordinary;
pub use place::Sharing;
pub use reproducer::LaidOut;
pub use run::Run;

pub(crate) use beside::Beside;

use crate::error::Error;
use crate::input::{Input, Program};
use crate::observer::{Observer, Progress};
use command::RecoveryCommand;
use pace::Pace;
pub use reboot::Rebooted;
use reboot::Reboots;
use recovery::Recovery;

/// A check to be made.
#[derive(Clone, Debug)]
pub struct Check {
    /// The program, or a trace that was recorded with stored bytes; the run that is recorded in `out` if not
    /// given.
    pub input: Option<Input>,
    /// The command that recovers an image and checks it. `POOL` in it stands for the image's file, or for its
    /// folder if the program maps several files.
    pub recover: Option<String>,
    /// A function that recovers an image and checks it, in place of a command.
    pub judge: Option<Judge>,
    /// A regular expression: recovery rejects an image, too, if it prints a line with this, whatever its status is.
    pub fail_on: Option<String>,
    /// Ordinary files, and folders of them, to check in place of persistent memory.
    pub files: Vec<String>,
    /// What the memory or the file system promises; ADR or ext4 if not given.
    pub platform: Option<Platform>,
    /// What the disk below the file system writes whole, if the platform or the token does not say it.
    pub sector: Option<Sector>,
    /// How images are chosen.
    pub strategy: Strategy,
    /// Images per crash point at most, from 1.
    pub images: u64,
    /// Findings after which each job stops, from 1.
    pub findings: u32,
    /// Recovery commands at the same time; as many as there are cores if not given.
    pub jobs: Option<u32>,
    /// How long a recovery may take at most; on images beside those that it brings into order, a multiple of
    /// what it takes on these, if that is less.
    pub timeout: Duration,
    /// Whether recovery runs as after a reboot, if the system allows that and the executable has called
    /// [`answer_as_reboot`](crate::answer_as_reboot), or another one was named by
    /// [`reboot_answered_by`](crate::reboot_answered_by).
    pub reboot: bool,
    /// How long the search may take.
    pub time: Option<Duration>,
    /// Seed of the random choice of images.
    pub seed: u64,
    /// Folder that shows the first finding without this tool; `reproducer` in `out` if not given.
    pub reproducer: Option<PathBuf>,
    /// Folder in which images of ordinary files are laid out; memory if not given and there is room for all
    /// jobs' images.
    pub scratch: Option<PathBuf>,
    /// Folder for the run (`check.slt`, `before`), `check.json` and the failing images.
    pub out: PathBuf,
}

/// What a check found.
pub struct Checked {
    /// The run.
    pub run: Run,
    /// The findings and how much was examined.
    pub outcome: Outcome,
    /// Why not all was examined that was to be; empty if all was. With no finding, there is no verdict then.
    pub uncovered: Vec<Doubt>,
    /// Recoveries that ran, of images of ordinary files; with those that shrank findings.
    pub ran: u64,
    /// Images that agreed with one of these in all that recovery had read, so that it did not run again.
    pub equivalent: u64,
    /// What images of ordinary files share, and where they were, if that was not in memory.
    pub laid: Option<(Sharing, Option<PathBuf>)>,
    /// How long the search took.
    pub elapsed: Duration,
    /// Whether recovery ran as after a reboot.
    pub rebooted: Rebooted,
    check: Check,
}

impl Checked {
    /// Why nothing can be said of the run, the first cause first; empty if there is a verdict. To have found
    /// nothing in a part of what was to be examined is none.
    #[must_use]
    pub fn no_verdict(&self) -> &[Doubt] {
        match self.run.doubts.is_empty() && self.outcome.findings.is_empty() {
            true => &self.uncovered,
            false => &self.run.doubts,
        }
    }

    /// Whether images were tried: the run was seen whole, and recovery accepts what it left undisturbed.
    #[must_use]
    pub fn is_searched(&self) -> bool {
        self.run.doubts.is_empty()
    }
}

/// What recovery makes of one image.
pub struct Replayed {
    /// The run.
    pub run: Run,
    /// What is wrong with the image; none if recovery succeeds.
    pub finding: Option<Finding>,
    /// The image, for somebody to look at; none if a function judged it.
    pub laid_out: Option<LaidOut>,
}

impl Default for Check {
    fn default() -> Self {
        Check {
            input: None,
            recover: None,
            judge: None,
            fail_on: None,
            files: Vec::new(),
            platform: None,
            sector: None,
            strategy: Strategy::Auto,
            images: 256,
            findings: 16,
            jobs: None,
            timeout: Duration::from_secs(10),
            reboot: true,
            time: None,
            seed: 1,
            reproducer: None,
            scratch: None,
            out: "strandline-check".into(),
        }
    }
}

impl Check {
    /// A check of the input in the folder `out`.
    #[must_use]
    pub fn new(input: Input, out: impl Into<PathBuf>) -> Self {
        Check { input: Some(input), out: out.into(), ..Check::default() }
    }

    /// Lets this command recover images, as [`Check::recover`] says.
    #[must_use]
    pub fn recover(mut self, command: &str) -> Self {
        self.recover = Some(command.to_owned());
        self
    }

    /// Records or reads the run, lets recovery look at the images that a crash could have left, keeps the
    /// failing ones in the folder, and writes `check.json`. A search that the observer stops returns what it
    /// found. If the run was not seen whole, or recovery rejects what it left undisturbed, there is no
    /// search: [`Checked::no_verdict`] says why.
    ///
    /// # Errors
    /// If the command can't be run, if the program can't be observed, or if it changed no persistent file.
    pub fn run(&self, observer: &dyn Observer) -> Result<Checked, Error> {
        let (command, run) = self.prepare(None, observer)?;
        let checked = search::examine(self, &command, run, observer)?;
        checked.save()?;
        Ok(checked)
    }

    /// Lets recovery look at the image of a token again.
    ///
    /// # Errors
    /// As [`Check::run`], and if the token is of another run.
    pub fn replay(&self, token: &Token, observer: &dyn Observer) -> Result<Replayed, Error> {
        let (command, run) = self.prepare(Some(token), observer)?;
        if !run.doubts.is_empty() {
            return Err(CheckError::NoVerdict(run.doubts).into());
        }
        observer.progress(&Progress::Images { points_done: 0, points: 1, images: 0, findings: 0 });
        let (pace, reboots) = (Pace::new(self.timeout), Reboots::new(self.reboot, self.seed));
        let mut recovery = Recovery::new(&command, &pace, &reboots, &run, observer)?;
        let finding = search::checker(self, &run).replay(token, &mut recovery);
        observer.finished();
        let finding = finding?;
        if observer.stopped() {
            return Err(CheckError::Interrupted("recovery could say anything").into());
        }
        if let Some(error) = recovery.error {
            return Err(CheckError::Recovery(error).into());
        }
        let checker = search::checker(self, &run);
        let laid_out = match command.function() {
            Some(_) => None,
            None => Some(reproducer::lay_out(&checker, &run, &command, token, &in_folder(self, "replayed"))?),
        };
        if let Some((finding, to)) = finding.as_ref().zip(self.reproducer.as_ref()) {
            reproducer::write(self, &checker, &run, &command, finding, to)?;
        }
        Ok(Replayed { run, finding, laid_out })
    }

    /// Looks at the order of stores, flushes and fences alone, or of calls on files, and writes `check.json`.
    ///
    /// # Errors
    /// If the program can't be observed, or mapped no persistent file or changed none of the files, or for another
    /// platform of memory than ADR.
    pub fn lints(&self, observer: &dyn Observer) -> Result<Linted, Error> {
        lints::alone(self, observer)
    }

    /// The recovery command and the run. A wrong command is an error before the program runs.
    fn prepare(
        &self,
        token: Option<&Token>,
        observer: &dyn Observer,
    ) -> Result<(RecoveryCommand, Run), Error> {
        if let Some(program) = self.program() {
            program.refuse_missing()?;
        }
        let command = match (&self.judge, &self.recover) {
            (Some(judge), name) => {
                RecoveryCommand::of_function(name.as_deref().unwrap_or("a function"), judge.clone())
            }
            (None, Some(command)) => RecoveryCommand::new(command)?,
            (None, None) => return Err(CheckError::NoCommand.into()),
        };
        let command = command.failing_on(self.fail_on.as_deref())?;
        command.names_a_file(self)?;
        let run = Run::get(self, token, observer)?;
        if !run.doubts.is_empty() {
            return Ok((command, run));
        }
        if run.files.is_some() && run.history.atoms().is_empty() {
            return Err(CheckError::NoFileChanged.into());
        }
        if run.history.files().is_empty() {
            return Err(CheckError::NothingPersistent { ordinary: true }.into());
        }
        Ok((command, run))
    }

    fn program(&self) -> Option<&Program> {
        match &self.input {
            Some(Input::Program(program)) => Some(program),
            _ => None,
        }
    }

    /// Recovery commands at the same time.
    fn parallel(&self) -> usize {
        match self.jobs {
            Some(jobs) => jobs as usize,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// Where the first finding is shown without this tool.
    fn reproducer_folder(&self) -> PathBuf {
        self.reproducer.clone().unwrap_or_else(|| self.out.join("reproducer"))
    }

    /// Where the image of a finding is kept; findings count from 1.
    fn image_folder(&self, number: usize) -> PathBuf {
        self.out.join(format!("image-{number}"))
    }
}

/// The checker of a run with default bounds, for pictures and images.
fn plain_checker(run: &Run) -> Checker<'_> {
    Checker::new(&run.history, &run.contents)
}

/// A file of the folder of a check.
fn in_folder(check: &Check, name: &str) -> PathBuf {
    Path::new(&check.out).join(name)
}
