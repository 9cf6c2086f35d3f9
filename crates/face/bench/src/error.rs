//! Why there is no comparison.

use std::io;
use std::path::PathBuf;

/// Why there is no comparison.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Memory or a file can't be had.
    #[error(transparent)]
    Map(#[from] pmem::MapError),
    /// A contender could not do an operation.
    #[error("{name}: {why}")]
    Contender {
        /// The contender.
        name: String,
        /// What it says.
        why: String,
    },
    /// No contender has such a name.
    #[error("no variant `{name}`; there are {}", .known.join(", "))]
    NoContender {
        /// The name as given.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// No mix has such a name.
    #[error("no workload `{name}`; there are {}, and put-N for 1 to 99 % inserts", .known.join(", "))]
    NoWorkload {
        /// The name as given.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The chosen contenders can't do what is asked for.
    #[error("nothing to compare: {}", .reasons.join("; "))]
    Nothing {
        /// Why not, for each of them.
        reasons: Vec<String>,
    },
    /// A file or folder can't be worked on.
    #[error("can't {doing} {}: {source}", .path.display())]
    File {
        /// What was to be done.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    /// A file or folder can't be worked on; `doing` is `create`, `write`, `read`.
    pub(crate) fn file(doing: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File { doing, path, source }
    }

    /// A contender could not do an operation.
    pub(crate) fn of(name: &str, why: impl ToString) -> Error {
        Error::Contender { name: name.to_owned(), why: why.to_string() }
    }
}
