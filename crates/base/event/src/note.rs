//! What a recording notes of calls that change nothing by themselves: phases whose names say it.

use crate::{NameId, SiteTable};

/// How the names of such phases begin.
const NOTE: &str = "note:";

/// Something that a call did or failed to do, beside what it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A sync of a file or folder failed.
    SyncFailed {
        /// Its path.
        path: String,
        /// The error's name, `EIO`.
        error: String,
    },
    /// The write that follows goes past the page cache (`O_DIRECT`).
    Direct {
        /// The file's path.
        path: String,
    },
    /// A write with `O_DIRECT` has an address, offset or length that is no multiple of a sector.
    Unaligned {
        /// The file's path.
        path: String,
        /// What is not aligned, in words.
        what: String,
    },
}

impl Note {
    /// The name of the phase that stands for the note.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Note::SyncFailed { path, error } => format!("{NOTE}sync-failed:{error}:{path}"),
            Note::Direct { path } => format!("{NOTE}direct::{path}"),
            Note::Unaligned { path, what } => format!("{NOTE}unaligned:{what}:{path}"),
        }
    }

    /// The note that a phase's name stands for; `None` if it is a phase of the program's own.
    #[must_use]
    pub fn of(name: NameId, table: &SiteTable) -> Option<Note> {
        let mut parts = table.name(name)?.strip_prefix(NOTE)?.splitn(3, ':');
        let (kind, what, path) = (parts.next()?, parts.next()?, parts.next()?.to_owned());
        match kind {
            "sync-failed" => Some(Note::SyncFailed { path, error: what.to_owned() }),
            "direct" => Some(Note::Direct { path }),
            "unaligned" => Some(Note::Unaligned { path, what: what.to_owned() }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Note;
    use crate::{NameId, SiteTable};

    #[test]
    fn notes_come_back() {
        let path = "/a:b/c".to_owned();
        let mut table = SiteTable::default();
        for note in [
            Note::SyncFailed { path: path.clone(), error: "EIO".to_owned() },
            Note::Direct { path: path.clone() },
            Note::Unaligned { path, what: "the length, 100 B".to_owned() },
        ] {
            table.define_name(NameId(1), note.name());
            assert_eq!(Note::of(NameId(1), &table), Some(note));
        }
        table.define_name(NameId(1), "load".to_owned());
        assert_eq!(Note::of(NameId(1), &table), None, "a phase of the program's own");
    }
}
