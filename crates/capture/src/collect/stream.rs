//! One thread's records, in chunks, into its events.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use event::{Event, Op, ThreadId};

use super::code::Code;
use super::decoder::Decoder;
use super::records::{Expansion, Header, bytes, length};
use super::runs::{BATCH, Stop as RunStop};
use crate::session::SessionFile;
use crate::wire::{descriptor_of, kind};

/// Where a piece's words are.
#[derive(Debug)]
pub enum Words {
    /// In the session's chunk of that number.
    Chunk(usize),
    /// In a copy of it, so that the chunk could be given back early.
    Copied(Vec<AtomicU64>),
}

/// A chunk of the thread.
#[derive(Debug)]
pub struct Piece {
    /// Its words.
    pub words: Words,
    /// Its position among the thread's.
    pub number: u64,
    /// Nanoseconds from the session's start to the first record.
    pub start_ns: u64,
    /// Nanoseconds to the last record.
    pub end_ns: u64,
    /// Words that may be read; all of them once the writer is done with the chunk.
    pub ready: Option<usize>,
    /// Words that were looked through to find `ready`.
    pub scanned: usize,
}

/// Events of one batch.
#[derive(Debug, Default)]
pub struct Buffer {
    /// The events.
    pub events: Vec<Event>,
    /// The bytes of its stores.
    pub values: Vec<u8>,
    /// Time of its first event.
    pub time_ns: u64,
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
    /// Next word of the first piece; beyond its end if the rest can't be read.
    at: usize,
    todo: Expansion,
    carry: u32,
    /// Bytes of the store that is being told.
    told: Vec<u8>,
    /// No more pieces come.
    ended: bool,
    time_ns: u64,
}

impl Piece {
    /// The words that may be read.
    #[must_use]
    pub fn words<'a>(&'a self, session: &'a SessionFile) -> &'a [AtomicU64] {
        let all = match &self.words {
            Words::Chunk(at) => session.area(*at),
            Words::Copied(words) => words,
        };
        &all[..self.ready.unwrap_or(all.len())]
    }

    fn complete(&self) -> bool {
        self.ready.is_none()
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
    pub fn time_ns(&self, session: &SessionFile) -> u64 {
        let Some(piece) = self.pieces.front() else { return self.time_ns };
        let words = piece.words(session).len().max(1) as u64;
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
        let (Some(ready), Words::Chunk(chunk)) = (piece.ready, &piece.words) else { return false };
        let words = session.area(*chunk);
        let mut found = ready;
        let mut at = piece.scanned;
        while let Some(header) = words.get(at) {
            let header = header.load(Ordering::Acquire);
            if header == 0 {
                break;
            }
            let Some(descriptor) = descriptor_of(header) else {
                let Some(length) = length(words, at) else { break };
                at += length;
                found = at;
                continue;
            };
            if let Some(length) = decoder.processes[self.process].runs.words(descriptor) {
                at += length;
            } else if !decoder.learn(self.process, descriptor) {
                break;
            }
        }
        piece.scanned = at;
        piece.ready = Some(found);
        found > ready
    }

    /// Moves the first complete piece's words out of the session; the chunk that became free.
    pub fn copy_out(&mut self, session: &SessionFile) -> Option<usize> {
        let piece = self
            .pieces
            .iter_mut()
            .find(|piece| piece.complete() && matches!(piece.words, Words::Chunk(_)))?;
        let copy =
            piece.words(session).iter().map(|word| AtomicU64::new(word.load(Ordering::Relaxed))).collect();
        match std::mem::replace(&mut piece.words, Words::Copied(copy)) {
            Words::Chunk(chunk) => Some(chunk),
            Words::Copied(_) => None,
        }
    }

    /// Decodes into `batch` until the batch ends, the words do, or an event's position is beyond `turn`.
    pub fn fill<C: Code>(
        &mut self,
        session: &SessionFile,
        decoder: &mut Decoder<C>,
        turn: u64,
        batch: &mut Buffer,
    ) -> Stop {
        self.time_ns = self.time_ns(session);
        batch.time_ns = self.time_ns;
        loop {
            if let Some(stop) = self.deliver(session, decoder, turn, batch) {
                return stop;
            }
            let Some(piece) = self.pieces.front() else { return Stop::Dry };
            let words = piece.words(session);
            let runs = &mut decoder.processes[self.process].runs;
            let stop = if decoder.values {
                runs.decode::<true>(words, &mut self.at, &mut batch.events, &mut self.carry)
            } else {
                runs.decode::<false>(words, &mut self.at, &mut batch.events, &mut self.carry)
            };
            let next = match stop {
                RunStop::Full => return Stop::Batch,
                RunStop::End => self.next_piece(decoder),
                RunStop::Stored => {
                    if let Some(Event { op, site, instructions }) = batch.events.pop() {
                        self.todo = Expansion::one(op, site, instructions);
                    }
                    true
                }
                RunStop::Unknown(address) => {
                    decoder.learn(self.process, address) || self.give_up(session, decoder)
                }
                RunStop::Cut => self.give_up(session, decoder),
                RunStop::Record => match length(words, self.at) {
                    None => self.give_up(session, decoder),
                    Some(length) => {
                        let record = &words[self.at..self.at + length];
                        let expansion = decoder.expand(self.process, record, self.carry);
                        self.begin(expansion, length) || self.give_up(session, decoder)
                    }
                },
            };
            if !next {
                return Stop::Dry;
            }
        }
    }

    /// Takes up a record of `length` words; false if it made no sense.
    fn begin(&mut self, expansion: Option<Expansion>, length: usize) -> bool {
        let Some(expansion) = expansion else { return false };
        if expansion.peek().is_some() {
            self.carry = 0;
        }
        self.todo = expansion;
        self.at += length;
        true
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
            if let Some((_, len)) = event.op.stored().filter(|_| decoder.values) {
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
            let Some(piece) = self.pieces.front() else { return self.no_value_yet() };
            let words = piece.words(session);
            let header = words.get(self.at).map_or(0, |word| word.load(Ordering::Relaxed));
            if header == 0 {
                if !self.next_piece(decoder) {
                    return self.no_value_yet();
                }
                continue;
            }
            if descriptor_of(header).is_some() || Header::new(header).kind != kind::VALUE {
                return Value::Missing;
            }
            let Some(length) = length(words, self.at) else { return Value::Missing };
            let count = words[self.at + 1].load(Ordering::Relaxed) as usize;
            self.told.extend(bytes(&words[self.at + 2..self.at + length], count));
            self.at += length;
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
        if let Words::Chunk(chunk) = piece.words {
            decoder.released.push(chunk);
        }
        self.next_number = piece.number + 1;
        self.time_ns = self.time_ns.max(piece.end_ns);
        self.at = 0;
        true
    }

    /// Counts the rest of the first piece as lost and goes on behind it.
    fn give_up<C: Code>(&mut self, session: &SessionFile, decoder: &mut Decoder<C>) -> bool {
        let Some(piece) = self.pieces.front() else { return false };
        let words = piece.words(session);
        let lost = words.iter().skip(self.at).filter(|word| word.load(Ordering::Relaxed) != 0).count();
        let header = words.get(self.at).map(|word| word.load(Ordering::Relaxed));
        decoder.undecoded.0 += lost as u64;
        decoder.undecoded.1 = decoder.undecoded.1.or(header);
        self.at = usize::MAX;
        self.next_piece(decoder)
    }
}
