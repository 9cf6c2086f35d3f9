//! Strand persistency after StrandWeaver (Gogte, thesis, chapter V; ISCA 2020): persist queue and strand buffers.
//!
//! A flush enters the persist queue, as marks do, then, when the stores before it are in the cache and all that is before it in the queue has
//! gone on, the current strand buffer; from there it leaves for memory. A queue entry is free when it is done: a flush when its line is
//! accepted, a barrier when all before it is, a new strand at once. Strand buffers drain beside each other, each in order; an entry is
//! taken until its line and all before it in the buffer are accepted.
//!
//! | mark | here |
//! |---|---|
//! | persist barrier | takes an entry until all before it in the buffer are accepted, and the next flush of the buffer leaves behind it; the next stores commit when the flushes so far are in the strand buffers, not when they are accepted |
//! | new strand | the next buffer, round-robin; its stores wait for no earlier strand's flushes |
//! | join | the next stores and flushes wait until all so far is accepted |
//!
//! - *Write-back buffer*: a dirty line that leaves the private caches waits there until the strand buffers have drained what they held
//!   then; a miss of a core whose write-back buffer (`strand_write_backs` entries) is full waits for the oldest.
//! - *Snoop buffer*: a core that asks for the right to store to a line which is dirty in another core's caches, or of which a flush
//!   is under way there, gets the reply when that core's strand buffers have drained what they hold.
//!
//! `strand-no-queue` has no persist queue: flushes and marks take entries of the store queue, so that a flush which waits for a strand
//! buffer holds up the stores behind it.
//!
//! # Corners that the source leaves open
//! - *A full strand buffer*: the flush waits at the head of the queue before it, and all behind it, to whatever buffer they go: the queue
//!   issues in order.
//! - *A buffer with an older strand's lines*: a barrier orders behind them, too, and one that no flush followed orders what
//!   comes there next. That is stricter than the model, never weaker.
//! - *A flush of a line of which an earlier flush is in another strand buffer* leaves behind that one.
//! - *A flush of a line that is clean because an earlier flush of it is under way* is done when that one is: the next line of the
//!   buffer waits for it.
//! - *A request to read a line that is dirty in another core* is not held back: loads do not order strands. Memory is not written for it.
//! - *A dirty eviction from the LLC* of a line that still lies in a write-back buffer: the LLC does not have the line before the buffer lets it go, so
//!   it reaches memory no sooner than that. The model moves a line's contents to the LLC at once, and holds back what the LLC evicts of
//!   it (`simulation/withheld.rs`); a read of such a line meanwhile is timed as one of memory.
//! - *A flush of a line that lies in a write-back buffer*, by this core on another strand or by another core, leaves behind what the buffer
//!   waits for.
//! - *Stores to a line whose flush is in a strand buffer* go on: the flush has its data.
//! - *Fences* of x86 wait as joins do and for what x86 waits for; locked instructions wait for visibility only.

use std::collections::VecDeque;

use event::{Capabilities, FenceKind, FlushKind, StrandMark};

use super::as_tso::as_tso;
use super::persistency::{Notice, Persistency};
use super::tso::Tso;
use crate::interleave::PERSISTENT;
use crate::simulation::{Access, Arrival, Cause, Later, Promise, Shared, TimedCore, Wait};
use crate::{Config, Time};

/// The design.
pub(crate) struct Strand {
    tso: Tso,
    cores: Vec<State>,
    /// Entries of the persist queue, if there is one.
    queue: Option<u32>,
    buffers: usize,
    entries: usize,
    /// Entries of a core's write-back buffer.
    write_backs: usize,
}

/// The design without a persist queue.
pub(crate) struct StrandNoQueue;

impl StrandNoQueue {
    /// The list of designs makes each by this name.
    #[allow(clippy::new_ret_no_self)]
    pub(crate) fn new(config: &Config) -> Strand {
        Strand { queue: None, ..Strand::new(config) }
    }
}

