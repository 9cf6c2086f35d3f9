//! A trace file that is compressed and written on a thread of its own.
//!
//! Encoding what an observed program does takes about as long as the program; so does compressing what comes of it, and the two
//! need not wait for each other. Sheets of a trace are moved, not copied, and come back empty.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use event::SinkError;
use event::trace::{Outlet, Sheet};

use crate::lane::{Giver, lane};

/// Sheets under way.
const SHEETS: usize = 16;

/// An outlet that hands sheets to another one, on a thread of its own.
pub struct Behind {
    out: Option<Giver<Sheet>>,
    used: Receiver<Sheet>,
    bytes: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<(), SinkError>>>,
}

impl Behind {
    /// Starts the thread, on which `outlet` gets the sheets.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn new(mut outlet: impl Outlet + Send + 'static) -> Result<Self, SinkError> {
        let (out, sheets) = lane(SHEETS);
        let (back, used) = channel();
        let bytes = Arc::new(AtomicU64::new(0));
        let written = Arc::clone(&bytes);
        let work = move || {
            while let Some(sheet) = sheets.take() {
                let used = outlet.put(sheet);
                written.store(outlet.bytes(), Ordering::Relaxed);
                // If the producer is done, nobody needs it.
                let _ = back.send(used?);
            }
            Ok(())
        };
        let thread =
            std::thread::Builder::new().name("trace file".to_owned()).spawn(work).map_err(|source| {
                SinkError::Io { context: "can't start a thread for the trace file".to_owned(), source }
            })?;
        Ok(Behind { out: Some(out), used, bytes, thread: Some(thread) })
    }

    /// Waits until all sheets are written; what went wrong.
    fn wait(&mut self) -> Result<(), SinkError> {
        self.out = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(written)) => written,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl Outlet for Behind {
    fn put(&mut self, sheet: Sheet) -> Result<Sheet, SinkError> {
        let last = sheet.is_end();
        let urgent = sheet.is_urgent();
        let gone = self.out.as_ref().is_none_or(|out| out.give(sheet, urgent).is_err());
        if gone || last {
            self.wait()?;
        }
        if gone {
            return Err(SinkError::Other("the trace file is written no more".to_owned()));
        }
        Ok(self.used.try_recv().unwrap_or_default())
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        // Whoever drops it before the end has an error to tell already.
        let _ = self.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};
    use std::sync::Mutex;

    use event::trace::{Binder, Reader, Writer};
    use event::{Batch, Collected, Event, Op, Sink, SiteId, Source, ThreadId};

    use super::*;

    /// A file that others see.
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

    fn write(sink: &mut dyn Sink, batches: u64) -> Result<(), SinkError> {
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
        let outlet = Behind::new(Binder::new(shared.clone(), "t.slt").unwrap()).unwrap();
        let mut behind = Writer::with(outlet, "t.slt");
        write(&mut behind, 1000).unwrap();
        let bytes = shared.0.lock().unwrap().clone();
        assert_eq!(behind.bytes_written(), bytes.len() as u64);
        let mut direct = Writer::new(Vec::new(), "t.slt").unwrap();
        write(&mut direct, 1000).unwrap();
        assert!(direct.into_inner() == bytes);
        let mut read = Collected::default();
        Reader::new(Cursor::new(bytes), "t.slt").unwrap().replay(&mut read).unwrap();
        assert_eq!(read.events.len(), 1_000_000);
    }

    #[test]
    fn a_full_disk_is_told_with_its_reason() {
        let outlet = Behind::new(Binder::new(Shared(Arc::default(), 5000), "t.slt").unwrap()).unwrap();
        let error = write(&mut Writer::with(outlet, "t.slt"), 10_000).unwrap_err();
        assert!(matches!(&error, SinkError::Io { context, .. } if context.contains("t.slt")), "{error}");
    }
}
