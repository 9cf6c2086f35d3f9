//! One thread's records, in chunks, into its events.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering;

use event::{Event, Op, RunBatch, RunShape, ThreadId};

use super::code::Code;
use super::decoder::Decoder;
use super::records::{Expansion, Header, bytes, length};
use super::runs::BATCH;
use super::translate::{Stop as Place, Translation};
use crate::session::SessionFile;
use crate::wire::{descriptor_of, kind};

/// A chunk of the thread.
#[derive(Debug)]
pub struct Piece {
    /// The session's chunk, until it was given back because all of it is in `translation`.
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
    /// What was read.
    pub translation: Translation,
    /// A record made no sense: what follows it can't be read.
    lost: bool,
}

/// Events of one batch.
#[derive(Debug, Default)]
pub struct Buffer {
    /// The runs, if it is a batch of runs; the events are those between them then.
    pub runs: Option<RunsOf>,
    /// The events.
    pub events: Vec<Event>,
    /// The bytes of its stores.
    pub values: Vec<u8>,
    /// Time of its first event.
    pub time_ns: u64,
}

/// A batch's runs, in the translation of the stream's first piece.
#[derive(Clone, Debug)]
pub struct RunsOf {
    /// The words.
    pub words: Range<usize>,
    /// See [`RunBatch::count`].
    pub count: usize,
    /// See [`RunBatch::carry`].
    pub carry: u32,
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
    /// Where reading goes on in the first piece's translation.
    at: Place,
    todo: Expansion,
    carry: u32,
    /// Bytes of the store that is being told.
    told: Vec<u8>,
    /// No more pieces come.
    ended: bool,
    time_ns: u64,
}

impl Piece {
    /// The session's chunk `chunk`, of `size` words; `ready` of them may be read if its writer is not done with it.
    #[must_use]
    pub fn new(chunk: usize, size: usize, number: u64, times_ns: [u64; 2], ready: Option<usize>) -> Self {
        let [start_ns, end_ns] = times_ns;
        let (chunk, translation) = (Some(chunk), Translation::default());
        Piece { chunk, size, number, start_ns, end_ns, ready, scanned: 0, translation, lost: false }
    }

    fn complete(&self) -> bool {
        self.ready.is_none()
    }

