//! The controller's two queues for one DIMM.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use device::{Device, Rng};

use super::crowd::Crowd;
use super::{Histogram, MemoryTiming};
use crate::config::ControllerTiming;
use crate::{LINE_BYTES, Stall, Time, Traffic};

/// As a [`Request`](super::Request)'s thread: a line that the last-level cache evicts. No thread sends it, so it stands in no thread's line and
/// takes nobody's credit.
pub const NO_THREAD: u32 = u32::MAX;

/// A line in the write queue.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    line: u64,
    thread: u32,
    whole: bool,
    accepted: Time,
}

/// A line that the device was offered.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    line: u64,
    thread: u32,
    whole: bool,
    taken: Time,
}

/// One DIMM and the queues in front of it.
#[derive(Debug)]
pub(super) struct Channel {
    timing: ControllerTiming,
    /// Lines that one thread may have in the write queue.
    credit: Option<usize>,
    device: Box<dyn Device>,
    /// When the answers come that the entries of the read queue wait for, earliest first.
    reads: BinaryHeap<Reverse<Time>>,
    /// Who waits for an entry, if not in the order of arrival.
    crowd: Option<Crowd>,
    /// In the order in which the device will take them. Each is offered to the device when its turn has come, or earlier if somebody
    /// waits for that; so reads that come in between find the device as it is then.
    writes: VecDeque<Waiting>,
    /// Offered, and not yet taken when last asked; in order.
    leaving: VecDeque<Leaving>,
    /// When the device takes the last of those that were offered.
    taken: Time,
    /// When the last line so far was accepted.
    accepted: Time,
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
    pub(super) fn new(timing: &ControllerTiming, device: Box<dyn Device>, seed: u64) -> Self {
        Channel {
            timing: timing.clone(),
            credit: timing.thread_write_credit.map(|credit| (credit.0 / LINE_BYTES) as usize),
            device,
            reads: BinaryHeap::new(),
            crowd: (timing.read_crowd > 1).then(|| Crowd::new(timing.read_crowd, Rng::new(seed))),
            writes: VecDeque::new(),
            taken: Time::ZERO,
            accepted: Time::ZERO,
            leaving: VecDeque::new(),
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
        self.hand_over(arrived);
        // Half a line is no answer: the rest is the device's.
        let leaving = self.leaving.iter().any(|leaving| leaving.line == line && leaving.whole);
        let data = if leaving || self.writes.iter().any(|waiting| waiting.line == line && waiting.whole) {
            self.forwarded_reads += 1;
            arrived
        } else {
            let entered = self.read_entry(arrived);
            self.read_queue_full.waited(arrived, entered);
            let data = self.read_device(arrived, entered, line);
            self.reads.push(Reverse(data));
            self.read_queue.taken(data - entered, self.reads.len());
            data
        };
        let done = data + self.timing.read_return;
        self.read_latency.record(done - at);
        done
    }

    /// Asks the device for `line`, or for that of another that waits, at `entered`. Returns when its data are there.
    fn read_device(&mut self, arrived: Time, entered: Time, line: u64) -> Time {
        let Some(crowd) = &mut self.crowd else { return self.device.read(entered, line) };
        let line = if crowd.comes(arrived, entered) { crowd.swap(line) } else { Some(line) };
        while let Some(line) = crowd.surplus() {
            self.device.read(entered, line);
        }
        let Some(line) = line else { return entered + crowd.held() };
        let data = self.device.read(entered, line);
        crowd.took(data - entered);
        data
    }

    /// Asks the device for all lines that are still to be asked for.
    fn read_crowd(&mut self, at: Time) {
        for line in self.crowd.iter_mut().flat_map(Crowd::leave) {
            self.device.read(at, line);
        }
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

    /// Offers the device the lines whose turn comes by `now`.
    fn hand_over(&mut self, now: Time) {
        while self.writes.front().is_some_and(|first| first.accepted.max(self.taken) <= now) {
            self.hand_over_first();
        }
        while self.leaving.front().is_some_and(|first| first.taken <= now) {
            self.leaving.pop_front();
        }
    }

    /// Offers the device the first line, if there is one.
    fn hand_over_first(&mut self) -> bool {
        let Some(Waiting { line, thread, whole, accepted }) = self.writes.pop_front() else { return false };
        self.taken = self.device.write(accepted.max(self.taken), line, whole);
        self.leaving.push_back(Leaving { line, thread, whole, taken: self.taken });
        self.write_queue.time += self.taken - accepted;
        true
    }

    /// The earliest time, from `at` on, at which fewer than `limit` entries (of `thread`, or of all) are in the write queue.
    fn below(&mut self, limit: usize, thread: Option<u32>, mut at: Time) -> Time {
        let counts = |entry: u32| thread.is_none_or(|thread| thread == entry);
        loop {
            let waiting = self.writes.iter().filter(|waiting| counts(waiting.thread)).count();
            let leaving = self.leaving.iter().filter(|leaving| leaving.taken > at);
            if waiting + leaving.clone().filter(|leaving| counts(leaving.thread)).count() < limit {
                return at;
            }
            match leaving.map(|leaving| leaving.taken).next() {
                Some(taken) => at = taken,
                None => {
                    self.hand_over_first();
                }
            }
        }
    }

    /// A line whose turn in its thread comes at `arrived`. Returns when it is in the write queue.
    pub(super) fn write(&mut self, arrived: Time, line: u64, thread: u32, whole: bool) -> Time {
        self.hand_over(arrived);
        let with_credit = match self.credit.filter(|_| thread != NO_THREAD) {
            Some(credit) => self.below(credit, Some(thread), arrived),
            None => arrived,
        };
        self.credit_used_up.waited(arrived, with_credit);
        let accepted = self.below(self.timing.write_queue as usize, None, with_credit);
        self.write_queue_full.waited(with_credit, accepted);
        let leaving = self.leaving.iter().filter(|leaving| leaving.taken > accepted).count();
        self.accepted = self.accepted.max(accepted);
        self.writes.push_back(Waiting { line, thread, whole, accepted });
        self.write_queue.max = self.write_queue.max.max(self.writes.len() + leaving);
        accepted
    }

    /// How long a line that nobody sent would wait for an entry if it came at `arrived`. While others wait it is as long as the
    /// last of them; if the queue has only become full, until the device takes the next line. Lines that the device would have by then it has
    /// now, whether a line is sent or not.
    pub(super) fn wait(&mut self, arrived: Time) -> Time {
        if self.accepted > arrived {
            return self.accepted.since(arrived);
        }
        self.hand_over(arrived);
        if self.writes.len() + self.leaving.len() < self.timing.write_queue as usize {
            return Time::ZERO;
        }
        self.leaving.front().map_or(Time::ZERO, |first| first.taken.since(arrived))
    }

    pub(super) fn advance_to(&mut self, at: Time) {
        self.hand_over(at);
        self.device.advance_to(at);
    }

    pub(super) fn drain(&mut self, at: Time) -> Time {
        self.read_crowd(at);
        while self.hand_over_first() {}
        self.leaving.clear();
        self.device.drain(at.max(self.taken))
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
        figures.waiting_reads += self.crowd.as_ref().map_or(0, |crowd| crowd.lines() as u64);
        figures.read_latency.add(&self.read_latency);
        figures.write_latency.add(&self.write_latency);
        figures.device.add(&self.device.counters());
        figures.adr.queued_bytes += self.writes.len() as u64 * LINE_BYTES;
        figures.adr.buffered_bytes += self.device.durable_bytes();
        // The DIMMs drain side by side.
        figures.adr.time = figures.adr.time.max(self.device.drain_time());
    }
}

impl Use {
    /// An entry was taken for `time`, one of `held` at once.
    fn taken(&mut self, time: Time, held: usize) {
        self.time += time;
        self.max = self.max.max(held);
    }
}
