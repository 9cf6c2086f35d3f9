//! The trace file that `-o` names: opened at once, so that a wrong name is told at once, and emptied only when there is something
//! to write, so that a run that yields nothing costs no older trace.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, stderr, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use capture::Behind;
use event::trace::{Binder, Writer};
use event::{Batch, Definition, RunBatch, Sink, SinkError, Source, Taken, Told};

/// A trace to be.
pub struct Output {
    path: PathBuf,
    /// Whether there was nothing of that name.
    made: bool,
    file: File,
    source: Option<Source>,
    writer: Option<Writer<Behind>>,
}

impl Output {
    /// Opens the file, or waits for the reader of a FIFO.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let made = !path.exists();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_context(|| format!("can't create trace {}", path.display()))?;
        Ok(Output { path: path.to_owned(), made, file, source: None, writer: None })
    }

    /// Refuses a file where other text goes, too: the observed program's, or ours.
    pub fn refuse_standard_streams(&self) -> anyhow::Result<()> {
        for (stream, name) in [(stdout().as_fd(), "standard output"), (stderr().as_fd(), "standard error")] {
            if self.is(stream).with_context(|| self.path.display().to_string())? {
                bail!(
                    "{} is {name}, where other text goes, too; let -o name another file, or a FIFO",
                    self.path.display()
                );
            }
        }
        Ok(())
    }

    fn is(&self, stream: BorrowedFd<'_>) -> std::io::Result<bool> {
        let (own, other) = (self.file.metadata()?, File::from(stream.try_clone_to_owned()?).metadata()?);
        // Of the devices, only a terminal shows what is written: everything may go to /dev/null.
        let mixes = !own.file_type().is_char_device() || self.file.is_terminal();
        Ok(mixes && (own.dev(), own.ino()) == (other.dev(), other.ino()))
    }

    /// Bytes of the trace.
    pub fn bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::bytes_written)
    }

    /// Makes a trace without events if there were none; for after [`Sink::finish`].
    pub fn complete(&mut self) -> Result<(), SinkError> {
        if self.writer.is_some() { Ok(()) } else { self.writer()?.finish() }
    }

    /// Leaves what was there before, for a run without a trace.
    pub fn abandon(self) {
        if self.made && self.writer.is_none() {
            std::fs::remove_file(&self.path).ok();
        }
    }

    /// The trace, begun now at the latest.
    fn writer(&mut self) -> Result<&mut Writer<Behind>, SinkError> {
        // It is large, and stays where it is.
        if self.writer.is_none() {
            self.writer = Some(self.start()?);
        }
        self.writer.as_mut().ok_or_else(|| SinkError::Other("there is no trace".to_owned()))
    }

    fn start(&self) -> Result<Writer<Behind>, SinkError> {
        let name = self.path.display().to_string();
        let failed = |source| SinkError::Io { context: format!("can't create trace {name}"), source };
        if self.file.metadata().map_err(failed)?.is_file() {
            self.file.set_len(0).map_err(failed)?;
        }
        let binder = Binder::new(self.file.try_clone().map_err(failed)?, name.clone())?;
        let mut writer = Writer::with(Behind::new(binder)?, name.clone());
        if let Some(source) = &self.source {
            writer.begin(source)?;
        }
        Ok(writer)
    }
}

impl Sink for Output {
    fn name(&self) -> &'static str {
        "trace file"
    }
    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.source = Some(source.clone());
        Ok(())
    }
    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        self.writer()?.define(definition)
    }
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.writer()?.push(batch)
    }
    fn push_runs(&mut self, batch: RunBatch<'_>) -> Result<(), SinkError> {
        self.writer()?.push_runs(batch)
    }
    fn takes_told(&self) -> bool {
        true
    }
    fn push_told(&mut self, told: Told<'_>) -> Result<Taken, SinkError> {
        self.writer()?.push_told(told)
    }
    fn pause(&mut self) -> Result<(), SinkError> {
        self.writer.as_mut().map_or(Ok(()), Sink::pause)
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        self.writer.as_mut().map_or(Ok(()), Sink::finish)
    }
}