/// What a core knows.
#[derive(Clone, Debug, Default)]
struct State {
    buffer: usize,
    /// Buffers whose next flush comes behind a barrier, a bit each.
    barriers: u32,
    /// When the strand's flushes so far are in the strand buffers,
    issued: Time,
    /// and those of all strands.
    queue_left: Time,
    /// When stores behind the last barrier can commit.
    behind: Time,
    /// When all before the last join is accepted.
    joined: Time,
    /// Lines in the strand buffers, or not long ago.
    held: VecDeque<Held>,
    /// So many lines of these lanes must be accepted before the next line leaves.
    after: Vec<(usize, usize, u64)>,
    /// The persist queue: a line or barrier is done when so many lines of a lane are.
    queue: Vec<(usize, u64)>,
    /// Lines pushed to each lane.
    pushed: Vec<u64>,
    /// Of each line in the write-back buffer, oldest first: how many lines of each lane it waits for.
    write_backs: VecDeque<Vec<u64>>,
    /// The request that another core's snoop buffer holds back: its line, and what it waits for.
    snoop: Option<(u64, Vec<Promise>)>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    line: u64,
    lane: usize,
    number: u64,
}

/// Lines that are remembered to be under way.
const HELD: usize = 64;

impl Strand {
    pub(crate) fn new(config: &Config) -> Self {
        let pipeline = &config.cores.pipeline;
        Strand {
            tso: Tso::new(config),
            cores: vec![
                State { pushed: vec![0; pipeline.strand_buffers as usize], ..State::default() };
                config.cores.count as usize
            ],
            queue: Some(pipeline.persist_queue),
            buffers: pipeline.strand_buffers as usize,
            entries: pipeline.strand_entries as usize,
            write_backs: pipeline.strand_write_backs as usize,
        }
    }

    /// Waits for an entry of the persist queue.
    fn room(&mut self, core: &mut TimedCore, site: u32, shared: &mut Shared) -> Result<(), Later> {
        let Some(capacity) = self.queue else { return Ok(()) };
        core.turn(shared)?;
        let queue = &mut self.cores[core.number].queue;
        loop {
            let (now, outgoing) = (core.window.dispatch, &core.outgoing);
            queue.retain(|&(lane, count)| outgoing.left_at(lane, count).is_none_or(|done| done > now));
            if queue.len() < capacity as usize {
                return Ok(());
            }
            match queue.iter().filter_map(|&(lane, count)| outgoing.left_at(lane, count)).min() {
                Some(done) => {
                    core.window.stand_still(&Wait::simple(done, Cause::StoreBuffer, site), &mut shared.sites);
                    core.window.retired = core.window.retired.max(done);
                }
                None => _ = core.send_next(shared)?,
            }
        }
    }

    /// When the current strand buffer has an entry.
    fn entry(&mut self, core: &mut TimedCore, shared: &mut Shared) -> Result<Time, Later> {
        core.outgoing.lane = self.cores[core.number].buffer;
        let state = &self.cores[core.number];
        let barrier = state.barriers >> state.buffer & 1 != 0;
        loop {
            if let Some(at) = core.outgoing.entry_at(barrier) {
                return Ok(at);
            }
            core.send_next(shared)?;
        }
    }

    /// The line of number `held` of a lane, if it is not accepted yet.
    fn under_way(held: &Held, core: usize, now: Time, shared: &Shared) -> bool {
        let (sent, accepted) = shared.persists.of_lane(core, held.lane);
        held.number >= sent || accepted > now
    }

    /// Puts what the caches gave up for a flush into the strand buffer, to leave from `at` on.
    fn append(&mut self, core: &mut TimedCore, line: u64, at: Time, shared: &mut Shared) {
        let state = &mut self.cores[core.number];
        let number = core.number;
        let same = state.held.iter().rev().find(|held| held.line == line).copied();
        let same = same.filter(|held| Self::under_way(held, number, core.window.dispatch, shared));
        if shared.hierarchy.below.writes.is_empty() {
            if let Some(held) = same.filter(|held| held.lane != state.buffer) {
                state.after.push((number, held.lane, held.number + 1));
            }
            return;
        }
        if state.barriers >> state.buffer & 1 != 0 {
            state.barriers &= !(1 << state.buffer);
            core.outgoing.order_next_by_entry();
        }
        // Stores to one line persist in their order, on whatever strands they are: it leaves behind the one before, and the way to memory keeps
        // the order of a line.
        if let Some(held) = same.filter(|held| held.lane != state.buffer) {
            core.outgoing.order_next_behind(shared.persists.promise_left(number, held.lane, held.number + 1));
        }
        // Nor does it overtake what lies in a write-back buffer of the line.
        state.after.extend(shared.withheld.awaits(line, core.window.dispatch, &shared.persists));
        for (other, lane, count) in state.after.drain(..) {
            core.outgoing.order_next_behind(shared.persists.promise_of_lane(other, lane, count));
        }
        if state.held.len() == HELD {
            state.held.pop_front();
        }
        let count = core.outgoing.pushed_count();
        state.held.push_back(Held { line, lane: state.buffer, number: count });
        state.queue.push((state.buffer, count + 1));
        core.outgoing.push(at, shared.hierarchy.below.writes.drain(..));
        state.pushed[state.buffer] = core.outgoing.pushed_count();
    }

