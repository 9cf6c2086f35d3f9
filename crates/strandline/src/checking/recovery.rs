//! The oracle that is somebody's program: recover the image in this file and say whether it is right.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crash::{Image, Oracle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::command::RecoveryCommand;
use super::images::Images;
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
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        Ok(lines.map(str::to_owned).collect())
    }
}

impl Oracle for Recovery {
    fn examine(&mut self, image: &Image<'_>) -> Result<(), String> {
        if self.error.is_some() {
            return Ok(());
        }
        match self.attempt(image) {
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
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
    let ended = pidfd_open(pid, PidfdFlags::empty())
        .and_then(|handle| poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout)));
    if ended? > 0 {
        return child.wait().map(Some);
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
