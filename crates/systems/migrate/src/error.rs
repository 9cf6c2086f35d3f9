//! What can go wrong, in the words that a user gets.

use std::io;
use std::path::PathBuf;

use crate::inspect::Obstacle;

/// Why a process was not saved, restored or moved. Whatever the error, a process that was to be saved goes on where
/// it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such process.
    #[error("process {0} does not exist (any more)")]
    NoProcess(i32),
    /// The process has ended and only waits for its parent.
    #[error("process {0} has ended (a zombie): nothing is left to save")]
    Zombie(i32),
    /// Somebody else traces the process.
    #[error("process {pid} is already traced by process {tracer}: detach that debugger first")]
    Traced {
        /// The process.
        pid: i32,
        /// Who traces it.
        tracer: i32,
    },
    /// The kernel does not let this user do it.
    #[error("process {pid} may not be traced: {source}; run as its user or as root")]
    NotAllowed {
        /// The process.
        pid: i32,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The process has what cannot be moved.
    #[error("process {pid} cannot be saved; it was not stopped:\n{}", lines(obstacles))]
    Obstacles {
        /// The root of the tree.
        pid: i32,
        /// Each obstacle, with its remedy.
        obstacles: Vec<Obstacle>,
    },
    /// The process changed while it was looked at or saved.
    #[error("process {pid} {what} in between; it goes on where it was, and nothing was saved")]
    Changed {
        /// The process.
        pid: i32,
        /// What it did.
        what: String,
    },
    /// A system call on behalf of a process failed.
    #[error("process {pid}: {what}: {source}")]
    Call {
        /// The process.
        pid: i32,
        /// What was to be done.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file or folder could not be used.
    #[error("{}: {what}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was to be done.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// An image is not whole.
    #[error("{}: damaged at byte {offset}: {what}; {remedy}", path.display())]
    Damaged {
        /// The file of the image.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What is wrong there.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The image needs what this machine does not have.
    #[error("the image does not fit this machine: {0}")]
    Unfit(String),
}

/// A result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The last error of the system, for a call of process `pid`.
    pub(crate) fn call(pid: i32, what: impl Into<String>) -> Self {
        Self::Call { pid, what: what.into(), source: io::Error::last_os_error() }
    }

    /// An error of the file `path`.
    pub(crate) fn file(path: impl Into<PathBuf>, what: &'static str, source: io::Error) -> Self {
        Self::File { path: path.into(), what, source }
    }
}

fn lines(obstacles: &[Obstacle]) -> String {
    obstacles.iter().map(|one| format!("  {one}")).collect::<Vec<_>>().join("\n")
}