    /// Translates what may be read. The chunk that is not needed any more.
    fn translate<C: Code>(
        &mut self,
        session: &SessionFile,
        decoder: &mut Decoder<C>,
        process: usize,
    ) -> Option<usize> {
        let words = session.area(self.chunk?);
        let words = &words[..self.ready.unwrap_or(words.len())];
        if !self.lost {
            self.lost = !decoder.translate(process, words, &mut self.translation);
        }
        if self.complete() { self.chunk.take() } else { None }
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
            at: Place::default(),
            todo: Expansion::default(),
            carry: 0,
            told: Vec::new(),
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
        let within = spent.saturating_mul((self.at.at as u64).min(words)) / words;
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
            let Some(descriptor) = descriptor_of(header) else {
                let mut record = [0; 4];
                for (to, word) in record.iter_mut().zip(&words[at..]) {
                    *to = word.load(Ordering::Relaxed);
                }
                let Some(length) = length(&record).filter(|length| at + length <= words.len()) else { break };
                at += length;
                found = at;
                continue;
            };
            if let Some(run) = decoder.processes[self.process].runs.get(header) {
                at += usize::from(run.words);
            } else if !decoder.learn(self.process, descriptor) {
                break;
            }
        }
        piece.scanned = at;
        piece.ready = Some(found);
        found > ready
    }

    /// Copies the first complete piece's words out of the session; the chunk that became free.
    pub fn copy_out<C: Code>(&mut self, session: &SessionFile, decoder: &mut Decoder<C>) -> Option<usize> {
        let piece = self.pieces.iter_mut().find(|piece| piece.complete() && piece.chunk.is_some())?;
        piece.translate(session, decoder, self.process)
    }

    /// Reads into `batch` until the batch ends, the words do, or an event's position is beyond `turn`.
    pub fn fill<C: Code>(
        &mut self,
        session: &SessionFile,
        decoder: &mut Decoder<C>,
        turn: u64,
        batch: &mut Buffer,
    ) -> Stop {
        self.time_ns = self.time_ns();
        batch.time_ns = self.time_ns;
        loop {
            if let Some(stop) = self.deliver(session, decoder, turn, batch) {
                return stop;
            }
            let Some(stop) = self.next_stop(session, decoder) else { return Stop::Dry };
            if stop.at == self.at.at {
                self.take_record(decoder, stop);
                continue;
            }
            if decoder.values {
                self.tell_run(decoder, batch);
            } else if batch.events.is_empty() {
                self.hand_on(decoder, turn, stop, batch);
                return Stop::Batch;
            }
            if !decoder.values || batch.events.len() >= BATCH {
                return Stop::Batch;
            }
        }
    }

    /// Where the record that comes next stands, or the end of the runs that come before it. `None` if there is no more to
    /// read.
    fn next_stop<C: Code>(&mut self, session: &SessionFile, decoder: &mut Decoder<C>) -> Option<Place> {
        loop {
            let piece = self.pieces.front_mut()?;
            let free = piece.translate(session, decoder, self.process);
            decoder.released.extend(free);
            if self.at.at < piece.translation.words.len() {
                return Some(piece.translation.next_stop());
            }
            if !self.next_piece() {
                return None;
            }
        }
    }

    /// Gives the runs up to `stop` to `batch`, and with them the record there, if it stands for one event.
    fn hand_on<C: Code>(&mut self, decoder: &mut Decoder<C>, turn: u64, stop: Place, batch: &mut Buffer) {
        let Some(piece) = self.pieces.front_mut() else { return };
        let translation = &mut piece.translation;
        let mut runs = RunsOf {
            words: self.at.at..stop.at,
            count: translation.events(self.at, stop),
            carry: self.carry,
        };
        self.at = stop;
        self.carry = RunBatch {
            thread: ThreadId(0),
            time_ns: 0,
            shapes: &decoder.shapes,
            words: &translation.words[runs.words.clone()],
            events: &[],
            count: runs.count,
            carry: runs.carry,
        }
        .carry_after();
        if stop.at < translation.words.len() {
            self.take_record(decoder, stop);
            let single = self.todo.single().filter(|event| event.op.seq().is_none_or(|seq| seq <= turn));
            if let (Some(event), Some(piece)) = (single, self.pieces.front_mut()) {
                piece.translation.words[stop.at] = event::EVENT;
                runs.words.end += 1;
                runs.count += 1;
                batch.events.push(event);
                self.todo.advance();
            }
        }
        batch.runs = Some(runs);
    }

    /// Takes up the record at `stop`.
    fn take_record<C: Code>(&mut self, decoder: &mut Decoder<C>, stop: Place) {
        let Some(piece) = self.pieces.front_mut() else { return };
        let record = &piece.translation.words[stop.at..];
        // It was read before, so its kind is known.
        let length = length(record).unwrap_or(record.len());
        match decoder.expand(self.process, &record[..length], self.carry) {
            Some(expansion) => {
                if expansion.peek().is_some() {
                    self.carry = 0;
                }
                self.todo = expansion;
                self.at = piece.translation.leave(stop, length);
            }
            None => {
                decoder.give_up(&mut piece.translation, stop.at);
                piece.lost = true;
            }
        }
    }

    /// Tells the next run event by event, all but a store at its end, whose bytes come next.
    fn tell_run<C: Code>(&mut self, decoder: &Decoder<C>, batch: &mut Buffer) {
        let Some(piece) = self.pieces.front() else { return };
        let words = &piece.translation.words[self.at.at..];
        let shape: &RunShape = &decoder.shapes[words[0] as u32 as usize];
        let before = batch.events.len();
        shape.accesses(&words[1..shape.words()], &mut self.carry, |access, addr, len, instructions| {
            batch.events.push(Event { op: access.op(addr, len), site: access.site, instructions });
        });
        // How many of them are no accesses is not asked for where events are told one by one.
        self.at.at += shape.words();
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
            if let Some(seq) = position.filter(|&seq| seq > turn) {
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
            let stop = self.next_stop(session, decoder);
            let (Some(stop), Some(piece)) = (stop, self.pieces.front_mut()) else {
                return self.no_value_yet();
            };
            let record = &piece.translation.words[stop.at..];
            if stop.at != self.at.at || Header::new(record[0]).kind != kind::VALUE {
                return Value::Missing;
            }
            let Some(length) = length(record) else { return Value::Missing };
            self.told.extend(bytes(&record[2..length], record[1] as usize));
            self.at = piece.translation.leave(stop, length);
        }
        self.told.truncate(len);
        Value::Told
    }

    fn no_value_yet(&self) -> Value {
        if self.ended { Value::Missing } else { Value::Later }
    }

    /// Leaves the first piece if it is read to its end; false if it is still being written.
    fn next_piece(&mut self) -> bool {
        let Some(piece) = self.pieces.pop_front_if(|piece| piece.complete()) else { return false };
        self.next_number = piece.number + 1;
        self.time_ns = self.time_ns.max(piece.end_ns);
        self.at = Place::default();
        true
    }
}
