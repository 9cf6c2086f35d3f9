//! The oracle that is somebody's program: recover the image in this file and say whether it is right.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crash::{Ending, Image, Oracle};
use reboot::{Attempt, Ended, Reads, Reboots, Recipe, System};

use super::CheckError;
use super::command::RecoveryCommand;
use super::images::Images;
use super::judge::{Judge, Laid};
use super::known::Known;
use super::limit::Limit;
use super::pace::Pace;
use super::pattern::Pattern;
use super::placeholder::Placeholder;
use super::run::Run;
use crate::ending::signal;
use crate::error::Error;
use crate::observer::Observer;

/// Bytes of recovery's output that are read.
const OUTPUT_MAX: u64 = 64 << 10;
/// Images of more bytes take longer to be written than recovery to be watched.
const LARGE: u64 = 8 << 20;
/// What is wrong if it does not end.
const HANGS: &str = "recovery hangs";
/// Lines of it that are repeated when the command itself looks wrong.
const REPEATED_MAX: usize = 5;

/// Runs a recovery command on one image after the other.
pub struct Recovery<'o> {
    observer: &'o dyn Observer,
    images: Images,
    recipe: Recipe,
    /// What is called in place of a command.
    function: Option<Judge>,
    /// Where recoveries run, if that is not here.
    system: Option<System>,
    shell: bool,
    pace: &'o Pace,
    /// Whether findings hang on what it says, so that it takes more time.
    sure: bool,
    /// When no further image is to be tried.
    until: Limit,
    /// What was said of other images, if equivalent ones need not run.
    known: Option<&'o Known>,
    /// What the last recovery read, if that is known.
    reads: Option<Reads>,
    /// What recovery prints if it rejects an image, whatever its exit status is.
    fails_on: Option<Pattern>,
    ending: Ending,
    /// Its path is not quoted.
    placeholder: Placeholder,
    /// What recovery prints; one file for all images.
    output: File,
    /// How the first recovery ended that did not succeed, and the end of what it printed.
    pub failure: Option<(String, Vec<String>)>,
    /// The first failure that was ours and not recovery's.
    pub error: Option<io::Error>,
}

impl<'o> Recovery<'o> {
    /// Prepares images of a run's files, and the system in which the command finds them.
    pub fn new(
        command: &RecoveryCommand,
        pace: &'o Pace,
        reboots: &Reboots,
        run: &Run,
        observer: &'o dyn Observer,
    ) -> Result<Self, Error> {
        let images = Images::new(run)?;
        let recipe = Recipe {
            words: command.words(&images)?,
            pool: images.pool(),
            stdout: images.beside("stdout"),
            acks: run.files.is_some().then(|| images.beside("acks")),
        };
        let placeholder = Placeholder::new(&images.pool());
        let file = images.beside("printed");
        let output = OpenOptions::new().read(true).write(true).create_new(true).open(&file);
        let output = output.map_err(Error::file("create", &file))?;
        let function = command.function().cloned();
        let system = match function {
            Some(_) => None,
            None => reboots.system(&recipe, images.folder(), &output).map_err(CheckError::Recovery)?,
        };
        let shell = command.takes_shell();
        Ok(Recovery {
            observer,
            images,
            recipe,
            function,
            system,
            shell,
            pace,
            sure: false,
            until: Limit::default(),
            known: None,
            reads: None,
            fails_on: command.fails_on().map(Pattern::new).transpose()?,
            ending: Ending::Failed,
            placeholder,
            output,
            failure: None,
            error: None,
        })
    }

    /// Takes time to be sure.
    pub fn sure(mut self) -> Self {
        self.sure = true;
        self
    }

    /// Tries no image behind this limit.
    pub fn until(mut self, limit: Limit) -> Self {
        self.until = limit;
        self
    }

    /// Lets equivalent images be judged alike, by what recovery reads.
    pub fn knowing(mut self, known: &'o Known) -> Self {
        self.known = Some(known).filter(|_| self.function.is_none());
        self
    }

    fn attempt(&mut self, image: &Image<'_>) -> io::Result<Result<(), String>> {
        self.images.apply(image.changes);
        let known = self.known.filter(|_| !self.sure);
        let (Some(known), Images::Folders(folders)) = (known, &self.images) else {
            return self.try_it(image);
        };
        let laid = folders.wanted();
        if let Some((verdict, ending)) = known.verdict(folders, &laid, image) {
            self.ending = ending;
            return Ok(verdict);
        }
        let verdict = self.try_it(image)?;
        known.ran();
        if let (Some(reads), Images::Folders(folders)) = (self.reads.take(), &mut self.images) {
            if !reads.all {
                folders.touched(&reads);
            }
            known.learn(folders, &laid, image, reads, (verdict.clone(), self.ending));
        }
        Ok(verdict)
    }

    /// Lays the image out and runs recovery on it.
    fn try_it(&mut self, image: &Image<'_>) -> io::Result<Result<(), String>> {
        self.images.lay_out()?;
        std::fs::write(&self.recipe.stdout, image.printed())?;
        if let Some(acks) = &self.recipe.acks {
            std::fs::write(acks, image.acked())?;
        }
        if let Some(function) = &self.function {
            return Ok(self.call(&function.clone(), image));
        }
        self.output.set_len(0)?;
        self.output.rewind()?;
        let limit = self.pace.limit(image.patience, self.sure);
        let started = Instant::now();
        // What a watched recovery has not changed need not be written again for the next image.
        let large = matches!(&self.images, Images::Folders(folders) if folders.laid_bytes() > LARGE);
        let watched = self.known.is_some_and(|known| !self.sure && (large || known.pays()));
        let (status, reads) =
            self.run(&Attempt { begun: image.begun, ended: image.ended, limit, watched })?;
        self.reads = reads;
        let succeeded = status.is_some_and(|status| status.success());
        let wrong = match self.fails_on.is_some() {
            true => self.printed()?.into_iter().find(|line| self.fails_on(line)),
            false => None,
        };
        if succeeded && wrong.is_none() {
            self.pace.succeeded(started.elapsed());
            return Ok(Ok(()));
        }
        let printed = self.printed()?;
        let line = wrong.filter(|_| succeeded).or_else(|| printed.last().cloned());
        self.failed(status, printed, line, limit)
    }

