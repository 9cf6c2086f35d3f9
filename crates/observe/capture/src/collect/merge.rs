//! Many threads' streams into one, in the global order of synchronisation.
//!
//! A thread's events are delivered batch by batch. A batch that ends with a synchronisation is
//! delivered when it is that position's turn; a thread whose turn it is not waits, and so do its chunks.
//! Among threads that need not wait, the one goes first whose next event is the oldest.
//!
//! The thread whose turn it is may be one that still writes into its chunk, and may go on so for hours, so
//! the part of such chunks that is known to be complete is read too ([`Merger::look_ahead`]). If writers
//! starve because all chunks wait for a turn, chunks are copied into private memory ([`Merger::relieve`]);
//! each gives one writer room, among them sooner or later the one whose turn it is. A position whose owner
//! died after it took it never comes; [`Merger::skip`] goes on with the next one that is there.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::atomic::Ordering;

use event::{AnySink, Batch, BlockBatch, RunSink, Sink, SinkError, ThreadId};

use super::code::Code;
use super::decoder::Decoder;
use super::piece::Piece;
use super::records::at_position;
use super::stream::{Buffer, Stop, Stream};
use crate::session::SessionFile;
use abi::{CHUNK_FILLING, CHUNK_FREE, CHUNK_FULL};

/// Batches delivered before new chunks are looked for.
const BATCHES_PER_ROUND: usize = 256;

/// A chunk that belongs to a stream's pieces.
#[derive(Clone, Copy, Debug)]
struct Held {
    stream: usize,
    complete: bool,
}

/// What a stream is up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// All that there is of it was delivered.
    Idle,
    /// In [`Merger::ready`].
    Queued,
    /// In [`Merger::waiting`].
    Waiting,
}

/// The streams of a session.
pub struct Merger<C> {
    /// What the streams share.
    pub decoder: Decoder<C>,
    /// One per thread.
    pub streams: Vec<Stream>,
    by_wire: HashMap<u32, usize>,
    held: Vec<Option<Held>>,
    /// Streams that may have something to deliver, oldest first.
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    states: Vec<State>,
    /// Streams by the position they wait for.
    waiting: BTreeMap<u64, usize>,
    /// Position whose turn it is.
    turn: u64,
    /// Position given to the last synchronisation delivered.
    given: u64,
    /// Positions that nobody came up with.
    pub skipped: u64,
    buffer: Buffer,
}

impl<C: Code> Merger<C> {
    /// A merger for a session of that many chunks.
    #[must_use]
    pub fn new(decoder: Decoder<C>, chunks: usize) -> Self {
        Merger {
            decoder,
            streams: Vec::new(),
            by_wire: HashMap::new(),
            held: vec![None; chunks],
            ready: BinaryHeap::new(),
            states: Vec::new(),
            waiting: BTreeMap::new(),
            turn: 1,
            given: 0,
            skipped: 0,
            buffer: Buffer::default(),
        }
    }

    /// Whether some thread waits for another's turn.
    #[must_use]
    pub fn stalled(&self) -> bool {
        !self.waiting.is_empty() && self.ready.is_empty()
    }

    /// Whether threads have half of the chunks that writers may take though there is nothing to deliver, or
    /// are so many that they could: each that goes on after it slept takes a chunk, and those of all that
    /// sleep are handed over when one is missing.
    #[must_use]
    pub fn is_crowded(&self, session: &SessionFile) -> bool {
        let open = session.open();
        let states = (0..open).map(|at| session.chunk(at).state.load(Ordering::Acquire));
        let taken = states.filter(|&state| state != CHUNK_FREE).count();
        2 * taken >= open || 2 * self.streams.len() > open
    }

    /// Takes in all full chunks.
    pub fn gather(&mut self, session: &SessionFile) {
        self.gather_once(session);
        // A chunk may have become full behind the look at it and before the look at its successor. A second
        // look sees it; what is missing then was left out by its writer.
        if !self.streams.iter().all(Stream::contiguous) {
            self.gather_once(session);
        }
    }

    fn gather_once(&mut self, session: &SessionFile) {
        for at in 0..session.open() {
            // Most of them are known to be full already.
            let known = self.held[at].is_some_and(|held| held.complete);
            if !known && session.chunk(at).state.load(Ordering::Acquire) == CHUNK_FULL {
                self.complete(session, at, session.chunk(at).end_ns.load(Ordering::Relaxed));
            }
        }
    }

