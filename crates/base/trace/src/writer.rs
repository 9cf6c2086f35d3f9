//! Events into sheets.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use event::{
    Batch, BlockBatch, BlockShape, Capabilities, Consumed, Definition, EVENT, Event, HEAD, RAW_WORDS_MAX,
    RawBlocks, RawWords, RunSink, Sink, SinkError, Source, ThreadId,
};

use super::binder::{Binder, Outlet, Sheet};
use super::columns::Compression;
use super::decode::stored_bytes;
use super::definitions;
use super::encode::Encoder;
use super::format::{
    BLOCK_VALUES, BlockHeader, BlockKind, HEADER_BODY_MAX, Header, STORE_VALUES_MAX, TEXT_MAX, VERSION,
};
use super::words::Until;

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
pub struct Writer<O> {
    outlet: O,
    /// Its memory is used again.
    used: Sheet,
    file: String,
    line_bytes: u32,
    state: State,
    values: bool,
    threads: Vec<Thread>,
    by_id: BTreeMap<u32, usize>,
    last_thread: usize,
    definitions: Vec<u8>,
    definition_count: u32,
    /// Shapes of code blocks that were defined.
    shapes: usize,
    /// Whether one of them has more words than a raw block may have.
    long_shapes: bool,
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
    /// Whether the block's code blocks are raw.
    raw: bool,
}

impl Thread {
    /// Keeps the time of the batch whose first event is number `events` of the block, if it is worth it.
    fn mark(&mut self, events: usize, time_ns: u64) {
        let (event, time) = self.marked;
        if events == 0 {
            self.start_ns = time_ns;
        } else if time_ns == time
            || (time_ns > time && time_ns - time < TIME_GRAIN_NS && events - event < TIME_GRAIN_EVENTS)
        {
            self.end_ns = self.end_ns.max(time_ns);
            return;
        }
        self.encoder.mark_time(events, time_ns);
        self.marked = (events, time_ns);
        self.end_ns = if events == 0 { time_ns } else { self.end_ns.max(time_ns) };
    }
}

impl Writer<Binder<File>> {
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

impl<W: Write> Writer<Binder<W>> {
    /// Writes to `out`, which needs no buffer of its own; `name` is how messages call it.
    ///
    /// # Errors
    /// When there is no memory for the compressor.
    pub fn new(out: W, name: impl Into<String>) -> Result<Self, SinkError> {
        let name = name.into();
        Ok(Writer::with(Binder::new(out, name.clone())?, name))
    }

    /// Chooses how the blocks are stored.
    ///
    /// # Errors
    /// When there is no memory for the compressor.
    pub fn compression(mut self, compression: Compression) -> Result<Self, SinkError> {
        self.outlet.compression(compression)?;
        Ok(self)
    }

    /// The output, whatever was written to it; for after [`Sink::finish`].
    #[must_use]
    pub fn into_inner(self) -> W {
        self.outlet.into_inner()
    }
}

impl<O: Outlet> Writer<O> {
    /// Gives its sheets to `outlet`; `name` is how messages call the file.
    pub fn with(outlet: O, name: impl Into<String>) -> Self {
        Writer {
            outlet,
            used: Sheet::default(),
            file: name.into(),
            line_bytes: 64,
            state: State::New,
            values: false,
            threads: Vec::new(),
            by_id: BTreeMap::new(),
            last_thread: 0,
            definitions: Vec::new(),
            definition_count: 0,
            shapes: 0,
            long_shapes: false,
            next_flush_ns: FLUSH_NS,
        }
    }

    /// States the bytes of a cache line on the observed machine; 64 if not called. For before the first
    /// event.
    #[must_use]
    pub fn line_bytes(mut self, bytes: u32) -> Self {
        self.line_bytes = bytes;
        self
    }

    /// Bytes handed to the output so far.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.outlet.bytes()
    }

    /// Writes out what all threads have, although their blocks are not full. For producers that know of a
    /// pause.
    ///
    /// # Errors
    /// When writing fails.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        self.open()?;
        for number in 0..self.threads.len() {
            self.close_block(number)?;
        }
        self.close_definitions()?;
        self.write_out(true)
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

    fn put(&mut self, make: impl FnOnce(Sheet) -> Sheet) -> Result<(), SinkError> {
        let sheet = make(std::mem::take(&mut self.used));
        match self.outlet.put(sheet) {
            Ok(used) => self.used = used,
            Err(error) => {
                self.state = State::Failed;
                return Err(error);
            }
        }
        Ok(())
    }

    fn write_out(&mut self, urgent: bool) -> Result<(), SinkError> {
        self.put(|used| used.out(urgent))
    }

    /// A definition was added to those that wait.
    fn defined(&mut self) -> Result<(), SinkError> {
        self.definition_count += 1;
        if self.definitions.len() > DEFINITIONS_BYTES {
            self.close_definitions()?;
            self.write_out(false)?;
        }
        Ok(())
    }

    fn define_shapes(&mut self, shapes: &[Arc<BlockShape>]) -> Result<(), SinkError> {
        for shape in shapes.get(self.shapes..).unwrap_or_default() {
            definitions::put_shape(&mut self.definitions, shape);
            self.long_shapes |= shape.words() > RAW_WORDS_MAX;
            self.defined()?;
            self.shapes += 1;
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
        let mut column = std::mem::take(&mut self.definitions);
        self.definition_count = 0;
        self.put(|used| used.block(header, &[&column]))?;
        column.clear();
        self.definitions = column;
        Ok(())
    }

    /// Hands over a thread's block, after the definitions that it may use.
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
        let mut sheet = std::mem::take(&mut self.used);
        std::mem::swap(sheet.differences(), thread.encoder.differences());
        let sheet = sheet.block(header, &thread.encoder.columns());
        thread.first += u64::from(count);
        thread.encoder.clear();
        thread.marked = (0, 0);
        self.put(|_| sheet)
    }

