//! The ways in which a simulated run can fail, as whoever reads the report wants them.

use std::fmt;
use std::panic::Location;

/// Why a run did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// All threads wait for each other.
    #[error("deadlock:{}", list(.0))]
    Deadlock(Vec<Waiting>),
    /// The program does not do what the token was made of.
    #[error("the token does not fit the program: {0}")]
    Diverged(Divergence),
    /// The run had more events than its schedule allows ([`super::Schedule::at_most`]).
    #[error("no end after {events} events; thread {thread} was at {at}")]
    Endless {
        /// Events that were allowed.
        events: u64,
        /// The thread that ran.
        thread: u32,
        /// Its place in the source.
        at: String,
    },
    /// The scenario panicked.
    #[error("panicked: {0}")]
    Panicked(String),
    /// The operating system could not carry another thread.
    #[error("thread {thread} could not be started: {reason}")]
    NoThread {
        /// Its number.
        thread: u32,
        /// The system's reason.
        reason: String,
    },
}

/// A thread that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its number; the one that made the environment is 0.
    pub thread: u32,
    /// Where in the source it waits.
    pub at: String,
    /// For what, and who has it.
    pub what: String,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} at {} waits for {}", self.thread, self.at, self.what)
    }
}

/// Where a replay left the path of its token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Divergence {
    /// An exception names a thread that can't go on.
    #[error("at decision {decision} ({at}) thread {wanted} should go on, but only {} can", numbers(.candidates))]
    NotACandidate {
        /// Number of the decision.
        decision: u64,
        /// Who should go on.
        wanted: u32,
        /// Who can.
        candidates: Vec<u32>,
        /// The place in the source of the thread that ran.
        at: String,
    },
    /// Something else was decided, or at another moment.
    #[error(
        "the first {same} decisions are the token's, but not all of the first {different}; the last of these was made at {at}"
    )]
    Decisions {
        /// So many are the same.
        same: u64,
        /// So many are not.
        different: u64,
        /// Where in the source the last of them was made.
        at: String,
    },
    /// The program goes on where the token's run ended.
    #[error("the token ends after {decisions} decisions, and the program asks for another at {at}")]
    Longer {
        /// Decisions of the token.
        decisions: u64,
        /// The place in the source that asks.
        at: String,
    },
    /// The program ended before an exception's turn came.
    #[error("the program ended after {made} decisions, before the exception at decision {decision}")]
    Unreached {
        /// Decisions of the program.
        made: u64,
        /// Decision of the exception.
        decision: u64,
    },
    /// The program ended early.
    #[error("the program ended after {made} decisions, the token has {decisions}")]
    Shorter {
        /// Decisions of the program.
        made: u64,
        /// Decisions of the token.
        decisions: u64,
    },
}

/// A place as it is printed.
pub(super) fn place(location: &Location<'_>) -> String {
    format!("{}:{}", location.file(), location.line())
}

fn list(waiting: &[Waiting]) -> String {
    waiting.iter().map(|waiting| format!("\n  {waiting}")).collect()
}

fn numbers(threads: &[u32]) -> String {
    threads.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
