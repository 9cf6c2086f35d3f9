//! Why a verb has no result.

use std::io;
use std::path::{Path, PathBuf};

use capture::CaptureError;
use crash::TokenError;
use event::SinkError;
use machine::ConfigError;
use measure::{MeasureError, ResultsError};
use studies::StudyError;
use trace::TraceError;
use workload::{Workload, WorkloadError};

use crate::check::error::CheckError;
use crate::hint;
use crate::measure::error::MeasureFault;
use crate::plan::PlanFault;
use crate::wear::fault::WearFault;

/// Why a verb has no result. The message names the file and the remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A trace can't be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A program can't be observed.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A program can't be followed by its system calls.
    #[error(transparent)]
    Tracer(#[from] tracer::TracerError),
    /// Nobody knows where acknowledgements go.
    #[error("--acks {words}: give the number of a descriptor, a path, or a port (`:6379`)")]
    Acks {
        /// What was given.
        words: String,
    },
    /// An option is for programs that are followed by their system calls.
    #[error("{option} is for programs that were not built with strandline cc, and needs --files")]
    OfUnmodified {
        /// The option.
        option: &'static str,
    },
    /// A sink refused its source or failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// A built-in workload failed.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// There is no such machine, or its description is wrong.
    #[error(transparent)]
    Machine(#[from] ConfigError),
    /// There is no such persistency design.
    #[error(transparent)]
    Design(#[from] hardware::UnknownDesign),
    /// A device, or what runs on it, fails.
    #[error(transparent)]
    Device(#[from] ::unified::Error),
    /// A check has no result.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A token is of another run.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Nothing is measured.
    #[error(transparent)]
    Measure(#[from] MeasureFault),
    /// A measurement failed.
    #[error(transparent)]
    Measurement(#[from] MeasureError),
    /// A sweep's file can't be used.
    #[error(transparent)]
    Sweep(#[from] ResultsError),
    /// Nothing can be compared.
    #[error(transparent)]
    Bench(#[from] bench::Error),
    /// Wear can't be estimated.
    #[error(transparent)]
    Wear(#[from] WearFault),
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] PlanFault),
    /// An expression is refused.
    #[error(transparent)]
    Expression(#[from] hare::Refusal),
    /// No published result has such a name.
    #[error(transparent)]
    Studies(#[from] StudyError),
    /// A published result can't be measured.
    #[error("{id}: {source}")]
    Row {
        /// The result's id.
        id: &'static str,
        /// Why.
        source: StudyError,
    },
    /// The caller could not take a result.
    #[error("standard output: {0}")]
    Output(#[source] io::Error),
    /// Results can't be turned into JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A file or folder can't be worked on.
    #[error("can't {doing} {}: {source}{}", .path.display(), remedy(.doing, .path, .source))]
    File {
        /// What was to be done: `create`, `write`, `read`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A path has no absolute form.
    #[error("can't resolve {path}: {source}")]
    Path {
        /// The path as given.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The trace is to go where other text goes.
    #[error(
        "{} is {stream}, where other text goes, too; let -o name another file, or a FIFO", .path.display()
    )]
    StandardStream {
        /// The file.
        path: PathBuf,
        /// The stream's name.
        stream: &'static str,
    },
    /// The file that a trace is to replace holds something else.
    #[error("{} is no trace, and stays as it is; name another file with -o, or remove this one", .path.display())]
    NotATrace {
        /// The file.
        path: PathBuf,
    },
    /// There is no such program.
    #[error("can't run {program}: no such program{}", hint::here(.program))]
    NoSuchProgram {
        /// Its name as given.
        program: String,
    },
    /// The file is not executable.
    #[error("can't run {program}: it is not executable{}", hint::executable(.program))]
    NotAProgram {
        /// Its name as given.
        program: String,
    },
    /// The program was not built with the compiler driver.
    #[error("{program} was not built with strandline cc, so its memory can't be seen")]
    NotInstrumented {
        /// Its name as given.
        program: String,
    },
    /// No process of the program loaded the runtime.
    #[error("{why}")]
    NotObserved {
        /// What the collector says, and how the program ended.
        why: String,
    },
    /// Advice on a phase that the program does not mark.
    #[error("the program has no phase `{phase}`; {}", phases(.known))]
    NoPhase {
        /// The phase.
        phase: String,
        /// Those that it marks.
        known: Vec<String>,
    },
    /// There is no such built-in workload.
    #[error("no built-in workload `{name}`; there are {}", workloads())]
    NoWorkload {
        /// The name as given.
        name: String,
    },
    /// The trace of a recording can't be written on; the program was stopped.
    #[error("{source}; the program was stopped, if it had not ended{}", readable(.kept.as_deref()))]
    Stopped {
        /// Why.
        source: SinkError,
        /// The trace, if what was written until then can be read.
        kept: Option<PathBuf>,
    },
}

impl Error {
    /// A file or folder can't be worked on; `doing` is `create`, `write`, `read`.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File { doing, path, source }
    }
}

/// What to do about a file that can't be worked on: text behind the error's.
fn remedy(doing: &str, path: &Path, error: &io::Error) -> String {
    if doing == "read" {
        return match error.kind() {
            io::ErrorKind::NotFound => "; name a file that is there".to_owned(),
            io::ErrorKind::PermissionDenied => "; name a file that you may read".to_owned(),
            _ => String::new(),
        };
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match (error.kind(), folder) {
        (io::ErrorKind::NotFound, Some(folder)) if !folder.exists() => {
            format!("; make its folder first: mkdir -p {}", folder.display())
        }
        (io::ErrorKind::PermissionDenied, Some(folder)) => {
            format!("; name a file where you may write, or get the right to write in {}", folder.display())
        }
        (io::ErrorKind::PermissionDenied, None) => "; name a file where you may write".to_owned(),
        (io::ErrorKind::StorageFull, _) => "; free some space, or name a file on another disk".to_owned(),
        (io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory, _) => {
            "; a file stands where a folder has to be: name another folder".to_owned()
        }
        (io::ErrorKind::NotFound, _) => "; name a place where files can be made".to_owned(),
        _ => String::new(),
    }
}

fn phases(known: &[String]) -> String {
    match known {
        [] => "it marks none (sl_phase)".to_owned(),
        known => format!("it has {}", known.join(", ")),
    }
}

fn workloads() -> String {
    Workload::ALL.iter().map(|workload| workload.name).collect::<Vec<_>>().join(", ")
}

fn readable(kept: Option<&Path>) -> String {
    kept.map_or_else(String::new, |trace| {
        format!("; what was written until then can be read: strandline trace info {}", trace.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_fits_what_was_done() {
        let folder = tempfile::tempdir().expect("a folder");
        let remedy = |doing, path: &str| {
            let path = folder.path().join(path);
            Error::File { doing, path, source: io::ErrorKind::NotFound.into() }.to_string()
        };
        assert!(remedy("read", "absent").ends_with("name a file that is there"));
        assert!(remedy("read", "absent/file").ends_with("name a file that is there"));
        assert!(remedy("write", "absent/file").contains("mkdir -p"));
    }
}
