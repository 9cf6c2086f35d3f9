//! Events into a file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::{Batch, Capabilities, Definition, Event, RunBatch, Sink, SinkError, Source, ThreadId};

use super::columns::{Compression, Packer};
use super::decode::stored_bytes;
use super::definitions;
use super::encode::Encoder;
use super::format::{
    BLOCK_EVENTS, BLOCK_VALUES, BlockHeader, BlockKind, HEADER_BODY_MAX, Header, STORE_VALUES_MAX, TEXT_MAX,
    Trailer, VERSION,
};
use super::index::{self, Entry, INDEX_ENTRIES};
use super::words::BLOCK_WORDS;

/// All threads' blocks are written when this much time of the run has passed since the last time.
const FLUSH_NS: u64 = 200_000_000;
/// The time of a batch is kept if it is this much after the last one that was,
const TIME_GRAIN_NS: u64 = 10_000;
/// or this many events.
const TIME_GRAIN_EVENTS: usize = 1024;
/// Definitions are written when they take this much.
const DEFINITIONS_BYTES: usize = 4 << 20;

/// A sink that writes a trace file.
///
/// Blocks go out whole, with one write each, when a thread has filled one, when 200 ms of the run's time have
/// passed, or on [`Writer::flush`]; so a writer that is killed loses at most what came since,
/// and [`super::Reader`] opens what there is. The same events give the same bytes.
///
/// After an error the file holds what was written before, and all later calls fail.
pub struct Writer<W: Write> {
    out: W,
    file: String,
    line_bytes: u32,
    packer: Packer,
    state: State,
    values: bool,
    threads: Vec<Thread>,
    by_id: BTreeMap<u32, usize>,
    last_thread: usize,
    definitions: Vec<u8>,
    definition_count: u32,
    /// Shapes of runs that were defined.
    shapes: usize,
    index: Vec<Entry>,
    /// Blocks on their way out.
    buffer: Vec<u8>,
    written: u64,
    next_flush_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Finished,
    Failed,
}

/// One thread's unfinished block.
struct Thread {
    id: ThreadId,
    encoder: Encoder,
    /// Events in the thread's blocks so far.
    first: u64,
    start_ns: u64,
    end_ns: u64,
    /// Event of the block and time that were marked last.
    marked: (usize, u64),
}

impl Thread {
    /// Keeps the time of the batch that comes next, if it is worth it.
    fn mark(&mut self, time_ns: u64) {
        let events = self.encoder.len();
        let (event, time) = self.marked;
        if events == 0 {
            self.start_ns = time_ns;
        } else if time_ns == time
            || (time_ns > time && time_ns - time < TIME_GRAIN_NS && events - event < TIME_GRAIN_EVENTS)
        {
            self.end_ns = self.end_ns.max(time_ns);
            return;
        }
        self.encoder.mark_time(time_ns);
        self.marked = (events, time_ns);
        self.end_ns = if events == 0 { time_ns } else { self.end_ns.max(time_ns) };
    }
}

impl Writer<File> {
    /// Makes the file, or empties it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, SinkError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let file = File::create(path)
            .map_err(|source| SinkError::Io { context: format!("can't create trace {name}"), source })?;
        Writer::new(file, name)
    }
}

impl<W: Write> Writer<W> {
    /// Writes to `out`, which needs no buffer of its own; `name` is how messages call it.
    ///
    /// # Errors
    /// When there is no memory for the compressor.
    pub fn new(out: W, name: impl Into<String>) -> Result<Self, SinkError> {
        let file = name.into();
        let packer = Packer::new(Compression::default())
            .map_err(|source| SinkError::Io { context: format!("can't compress trace {file}"), source })?;
        Ok(Writer {
            out,
            file,
            line_bytes: 64,
            packer,
            state: State::New,
            values: false,
            threads: Vec::new(),
            by_id: BTreeMap::new(),
            last_thread: 0,
            definitions: Vec::new(),
            definition_count: 0,
            shapes: 0,
            index: Vec::new(),
            buffer: Vec::new(),
            written: 0,
            next_flush_ns: FLUSH_NS,
        })
    }

    /// Chooses how the blocks are stored.
    ///
    /// # Errors
    /// When there is no memory for the compressor.
    pub fn compression(mut self, compression: Compression) -> Result<Self, SinkError> {
        self.packer = Packer::new(compression).map_err(|source| SinkError::Io {
            context: format!("can't compress trace {}", self.file),
            source,
        })?;
        Ok(self)
    }

