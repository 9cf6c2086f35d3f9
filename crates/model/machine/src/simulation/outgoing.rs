//! Lines that a core sends to memory itself: flushes and non-temporal stores.
//!
//! Caches and combining buffers change when the instruction is carried out, in program order. Its line leaves when
//! the stores before it are in the cache, which may be much later; until then it waits here, and the memory side hears of
//! it at its time and not before.
//!
//! The memory side takes a core's lines in their order. Lines that are flushed to one DIMM come there one behind the other and wait
//! for its queue together, so that a core which flushes has its share of a DIMM that others write to as well; a
//! line to another DIMM leaves when the one before has been accepted.

use std::collections::VecDeque;

use super::figures::Awaited;
use super::persists::{LANES_MAX, Persists, Promise};
use super::shared::Latencies;
use super::slots::LineSlots;
use crate::below::{Cause, Write};
use crate::config::Pipeline;
use crate::interleave::PERSISTENT;
use crate::link::Interconnect;
use crate::{Config, LINE_BYTES, Time};

/// A line that is to leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    /// Not before this.
    pub(crate) at: Time,
    pub(crate) write: Write,
}

impl Leaving {
    pub(crate) fn non_temporal(&self) -> bool {
        matches!(self.write.cause, Cause::NonTemporal { .. })
    }
}

/// The line of that number must not leave before something.
#[derive(Clone, Copy, Debug)]
struct Gate {
    number: u64,
    /// Another core's lines; `None`: all lines before it are accepted.
    promise: Option<Promise>,
}

/// Lines that leave one behind the other. A core has one queue of them, unless its design has more.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// Not yet sent.
    waiting: VecDeque<Leaving>,
    /// Lines sent, from the beginning.
    sent: u64,
    /// What lines wait for beside their time, in the order of their numbers.
    gates: VecDeque<Gate>,
    /// Lines before which a barrier takes an entry, of the last lines.
    barriers: VecDeque<u64>,
    /// When the last line so far was accepted.
    accepted: Time,
    /// Where the last line so far went.
    last: Option<Block>,
    /// When each of the last lines had left the lane, which they do in order; as many as the lane has entries.
    retired: VecDeque<Time>,
}

impl Lane {
    /// When the line of that number had left the lane; `None` if it has not been sent.
    fn retirement(&self, number: u64) -> Option<Time> {
        if number >= self.sent {
            return None;
        }
        let back = (self.sent - 1 - number) as usize;
        let at = self.retired.len().checked_sub(back + 1);
        Some(at.and_then(|at| self.retired.get(at).copied()).unwrap_or(Time::ZERO))
    }
}

/// A core's outgoing lines.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    lanes: Vec<Lane>,
    /// The lane that takes the next line.
    pub(crate) lane: usize,
    /// Entries of a lane that has a limit of its own.
    entries: Option<usize>,
    flushed: LineSlots,
    combined: LineSlots,
    /// When the last flush so far is done.
    pub(crate) flush_done: Time,
    /// When the last non-temporal line so far has been accepted.
    pub(crate) nt_done: Time,
    /// From here to the queues of other and of persistent memory; for each, of a flush and of a non-temporal line.
    ways: [[Time; 2]; 2],
    /// Consecutive lines on one DIMM of other and of persistent memory.
    blocks: [u64; 2],
    capacity: usize,
}

/// Lines that lie on one DIMM without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    persistent: bool,
    number: u64,
}

impl Outgoing {
    pub(crate) fn new(config: &Config, core: u32, write_slots: u32) -> Self {
        let Pipeline { nt_slots, .. } = config.cores.pipeline;
        Outgoing {
            lanes: vec![Lane::default()],
            lane: 0,
            entries: None,
            flushed: LineSlots::new(write_slots),
            combined: LineSlots::new(nt_slots),
            flush_done: Time::ZERO,
            nt_done: Time::ZERO,
            ways: [false, true].map(|persistent| {
                let latencies = Latencies::new(config);
                let timing = config.side(persistent).0.timing.as_ref();
                let queue = timing.map_or(Time::ZERO, |timing| timing.write_accept);
                let [question, write] = Interconnect::new(config).idle(core);
                let way = latencies.way() + queue + write;
                [way, way + latencies.llc + question]
            }),
            blocks: [false, true].map(|persistent| {
                let controller = config.side(persistent).0;
                let lines = (controller.interleave.0 / LINE_BYTES).max(1);
                if controller.dimms == 1 { u64::MAX } else { lines }
            }),
            capacity: write_slots.max(config.cores.combining_buffers) as usize,
        }
    }

