//! A fact, and where facts are read.

use std::fs;
use std::path::{Path, PathBuf};

/// Whether the machine has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It does.
    Yes,
    /// In a lesser form.
    Partly,
    /// It does not.
    No,
}

impl State {
    /// `yes`, `partly` or `no`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            State::Yes => "yes",
            State::Partly => "partly",
            State::No => "no",
        }
    }
}

/// One thing that a machine may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Its name in JSON and in limits.
    pub id: &'static str,
    /// Its name for people.
    pub what: &'static str,
    /// Whether it is there.
    pub state: State,
    /// How it is there, or why not.
    pub detail: String,
}

impl Fact {
    pub(super) fn new(id: &'static str, what: &'static str, state: State, detail: impl Into<String>) -> Fact {
        Fact { id, what, state, detail: detail.into() }
    }

    /// From what a part of ours answered.
    pub(super) fn of(id: &'static str, what: &'static str, answer: Result<String, String>) -> Fact {
        match answer {
            Ok(detail) => Fact::new(id, what, State::Yes, detail),
            Err(why) => Fact::new(id, what, State::No, why),
        }
    }
}

/// The folder below which the kernel's files are read: `/`, or a sample of it in tests.
pub(super) struct Root(PathBuf);

impl Root {
    pub(super) fn of_system() -> Root {
        Root("/".into())
    }

    #[cfg(test)]
    pub(super) fn at(folder: &Path) -> Root {
        Root(folder.to_owned())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(Path::new(name.trim_start_matches('/')))
    }

    /// A file's text without the space around it.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok().map(|text| text.trim().to_owned())
    }

    /// Names in a folder, sorted; none if there is no folder.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }
}
