//! One thread's records, in chunks, into its events.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use event::{EVENT, Event, Op, RunShape, Sink, SinkError, ThreadId, Told, Words};

use super::code::Code;
use super::decoder::Decoder;
use super::records::{Expansion, Header, bytes, length};
use super::runs::BATCH;
use crate::session::SessionFile;
use crate::wire::{descriptor_of, kind, kind_of};

/// Words that are copied together when many are.
const GROUP: usize = 64;
/// So many words ahead, words are asked for: about what is looked at while they come from another core.
const AHEAD: usize = 3 * GROUP;

/// A chunk of the thread.
#[derive(Debug)]
pub struct Piece {
    /// The session's chunk, in which the words are until it is given back.
    pub chunk: Option<usize>,
    /// Words of the chunk.
    pub size: usize,
    /// Its position among the thread's.
    pub number: u64,
    /// Nanoseconds from the session's start to the first record.
    pub start_ns: u64,
    /// Nanoseconds to the last record.
    pub end_ns: u64,
    /// Words that may be read; all of them once the writer is done with the chunk.
    pub ready: Option<usize>,
    /// Words that were looked through to find `ready`.
    scanned: usize,
    /// What was copied out of the chunk, if it was given back before it was read.
    words: Vec<u64>,
    /// A record here made no sense: it and what follows it can't be read.
    lost: Option<usize>,
}

/// Words of a piece from one of them on.
enum Rest<'a> {
    /// In a chunk. Their writer is done with them.
    Shared(&'a [AtomicU64]),
    /// Copied out of it.
    Own(&'a [u64]),
}

impl Words for Rest<'_> {
    fn count(&self) -> usize {
        match self {
            Rest::Shared(words) => words.len(),
            Rest::Own(words) => words.len(),
        }
    }

    #[inline]
    fn copy(&self, from: usize, into: &mut [u64]) -> usize {
        match self {
            Rest::Shared(words) => {
                let words = words.get(from..).unwrap_or_default();
                if into.len() >= GROUP {
                    read_ahead(words);
                }
                copy(words, into)
            }
            Rest::Own(words) => words.copy(from, into),
        }
    }
}

impl Rest<'_> {
    /// The first of them.
    fn first(&self) -> Option<u64> {
        let mut word = [0];
        (self.copy(0, &mut word) == 1).then_some(word[0])
    }

    /// Copies as many as the record has that begins with them, if they are there.
    fn record(&self, into: &mut Vec<u64>) -> Option<()> {
        let mut start = [0; 4];
        let there = self.copy(0, &mut start);
        let length = length(&start[..there])?;
        if length > self.count() {
            return None;
        }
        into.clear();
        into.resize(length, 0);
        (self.copy(0, into) == length).then_some(())
    }
}

/// What is delivered next.
#[derive(Debug, Default)]
pub struct Buffer {
    /// Events that the sink was told of already.
    pub told: usize,
    /// Words of runs, if it is a batch of runs; the events are those between them then.
    pub words: Vec<u64>,
    /// Events that the words tell, those between them included.
    pub count: usize,
    /// See [`event::RunBatch::carry`].
    pub carry: u32,
    /// The events.
    pub events: Vec<Event>,
    /// The bytes of its stores.
    pub values: Vec<u8>,
    /// Time of its first event.
    pub time_ns: u64,
}

impl Buffer {
    /// Empties it.
    pub fn clear(&mut self) {
        (self.told, self.count, self.carry) = (0, 0, 0);
        self.words.clear();
        self.events.clear();
        self.values.clear();
    }

    fn is_empty(&self) -> bool {
        self.told == 0 && self.words.is_empty() && self.events.is_empty()
    }
}

/// Why [`Stream::fill`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The batch ends here; there may be more.
    Batch,
    /// There is no more to read now.
    Dry,
    /// The next event has this position in the global order, and it is not its turn.
    Blocked(u64),
}

enum Value {
    Told,
    Missing,
    Later,
}

/// One thread's pieces and how far they are decoded.
#[derive(Debug)]
pub struct Stream {
    /// The thread's number on the wire.
    pub wire: u32,
    /// The thread, once an event of it was delivered.
    pub thread: Option<ThreadId>,
    /// Its process, by the decoder's numbering.
    pub process: usize,
    /// Events delivered.
    pub events: u64,
    /// Pieces in order; the first is being read.
    pub pieces: VecDeque<Piece>,
    /// Position in the thread of the piece that is to come next.
    next_number: u64,
    /// Where reading goes on in the first piece's words.
    at: usize,
    todo: Expansion,
    carry: u32,
    /// Bytes of the store that is being told.
    told: Vec<u8>,
    /// Memory for a record.
    record: Vec<u64>,
    /// No more pieces come.
    ended: bool,
    time_ns: u64,
}