    /// Takes in the chunks that process `pid` left behind when it died.
    pub fn salvage(&mut self, session: &SessionFile, pid: u32) {
        self.gather(session);
        for at in 0..session.open() {
            let chunk = session.chunk(at);
            let filling = chunk.state.load(Ordering::Acquire) == CHUNK_FILLING;
            if !filling || chunk.pid.load(Ordering::Relaxed) != pid {
                continue;
            }
            if session.area(at)[0].load(Ordering::Acquire) == 0 {
                // Nothing was written, perhaps not even the rest of the chunk's head.
                session.release(at);
            } else {
                self.complete(session, at, session.now_ns());
            }
        }
    }

    /// The writer of chunk `at` is done with it.
    fn complete(&mut self, session: &SessionFile, at: usize, end_ns: u64) {
        match self.held[at] {
            Some(Held { complete: true, .. }) => return,
            Some(Held { stream, .. }) => {
                let pieces = &mut self.streams[stream].pieces;
                if let Some(piece) = pieces.iter_mut().find(|piece| piece.chunk == Some(at)) {
                    piece.ready = None;
                    piece.end_ns = end_ns;
                }
            }
            None => self.hold(session, at, end_ns, None),
        }
        if let Some(held) = &mut self.held[at] {
            held.complete = true;
            let stream = held.stream;
            self.enqueue(stream);
        }
    }

    fn hold(&mut self, session: &SessionFile, at: usize, end_ns: u64, ready: Option<usize>) {
        let chunk = session.chunk(at);
        let stream = self.stream(chunk.thread.load(Ordering::Relaxed), chunk.pid.load(Ordering::Relaxed));
        self.held[at] = Some(Held { stream, complete: ready.is_none() });
        let number = chunk.number.load(Ordering::Relaxed);
        let start_ns = chunk.start_ns.load(Ordering::Relaxed);
        let size = session.area(at).len();
        self.streams[stream].insert(Piece::new(at, size, number, [start_ns, end_ns], ready));
    }

    fn stream(&mut self, wire: u32, pid: u32) -> usize {
        if let Some(&stream) = self.by_wire.get(&wire) {
            return stream;
        }
        let process = self.decoder.process(pid);
        self.streams.push(Stream::new(wire, process));
        self.states.push(State::Idle);
        self.by_wire.insert(wire, self.streams.len() - 1);
        self.streams.len() - 1
    }

    fn enqueue(&mut self, stream: usize) {
        if self.states[stream] == State::Idle {
            self.states[stream] = State::Queued;
            self.ready.push(Reverse((self.streams[stream].time_ns(), stream)));
        }
    }

    /// Delivers some of what may be delivered; whether there was anything.
    ///
    /// # Errors
    /// The sink's.
    pub fn deliver(&mut self, session: &SessionFile, sink: &mut dyn Sink) -> Result<bool, SinkError> {
        let mut delivered = false;
        let mut left = BATCHES_PER_ROUND;
        while left > 0 {
            let Some(Reverse((_, stream))) = self.ready.pop() else { break };
            self.states[stream] = State::Idle;
            // Nobody comes between the batches of a thread that has nobody beside it.
            let alone = self.ready.is_empty() && self.waiting.is_empty();
            let most = if alone { left } else { 1 };
            left -= most;
            delivered |= self.deliver_batches(session, sink, stream, most)?;
        }
        Ok(delivered)
    }