    /// Where the thread stands in `threads`.
    fn thread(&mut self, id: ThreadId) -> usize {
        if self.threads.get(self.last_thread).is_none_or(|thread| thread.id != id) {
            let fresh = self.threads.len();
            self.last_thread = *self.by_id.entry(id.0).or_insert(fresh);
            if self.last_thread == fresh {
                let encoder = Encoder::new();
                self.threads.push(Thread {
                    id,
                    encoder,
                    first: 0,
                    start_ns: 0,
                    end_ns: 0,
                    marked: (0, 0),
                    raw: false,
                });
            }
        }
        self.last_thread
    }

    /// Adds events that belong to no code block, with the bytes that they stored.
    fn add(
        &mut self,
        id: ThreadId,
        time_ns: u64,
        mut events: &[Event],
        mut values: &[u8],
    ) -> Result<(), SinkError> {
        let number = self.thread(id);
        while !events.is_empty() {
            let (count, bytes) = self.fitting(number, events);
            let thread = &mut self.threads[number];
            if count > 0 {
                thread.mark(thread.encoder.len(), time_ns);
                thread.encoder.push(&events[..count]);
                if bytes > 0 {
                    thread.encoder.push_values(&values[..bytes]);
                }
                (events, values) = (&events[count..], &values[bytes..]);
            }
            if thread.encoder.room() == 0 || thread.encoder.values_len() >= BLOCK_VALUES {
                self.close_block(number)?;
                self.write_out(false)?;
            }
        }
        Ok(())
    }

    /// Adds code blocks, raw or not, up to a head that has no shape by `shape_of`.
    fn add_blocks(
        &mut self,
        (id, time_ns): (ThreadId, u64),
        words: &dyn RawWords,
        carry: u32,
        shapes: &[Arc<BlockShape>],
        raw: bool,
        mut shape_of: impl FnMut(u64) -> Option<u32>,
    ) -> Result<Consumed, SinkError> {
        let number = self.thread(id);
        if self.threads[number].raw != raw {
            // The same head may mean another shape then.
            self.close_block(number)?;
            self.threads[number].encoder.clear();
            self.threads[number].raw = raw;
        }
        let mut taken = Consumed { words: 0, events: 0, carry };
        loop {
            let thread = &mut self.threads[number];
            let first = thread.encoder.len();
            let (words, events, end) =
                thread.encoder.push_raw(words, taken.words, &mut taken.carry, shapes, &mut shape_of);
            taken.words += words;
            taken.events += events;
            if events > 0 {
                thread.mark(first, time_ns);
            }
            if end != Until::Full {
                return Ok(taken);
            }
            if thread.encoder.len() == 0 {
                // Nothing that the words stand for was executed.
                thread.encoder.clear();
            }
            self.close_block(number)?;
            self.write_out(false)?;
        }
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
                "trace {file}: a store of {largest} bytes, values are kept up to {STORE_VALUES_MAX}; push it in pieces"
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

impl<O: Outlet> Sink for Writer<O> {
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
        self.state = State::Open;
        self.put(|used| used.header(&header))?;
        self.write_out(true)
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
        if self.values || !batch.values.is_empty() {
            self.check_values(&batch)?;
        }
        self.keep_up(batch.time_ns)?;
        self.add(batch.thread, batch.time_ns, batch.events, batch.values)
    }

    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        Some(self)
    }

    fn pause(&mut self) -> Result<(), SinkError> {
        self.flush()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.flush()?;
        let events = self.threads.iter().map(|thread| thread.first).sum();
        self.put(|used| used.end(events))?;
        self.state = State::Finished;
        Ok(())
    }
}

impl<O: Outlet> RunSink for Writer<O> {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        self.open()?;
        self.define_shapes(batch.shapes)?;
        if self.values || self.long_shapes {
            return batch.expanded(|batch| self.push(batch));
        }
        self.keep_up(batch.time_ns)?;
        let BlockBatch { thread, time_ns, shapes, mut words, mut events, mut carry, .. } = batch;
        let known = |head: u64| {
            // Above the number a head may state how many words follow.
            (head & HEAD != 0).then_some(head as u32).filter(|&number| (number as usize) < shapes.len())
        };
        while !words.is_empty() {
            let blocks = words.iter().position(|word| *word == EVENT).unwrap_or(words.len());
            let taken = self.add_blocks((thread, time_ns), &&words[..blocks], carry, shapes, false, known)?;
            let between = words[blocks..].iter().take_while(|word| **word == EVENT).count();
            let Some((now, later)) = events.split_at_checked(between).filter(|_| taken.words == blocks)
            else {
                return Err(SinkError::Other(format!(
                    "trace {}: code blocks whose shapes or events are missing",
                    self.file
                )));
            };
            self.add(thread, time_ns, now, &[])?;
            carry = if between > 0 { 0 } else { taken.carry };
            (words, events) = (&words[blocks + between..], later);
        }
        Ok(())
    }

    fn prefers_raw(&mut self) -> bool {
        true
    }

    fn push_raw(&mut self, raw: RawBlocks<'_>) -> Result<Consumed, SinkError> {
        self.open()?;
        self.define_shapes(raw.shapes)?;
        if self.values || self.long_shapes {
            return raw.translated(|batch| self.push_blocks(batch));
        }
        self.keep_up(raw.time_ns)?;
        let RawBlocks { thread, time_ns, shapes, heads, words, carry } = raw;
        self.add_blocks((thread, time_ns), words, carry, shapes, true, |head| heads.shape(head))
    }
}
