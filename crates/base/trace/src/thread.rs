//! One thread's batches, in program order.

use std::io::{Read, Seek};

use event::{Batch, Event, ThreadId};

use super::decode::Decoder;
use super::error::TraceError;
use super::index::Entry;
use super::reader::{Blocks, Reader};

/// Events of a batch at most. A piece of this size stays in the second-level cache.
const BATCH_EVENTS: usize = 4096;

/// Where reading stands in one thread.
#[derive(Default)]
pub(super) struct Stream {
    /// Number of the next block to open.
    next_block: usize,
    decoder: Decoder,
    values_kept: bool,
    /// The batch below was not given yet.
    held: bool,
    /// The batch that was read last.
    pub events: Vec<Event>,
    pub values: Vec<u8>,
    pub time_ns: u64,
}

impl Stream {
    pub(super) fn new(values_kept: bool) -> Self {
        Stream { values_kept, ..Stream::default() }
    }

    /// When the next event happened; `None` at the end.
    pub(super) fn next_time(&self, blocks: &[Entry]) -> Option<u64> {
        if self.decoder.left() > 0 {
            Some(self.decoder.time_ns())
        } else {
            blocks.get(self.next_block).map(|entry| entry.start_ns)
        }
    }

    /// The next position in the global order that is still to be read.
    pub(super) fn next_seq(&self, blocks: &[Entry]) -> Option<u64> {
        let later = || blocks.get(self.next_block).map(|entry| entry.first_seq).filter(|seq| *seq != 0);
        self.decoder.next_seq().or_else(later)
    }

    /// Whether the next batch is in a block that was not opened.
    pub(super) fn at_block(&self) -> bool {
        self.decoder.left() == 0
    }

    /// Reads the next batch; `false` at the end, and then the memory is given back.
    pub(super) fn read<R: Read + Seek>(
        &mut self,
        file: &mut Blocks<R>,
        blocks: &[Entry],
    ) -> Result<bool, TraceError> {
        if std::mem::take(&mut self.held) {
            return Ok(true);
        }
        self.events.clear();
        self.values.clear();
        if self.decoder.left() == 0 {
            let Some(entry) = blocks.get(self.next_block) else {
                *self = Stream { next_block: self.next_block, ..Stream::new(self.values_kept) };
                return Ok(false);
            };
            file.events(entry, &mut self.decoder)?;
            self.next_block += 1;
        }
        let offset = blocks[self.next_block - 1].offset;
        self.time_ns = self.decoder.time_ns();
        self.decoder
            .batch(BATCH_EVENTS, &mut self.events)
            .and_then(|()| {
                if self.values_kept {
                    self.values.extend_from_slice(self.decoder.values(&self.events)?);
                }
                Ok(())
            })
            .map_err(|malformed| file.corrupt(offset, malformed))?;
        Ok(true)
    }

    /// Makes event `event` of the thread the next one that [`Stream::read`] gives.
    fn seek_event<R: Read + Seek>(
        &mut self,
        file: &mut Blocks<R>,
        blocks: &[Entry],
        event: u64,
    ) -> Result<(), TraceError> {
        self.go_to_block(blocks.partition_point(|entry| entry.first <= event).saturating_sub(1));
        let Some(entry) = blocks.get(self.next_block) else { return Ok(()) };
        let skip = event.saturating_sub(entry.first);
        if skip >= u64::from(entry.count) {
            self.go_to_block(blocks.len());
            return Ok(());
        }
        let offset = entry.offset;
        file.events(entry, &mut self.decoder)?;
        self.next_block += 1;
        let mut skip = skip as usize;
        while skip > 0 {
            self.events.clear();
            let skipped = self.decoder.batch(skip.min(BATCH_EVENTS), &mut self.events).and_then(|()| {
                if self.values_kept {
                    self.decoder.values(&self.events)?;
                }
                Ok(())
            });
            skipped.map_err(|malformed| file.corrupt(offset, malformed))?;
            // Code blocks are decoded whole.
            if self.events.len() > skip {
                self.time_ns = self.decoder.batch_time_ns();
                self.events.drain(..skip);
                self.held = true;
                break;
            }
            skip -= self.events.len();
        }
        Ok(())
    }

    /// Makes the first batch that is not before `time_ns` the next one that [`Stream::read`] gives.
    pub(super) fn seek_time<R: Read + Seek>(
        &mut self,
        file: &mut Blocks<R>,
        blocks: &[Entry],
        time_ns: u64,
    ) -> Result<(), TraceError> {
        self.go_to_block(blocks.partition_point(|entry| entry.end_ns < time_ns));
        while self.next_time(blocks).is_some_and(|time| time < time_ns) {
            self.read(file, blocks)?;
        }
        Ok(())
    }

    fn go_to_block(&mut self, number: usize) {
        *self = Stream { next_block: number, ..Stream::new(self.values_kept) };
    }
}

/// The batches of one thread; made by [`Reader::thread`].
pub struct ThreadBatches<'r, R> {
    thread: ThreadId,
    file: &'r mut Blocks<R>,
    blocks: &'r [Entry],
    stream: Stream,
}

impl<'r, R: Read + Seek> ThreadBatches<'r, R> {
    pub(super) fn new(reader: &'r mut Reader<R>, thread: ThreadId) -> Result<Self, TraceError> {
        let values_kept = reader.keeps_values();
        let Some(blocks) = reader.index.threads.get(&thread.0) else {
            return Err(reader.blocks.no_thread(thread));
        };
        Ok(ThreadBatches { thread, file: &mut reader.blocks, blocks, stream: Stream::new(values_kept) })
    }

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// When the trace is corrupt or can't be read.
    #[allow(clippy::should_implement_trait)] // lends its memory, which an iterator can't
    pub fn next(&mut self) -> Result<Option<Batch<'_>>, TraceError> {
        let more = self.stream.read(self.file, self.blocks)?;
        let Stream { events, values, time_ns, .. } = &self.stream;
        Ok(more.then_some(Batch { thread: self.thread, time_ns: *time_ns, events, values }))
    }

    /// Goes to the thread's event of that number, from 0; past the last one, to the end.
    ///
    /// # Errors
    /// When the trace is corrupt or can't be read.
    pub fn seek_event(&mut self, event: u64) -> Result<(), TraceError> {
        self.stream.seek_event(self.file, self.blocks, event)
    }

    /// Goes to the thread's first batch that did not start before `time_ns`.
    ///
    /// # Errors
    /// When the trace is corrupt or can't be read.
    pub fn seek_time(&mut self, time_ns: u64) -> Result<(), TraceError> {
        self.stream.seek_time(self.file, self.blocks, time_ns)
    }
}
