//! `record`: a program's events into a trace file, or only counted.

use std::path::{Path, PathBuf};

use capture::{CaptureError, Counted, Outcome};
use trace::{Compression, Reader};

use crate::ending;
use crate::error::Error;
use crate::input::{Input, Program};
use crate::observer::{Observer, Progress};
use crate::trace_file::TraceFile;

/// A recording to be made.
#[derive(Clone, Debug)]
pub struct Record {
    /// The program.
    pub program: Program,
    /// The trace file to write; a FIFO passes it on.
    pub output: PathBuf,
    /// Compress all of the trace, for about a tenth of the recording's time.
    pub small: bool,
}

/// A recording that was made.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// How the program ended and what was seen of it.
    pub outcome: Outcome,
    /// Bytes of the trace.
    pub bytes: u64,
    /// What a reader of the trace has to know.
    pub warnings: Vec<String>,
}

impl Record {
    /// A recording of all events of the program.
    #[must_use]
    pub fn new(program: Program, output: impl Into<PathBuf>) -> Self {
        Record { program, output: output.into(), small: false }
    }

    /// Runs the program and writes the trace. A run without events leaves an older trace as it was.
    ///
    /// # Errors
    /// If the program can't be observed or the trace can't be written.
    pub fn run(&self, observer: &dyn Observer) -> Result<Recorded, Error> {
        self.program.refuse_missing()?;
        let compression = if self.small { Compression::Fast } else { Compression::Light };
        let mut trace = TraceFile::open(&self.output, compression)?;
        trace.refuse_standard_streams()?;
        let input = Input::Program(self.program.clone());
        let played = match input.play("recording", observer, &mut trace, &mut []) {
            Ok(played) => played,
            Err(Error::NotObserved { why }) => {
                trace.abandon();
                return Err(Error::NotObserved { why });
            }
            Err(error) => return Err(stopped(error, &self.output)),
        };
        trace.complete()?;
        let outcome = played.recording.ok_or(CaptureError::NoCommand)?;
        let warnings = ending::warnings(&outcome, &played.warnings);
        warnings.iter().for_each(|warning| observer.warn(warning));
        Ok(Recorded { outcome, bytes: trace.bytes(), warnings })
    }
}

impl Program {
    /// Runs the program and counts its events, as cheaply as can be.
    ///
    /// # Errors
    /// If the program can't be observed.
    pub fn count(&self, observer: &dyn Observer) -> Result<(Counted, Outcome), Error> {
        let outcome = capture::count(&self.options()?, &mut |progress| {
            observer.progress(&Progress::Events { doing: "counting", events: progress.events });
        });
        observer.finished();
        let outcome = outcome?;
        let Some(counted) = outcome.counted.filter(|_| outcome.attached) else {
            return Err(Error::NotObserved { why: ending::not_observed(&outcome) });
        };
        let warnings: Vec<String> = outcome.warnings.iter().map(ToString::to_string).collect();
        ending::warnings(&outcome, &warnings).iter().for_each(|warning| observer.warn(warning));
        Ok((counted, outcome))
    }
}

/// What became of the program and the trace where the trace can't be written.
fn stopped(error: Error, output: &Path) -> Error {
    let (Error::Capture(CaptureError::Sink(source)) | Error::Sink(source)) = error else { return error };
    Error::Stopped { source, kept: readable(output) }
}

/// The trace, if it can be read as far as it was written.
fn readable(output: &Path) -> Option<PathBuf> {
    (output.is_file() && Reader::open(output).is_ok()).then(|| output.to_owned())
}

#[cfg(test)]
mod tests {
    use event::{Sink, SinkError, Source};
    use trace::Writer;

    use super::*;

    #[test]
    fn a_trace_that_ends_with_the_disk_is_named_if_it_can_be_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let [readable, nothing] = ["a.slt", "b.slt"].map(|name| folder.path().join(name));
        let file = std::fs::File::create(&readable).expect("a file");
        let mut writer = Writer::new(file, "a.slt").expect("room for a header");
        writer.begin(&Source::synthetic("test")).expect("it takes all sources");
        writer.flush().expect("it is written");
        std::fs::write(&nothing, "").expect("a file");
        let message = |output| {
            let full =
                SinkError::Io { context: "full".into(), source: std::io::ErrorKind::StorageFull.into() };
            stopped(Error::Capture(CaptureError::Sink(full)), output).to_string()
        };
        assert!(message(&readable).ends_with(&format!("strandline trace info {}", readable.display())));
        for unreadable in [nothing.as_path(), Path::new("/dev/full")] {
            assert!(message(unreadable).ends_with("if it had not ended"), "{}", message(unreadable));
        }
    }
}
