//! All threads' batches in one order.
//!
//! A batch that ends in a synchronisation may go when its position is the smallest of all that are still to
//! come, in any thread; any other batch may go at once. Among those that may, the earliest goes, and
//! of equally early ones that of the smallest thread number. So a file has one order, it respects the
//! global order even where positions are missing because a process died or a burst was left out,
//! and it is near to that of real time.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::io::{Read, Seek};

use event::{Batch, ThreadId};

use super::error::TraceError;
use super::index::Entry;
use super::reader::{Blocks, Reader};
use super::thread::Stream;

/// The batches of all threads; made by [`Reader::batches`].
pub struct Batches<'r, R> {
    file: &'r mut Blocks<R>,
    lanes: Vec<Lane<'r>>,
    /// Time and lane of those that may go, or whose next block must be opened to know.
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    /// The next position in the global order of each lane that has one.
    seqs: BTreeSet<(u64, usize)>,
    /// The lane whose batch is lent out.
    lent: Option<usize>,
}

/// One thread on its way through the merge.
struct Lane<'r> {
    thread: ThreadId,
    blocks: &'r [Entry],
    stream: Stream,
    /// The entry in `seqs`.
    seq: Option<u64>,
    state: LaneState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LaneState {
    /// In `ready`; the batch was not read.
    Unread,
    /// In `ready`, or lent out.
    Ready,
    /// The batch waits for its position.
    Waiting,
}

impl<'r, R: Read + Seek> Batches<'r, R> {
    pub(super) fn new(reader: &'r mut Reader<R>) -> Self {
        let values_kept = reader.keeps_values();
        let lanes = reader.index.threads.iter().map(|(thread, blocks)| Lane {
            thread: ThreadId(*thread),
            blocks,
            stream: Stream::new(values_kept),
            seq: None,
            state: LaneState::Unread,
        });
        let mut batches = Batches {
            lanes: lanes.collect(),
            file: &mut reader.blocks,
            ready: BinaryHeap::new(),
            seqs: BTreeSet::new(),
            lent: None,
        };
        batches.enter_all();
        batches
    }

    /// Puts every lane at the place where its stream stands.
    fn enter_all(&mut self) {
        self.ready.clear();
        self.seqs.clear();
        self.lent = None;
        for lane in 0..self.lanes.len() {
            self.lanes[lane].seq = None;
            self.enter_unread(lane);
        }
    }

    /// The lane's next batch is to be read when its time has come.
    fn enter_unread(&mut self, lane: usize) {
        let Lane { stream, blocks, .. } = &self.lanes[lane];
        let time = stream.next_time(blocks);
        // A lane that has nothing left must not hold up the others.
        let seq = time.and(stream.next_seq(blocks));
        self.set_seq(lane, seq);
        if let Some(time) = time {
            self.lanes[lane].state = LaneState::Unread;
            self.ready.push(Reverse((time, lane)));
        }
    }

    fn set_seq(&mut self, lane: usize, seq: Option<u64>) {
        let old = std::mem::replace(&mut self.lanes[lane].seq, seq);
        if old == seq {
            return;
        }
        if let Some(old) = old {
            self.seqs.remove(&(old, lane));
        }
        if let Some(seq) = seq {
            self.seqs.insert((seq, lane));
        }
    }

    /// Reads the lane's next batch and sorts it in.
    fn read(&mut self, lane: usize) -> Result<(), TraceError> {
        let Lane { stream, blocks, .. } = &mut self.lanes[lane];
        if !stream.read(self.file, blocks)? {
            self.set_seq(lane, None);
            return Ok(());
        }
        let own = stream.events.last().and_then(|event| event.op.seq());
        let (time, next) = (stream.time_ns, stream.next_seq(blocks));
        self.set_seq(lane, own.or(next));
        if own.is_some() {
            self.lanes[lane].state = LaneState::Waiting;
        } else {
            self.lanes[lane].state = LaneState::Ready;
            self.ready.push(Reverse((time, lane)));
        }
        Ok(())
    }

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// When the trace is corrupt or can't be read.
    #[allow(clippy::should_implement_trait)] // lends its memory, which an iterator can't
    pub fn next(&mut self) -> Result<Option<Batch<'_>>, TraceError> {
        if self.lanes.len() == 1 {
            // One thread's order is that of its file.
            let Lane { thread, blocks, stream, .. } = &mut self.lanes[0];
            let more = stream.read(self.file, blocks)?;
            let Stream { events, values, time_ns, .. } = &*stream;
            return Ok(more.then_some(Batch { thread: *thread, time_ns: *time_ns, events, values }));
        }
        if let Some(lane) = self.lent.take() {
            // A block is opened only when its time has come: not all threads live at once.
            if self.lanes[lane].stream.at_block() { self.enter_unread(lane) } else { self.read(lane)? }
        }
        loop {
            if let Some(&(_, lane)) = self.seqs.first()
                && self.lanes[lane].state == LaneState::Waiting
            {
                self.lanes[lane].state = LaneState::Ready;
                self.ready.push(Reverse((self.lanes[lane].stream.time_ns, lane)));
            }
            let Some(Reverse((_, lane))) = self.ready.pop() else { return Ok(None) };
            if self.lanes[lane].state == LaneState::Unread {
                self.read(lane)?;
                continue;
            }
            self.lent = Some(lane);
            let Lane { thread, stream: Stream { events, values, time_ns, .. }, .. } = &self.lanes[lane];
            return Ok(Some(Batch { thread: *thread, time_ns: *time_ns, events, values }));
        }
    }

    /// Goes to the place where every thread's next batch is its first that did not start before `time_ns`.
    ///
    /// # Errors
    /// When the trace is corrupt or can't be read.
    pub fn seek_time(&mut self, time_ns: u64) -> Result<(), TraceError> {
        for Lane { stream, blocks, .. } in &mut self.lanes {
            stream.seek_time(self.file, blocks, time_ns)?;
        }
        self.enter_all();
        Ok(())
    }
}
