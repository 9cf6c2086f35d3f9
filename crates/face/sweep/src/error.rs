//! Why there is no sweep.

use std::io;
use std::path::PathBuf;

use machine::ConfigError;

/// Why there is no sweep.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The grid is none.
    #[error("{origin}: {reason}")]
    Grid {
        /// The file, or `the grid`.
        origin: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A verb refused.
    #[error(transparent)]
    Session(#[from] session::Error),
    /// There is no such machine, or its description is wrong.
    #[error(transparent)]
    Machine(#[from] ConfigError),
    /// There is no such persistency design.
    #[error(transparent)]
    Design(#[from] hardware::UnknownDesign),
    /// A file can't be worked on.
    #[error("can't {doing} {}: {source}", .path.display())]
    File {
        /// `read`, `write`, `create`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The trace is another one where the task is computed.
    #[error(
        "{} is not the trace of this sweep: its content is {found}, not {wanted}; put the same file there", .path.display()
    )]
    OtherTrace {
        /// Where it was looked for.
        path: PathBuf,
        /// Hash of what is there.
        found: String,
        /// Hash of the sweep's.
        wanted: String,
    },
    /// The task is of another version of the models.
    #[error("the task is of version {wanted}, and this is {VERSION}; install the same version on every machine", VERSION = crate::version::VERSION)]
    OtherVersion {
        /// The task's.
        wanted: String,
    },
    /// A task or a result is no such text.
    #[error("not a task or a result of a sweep: {0}")]
    Text(#[from] serde_json::Error),
    /// The table can't be written.
    #[error("can't write the table: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
}

impl SweepError {
    pub(crate) fn file(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> SweepError {
        let path = path.into();
        move |source| SweepError::File { doing, path, source }
    }
}
