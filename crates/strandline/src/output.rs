//! The trace file that `-o` names: opened at once, so that a wrong name is told at once, and emptied only when there is something
//! to write, so that a run that yields nothing costs no older trace.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write, stderr, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use capture::Behind;
use event::trace::{Binder, Compression, Writer};
use event::{Batch, Definition, RunBatch, Sink, SinkError, Source, Taken, Told};

/// A trace to be.
pub struct Output {
    path: PathBuf,
    /// Whether there was nothing of that name.
    made: bool,
    file: File,
    compression: Compression,
    source: Option<Source>,
    writer: Option<Writer<Behind>>,
}

impl Output {
    /// Opens the file, or waits for the reader of a FIFO.
    pub fn open(path: &Path, compression: Compression) -> anyhow::Result<Self> {
        let made = !path.exists();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_context(|| format!("can't create trace {}", path.display()))?;
        Ok(Output { path: path.to_owned(), made, file, compression, source: None, writer: None })
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
        let out = Replacing { file: self.file.try_clone().map_err(failed)?, begun: false };
        let mut binder = Binder::new(out, name.clone())?;
        binder.compression(self.compression)?;
        let mut writer = Writer::with(Behind::new(binder)?, name.clone());
        if let Some(source) = &self.source {
            writer.begin(source)?;
        }
        Ok(writer)
    }
}

/// A file whose old content goes when the new one's first bytes come: on the thread that writes them, as it takes tens of
/// milliseconds for a large trace.
struct Replacing {
    file: File,
    begun: bool,
}

impl Replacing {
    /// Takes away all but the first byte, which is written over at once. When a file is closed that was emptied to its last
    /// byte, ext4 hands all of it to the disk first, and the process waits.
    fn begin(&mut self) -> std::io::Result<()> {
        let old = self.file.metadata()?;
        if old.is_file() && old.len() > 1 {
            self.file.set_len(1)?;
        }
        self.begun = true;
        Ok(())
    }
}

impl Write for Replacing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if !self.begun && !bytes.is_empty() {
            self.begin()?;
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
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

#[cfg(test)]
mod tests {
    use event::trace::Reader;
    use event::{Collected, Event, Op, SiteId, ThreadId};

    use super::*;

    fn write(path: &Path, events: u64) -> Vec<u8> {
        let mut output = Output::open(path, Compression::Light).unwrap();
        output.begin(&Source::synthetic("test")).unwrap();
        for addr in 0..events {
            let event =
                Event { op: Op::Load { addr: addr * 4099, len: 8 }, site: SiteId(1), instructions: 1 };
            output.push(Batch { thread: ThreadId(0), time_ns: addr, events: &[event], values: &[] }).unwrap();
        }
        output.finish().unwrap();
        output.complete().unwrap();
        assert_eq!(output.bytes(), std::fs::metadata(path).unwrap().len());
        std::fs::read(path).unwrap()
    }

    #[test]
    fn nothing_is_left_of_an_older_trace() {
        let path = std::env::temp_dir().join(format!("strandline-output-{}.slt", std::process::id()));
        let first = write(&path, 10);
        let long = write(&path, 10_000);
        assert!(long.len() > first.len());
        assert_eq!(write(&path, 10), first);
        let mut read = Collected::default();
        Reader::new(std::io::Cursor::new(&first), "t.slt").unwrap().replay(&mut read).unwrap();
        assert_eq!(read.events.len(), 10);
        // Where nothing came, it stays.
        Output::open(&path, Compression::Light).unwrap().abandon();
        assert_eq!(std::fs::read(&path).unwrap(), first);
        std::fs::remove_file(&path).unwrap();
    }
}