    /// What is wrong with an image that recovery rejected; `line` is what it said of it.
    fn failed(
        &mut self,
        status: Option<ExitStatus>,
        printed: Vec<String>,
        line: Option<String>,
        limit: Duration,
    ) -> io::Result<Result<(), String>> {
        let (ending, message) = match status {
            None => {
                self.pace.was_late();
                self.ending = Ending::Hung;
                let ending = format!("no end within {}", humantime::format_duration(limit));
                (
                    ending,
                    line.map_or_else(|| HANGS.to_owned(), |line| format!("{HANGS}; it printed last: {line}")),
                )
            }
            Some(status) => {
                let ending = ending(status, self.shell);
                self.ending = if ending.starts_with("SIG") { Ending::Crashed } else { Ending::Failed };
                let message = match line {
                    Some(line) if self.ending == Ending::Failed => line,
                    Some(line) => format!("{line} ({ending})"),
                    None => ending.clone(),
                };
                if self.shell && matches!(status.code(), Some(126 | 127)) {
                    return Err(io::Error::other(format!("the shell could not run the command: {message}")));
                }
                (ending, message)
            }
        };
        let from = printed.len().saturating_sub(REPEATED_MAX);
        self.failure.get_or_insert((ending, printed[from..].to_vec()));
        Ok(Err(message))
    }

    fn fails_on(&self, line: &str) -> bool {
        self.fails_on.as_ref().is_some_and(|pattern| pattern.is_in(line))
    }

    /// Asks the function that stands in for a command.
    fn call(&mut self, function: &Judge, image: &Image<'_>) -> Result<(), String> {
        let laid = Laid { path: &self.recipe.pool, begun: image.begun, ended: image.ended };
        let judged = function.examine(laid).map_err(|text| self.placeholder.put_into(&plain(&text)));
        self.ending = Ending::Failed;
        if let Err(message) = &judged {
            self.failure.get_or_insert(("an error".to_owned(), vec![message.clone()]));
        }
        judged
    }

    fn run(&mut self, attempt: &Attempt) -> io::Result<Ended> {
        let Recovery { observer, system, recipe, output, images, .. } = self;
        match system {
            Some(system) => system.run(attempt, &|| observer.stopped()),
            None => {
                let printed = || Ok([Stdio::from(output.try_clone()?), Stdio::from(output.try_clone()?)]);
                let observer = *observer;
                reboot::run(recipe, attempt, &images.folder(), printed, &|| observer.stopped())
            }
        }
    }

    /// What recovery printed, without empty lines.
    fn printed(&self) -> io::Result<Vec<String>> {
        let length = self.output.metadata()?.len();
        let count = length.min(OUTPUT_MAX);
        let mut text = vec![0; count as usize];
        // Its end: the last line counts.
        self.output.read_exact_at(&mut text, length - count)?;
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().map(|line| self.placeholder.put_into(&plain(line)));
        Ok(lines.filter(|line| !line.is_empty()).collect())
    }
}

/// A line without what would have a terminal do something.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' && letters.next_if_eq(&'[').is_some() {
            // A sequence ends with the first letter or its like.
            while letters.next().is_some_and(|letter| !('@'..='~').contains(&letter)) {}
        } else if !letter.is_control() || letter == '\t' {
            text.push(letter);
        }
    }
    text.trim().to_owned()
}

impl Oracle for Recovery<'_> {
    fn examine(&mut self, image: &Image<'_>) -> Result<(), String> {
        if self.error.is_some() || self.observer.stopped() {
            return Ok(());
        }
        match self.attempt(image) {
            // It was killed, so its end says nothing.
            Ok(_) if self.observer.stopped() => Ok(()),
            Ok(result) => result,
            Err(error) => {
                self.error = Some(error);
                Ok(())
            }
        }
    }

    fn ending(&self) -> Ending {
        self.ending
    }

    fn stopped(&self) -> bool {
        self.error.is_some() || self.observer.stopped() || self.until.is_over()
    }
}

/// How a process ended: `exit status 1`, `SIGSEGV`. A shell ends with 128 and the number of the signal that
/// ended its command.
fn ending(status: ExitStatus, shell: bool) -> String {
    let of_command = status.code().filter(|code| shell && (129..=159).contains(code));
    let killed = of_command.map_or(status, |code| ExitStatus::from_raw(code - 128));
    match (signal(killed), status.code()) {
        (Some((_, name)), None) => name,
        (Some((_, name)), Some(_)) if name.starts_with("SIG") => name,
        (_, code) => format!("exit status {}", code.unwrap_or(-1)),
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn nothing_of_a_line_moves_the_terminal() {
        assert_eq!(plain("  \u{1b}[1;31mtorn\u{1b}[0m\u{7} at\t7\r"), "torn at\t7");
        assert_eq!(plain("\u{1b}[31"), "");
    }
}
