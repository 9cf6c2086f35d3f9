//! One thread's records, in chunks, into its events.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use event::{
    AnySink, BlockShape, EVENT, Event, Op, RawBlocks, RawWords, RunSink, Sink, SinkError, SiteId, ThreadId,
};

use super::blocks::BATCH;
use super::calls::Calls;
use super::code::Code;
use super::contexts::CallStack;
use super::decoder::Decoder;
use super::piece::{Piece, Rest};
use super::records::{Expansion, Header, RECORD_INSTRUCTIONS, bytes, common, length};
use crate::session::SessionFile;
use abi::{descriptor_of, kind, kind_of};

/// What is delivered next.
#[derive(Debug, Default)]
pub struct Buffer {
    /// Events that the sink has already.
    pub raw_events: usize,
    /// If it is a batch of blocks: how many of `words` are not its. The events are those between the blocks
    /// then.
    pub blocks: Option<usize>,
    /// Its words behind them, in memory that the sink lent ([`Sink::lend`]).
    pub words: Vec<u64>,
    /// Events that the words tell, those between them included.
    pub count: usize,
    /// See [`event::BlockBatch::carry`].
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
        (self.raw_events, self.blocks, self.count, self.carry) = (0, None, 0, 0);
        self.events.clear();
        self.values.clear();
    }

    fn is_empty(&self) -> bool {
        self.raw_events == 0 && self.blocks.is_none() && self.events.is_empty()
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

/// Words of blocks and contexts that are delivered together, about.
const WORDS: usize = 4096;

enum Value {
    Added,
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
    calls: Calls,
    /// The same, where all functions report.
    stack: CallStack,
    /// Whether it has changed since the sink learned of it, and what the sink knows.
    called: bool,
    context: SiteId,
    carry: u32,
    /// Bytes of the store that is being read.
    stored: Vec<u8>,
    /// Memory for a record.
    record: Vec<u64>,
    /// No more pieces come.
    ended: bool,
    time_ns: u64,
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
            calls: Calls::default(),
            stack: CallStack::default(),
            called: false,
            context: SiteId::UNKNOWN,
            carry: 0,
            stored: Vec::new(),
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

    /// Time of the next event, as well as it is known.
    #[must_use]
    #[allow(clippy::cast_precision_loss, clippy::cast_sign_loss)]
    pub fn time_ns(&self) -> u64 {
        let Some(piece) = self.pieces.front() else { return self.time_ns };
        let words = piece.ready.unwrap_or(piece.size).max(1);
        let spent = piece.end_ns.saturating_sub(piece.start_ns);
        // Asked twice for each batch, and processors differ much in how long they divide whole numbers.
        let within = spent as f64 * (self.at.min(words) as f64 / words as f64);
        self.time_ns.max(piece.start_ns + within as u64)
    }

    /// Looks through an unfinished first piece for records that are complete; whether there are new ones.
    ///
    /// A writer completes a block while it goes on, but whatever precedes another kind of record is complete
    /// when that record's header is there.
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
            let Some(block) = decoder.block_words(self.process, header) else { break };
            at += block;
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

    /// Reads into `batch` until the batch ends, the words do, or an event's position is beyond `turn`. A sink
    /// that takes blocks as they are gets those at once.
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
            if is_call(head) {
                self.take_record(session, decoder);
                continue;
            }
            if let Some(event) = self.changed_context(decoder) {
                batch.events.push(event);
            }
            if !is_block(head) {
                match self.take_common(session, decoder, turn, batch) {
                    Some(None) => {}
                    Some(Some(stop)) => return Ok(stop),
                    None => self.take_record(session, decoder),
                }
            } else if decoder.block_words(self.process, head).is_none() {
                self.give_up(session, decoder);
            } else if decoder.values {
                self.unfold_block(session, decoder, batch);
            } else if !batch.is_empty() {
                return Ok(Stop::Batch);
            } else if decoder.raw {
                self.give_blocks(session, decoder, sink, batch)?;
            } else {
                AnySink(sink).lend(&mut batch.words);
                self.hand_on(session, decoder, turn, batch);
                return Ok(Stop::Batch);
            }
            if batch.events.len() >= BATCH {
                return Ok(Stop::Batch);
            }
        }
    }

    /// The event that says where the functions were called whose records come next, if that has changed.
    fn changed_context<C: Code>(&mut self, decoder: &mut Decoder<C>) -> Option<Event> {
        if !std::mem::take(&mut self.called) {
            return None;
        }
        let site = decoder.context(&self.stack);
        if std::mem::replace(&mut self.context, site) == site {
            return None;
        }
        Some(Event { op: Op::Context, site, instructions: std::mem::take(&mut self.carry) })
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
            if self.at == 0 && self.pieces.front().is_some_and(|piece| piece.number > self.next_number) {
                self.stack.forget();
                self.called = true;
            }
            if let Some(head) = self.rest(session).first().filter(|head| *head != 0) {
                return Some(head);
            }
            if !self.next_piece(decoder) {
                return None;
            }
        }
    }

    /// `words`, raw, of this thread.
    fn raw<'a, C: Code>(
        &self,
        decoder: &'a mut Decoder<C>,
        words: &'a dyn RawWords,
        time_ns: u64,
    ) -> RawBlocks<'a> {
        let thread = self.thread.unwrap_or(ThreadId(0));
        let heads = &mut decoder.processes[self.process].heads;
        RawBlocks { thread, time_ns, shapes: &decoder.shapes, heads, words, carry: self.carry }
    }

    /// Gives the blocks that come next to `sink`.
    fn give_blocks<C: Code>(
        &mut self,
        session: &SessionFile,
        decoder: &mut Decoder<C>,
        sink: &mut dyn Sink,
        batch: &mut Buffer,
    ) -> Result<(), SinkError> {
        decoder.vocabulary.define(sink)?;
        let wire = self.wire;
        self.thread.get_or_insert_with(|| decoder.thread(wire));
        let taken = AnySink(sink).push_raw(self.raw(decoder, &self.rest(session), batch.time_ns))?;
        self.at += taken.words;
        self.carry = taken.carry;
        batch.raw_events += taken.events;
        Ok(())
    }

    /// Gives the blocks that come next to `batch`, and with them the record behind them, if it stands for one
    /// event.
    fn hand_on<C: Code>(
        &mut self,
        session: &SessionFile,
        decoder: &mut Decoder<C>,
        turn: u64,
        batch: &mut Buffer,
    ) {
        (batch.blocks, batch.carry) = (Some(batch.words.len()), self.carry);
        batch.count = 0;
        let start = batch.words.len();
        loop {
            let taken = self.raw(decoder, &self.rest(session), batch.time_ns).translate(&mut batch.words);
            self.at += taken.words;
            self.carry = taken.carry;
            batch.count += taken.events;
            let mut next = self.rest(session).first();
            while next.is_some_and(is_call) {
                self.take_record(session, decoder);
                next = self.rest(session).first();
            }
            let Some(head) = next.filter(|head| *head != 0) else { return };
            let block = is_block(head);
            if let Some(event) = self.changed_context(decoder) {
                batch.events.push(event);
                batch.words.push(EVENT);
                batch.count += 1;
            }
            if !block {
                break;
            }
            let more = batch.words.len() - start < WORDS && taken.words > 0;
            if !more || decoder.block_words(self.process, head).is_none() {
                return;
            }
        }
        let contexts = batch.events.len();
        if self.take_common(session, decoder, turn, batch).is_none() {
            self.take_record(session, decoder);
            let single = self.todo.single().filter(|event| event.op.seq().is_none_or(|seq| seq <= turn));
            if let Some(event) = single {
                batch.events.push(event);
                self.todo.advance();
            }
        }
        let behind = batch.events.len() - contexts;
        batch.words.extend((0..behind).map(|_| EVENT));
        batch.count += behind;
    }

    /// Adds the record that comes next to the batch, if it is a [`common`] one without values: why the batch
    /// ends then, if it does.
    #[inline]
    fn take_common<C: Code>(
        &mut self,
        session: &SessionFile,
        decoder: &mut Decoder<C>,
        turn: u64,
        batch: &mut Buffer,
    ) -> Option<Option<Stop>> {
        if decoder.values {
            return None;
        }
        let [head, payload @ ..] = self.rest(session).start()?;
        let header = Header::new(head);
        let (op, words) = common(header, payload)?;
        let position = op.seq();
        if let Some(seq) = position.filter(|&seq| seq > turn) {
            return Some(Some(Stop::Blocked(seq)));
        }
        let site = decoder.site(self.process, header.pc);
        let instructions = std::mem::take(&mut self.carry) + RECORD_INSTRUCTIONS;
        batch.events.push(Event { op, site, instructions });
        self.at += words;
        Some(position.map(|_| Stop::Batch))
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
                match Header::new(record[0]).kind {
                    kind::CALL => {
                        let Header { pc, argument, .. } = Header::new(record[0]);
                        self.calls.begin(if argument == 0 { pc } else { 0 }, record[1], record[2]);
                    }
                    kind::RETURN => self.calls.end(),
                    kind::SPAWN => {
                        if let Some(thread) = self.thread {
                            decoder.note_frames(thread, &self.stack);
                        }
                    }
                    _ => self.called |= decoder.note_call(self.process, &record, &mut self.stack),
                }
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

    /// Unfolds the next block event by event, all but a store at its end, whose bytes come next.
    fn unfold_block<C: Code>(&mut self, session: &SessionFile, decoder: &mut Decoder<C>, batch: &mut Buffer) {
        let head = self.rest(session).first().unwrap_or_default();
        let mut block = std::mem::take(&mut self.record);
        block.clear();
        block.resize(decoder.block_words(self.process, head).unwrap_or(1), 0);
        let words = self.rest(session).copy(0, &mut block);
        batch.words.clear();
        self.raw(decoder, &&block[..words], 0).translate(&mut batch.words);
        self.record = block;
        let shape: &BlockShape = &decoder.shapes[batch.words[0] as u32 as usize];
        let before = batch.events.len();
        shape.accesses(&batch.words[1..], &mut self.carry, |access, addr, len, instructions| {
            batch.events.push(Event { op: access.op(addr, len), site: access.site, instructions });
        });
        for event in &mut batch.events[before..] {
            event.site = decoder.called(self.process, event.site, &self.calls);
        }
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
                    Value::Added => batch.values.append(&mut self.stored),
                    Value::Later => return Some(Stop::Dry),
                    Value::Missing => {
                        self.stored.clear();
                        decoder.stores_without_value += 1;
                        self.carry += event.instructions;
                        self.todo.advance();
                        continue;
                    }
                }
            }
            self.todo.advance();
            let site = decoder.called(self.process, event.site, &self.calls);
            batch.events.push(Event { site, ..event });
            if position.is_some() || matches!(event.op, Op::Fence(_)) {
                return Some(Stop::Batch);
            }
        }
        None
    }

    /// Gathers the bytes of a store of `len` bytes from the records that follow it.
    fn value<C: Code>(&mut self, session: &SessionFile, decoder: &mut Decoder<C>, len: usize) -> Value {
        while self.stored.len() < len {
            let Some(head) = self.next_head(session, decoder) else { return self.no_value_yet() };
            if is_block(head) || Header::new(head).kind != kind::VALUE {
                return Value::Missing;
            }
            let mut record = std::mem::take(&mut self.record);
            let there = self.rest(session).record(&mut record);
            if there.is_some() {
                self.stored.extend(bytes(&record[2..], record[1] as usize));
                self.at += record.len();
            }
            self.record = record;
            if there.is_none() {
                return Value::Missing;
            }
        }
        self.stored.truncate(len);
        Value::Added
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

/// Whether a record with this head says that a function begins or ends.
#[inline]
fn is_call(head: u64) -> bool {
    descriptor_of(head).is_none() && matches!(kind_of(head), kind::ENTER | kind::LEAVE)
}

/// Whether a record with this head is a block or recorded as one.
#[inline]
fn is_block(head: u64) -> bool {
    descriptor_of(head).is_some() || kind_of(head) == kind::ACCESS
}
