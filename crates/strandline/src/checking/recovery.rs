//! The oracle that is somebody's program: recover the image in this file and say whether it is right.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crash::{Image, Oracle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::command::RecoveryCommand;
use super::images::Images;
use super::interrupt;
use super::run::Run;

/// Bytes of recovery's output that are looked at.
const SAID_MAX: u64 = 64 << 10;
/// Lines of it that are repeated when the command itself looks wrong.
const TOLD_MAX: usize = 5;

/// Runs a recovery command on one image after the other.
#[derive(Debug)]
pub struct Recovery {
    images: Images,
    words: Vec<String>,
    shell: bool,
    timeout: Duration,
    /// What recovery prints; one file for all images.
    output: File,
    /// How the first recovery ended that did not succeed, and the end of what it printed.
    pub failure: Option<(String, Vec<String>)>,
    /// The first failure that was ours and not recovery's.
    pub error: Option<io::Error>,
}

impl Recovery {
    /// Prepares images of a run's files.
    pub fn new(command: &RecoveryCommand, timeout: Duration, run: &Run) -> anyhow::Result<Self> {
        let images = Images::new(run)?;
        let words = command.words(&images)?;
        let output =
            OpenOptions::new().read(true).write(true).create_new(true).open(images.beside("said"))?;
        let shell = command.takes_shell();
        Ok(Recovery { images, words, shell, timeout, output, failure: None, error: None })
    }

    fn attempt(&mut self, image: &Image<'_>) -> io::Result<Result<(), String>> {
        self.images.apply(image.changes);
        self.images.lay_out()?;
        self.output.set_len(0)?;
        self.output.rewind()?;
        let mut child = Command::new(&self.words[0])
            .args(&self.words[1..])
            .env("STRANDLINE_BEGUN", image.begun.to_string())
            .env("STRANDLINE_DONE", image.ended.to_string())
            .env("STRANDLINE_POOL", self.images.pool())
            .stdin(Stdio::null())
            .stdout(self.output.try_clone()?)
            .stderr(self.output.try_clone()?)
            .process_group(0)
            .spawn()?;
        let status = wait(&mut child, self.timeout)?;
        if status.is_some_and(|status| status.success()) {
            return Ok(Ok(()));
        }
        let said = self.said()?;
        let line = said.last().cloned();
        let (ending, message) = match status {
            None => {
                let late =
                    format!("recovery did not end within {}", humantime::format_duration(self.timeout));
                (late.clone(), late)
            }
            Some(status) => {
                let ending = ending(status);
                let message = match line {
                    Some(line) if status.signal().is_none() => line,
                    Some(line) => format!("{line} ({ending})"),
                    None => ending.clone(),
                };
                if self.shell && matches!(status.code(), Some(126 | 127)) {
                    return Err(io::Error::other(format!("the shell could not run the command: {message}")));
                }
                (ending, message)
            }
        };
        let from = said.len().saturating_sub(TOLD_MAX);
        self.failure.get_or_insert((ending, said[from..].to_vec()));
        Ok(Err(message))
    }

    /// What recovery printed, without empty lines.
    fn said(&self) -> io::Result<Vec<String>> {
        let length = self.output.metadata()?.len();
        let count = length.min(SAID_MAX);
        let mut text = vec![0; count as usize];
        // Its end: the last line counts.
        self.output.read_exact_at(&mut text, length - count)?;
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().map(plain);
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

impl Oracle for Recovery {
    fn examine(&mut self, image: &Image<'_>) -> Result<(), String> {
        if self.error.is_some() || interrupt::stopped() {
            return Ok(());
        }
        match self.attempt(image) {
            // It was killed, and says nothing.
            Ok(_) if interrupt::stopped() => Ok(()),
            Ok(result) => result,
            Err(error) => {
                self.error = Some(error);
                Ok(())
            }
        }
    }
}

/// Waits for the process; kills it and its children if it takes too long.
fn wait(child: &mut Child, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let started = Instant::now();
    loop {
        let left = timeout.saturating_sub(started.elapsed());
        let look = left.min(interrupt::LOOK);
        let span = Timespec { tv_sec: look.as_secs() as i64, tv_nsec: i64::from(look.subsec_nanos()) };
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&span)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return child.wait().map(Some),
            Err(error) => return Err(error.into()),
        }
        if left.is_zero() || interrupt::stopped() {
            break;
        }
    }
    kill_process_group(pid, Signal::KILL).ok();
    child.wait()?;
    Ok(None)
}

/// How a process ended: `exit status 1`, `SIGSEGV`.
fn ending(status: ExitStatus) -> String {
    match status.signal() {
        Some(_) => crate::record::signal(status).map_or_else(|| status.to_string(), |(_, name)| name),
        None => format!("exit status {}", status.code().unwrap_or(-1)),
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