    /// Waits for an entry of the write-back buffer, if it is full and an access to `line` may need one.
    fn write_back_room(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        let waiting = &mut self.cores[core.number].write_backs;
        if waiting.len() < self.write_backs || shared.hierarchy.cores[core.number].locate(line).is_some() {
            return Ok(());
        }
        core.turn(shared)?;
        while let Some(tails) = waiting.front().filter(|_| waiting.len() >= self.write_backs) {
            let mut drained = Time::ZERO;
            for (lane, &count) in tails.iter().enumerate() {
                drained = drained.max(loop {
                    match core.outgoing.left_at(lane, count) {
                        Some(at) => break at,
                        None => core.send_next(shared)?,
                    };
                });
            }
            waiting.pop_front();
            core.window.stand_still(&Wait::simple(drained, Cause::WriteBack, site), &mut shared.sites);
            core.window.retired = core.window.retired.max(core.window.dispatch);
        }
        Ok(())
    }

    /// When another core's snoop buffer lets a request for the right to store to `line` go.
    fn snooped(&mut self, core: &mut TimedCore, line: u64, shared: &mut Shared) -> Result<Time, Later> {
        let number = core.number;
        if self.cores[number].snoop.as_ref().is_none_or(|snoop| snoop.0 != line) {
            if shared.hierarchy.cores.len() == 1 || shared.hierarchy.cores[number].owns(line).0 {
                return Ok(Time::ZERO);
            }
            let now = core.turn(shared)?;
            let mut promises = Vec::new();
            for other in (0..shared.hierarchy.cores.len()).filter(|&other| other != number) {
                let held = self.cores[other].held.iter().rev().find(|held| held.line == line);
                let held = held.is_some_and(|held| Self::under_way(held, other, now, shared));
                if held || shared.hierarchy.cores[other].owns(line).1 {
                    for (lane, &count) in self.cores[other].pushed.iter().enumerate() {
                        promises.push(shared.persists.promise_of_lane(other, lane, count));
                    }
                }
            }
            self.cores[number].snoop = Some((line, promises));
        }
        let Some((_, promises)) = &self.cores[number].snoop else { return Ok(Time::ZERO) };
        let mut drained = Time::ZERO;
        for &promise in promises {
            drained = drained.max(match shared.persists.kept(promise) {
                Some(at) => at,
                // Until the other core has sent them, nobody knows for how long. What this one has to send goes on, as the other may wait for
                // that.
                None => loop {
                    core.outgoing.next_at(&shared.persists).ok_or(Later(Time::NEVER))?;
                    core.send_next(shared)?;
                },
            });
        }
        Ok(drained)
    }

    fn join(&mut self, core: &mut TimedCore, shared: &mut Shared) -> Result<(), Later> {
        core.turn(shared)?;
        core.drain_combining(shared);
        core.send_all(shared)?;
        let state = &mut self.cores[core.number];
        shared.chronicle.fenced(core.number, core.outgoing.flush_done);
        state.joined = core.outgoing.flush_done.max(core.outgoing.nt_done).max(core.stores.committed);
        state.barriers = 0;
        core.stores.committed = core.stores.committed.max(state.joined);
        Ok(())
    }
}

impl Persistency for Strand {
    as_tso!(publish, region);

    fn needs(&self) -> Capabilities {
        Capabilities::MAPPINGS | Capabilities::FENCES
    }

