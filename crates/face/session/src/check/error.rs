//! Why a check has no result.

use std::io;
use std::path::{Path, PathBuf};

use crash::Platform;

use crate::hint;

use super::doubt::{Doubt, in_words};

/// Why a check has no result.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A search needs a command.
    #[error("name the command that recovers an image: --recover './app --recover POOL'")]
    NoCommand,
    /// The recovery command has no word.
    #[error("the recovery command is empty")]
    Empty,
    /// The shell can't read the recovery command.
    #[error("the shell can't read the recovery command `{command}`: {reason}")]
    Shell {
        /// The command.
        command: String,
        /// What the shell says.
        reason: String,
    },
    /// The recovery command can't be run.
    #[error("can't run the recovery command: {0}")]
    Command(CommandFault),
    /// The recovery command does not name the image.
    #[error(
        "the recovery command `{command}` names no persistent file of the run; write POOL where it takes the file"
    )]
    NamesNoFile {
        /// The command.
        command: String,
    },
    /// The run was not seen whole, or recovery rejects what it left.
    #[error("no verdict: {}", in_words(.0))]
    NoVerdict(Vec<Doubt>),
    /// An image can't be laid out, or the recovery command can't be started on it.
    #[error("recovery: {0}")]
    Recovery(#[source] io::Error),
    /// The observer stopped the check before it had a result.
    #[error("interrupted before {0}")]
    Interrupted(&'static str),
    /// The program changed none of the files.
    #[error("the program changed none of the files that --files names")]
    NoFileChanged,
    /// The program mapped no persistent file.
    #[error(
        "the program mapped no persistent file; files under /dev/shm and on DAX mounts are, and those that --pmem PATH names{}",
        if *.ordinary { "; for ordinary files say --files PATH" } else { "" }
    )]
    NothingPersistent {
        /// Whether the check could follow ordinary files instead.
        ordinary: bool,
    },
    /// The profiled program mapped no persistent file.
    #[error("the program mapped no persistent file, so --recover has nothing to work on")]
    NothingToRecover,
    /// The platform is one of ordinary files.
    #[error("platform {0} is one of ordinary files; say which with --files PATH")]
    OfFiles(Platform),
    /// The platform is one of memory.
    #[error(
        "platform {0} is one of memory; with --files there are ext4, ext4-writeback, xfs, btrfs, zfs and posix"
    )]
    OfMemory(Platform),
    /// Lints follow persistent memory by the rules of ADR.
    #[error(
        "without a recovery command, flushes and fences of persistent memory are looked at by the rules of adr; for other platforms \
         of memory say --recover './app --recover POOL'"
    )]
    LintsOfAdr,
    /// A recording with gaps can't be checked.
    #[error("a check needs every store; leave --sample away")]
    Sampled,
    /// A built-in workload maps no file.
    #[error("a built-in workload maps no persistent file; check a program or a trace")]
    BuiltIn,
    /// The trace has no stored bytes.
    #[error("{} has no stored bytes; record it again with --values", .trace.display())]
    NoValues {
        /// The trace.
        trace: PathBuf,
    },
    /// There is neither a program, nor a trace, nor a recorded run.
    #[error(
        "what is to be checked? Give a program behind `--`, or a trace with --trace; {} has no run of before", .out.display()
    )]
    NoInput {
        /// The folder of the check.
        out: PathBuf,
    },
    /// A check follows files and folders.
    #[error("a check follows files and folders, not patterns: name the folder instead of {pattern}")]
    Pattern {
        /// The pattern.
        pattern: String,
    },
    /// What recovery is to print is no pattern.
    #[error("--fail-on {pattern}: it is no regular expression: {reason}")]
    FailOn {
        /// What was given.
        pattern: String,
        /// Why.
        reason: String,
    },
    /// A file can't be kept.
    #[error("{}: {source}", .path.display())]
    Keep {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is too large to be kept.
    #[error("{} has more than 4 GiB; check a smaller one", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
}

/// Why a command can't be run.
#[derive(Debug, thiserror::Error)]
pub enum CommandFault {
    /// No program has this name.
    #[error("no program {name}{hint}", name = .0, hint = hint::here(.0))]
    NoProgram(String),
    /// The shell finds no program or function of this name.
    #[error("the shell knows no {name}{hint}", name = .0, hint = hint::here(.0))]
    UnknownToShell(String),
    /// The file may not be executed.
    #[error("{} is not executable", .0.display())]
    NotExecutable(PathBuf),
    /// There is no shell.
    #[error("/bin/sh: {0}")]
    NoShell(io::Error),
}

impl CheckError {
    /// The file can't be kept.
    pub(super) fn keep(path: &Path) -> impl FnOnce(io::Error) -> CheckError {
        let path = path.to_owned();
        move |source| CheckError::Keep { path, source }
    }
}