    /// States the bytes of a cache line on the observed machine; 64 if not called. For before the first event.
    #[must_use]
    pub fn line_bytes(mut self, bytes: u32) -> Self {
        self.line_bytes = bytes;
        self
    }

    /// Bytes handed to the output so far.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.written
    }

    /// Writes out what all threads have, although their blocks are not full. For producers that know of a pause.
    ///
    /// # Errors
    /// When writing fails.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        self.open()?;
        for number in 0..self.threads.len() {
            self.close_block(number)?;
        }
        self.close_definitions()?;
        self.write_out()
    }

    /// The output, whatever was written to it; for after [`Sink::finish`].
    #[must_use]
    pub fn into_inner(self) -> W {
        self.out
    }

    fn open(&self) -> Result<(), SinkError> {
        let why = match self.state {
            State::Open => return Ok(()),
            State::New => "was not begun",
            State::Finished => "was finished already",
            State::Failed => "could not be written before",
        };
        Err(SinkError::Other(format!("trace {} {why}", self.file)))
    }

    fn io(&mut self, source: std::io::Error) -> SinkError {
        self.state = State::Failed;
        let context = format!("can't write trace {} at byte {}", self.file, self.written);
        SinkError::Io { context, source }
    }

    fn write_out(&mut self) -> Result<(), SinkError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        match self.out.write_all(&self.buffer).and_then(|()| self.out.flush()) {
            Ok(()) => {
                self.written += self.buffer.len() as u64;
                self.buffer.clear();
                Ok(())
            }
            Err(error) => Err(self.io(error)),
        }
    }

    /// Adds a block to the buffer.
    fn add_block(&mut self, header: BlockHeader, column: &[u8]) -> Result<(), SinkError> {
        let result = self.packer.append(&mut self.buffer, header, &[column]);
        result.map_err(|error| self.io(error))
    }

    /// A definition was added to those that wait.
    fn defined(&mut self) -> Result<(), SinkError> {
        self.definition_count += 1;
        if self.definitions.len() > DEFINITIONS_BYTES {
            self.close_definitions()?;
            self.write_out()?;
        }
        Ok(())
    }

    /// Writes out all threads' blocks if it is time to, before a batch of that time.
    fn keep_up(&mut self, time_ns: u64) -> Result<(), SinkError> {
        if time_ns >= self.next_flush_ns {
            self.flush()?;
            self.next_flush_ns = time_ns.saturating_add(FLUSH_NS);
        }
        Ok(())
    }

    fn close_definitions(&mut self) -> Result<(), SinkError> {
        if self.definition_count == 0 {
            return Ok(());
        }
        let header = BlockHeader::plain(BlockKind::Definitions, self.definition_count);
        self.index.push(Entry::of(&header, self.written + self.buffer.len() as u64));
        let column = std::mem::take(&mut self.definitions);
        self.definition_count = 0;
        self.add_block(header, &column)
    }

    /// Adds a thread's block to the buffer, after the definitions that it may use.
    fn close_block(&mut self, number: usize) -> Result<(), SinkError> {
        if self.threads[number].encoder.len() == 0 {
            return Ok(());
        }
        self.close_definitions()?;
        let thread = &mut self.threads[number];
        let (first_seq, last_seq) = thread.encoder.seqs();
        let count = thread.encoder.len() as u32;
        let header = BlockHeader {
            thread: thread.id.0,
            first: thread.first,
            start_ns: thread.start_ns,
            end_ns: thread.end_ns,
            first_seq,
            last_seq,
            ..BlockHeader::plain(BlockKind::Events, count)
        };
        self.index.push(Entry::of(&header, self.written + self.buffer.len() as u64));
        let result = self.packer.append(&mut self.buffer, header, &thread.encoder.columns());
        thread.first += u64::from(count);
        thread.encoder.clear();
        thread.marked = (0, 0);
        result.map_err(|error| self.io(error))
    }

    /// Where the thread stands in `threads`.
    fn thread(&mut self, id: ThreadId) -> usize {
        if self.threads.get(self.last_thread).is_none_or(|thread| thread.id != id) {
            let fresh = self.threads.len();
            self.last_thread = *self.by_id.entry(id.0).or_insert(fresh);
            if self.last_thread == fresh {
                let encoder = Encoder::new();
                self.threads.push(Thread { id, encoder, first: 0, start_ns: 0, end_ns: 0, marked: (0, 0) });
            }
        }
        self.last_thread
    }

    /// How many of the events go into the thread's block together, with the number of their stored bytes.
    fn fitting(&self, number: usize, events: &[Event]) -> (usize, usize) {
        let encoder = &self.threads[number].encoder;
        let most = encoder.room().min(events.len());
        if !self.values {
            return (most, 0);
        }
        let mut bytes = 0;
        for (count, event) in events[..most].iter().enumerate() {
            if encoder.values_len() + bytes >= BLOCK_VALUES {
                return (count, bytes);
            }
            bytes += event.op.value_len().map_or(0, |len| len as usize);
        }
        (most, bytes)
    }

    /// Refuses values that are not those of the stores.
    fn check_values(&self, batch: &Batch<'_>) -> Result<(), SinkError> {
        let (mut stored, mut largest) = (0, 0);
        if self.values {
            stored = stored_bytes(batch.events);
            let lens = batch.events.iter().filter_map(|event| event.op.value_len());
            largest = lens.max().unwrap_or(0) as usize;
        }
        let file = &self.file;
        if largest > STORE_VALUES_MAX {
            return Err(SinkError::Other(format!(
                "trace {file}: a store of {largest} bytes, values are kept up to {STORE_VALUES_MAX}; tell it in pieces"
            )));
        }
        let given = batch.values.len() as u64;
        if stored == given {
            return Ok(());
        }
        Err(SinkError::Other(format!(
            "trace {file}: a batch with {given} bytes of values, where {stored} were to come"
        )))
    }
}