impl Piece {
    /// The session's chunk `chunk`, of `size` words; `ready` of them may be read if its writer is not done with it.
    #[must_use]
    pub fn new(chunk: usize, size: usize, number: u64, times_ns: [u64; 2], ready: Option<usize>) -> Self {
        let [start_ns, end_ns] = times_ns;
        let (chunk, words) = (Some(chunk), Vec::new());
        Piece { chunk, size, number, start_ns, end_ns, ready, scanned: 0, words, lost: None }
    }

    fn complete(&self) -> bool {
        self.ready.is_none()
    }

    /// What may be read, from word `at` on.
    fn rest<'a>(&'a self, session: &'a SessionFile, at: usize) -> Rest<'a> {
        let Some(chunk) = self.chunk else {
            return Rest::Own(self.words.get(at..self.lost.unwrap_or(self.words.len())).unwrap_or_default());
        };
        let words = session.area(chunk);
        let ready = self.lost.or(self.ready).unwrap_or(words.len());
        Rest::Shared(words.get(at..ready).unwrap_or_default())
    }

    /// Copies all words, and leaves the chunk.
    fn copy_out(&mut self, session: &SessionFile) -> Option<usize> {
        let words = session.area(self.chunk?);
        self.words.resize(words.len(), 0);
        copy(words, &mut self.words);
        self.chunk.take()
    }
}

impl Stream {
    /// A thread of which nothing has been seen.
    #[must_use]
    pub fn new(wire: u32, process: usize) -> Self {
        Stream {
            wire,
            thread: None,
            process,
            events: 0,
            pieces: VecDeque::new(),
            next_number: 0,
            at: 0,
            todo: Expansion::default(),
            carry: 0,
            told: Vec::new(),
            record: Vec::new(),
            ended: false,
            time_ns: 0,
        }
    }

    /// Adds a piece where it belongs.
    pub fn insert(&mut self, piece: Piece) {
        let at = self.pieces.partition_point(|other| other.number < piece.number);
        self.pieces.insert(at, piece);
    }

    /// Whether no piece is missing between what was read and what is there.
    #[must_use]
    pub fn contiguous(&self) -> bool {
        self.pieces.iter().zip(self.next_number..).all(|(piece, number)| piece.number == number)
    }