    /// How long a flush of `line` takes to the write queue and back if nothing is in its way.
    pub(crate) fn way(&self, line: u64) -> Time {
        self.ways[usize::from(line & PERSISTENT != 0)][0]
    }

    /// Lines go by several lanes from now on, each with so many entries, which a line has until it and all before it in the lane are
    /// accepted. At most [`LANES_MAX`].
    pub(crate) fn split(&mut self, lanes: usize, entries: usize) {
        self.lanes = vec![Lane::default(); lanes.clamp(1, LANES_MAX)];
        self.entries = Some(entries.max(1));
    }

    /// Lines that wait, in all lanes.
    pub(crate) fn waiting_count(&self) -> usize {
        self.lanes.iter().map(|lane| lane.waiting.len()).sum()
    }

    /// Whether the next must be sent before another can wait.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting_count() >= self.capacity
    }

    /// Lines that leave at `at`, or when those before them have left.
    pub(crate) fn push(&mut self, at: Time, writes: impl Iterator<Item = Write>) {
        self.lanes[self.lane].waiting.extend(writes.map(|write| Leaving { at, write }));
    }

    /// The next line that is pushed leaves when all before it in its lane are accepted.
    pub(crate) fn order_next(&mut self) {
        let number = self.pushed_count();
        self.lanes[self.lane].gates.push_back(Gate { number, promise: None });
    }

    /// The next line that is pushed leaves when another core's lines, or those of another lane, are accepted.
    pub(crate) fn order_next_behind(&mut self, promise: Promise) {
        let number = self.pushed_count();
        self.lanes[self.lane].gates.push_back(Gate { number, promise: Some(promise) });
    }

    /// Lines pushed to the lane so far, which is the number of the next.
    pub(crate) fn pushed_count(&self) -> u64 {
        let lane = &self.lanes[self.lane];
        lane.sent + lane.waiting.len() as u64
    }

    /// Lines sent so far by the lane.
    pub(crate) fn sent_count(&self) -> u64 {
        self.lanes[self.lane].sent
    }

    /// The next line that is pushed leaves when all before it in its lane are accepted, and what says so takes an entry of the lane until
    /// then.
    pub(crate) fn order_next_by_entry(&mut self) {
        let (number, entries) = (self.pushed_count(), self.entries.unwrap_or(1));
        let lane = &mut self.lanes[self.lane];
        lane.gates.push_back(Gate { number, promise: None });
        if lane.barriers.len() == entries {
            lane.barriers.pop_front();
        }
        lane.barriers.push_back(number);
    }

    /// When the next line that is pushed to the lane has an entry of it, with a barrier before it or not; `None` if that depends on lines
    /// that have not been sent.
    pub(crate) fn entry_at(&self, barrier: bool) -> Option<Time> {
        let (Some(entries), lane) = (self.entries, &self.lanes[self.lane]) else { return Some(Time::ZERO) };
        let next = self.pushed_count();
        // So many lines must have left the lane. A barrier leaves with the line before it.
        let gone = (next.saturating_sub(entries as u64)..=next).find(|&gone| {
            let before = lane.barriers.iter().filter(|&&line| line > gone).count();
            let taken = (next - gone) as usize + before + usize::from(barrier && next > gone);
            taken < entries
        });
        gone.and_then(|gone| gone.checked_sub(1)).map_or(Some(Time::ZERO), |last| lane.retirement(last))
    }

    /// When the first `count` lines of a lane have left it; `None` if they have not been sent.
    pub(crate) fn left_at(&self, lane: usize, count: u64) -> Option<Time> {
        count.checked_sub(1).map_or(Some(Time::ZERO), |last| self.lanes[lane].retirement(last))
    }

    /// Lines that wait or are under way at `now`.
    pub(crate) fn occupied(&self, now: Time) -> usize {
        self.waiting_count() + self.flushed.taken(now)
    }

    /// Whether a line of `lane` waits.
    pub(crate) fn waits_in(&self, lane: usize) -> bool {
        !self.lanes[lane].waiting.is_empty()
    }

    /// When all lines that `lane` has sent are accepted.
    pub(crate) fn accepted(&self, lane: usize) -> Time {
        self.lanes[lane].accepted
    }

    /// Whether fewer lines wait or are under way at `now` than there are slots.
    pub(crate) fn has_room(&self, now: Time) -> bool {
        self.waiting_count() + self.flushed.taken(now) < self.flushed.capacity()
    }

    /// When the first of the lines that are under way at `now` is accepted.
    pub(crate) fn frees_at(&self, now: Time) -> Option<Time> {
        let taken = self.flushed.taken(now);
        (taken > 0).then(|| self.flushed.when_at_most(taken - 1, now))
    }

    /// Whether a non-temporal line waits.
    pub(crate) fn holds_non_temporal(&self) -> bool {
        self.lanes.iter().any(|lane| lane.waiting.iter().any(Leaving::non_temporal))
    }

    fn block(&self, line: u64) -> Block {
        let persistent = line & PERSISTENT != 0;
        Block { persistent, number: (line & !PERSISTENT) / self.blocks[usize::from(persistent)] }
    }

    /// When the next can leave. What is flushed to where the line before went waits behind it there. Any other leaves in time to come
    /// when the one before has been accepted; sooner, it would get ahead of other cores' lines that come in between. `None` if nothing
    /// waits, or the next is behind another core's lines that have not left.
    pub(crate) fn next_at(&self, persists: &Persists) -> Option<Time> {
        self.next_of(persists).map(|(at, _)| at)
    }

    /// The lane whose line leaves next, and when.
    fn next_of(&self, persists: &Persists) -> Option<(Time, usize)> {
        if let [lane] = &self.lanes[..] {
            return self.leaves_at(lane, persists).map(|at| (at, 0));
        }
        let next = self.lanes.iter().enumerate();
        next.filter_map(|(number, lane)| Some((self.leaves_at(lane, persists)?, number))).min()
    }

    fn leaves_at(&self, lane: &Lane, persists: &Persists) -> Option<Time> {
        let next = lane.waiting.front()?;
        let ways = self.ways[usize::from(next.write.line & PERSISTENT != 0)];
        let follows = !next.non_temporal() && lane.last == Some(self.block(next.write.line));
        let way = ways[usize::from(next.non_temporal())];
        let in_line = if follows { Time::ZERO } else { lane.accepted.since(way) };
        let slots = if next.non_temporal() { &self.combined } else { &self.flushed };
        let mut gate = Time::ZERO;
        if let Some(before) = self.entries.and_then(|entries| lane.sent.checked_sub(entries as u64)) {
            gate = lane.retirement(before)?;
        }
        for next in lane.gates.iter().take_while(|gate| gate.number == lane.sent) {
            let open = match next.promise {
                None => lane.accepted,
                Some(promise) => persists.kept(promise)?,
            };
            gate = gate.max(open);
        }
        Some(next.at.max(slots.free_at()).max(in_line).max(gate))
    }

    /// What the next line of `lane`, which can leave, waited for last, and until when.
    pub(crate) fn reason(&self, lane: usize, persists: &Persists) -> (Awaited, Time) {
        let lane = &self.lanes[lane];
        let Some(next) = lane.waiting.front() else { return (Awaited::Nothing, Time::ZERO) };
        let ways = self.ways[usize::from(next.write.line & PERSISTENT != 0)];
        let way = ways[usize::from(next.non_temporal())];
        let follows = !next.non_temporal() && lane.last == Some(self.block(next.write.line));
        let slots = if next.non_temporal() { &self.combined } else { &self.flushed };
        let (mut last, mut reason) = (next.at, (Awaited::Nothing, next.at));
        let mut compare = |why, gate: Time, until| {
            if gate > last {
                (last, reason) = (gate, (why, until));
            }
        };
        compare(Awaited::Slot, slots.free_at(), slots.free_at());
        if !follows {
            compare(Awaited::Path, lane.accepted.since(way), lane.accepted);
        }
        if let Some(before) = self.entries.and_then(|entries| lane.sent.checked_sub(entries as u64)) {
            let entry = lane.retirement(before).unwrap_or(Time::ZERO);
            compare(Awaited::Entry, entry, entry);
        }
        for gate in lane.gates.iter().take_while(|gate| gate.number == lane.sent) {
            match gate.promise {
                None => compare(Awaited::Order, lane.accepted, lane.accepted),
                Some(promise) => {
                    let kept = persists.kept(promise).unwrap_or(Time::ZERO);
                    compare(Awaited::Others, kept, kept);
                }
            }
        }
        reason
    }

    /// The line that leaves next, and its lane. `None` if none can.
    pub(crate) fn next(&self, persists: &Persists) -> Option<(Leaving, usize)> {
        let (_, lane) = self.next_of(persists)?;
        self.lanes[lane].waiting.front().map(|&leaving| (leaving, lane))
    }

    /// The next of `lane` has left, is accepted at `accepted`, and has its slot until `free`.
    pub(crate) fn sent(&mut self, lane: usize, free: Time, accepted: Time, persists: &mut Persists) {
        let Some(gone) = self.lanes[lane].waiting.pop_front() else { return };
        let block = self.block(gone.write.line);
        let entries = self.entries.unwrap_or(0);
        let lane = &mut self.lanes[lane];
        while lane.gates.front().is_some_and(|gate| gate.number == lane.sent) {
            persists.forget(lane.gates.pop_front().and_then(|gate| gate.promise));
        }
        lane.sent += 1;
        lane.last = Some(block);
        // A line to the other memory may have overtaken this one.
        lane.accepted = accepted.max(lane.accepted);
        if entries > 0 {
            lane.retired.push_back(lane.accepted);
            if lane.retired.len() > entries {
                lane.retired.pop_front();
            }
        }
        let (slots, done) = if gone.non_temporal() {
            (&mut self.combined, &mut self.nt_done)
        } else {
            (&mut self.flushed, &mut self.flush_done)
        };
        slots.take(gone.write.line, free);
        *done = accepted.max(*done);
    }

    /// Whether lines may be under way at `now`.
    #[inline(always)]
    pub(crate) fn is_busy(&self, now: Time) -> bool {
        self.waiting_count() > 0 || self.flushed.last() > now || self.combined.last() > now
    }

    /// Whether `line` waits to be sent.
    pub(crate) fn waits(&self, line: u64) -> bool {
        self.lanes.iter().any(|lane| lane.waiting.iter().any(|leaving| leaving.write.line == line))
    }

    /// Until when `line`, which does not wait, is under way.
    pub(crate) fn until(&self, line: u64) -> Time {
        self.flushed.until(line).max(self.combined.until(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When the second of two lines can leave, of which the first was accepted 10 us after it left.
    fn second_leaves(cause: Cause, lines: [u64; 2]) -> Time {
        let mut outgoing = Outgoing::new(&Config::preset("cascade-lake").unwrap(), 0, 12);
        let write = |line| Write { line: line | PERSISTENT, cause, thread: 0, site: 0 };
        outgoing.push(Time::from_ns(1), lines.map(write).into_iter());
        let mut persists = Persists::new(1);
        outgoing.sent(0, Time::from_ns(10_001), Time::from_ns(10_001), &mut persists);
        outgoing.next_at(&persists).unwrap()
    }

    #[test]
    fn flushed_lines_wait_for_one_dimm_together_and_for_another_in_turn() {
        let flush = Cause::Request;
        assert_eq!(second_leaves(flush, [0, 1]), Time::from_ns(1));
        assert_eq!(second_leaves(flush, [0, 63]), Time::from_ns(1), "the last of 4 KiB");
        assert!(second_leaves(flush, [0, 64]) > Time::from_ns(9000));
        assert!(second_leaves(Cause::NonTemporal { whole: true }, [0, 1]) > Time::from_ns(9000));
    }
}
