//! The oracle that is somebody's program: recover the image in this file and say whether it is right.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use crash::{Image, Oracle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::images::Images;
use super::run::Run;

/// What stands for the image in the command.
const POOL: &str = "POOL";
/// Characters that only a shell understands.
const SHELL: &[char] =
    &['|', '&', ';', '<', '>', '$', '`', '(', ')', '*', '?', '~', '#', '\'', '"', '\\', '\n'];

/// Runs a recovery command on one image after the other.
#[derive(Debug)]
pub struct Recovery {
    images: Images,
    /// The command's words; a command for a shell is one word.
    words: Vec<String>,
    shell: bool,
    timeout: Duration,
    /// The first failure that was ours and not recovery's.
    pub error: Option<io::Error>,
}

impl Recovery {
    /// Prepares images of a run's files.
    pub fn new(command: &str, timeout: Duration, run: &Run) -> anyhow::Result<Self> {
        let images = Images::new(run)?;
        let mut text = command.to_owned();
        for (name, path) in images.paths() {
            text = text.replace(&name, &path.to_string_lossy());
        }
        text = replace_word(&text, POOL, &images.pool().to_string_lossy());
        if text == command {
            bail!(
                "the recovery command `{command}` names no persistent file of the run; write POOL where it takes the file"
            );
        }
        let shell = command.contains(SHELL);
        let words = if shell { vec![text] } else { text.split_whitespace().map(str::to_owned).collect() };
        Ok(Recovery { images, words, shell, timeout, error: None })
    }

    fn attempt(&mut self, image: &Image<'_>) -> io::Result<Result<(), String>> {
        self.images.apply(image.changes)?;
        self.images.lay_out()?;
        let mut command = if self.shell {
            let mut shell = Command::new("/bin/sh");
            shell.arg("-c").arg(&self.words[0]);
            shell
        } else {
            let mut command = Command::new(&self.words[0]);
            command.args(&self.words[1..]);
            command
        };
        let said = self.images.beside("said");
        let output = File::create(&said)?;
        let mut child = command
            .env("STRANDLINE_BEGUN", image.begun.to_string())
            .env("STRANDLINE_DONE", image.ended.to_string())
            .env("STRANDLINE_POOL", self.images.pool())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()?;
        let Some(status) = wait(&mut child, self.timeout)? else {
            return Ok(Err(format!(
                "recovery did not end within {}",
                humantime::format_duration(self.timeout)
            )));
        };
        if self.shell && matches!(status.code(), Some(126 | 127)) {
            let said = complaint(&said, status);
            return Err(io::Error::other(format!("the shell could not run the command: {said}")));
        }
        Ok(if status.success() { Ok(()) } else { Err(complaint(&said, status)) })
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

/// Tries the command once, so that a wrong one is told before anything else.
pub fn check_command(recovery: &Recovery) -> anyhow::Result<()> {
    if recovery.shell {
        return Ok(());
    }
    let program = &recovery.words[0];
    crate::samples::find(program.as_ref())
        .map(drop)
        .with_context(|| format!("can't run the recovery command: no program {program}"))
}

fn replace_word(text: &str, word: &str, by: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let part_of_name =
            |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
        let whole = !part_of_name(before.chars().next_back()) && !part_of_name(after.chars().next());
        out.push_str(before);
        out.push_str(if whole { by } else { word });
        rest = after;
    }
    out + rest
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

/// What recovery said: the last line that it printed, else how it ended.
fn complaint(said: &std::path::Path, status: ExitStatus) -> String {
    let mut text = Vec::new();
    let read = File::open(said).and_then(|file| file.take(64 << 10).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned());
    let ending = match status.signal() {
        Some(_) => crate::record::signal(status).map_or_else(|| status.to_string(), |(_, name)| name),
        None => format!("exit status {}", status.code().unwrap_or(-1)),
    };
    fs::remove_file(said).ok();
    match (read, line) {
        (Ok(_), Some(line)) if status.signal().is_none() => line,
        (Ok(_), Some(line)) => format!("{line} ({ending})"),
        _ => ending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_stand_for_the_pool() {
        assert_eq!(
            replace_word("./a POOL --file=POOL POOLS xPOOL", "POOL", "/p"),
            "./a /p --file=/p POOLS xPOOL"
        );
    }
}