    fn write_slots(&self) -> u32 {
        (self.buffers * self.entries) as u32
    }

    fn leaves_hits_alone(&self) -> bool {
        false
    }

    fn lanes(&self) -> Option<(usize, usize)> {
        Some((self.buffers, self.entries))
    }

    fn wants_notices(&self) -> bool {
        true
    }

    fn store(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        _bytes: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        core.stores.make_room(&mut core.window, &mut shared.sites);
        let mut let_go = Time::ZERO;
        if line & PERSISTENT != 0 {
            self.write_back_room(core, line, site, shared)?;
            let_go = self.snooped(core, line, shared)?;
        }
        let mut arrival = core.access(line, Access::Copied, site, shared)?;
        let state = &mut self.cores[core.number];
        for promise in state.snoop.take().into_iter().flat_map(|(_, promises)| promises) {
            shared.persists.forget(Some(promise));
        }
        arrival.done = arrival.done.max(state.behind).max(state.joined).max(let_go);
        core.commit(arrival, site);
        Ok(())
    }

    fn load(&mut self, core: &mut TimedCore, line: u64, site: u32, shared: &mut Shared) -> Result<(), Later> {
        self.write_back_room(core, line, site, shared)?;
        core.load(line, site, shared)
    }

    fn flush(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        kind: FlushKind,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        if line & PERSISTENT == 0 {
            return self.tso.flush(core, line, kind, site, shared);
        }
        if self.queue.is_none() {
            core.stores.make_room(&mut core.window, &mut shared.sites);
        }
        self.room(core, site, shared)?;
        let state = &self.cores[core.number];
        let before = state.joined.max(state.queue_left);
        let entry = self.entry(core, shared)?.max(before);
        shared.hierarchy.flush(core.number, line, kind == FlushKind::Clwb);
        let at = if self.queue.is_some() {
            core.window.retired.max(core.stores.committed).max(entry)
        } else {
            core.stores.push(core.window.retired, Arrival { done: entry, ..Arrival::HERE }, site)
        };
        let state = &mut self.cores[core.number];
        state.issued = state.issued.max(at);
        state.queue_left = at;
        self.append(core, line, at, shared);
        Ok(())
    }

    fn fence(
        &mut self,
        core: &mut TimedCore,
        kind: FenceKind,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        if kind == FenceKind::Locked {
            core.stall_for_stores(site, shared);
            return Ok(());
        }
        self.join(core, shared)?;
        core.ordered_flush = false;
        core.fence_until(kind, core.outgoing.flush_done, site, shared);
        Ok(())
    }

    fn strand(
        &mut self,
        core: &mut TimedCore,
        mark: StrandMark,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        if self.queue.is_none() {
            core.stores.make_room(&mut core.window, &mut shared.sites);
            core.stores.push(core.window.retired, Arrival::HERE, site);
        } else {
            self.room(core, site, shared)?;
        }
        let state = &mut self.cores[core.number];
        match mark {
            StrandMark::Barrier => {
                state.queue.push((state.buffer, state.pushed[state.buffer]));
                state.barriers |= 1 << state.buffer;
                state.behind = state.behind.max(state.issued);
                Ok(())
            }
            StrandMark::New => {
                state.buffer = (state.buffer + 1) % self.buffers;
                (state.issued, state.behind) = (Time::ZERO, Time::ZERO);
                Ok(())
            }
            StrandMark::Join => self.join(core, shared),
        }
    }

    fn notice(&mut self, core: &mut TimedCore, notice: Notice, shared: &mut Shared) {
        let Notice::LeftCore { line, thread, dirty: true } = notice else { return };
        let number = thread as usize % self.cores.len();
        let drained = |(lane, &count): (usize, &u64)| {
            let (sent, accepted) = shared.persists.of_lane(number, lane);
            count <= sent && accepted <= core.window.dispatch
        };
        let state = &mut self.cores[number];
        if line & PERSISTENT != 0 && !state.pushed.iter().enumerate().all(drained) {
            state.write_backs.push_back(state.pushed.clone());
            let (tails, now) = (state.pushed.clone(), core.request_time());
            shared.withheld.hold(line, number, tails, now, &shared.persists);
        }
    }
}
