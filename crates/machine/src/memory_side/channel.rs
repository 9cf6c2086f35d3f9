//! The controller's two queues for one DIMM.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::{Histogram, MemoryTiming, Stall};
use crate::config::ControllerTiming;
use crate::device::Device;
use crate::{LINE_BYTES, Time, Traffic};

/// A line in the write queue.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    line: u64,
    thread: u32,
    /// When the device takes it.
    taken: Time,
}

/// One DIMM and the queues in front of it.
#[derive(Debug)]
pub(super) struct Channel {
    timing: ControllerTiming,
    /// Lines that one thread may have in the write queue.
    credit: usize,
    device: Box<dyn Device>,
    /// When the answers come that the entries of the read queue wait for, earliest first.
    reads: BinaryHeap<Reverse<Time>>,
    /// In the order in which the device takes them.
    writes: VecDeque<Waiting>,
    read_queue: Use,
    write_queue: Use,
    read_queue_full: Stall,
    write_queue_full: Stall,
    credit_used_up: Stall,
    forwarded_reads: u64,
    read_latency: Histogram,
    pub(super) write_latency: Histogram,
}

/// How much a queue was used.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Time that entries were taken, all together.
    time: Time,
    max: usize,
}

impl Channel {
    pub(super) fn new(timing: &ControllerTiming, device: Box<dyn Device>) -> Self {
        Channel {
            timing: timing.clone(),
            credit: timing.thread_write_credit.map_or(usize::MAX, |credit| (credit.0 / LINE_BYTES) as usize),
            device,
            reads: BinaryHeap::new(),
            writes: VecDeque::new(),
            read_queue: Use::default(),
            write_queue: Use::default(),
            read_queue_full: Stall::default(),
            write_queue_full: Stall::default(),
            credit_used_up: Stall::default(),
            forwarded_reads: 0,
            read_latency: Histogram::default(),
            write_latency: Histogram::default(),
        }
    }

    /// How long a write takes from the caches to here if nothing is in its way.
    pub(super) fn write_accept(&self) -> Time {
        self.timing.write_accept
    }

    /// A miss that left the last-level cache at `at`. Returns when the line is there.
    pub(super) fn read(&mut self, at: Time, line: u64) -> Time {
        let arrived = at + self.timing.read_request;
        let data = if self.writes.iter().any(|waiting| waiting.line == line && waiting.taken > arrived) {
            self.forwarded_reads += 1;
            arrived
        } else {
            let entered = self.read_entry(arrived);
            self.read_queue_full.waited(arrived, entered);
            let data = self.device.read(entered, line);
            self.reads.push(Reverse(data));
            self.read_queue.taken(data - entered, self.reads.len());
            data
        };
        let done = data + self.timing.read_return;
        self.read_latency.record(done - at);
        done
    }

    /// A core that misses the right to write asks the device's directory, if it has one. Returns when it has the answer.
    pub(super) fn own(&mut self, at: Time, line: u64) -> Option<Time> {
        let answered = self.device.own(at + self.timing.read_request, line)?;
        Some(answered + self.timing.read_return)
    }

    /// When there is an entry of the read queue for a request of time `arrived`.
    fn read_entry(&mut self, arrived: Time) -> Time {
        while self.reads.peek().is_some_and(|Reverse(data)| *data <= arrived) {
            self.reads.pop();
        }
        if self.reads.len() < self.timing.read_queue as usize {
            return arrived;
        }
        self.reads.pop().map_or(arrived, |Reverse(data)| data)
    }

    /// A line whose turn in its thread comes at `arrived`. Returns when it is in the write queue.
    pub(super) fn write(&mut self, arrived: Time, line: u64, thread: u32, whole: bool) -> Time {
        while self.writes.front().is_some_and(|waiting| waiting.taken <= arrived) {
            self.writes.pop_front();
        }
        let own = self.writes.iter().rev().filter(|waiting| waiting.thread == thread);
        let credit = own.map(|waiting| waiting.taken).nth(self.credit - 1).unwrap_or(Time::ZERO).max(arrived);
        self.credit_used_up.waited(arrived, credit);
        let full = self.writes.iter().rev().nth(self.timing.write_queue as usize - 1);
        let accepted = full.map_or(Time::ZERO, |waiting| waiting.taken).max(credit);
        self.write_queue_full.waited(credit, accepted);

        let turn = self.writes.back().map_or(accepted, |last| last.taken.max(accepted));
        let taken = self.device.write(turn, line, whole);
        self.writes.push_back(Waiting { line, thread, taken });
        let held = self.writes.iter().rev().take_while(|waiting| waiting.taken > accepted).count();
        self.write_queue.taken(taken - accepted, held);
        accepted
    }

    pub(super) fn settle(&mut self, at: Time) {
        self.device.settle(at);
    }

    pub(super) fn drain(&mut self, at: Time) -> Time {
        let last = self.writes.back().map_or(at, |last| last.taken.max(at));
        self.writes.clear();
        self.device.drain(last)
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.device.traffic()
    }

    /// Adds what was measured here until `horizon`.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn add_to(&self, figures: &mut MemoryTiming, horizon: Time) {
        let traffic = self.device.traffic();
        figures.total.add(&traffic);
        figures.per_dimm.push(traffic);
        for (occupancy, used) in
            [(&mut figures.read_queue, &self.read_queue), (&mut figures.write_queue, &self.write_queue)]
        {
            occupancy.mean += if horizon == Time::ZERO { 0.0 } else { used.time.ns() / horizon.ns() };
            occupancy.max = occupancy.max.max(used.max as u32);
        }
        figures.read_queue_full.add(&self.read_queue_full);
        figures.write_queue_full.add(&self.write_queue_full);
        figures.credit_used_up.add(&self.credit_used_up);
        figures.forwarded_reads += self.forwarded_reads;
        figures.read_latency.add(&self.read_latency);
        figures.write_latency.add(&self.write_latency);
        let queued = self.writes.iter().filter(|waiting| waiting.taken > horizon).count();
        figures.adr.queued_bytes += queued as u64 * LINE_BYTES;
        figures.adr.buffered_bytes += self.device.held_bytes();
    }
}

impl Use {
    /// An entry was taken for `time`, one of `held` at once.
    fn taken(&mut self, time: Time, held: usize) {
        self.time += time;
        self.max = self.max.max(held);
    }
}
