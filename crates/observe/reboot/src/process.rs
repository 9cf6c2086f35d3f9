//! One recovery: a process group that is started, waited for and ended.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde::{Deserialize, Serialize};

/// Between two looks at whether the recovery is to be given up.
pub const LOOK: Duration = Duration::from_millis(50);

/// What is the same for all images.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recipe {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The image's file or folder.
    pub pool: PathBuf,
    /// A file with what the program had printed, the same for all images; what it holds is each image's own.
    pub stdout: PathBuf,
    /// A file with what it had acknowledged elsewhere, likewise; `None` if nothing is followed there.
    pub acks: Option<PathBuf>,
}

/// What one image adds to it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Attempt {
    /// Regions that had begun.
    pub begun: u64,
    /// Regions that had ended.
    pub ended: u64,
    /// How long it may take.
    pub limit: Duration,
    /// Whether what it reads is to be known.
    pub watched: bool,
}

/// Runs a recovery that prints there; `None` if it was killed after its time, or because `given_up` said
/// so. What it leaves running is killed as well.
pub fn run(
    recipe: &Recipe,
    attempt: &Attempt,
    [stdout, stderr]: [Stdio; 2],
    given_up: &mut dyn FnMut() -> bool,
) -> io::Result<Option<ExitStatus>> {
    let mut command = prepared(recipe, attempt, [stdout, stderr]);
    let mut child = command.process_group(0).spawn()?;
    wait(&mut child, attempt.limit, given_up)
}

/// The command with its environment.
pub(crate) fn prepared(recipe: &Recipe, attempt: &Attempt, [stdout, stderr]: [Stdio; 2]) -> Command {
    let mut command = Command::new(&recipe.words[0]);
    if let Some(acks) = &recipe.acks {
        command.env("STRANDLINE_ACKS", acks);
    }
    command
        .args(&recipe.words[1..])
        .env("STRANDLINE_BEGUN", attempt.begun.to_string())
        .env("STRANDLINE_DONE", attempt.ended.to_string())
        .env("STRANDLINE_POOL", &recipe.pool)
        .env("STRANDLINE_STDOUT", &recipe.stdout)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr);
    command
}

fn wait(
    child: &mut Child,
    limit: Duration,
    given_up: &mut dyn FnMut() -> bool,
) -> io::Result<Option<ExitStatus>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let started = Instant::now();
    let over = loop {
        let left = limit.saturating_sub(started.elapsed());
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timespec(left.min(LOOK)))) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => break true,
            Err(error) => return Err(error.into()),
        }
        if left.is_zero() || given_up() {
            break false;
        }
    };
    // Until it is waited for, nobody else has its number.
    kill_process_group(pid, Signal::KILL).ok();
    child.wait().map(|status| over.then_some(status))
}

/// A span of time for the system.
pub fn timespec(span: Duration) -> Timespec {
    Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) }
}
