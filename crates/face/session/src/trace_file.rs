//! The trace file of a recording. It is opened at once, so that a wrong name is an error before the program
//! runs. An older trace is emptied only when there is something to write, so that a run without events keeps
//! it.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write, stderr, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use event::{Batch, BlockBatch, Consumed, Definition, RawBlocks, RunSink, Sink, SinkError, Source};
use pipeline::WriteBehind;
use trace::{Binder, Compression, Outlet, Reader, Sheet, TraceError, Writer};

use crate::error::Error;

/// A trace file that is to be written.
pub struct TraceFile {
    path: PathBuf,
    /// Whether there was nothing of that name.
    made: bool,
    file: File,
    compression: Compression,
    source: Option<Source>,
    writer: Option<Writer<Threaded>>,
}

impl TraceFile {
    /// Opens the file, or waits for the reader of a FIFO.
    ///
    /// # Errors
    /// If it can't be created, or is a file that holds something else than a trace.
    pub fn open(path: &Path, compression: Compression) -> Result<Self, Error> {
        let made = !path.exists();
        if path.is_file() && matches!(Reader::open(path), Err(TraceError::Foreign { .. })) {
            return Err(Error::NotATrace { path: path.to_owned() });
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(Error::file("create trace", path))?;
        Ok(TraceFile { path: path.to_owned(), made, file, compression, source: None, writer: None })
    }

    /// Refuses a file where other text goes as well: the observed program's, or the verb's result.
    ///
    /// # Errors
    /// [`Error::StandardStream`] if it is standard output or standard error.
    pub fn refuse_standard_streams(&self) -> Result<(), Error> {
        for (stream, name) in [(stdout().as_fd(), "standard output"), (stderr().as_fd(), "standard error")] {
            if self.is(stream).map_err(Error::file("look at", &self.path))? {
                return Err(Error::StandardStream { path: self.path.clone(), stream: name });
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
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::bytes_written)
    }

    /// Makes a trace without events if there were none; for after [`Sink::finish`].
    ///
    /// # Errors
    /// If it can't be written.
    pub fn complete(&mut self) -> Result<(), SinkError> {
        if self.writer.is_some() { Ok(()) } else { self.writer()?.finish() }
    }

    /// Leaves an older trace as it was, for a run without events.
    pub fn abandon(self) {
        if self.made && self.writer.is_none() {
            std::fs::remove_file(&self.path).ok();
        }
    }

    /// The trace, begun now at the latest.
    fn writer(&mut self) -> Result<&mut Writer<Threaded>, SinkError> {
        // It is large, and stays where it is.
        if self.writer.is_none() {
            self.writer = Some(self.start()?);
        }
        self.writer.as_mut().ok_or_else(|| SinkError::Other("there is no trace".to_owned()))
    }

    fn start(&self) -> Result<Writer<Threaded>, SinkError> {
        let name = self.path.display().to_string();
        let failed = |source| SinkError::Io { context: format!("can't create trace {name}"), source };
        let out = Replacing { file: self.file.try_clone().map_err(failed)?, begun: false };
        let mut binder = Binder::new(out, name.clone())?;
        binder.compression(self.compression)?;
        let mut writer = Writer::with(Threaded::new(binder)?, name.clone());
        if let Some(source) = &self.source {
            writer.begin(source)?;
        }
        Ok(writer)
    }
}

/// An outlet on a thread of its own, which compresses and writes.
struct Threaded {
    sheets: WriteBehind<Sheet>,
    bytes: Arc<AtomicU64>,
}

impl Threaded {
    fn new(mut outlet: impl Outlet + Send + 'static) -> Result<Self, SinkError> {
        let bytes = Arc::new(AtomicU64::new(0));
        let written = Arc::clone(&bytes);
        let work = move |sheet| {
            let used = outlet.put(sheet);
            written.store(outlet.bytes(), Ordering::Relaxed);
            used
        };
        Ok(Threaded { sheets: WriteBehind::new("trace file", work)?, bytes })
    }
}

impl Outlet for Threaded {
    fn put(&mut self, sheet: Sheet) -> Result<Sheet, SinkError> {
        let (last, urgent) = (sheet.is_end(), sheet.is_urgent());
        let used = self.sheets.put(sheet, urgent)?;
        if last {
            self.sheets.finish()?;
        }
        Ok(used)
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// A file that loses its old content when the first new bytes come: on the thread that writes them, as that
/// takes tens of milliseconds for a large trace.
struct Replacing {
    file: File,
    begun: bool,
}

impl Replacing {
    /// Cuts the file to its first byte, which is overwritten at once. ext4 flushes a file that was cut to
    /// length 0 when it is closed, and the process waits.
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

impl Sink for TraceFile {
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
    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        Some(self)
    }
    fn pause(&mut self) -> Result<(), SinkError> {
        self.writer.as_mut().map_or(Ok(()), Sink::pause)
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        self.writer.as_mut().map_or(Ok(()), Sink::finish)
    }
}

impl RunSink for TraceFile {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        self.writer()?.push_blocks(batch)
    }

    fn prefers_raw(&mut self) -> bool {
        true
    }

    fn push_raw(&mut self, raw: RawBlocks<'_>) -> Result<Consumed, SinkError> {
        self.writer()?.push_raw(raw)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use event::{Collected, Event, Op, SiteId, ThreadId};

    use super::*;

    fn write(path: &Path, events: u64) -> Vec<u8> {
        let mut output = TraceFile::open(path, Compression::Light).unwrap();
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

    /// A file in memory that several see.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>, usize);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut file = self.0.lock().unwrap();
            if self.1 > 0 && file.len() > self.1 {
                return Err(std::io::Error::from(std::io::ErrorKind::StorageFull));
            }
            file.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn push(sink: &mut dyn Sink, batches: u64) -> Result<(), SinkError> {
        sink.begin(&Source::synthetic("test"))?;
        for at in 0..batches {
            let op = Op::Load { addr: at.wrapping_mul(0x9e37_79b9_7f4a_7c15), len: 8 };
            let events = vec![Event { op, site: SiteId(1), instructions: 1 }; 1000];
            sink.push(Batch { thread: ThreadId(0), time_ns: 0, events: &events, values: &[] })?;
        }
        sink.finish()
    }

    #[test]
    fn the_file_is_the_same_as_without_a_thread() {
        let shared = Shared::default();
        let outlet = Threaded::new(Binder::new(shared.clone(), "t.slt").unwrap()).unwrap();
        let mut threaded = Writer::with(outlet, "t.slt");
        push(&mut threaded, 1000).unwrap();
        let bytes = shared.0.lock().unwrap().clone();
        assert_eq!(threaded.bytes_written(), bytes.len() as u64);
        let mut direct = Writer::new(Vec::new(), "t.slt").unwrap();
        push(&mut direct, 1000).unwrap();
        assert!(direct.into_inner() == bytes);
        let mut read = Collected::default();
        Reader::new(std::io::Cursor::new(bytes), "t.slt").unwrap().replay(&mut read).unwrap();
        assert_eq!(read.events.len(), 1_000_000);
    }

    #[test]
    fn a_full_disk_is_reported_with_its_reason() {
        let outlet = Threaded::new(Binder::new(Shared(Arc::default(), 5000), "t.slt").unwrap()).unwrap();
        let error = push(&mut Writer::with(outlet, "t.slt"), 10_000).unwrap_err();
        assert!(matches!(&error, SinkError::Io { context, .. } if context.contains("t.slt")), "{error}");
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
        TraceFile::open(&path, Compression::Light).unwrap().abandon();
        assert_eq!(std::fs::read(&path).unwrap(), first);
        std::fs::remove_file(&path).unwrap();
    }
}