    /// Delivers so many batches of a stream, if there are as many.
    fn deliver_batches(
        &mut self,
        session: &SessionFile,
        sink: &mut dyn Sink,
        at: usize,
        most: usize,
    ) -> Result<bool, SinkError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut delivered = false;
        let mut stop = Stop::Batch;
        for _ in 0..most {
            buffer.clear();
            stop = self.streams[at].fill(session, &mut self.decoder, self.turn, sink, &mut buffer)?;
            delivered |= self.hand_over(session, sink, at, &mut buffer)?;
            if stop != Stop::Batch {
                break;
            }
        }
        self.buffer = buffer;
        match stop {
            Stop::Batch => self.enqueue(at),
            Stop::Blocked(seq) => {
                self.waiting.insert(seq, at);
                self.states[at] = State::Waiting;
            }
            Stop::Dry => {}
        }
        self.wake_waiting();
        Ok(delivered)
    }

    /// Gives a batch of a stream to the sink; whether there is anything in it.
    fn hand_over(
        &mut self,
        session: &SessionFile,
        sink: &mut dyn Sink,
        at: usize,
        buffer: &mut Buffer,
    ) -> Result<bool, SinkError> {
        let stream = &mut self.streams[at];
        let events = if buffer.blocks.is_none() { buffer.events.len() } else { buffer.count };
        stream.events += (events + buffer.raw_events) as u64;
        for chunk in self.decoder.released.drain(..) {
            self.held[chunk] = None;
            session.release(chunk);
        }
        if events == 0 && buffer.blocks.is_none() {
            return Ok(buffer.raw_events > 0);
        }
        if let Some(last) = buffer.events.last_mut()
            && let Some(seq) = last.op.seq()
        {
            // Without gaps, whatever was skipped.
            self.given += 1;
            last.op = at_position(last.op, self.given);
            self.turn = self.turn.max(seq + 1);
        }
        // Threads are numbered as they appear to the sink, not as their chunks fill.
        let thread = if events == 0 {
            ThreadId(0)
        } else {
            *stream.thread.get_or_insert_with(|| self.decoder.thread(stream.wire))
        };
        self.decoder.vocabulary.define(sink)?;
        let Buffer { blocks, words, count, carry, events: single, values, time_ns, .. } = buffer;
        let (count, carry, time_ns) = (*count, *carry, *time_ns);
        if let Some(from) = *blocks {
            let shapes = &self.decoder.shapes;
            let batch = BlockBatch { thread, time_ns, shapes, words: &[], events: single, count, carry };
            AnySink(sink).push_lent(words, from, batch)?;
        } else {
            sink.push(Batch { thread, time_ns, events: single, values })?;
        }
        Ok(events > 0)
    }

    fn wake_waiting(&mut self) {
        while let Some(entry) = self.waiting.first_entry().filter(|entry| *entry.key() <= self.turn) {
            let stream = entry.remove();
            self.states[stream] = State::Idle;
            self.enqueue(stream);
        }
    }

    /// Makes what is complete in unfinished chunks available; whether there was anything.
    pub fn look_ahead(&mut self, session: &SessionFile) -> bool {
        let candidates: Vec<usize> = (0..session.open())
            .filter(|&at| session.chunk(at).state.load(Ordering::Acquire) == CHUNK_FILLING)
            // With a first record, the chunk's head is complete too.
            .filter(|&at| session.area(at)[0].load(Ordering::Acquire) != 0)
            .collect();
        // Whatever precedes an unfinished chunk was full when that was found unfinished.
        self.gather(session);
        let mut found = false;
        for at in candidates {
            if self.held[at].is_none() {
                self.hold(session, at, session.now_ns(), Some(0));
            }
            let Some(Held { stream, complete: false }) = self.held[at] else { continue };
            if self.streams[stream].look_ahead(session, &mut self.decoder) {
                found = true;
                self.enqueue(stream);
            }
        }
        found
    }

    /// Gives one chunk back to the writers by copying it; false if there is none.
    pub fn relieve(&mut self, session: &SessionFile) -> bool {
        let chunk = self.streams.iter_mut().find_map(|stream| stream.copy_out(session));
        if let Some(chunk) = chunk {
            self.held[chunk] = None;
            session.release(chunk);
        }
        chunk.is_some()
    }

    /// Gives up on the positions before the first one that is waited for.
    pub fn skip(&mut self) {
        if let Some((&seq, _)) = self.waiting.first_key_value() {
            self.skipped += seq.saturating_sub(self.turn);
            self.turn = seq;
            self.wake_waiting();
        }
    }

    /// All processes are dead and all chunks taken in: delivers what is left, in order.
    ///
    /// # Errors
    /// The sink's.
    pub fn finish(&mut self, session: &SessionFile, sink: &mut dyn Sink) -> Result<(), SinkError> {
        for stream in 0..self.streams.len() {
            self.streams[stream].end();
            self.enqueue(stream);
        }
        loop {
            while !self.ready.is_empty() {
                self.deliver(session, sink)?;
            }
            if self.waiting.is_empty() {
                return Ok(());
            }
            self.skip();
        }
    }
}