impl<W: Write> Sink for Writer<W> {
    fn name(&self) -> &'static str {
        "trace file"
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        if self.state != State::New {
            return Err(SinkError::Other(format!("trace {} was begun already", self.file)));
        }
        let header =
            Header { version: VERSION, line_bytes: self.line_bytes, source: source.clone() }.encode();
        if header.len() > HEADER_BODY_MAX {
            return Err(SinkError::Other(format!("trace {}: the command is too long", self.file)));
        }
        self.values = source.capabilities.contains(Capabilities::VALUES);
        self.buffer.extend_from_slice(&header);
        self.state = State::Open;
        self.write_out()
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        self.open()?;
        if !definitions::put(&mut self.definitions, definition) {
            let file = &self.file;
            return Err(SinkError::Other(format!("trace {file}: a name of more than {TEXT_MAX} bytes")));
        }
        self.defined()
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.open()?;
        self.check_values(&batch)?;
        self.keep_up(batch.time_ns)?;
        let number = self.thread(batch.thread);
        let (mut events, mut values) = (batch.events, batch.values);
        while !events.is_empty() {
            let (count, bytes) = self.fitting(number, events);
            if count > 0 {
                let thread = &mut self.threads[number];
                thread.mark(batch.time_ns);
                thread.encoder.push(&events[..count]);
                thread.encoder.push_values(&values[..bytes]);
                (events, values) = (&events[count..], &values[bytes..]);
            }
            let encoder = &self.threads[number].encoder;
            if encoder.room() == 0 || encoder.values_len() >= BLOCK_VALUES {
                self.close_block(number)?;
                self.write_out()?;
            }
        }
        Ok(())
    }

    fn push_runs(&mut self, batch: RunBatch<'_>) -> Result<(), SinkError> {
        if self.values || batch.count > BLOCK_EVENTS || batch.words.len() > BLOCK_WORDS {
            return batch.expanded(|batch| self.push(batch));
        }
        self.open()?;
        for shape in batch.shapes.get(self.shapes..).unwrap_or_default() {
            definitions::put_shape(&mut self.definitions, shape);
            self.defined()?;
            self.shapes += 1;
        }
        if batch.count == 0 {
            return Ok(());
        }
        self.keep_up(batch.time_ns)?;
        let number = self.thread(batch.thread);
        if !self.threads[number].encoder.fits(&batch) {
            self.close_block(number)?;
            self.write_out()?;
        }
        let thread = &mut self.threads[number];
        thread.mark(batch.time_ns);
        thread.encoder.push_runs(&batch);
        Ok(())
    }

    fn pause(&mut self) -> Result<(), SinkError> {
        self.flush()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.flush()?;
        let index_offset = self.written;
        let entries = std::mem::take(&mut self.index);
        for part in entries.chunks(INDEX_ENTRIES) {
            self.add_block(BlockHeader::plain(BlockKind::Index, part.len() as u32), &index::encode(part))?;
        }
        let trailer = Trailer {
            index: index_offset,
            events: self.threads.iter().map(|thread| thread.first).sum(),
            index_blocks: entries.len().div_ceil(INDEX_ENTRIES) as u32,
        };
        self.buffer.extend_from_slice(&trailer.encode());
        self.write_out()?;
        self.state = State::Finished;
        Ok(())
    }
}
