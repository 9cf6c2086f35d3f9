//! What cannot move, and what to do about it.

use std::fmt;

use serde::Serialize;

/// Something that a process has and that cannot move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    /// The process.
    pub pid: i32,
    /// The file descriptor, if it is one.
    pub fd: Option<i32>,
    /// What it is.
    pub what: String,
    /// What to do about it.
    pub remedy: &'static str,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "process {}", self.pid)?;
        if let Some(fd) = self.fd {
            write!(out, ", file descriptor {fd}")?;
        }
        write!(out, ": {}; {}", self.what, self.remedy)
    }
}

/// What was found before anything is stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The processes of the tree, its root first.
    pub processes: Vec<i32>,
    /// What cannot move. Empty: the tree can be saved.
    pub obstacles: Vec<Obstacle>,
    /// What moves, but not as it was.
    pub notes: Vec<String>,
}

impl Report {
    pub(crate) fn add(&mut self, pid: i32, fd: Option<i32>, what: impl Into<String>, remedy: &'static str) {
        self.obstacles.push(Obstacle { pid, fd, what: what.into(), remedy });
    }

    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}