    /// No more pieces come: what waits for the next record waits in vain.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Time of the next event, as well as it can be told.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        let Some(piece) = self.pieces.front() else { return self.time_ns };
        let words = piece.ready.unwrap_or(piece.size).max(1) as u64;
        let spent = piece.end_ns.saturating_sub(piece.start_ns);
        let within = spent.saturating_mul((self.at as u64).min(words)) / words;
        self.time_ns.max(piece.start_ns + within)
    }

    /// Looks through an unfinished first piece for records that are complete; whether there are new ones.
    ///
    /// A writer completes a run while it goes on, but whatever precedes another kind of record is complete when that
    /// record's header is there.
    pub fn look_ahead<C: Code>(&mut self, session: &SessionFile, decoder: &mut Decoder<C>) -> bool {
        let Some(piece) = self.pieces.front_mut() else { return false };
        let (Some(ready), Some(chunk)) = (piece.ready, piece.chunk) else { return false };
        let words = session.area(chunk);
        let mut found = ready;
        let mut at = piece.scanned;
        while let Some(header) = words.get(at) {
            let header = header.load(Ordering::Acquire);
            if header == 0 {
                break;
            }
            if descriptor_of(header).is_none() {
                let mut record = [0; 4];
                for (to, word) in record.iter_mut().zip(&words[at..]) {
                    *to = word.load(Ordering::Relaxed);
                }
                let Some(length) = length(&record).filter(|length| at + length <= words.len()) else { break };
                at += length;
                found = at;
                continue;
            }
            let Some(run) = decoder.run_words(self.process, header) else { break };
            at += run;
        }
        piece.scanned = at;
        piece.ready = Some(found);
        found > ready
    }

    /// Copies the first complete piece's words out of the session; the chunk that became free.
    pub fn copy_out(&mut self, session: &SessionFile) -> Option<usize> {
        let piece = self.pieces.iter_mut().find(|piece| piece.complete() && piece.chunk.is_some())?;
        piece.copy_out(session)
    }

    /// Reads into `batch` until the batch ends, the words do, or an event's position is beyond `turn`. A sink that takes runs as
    /// they were told gets those at once.
    pub fn fill<C: Code>(
        &mut self,
        session: &SessionFile,
        decoder: &mut Decoder<C>,
        turn: u64,
        sink: &mut dyn Sink,
        batch: &mut Buffer,
    ) -> Result<Stop, SinkError> {
        self.time_ns = self.time_ns();
        batch.time_ns = self.time_ns;
        loop {
            if let Some(stop) = self.deliver(session, decoder, turn, batch) {
                return Ok(stop);
            }
            let Some(head) = self.next_head(session, decoder) else { return Ok(Stop::Dry) };
            if !is_run(head) {
                self.take_record(session, decoder);
            } else if decoder.run_words(self.process, head).is_none() {
                self.give_up(session, decoder);
            } else if decoder.values {
                self.tell_run(session, decoder, batch);
            } else if !batch.is_empty() {
                return Ok(Stop::Batch);
            } else if decoder.told {
                self.tell_runs(session, decoder, sink, batch)?;
            } else {
                self.hand_on(session, decoder, turn, batch);
                return Ok(Stop::Batch);
            }
            if batch.events.len() >= BATCH {
                return Ok(Stop::Batch);
            }
        }
    }

    /// What may be read next.
    fn rest<'a>(&'a self, session: &'a SessionFile) -> Rest<'a> {
        self.pieces.front().map_or(Rest::Own(&[]), |piece| piece.rest(session, self.at))
    }

    /// The head of the record that comes next. `None` if there is no more to read.
    fn next_head<C: Code>(&mut self, session: &SessionFile, decoder: &mut Decoder<C>) -> Option<u64> {
        loop {
            self.pieces.front()?;
            // No record begins with a zero.
            if let Some(head) = self.rest(session).first().filter(|head| *head != 0) {
                return Some(head);
            }
            if !self.next_piece(decoder) {
                return None;
            }
        }
    }

    /// `words` as told by this thread.
    fn told<'a, C: Code>(&self, decoder: &'a mut Decoder<C>, words: &'a dyn Words, time_ns: u64) -> Told<'a> {
        let thread = self.thread.unwrap_or(ThreadId(0));
        let heads = &mut decoder.processes[self.process].heads;
        Told { thread, time_ns, shapes: &decoder.shapes, heads, words, carry: self.carry }
    }

    /// Gives the runs that come next to `sink`.
    fn tell_runs<C: Code>(
        &mut self,
        session: &SessionFile,
        decoder: &mut Decoder<C>,
        sink: &mut dyn Sink,
        batch: &mut Buffer,
    ) -> Result<(), SinkError> {
        decoder.vocabulary.define(sink)?;
        let wire = self.wire;
        self.thread.get_or_insert_with(|| decoder.thread(wire));
        let taken = sink.push_told(self.told(decoder, &self.rest(session), batch.time_ns))?;
        self.at += taken.words;
        self.carry = taken.carry;
        batch.told += taken.events;
        Ok(())
    }

    /// Gives the runs that come next to `batch`, and with them the record behind them, if it stands for one event.
    fn hand_on<C: Code>(
        &mut self,
        session: &SessionFile,
        decoder: &mut Decoder<C>,
        turn: u64,
        batch: &mut Buffer,
    ) {
        batch.carry = self.carry;
        let taken = self.told(decoder, &self.rest(session), batch.time_ns).translate(&mut batch.words);
        self.at += taken.words;
        self.carry = taken.carry;
        batch.count = taken.events;
        let next = self.rest(session).first();
        if next.is_some_and(|head| head != 0 && !is_run(head)) {
            self.take_record(session, decoder);
            let single = self.todo.single().filter(|event| event.op.seq().is_none_or(|seq| seq <= turn));
            if let Some(event) = single {
                batch.words.push(EVENT);
                batch.count += 1;
                batch.events.push(event);
                self.todo.advance();
            }
        }
    }

    /// Takes up the record that comes next.
    fn take_record<C: Code>(&mut self, session: &SessionFile, decoder: &mut Decoder<C>) {
        let mut record = std::mem::take(&mut self.record);
        let expansion = self
            .rest(session)
            .record(&mut record)
            .and_then(|()| decoder.expand(self.process, &record, self.carry));
        match expansion {
            Some(expansion) => {
                if expansion.peek().is_some() {
                    self.carry = 0;
                }
                self.todo = expansion;
                self.at += record.len();
            }
            None => self.give_up(session, decoder),
        }
        self.record = record;
    }

    /// What comes next makes no sense: counts the rest of the piece as lost.
    fn give_up<C: Code>(&mut self, session: &SessionFile, decoder: &mut Decoder<C>) {
        let rest = self.rest(session);
        let mut words = vec![0; rest.count()];
        rest.copy(0, &mut words);
        decoder.lose(&words);
        if let Some(piece) = self.pieces.front_mut() {
            piece.lost = Some(self.at);
        }
    }

    /// Tells the next run event by event, all but a store at its end, whose bytes come next.
    fn tell_run<C: Code>(&mut self, session: &SessionFile, decoder: &mut Decoder<C>, batch: &mut Buffer) {
        let head = self.rest(session).first().unwrap_or_default();
        let mut run = std::mem::take(&mut self.record);
        run.clear();
        run.resize(decoder.run_words(self.process, head).unwrap_or(1), 0);
        let words = self.rest(session).copy(0, &mut run);
        self.told(decoder, &&run[..words], 0).translate(&mut batch.words);
        self.record = run;
        let shape: &RunShape = &decoder.shapes[batch.words[0] as u32 as usize];
        let before = batch.events.len();
        shape.accesses(&batch.words[1..], &mut self.carry, |access, addr, len, instructions| {
            batch.events.push(Event { op: access.op(addr, len), site: access.site, instructions });
        });
        batch.words.clear();
        self.at += words;
        if let Some(Event { op, site, instructions }) =
            batch.events[before..].last().copied().filter(|event| event.op.stored().is_some())
        {
            batch.events.pop();
            self.todo = Expansion::one(op, site, instructions);
        }
    }

    /// Delivers the events of the record at hand; None when they are all delivered.
    fn deliver<C: Code>(
        &mut self,
        session: &SessionFile,
        decoder: &mut Decoder<C>,
        turn: u64,
        batch: &mut Buffer,
    ) -> Option<Stop> {
        while let Some(event) = self.todo.peek() {
            if batch.events.len() >= BATCH {
                return Some(Stop::Batch);
            }
            let position = event.op.seq();
            if let Some(seq) = self.todo.turn().filter(|&seq| seq > turn) {
                return Some(Stop::Blocked(seq));
            }
            if let Some(len) = event.op.value_len().filter(|_| decoder.values) {
                match self.value(session, decoder, len as usize) {
                    Value::Told => batch.values.append(&mut self.told),
                    Value::Later => return Some(Stop::Dry),
                    Value::Missing => {
                        self.told.clear();
                        decoder.stores_without_value += 1;
                        self.carry += event.instructions;
                        self.todo.advance();
                        continue;
                    }
                }
            }
            self.todo.advance();
            batch.events.push(event);
            if position.is_some() || matches!(event.op, Op::Fence(_)) {
                return Some(Stop::Batch);
            }
        }
        None
    }

    /// Gathers the bytes of a store of `len` bytes from the records that follow it.
    fn value<C: Code>(&mut self, session: &SessionFile, decoder: &mut Decoder<C>, len: usize) -> Value {
        while self.told.len() < len {
            let Some(head) = self.next_head(session, decoder) else { return self.no_value_yet() };
            if is_run(head) || Header::new(head).kind != kind::VALUE {
                return Value::Missing;
            }
            let mut record = std::mem::take(&mut self.record);
            let there = self.rest(session).record(&mut record);
            if there.is_some() {
                self.told.extend(bytes(&record[2..], record[1] as usize));
                self.at += record.len();
            }
            self.record = record;
            if there.is_none() {
                return Value::Missing;
            }
        }
        self.told.truncate(len);
        Value::Told
    }

    fn no_value_yet(&self) -> Value {
        if self.ended { Value::Missing } else { Value::Later }
    }

    /// Leaves the first piece if it is read to its end; false if it is still being written.
    fn next_piece<C: Code>(&mut self, decoder: &mut Decoder<C>) -> bool {
        let Some(piece) = self.pieces.pop_front_if(|piece| piece.complete()) else { return false };
        decoder.released.extend(piece.chunk);
        self.next_number = piece.number + 1;
        self.time_ns = self.time_ns.max(piece.end_ns);
        self.at = 0;
        true
    }
}

/// Whether a record with this head is a run or told as one.
#[inline]
fn is_run(head: u64) -> bool {
    descriptor_of(head).is_some() || kind_of(head) == kind::ACCESS
}

/// Asks for the words that will be copied soon: they are in the other core's caches, and what comes of them is waited for.
#[inline]
fn read_ahead(words: &[AtomicU64]) {
    #[cfg(target_arch = "x86_64")]
    for line in (AHEAD..AHEAD + GROUP).step_by(8) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: nothing is read; that there may be nothing at this address does not matter.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = words;
}

/// Copies words that their writer is done with, as many as there are and as have room.
#[inline]
fn copy(words: &[AtomicU64], into: &mut [u64]) -> usize {
    let count = words.len().min(into.len());
    // SAFETY: so many words are there and have room. Nobody writes to these words any more; if a broken program does, they are any
    // numbers, as they may be anyway, and nothing refers to them where they are.
    unsafe { std::ptr::copy_nonoverlapping(words.as_ptr().cast::<u64>(), into.as_mut_ptr(), count) };
    count
}
