//! A core with time: how it gets the lines that it misses and sends out those that it flushes.
//!
//! Whatever a core asks of the shared part of the machine it asks in the order of time, and not before the other cores have
//! come as far ([`Shared::horizon`]); a request that must wait returns the time at which it can be made, and the
//! scheduler lets others go first.

use std::collections::VecDeque;

use event::ThreadId;

use super::figures::{Cause, Persist, ThreadTiming};
use super::mmu::Mmu;
use super::order::MeetingPoint;
use super::outgoing::Outgoing;
use super::prefetch::Prefetcher;
use super::queue::Queue;
use super::shared::Shared;
use super::slots::{LineSlots, Slots};
use super::stores::{Arrival, Stores};
use super::window::Window;
use crate::core::Lookup;
use crate::hierarchy::Answer;
use crate::memory_side::Request;
use crate::program::Program;
use crate::{Config, Time};

/// Not now, but at this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Later(pub(crate) Time);

/// What an access to a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Load,
    /// A store. It waits until the line is no longer on its way to memory from this core.
    Store,
    /// A store that waits in a private buffer of the design, which takes the place of a fill buffer.
    Buffered,
    /// A store of a design that sends copies to memory: earlier copies of the line do not hold it up.
    Copied,
}

/// A thread that makes its events while the machine runs.
pub(crate) struct Running {
    pub(crate) thread: ThreadId,
    pub(crate) program: Box<dyn Program>,
    /// When it is to be asked again.
    pub(crate) ready: Time,
    /// How often in a row it had nothing to say.
    pub(crate) empty_answers: u32,
}

/// A core.
pub(crate) struct TimedCore {
    pub(crate) number: usize,
    pub(crate) window: Window,
    pub(crate) stores: Stores,
    pub(crate) outgoing: Outgoing,
    pub(crate) queue: Queue,
    /// Tickets of the synchronisations in the queue, if they are of a recorded run; none for one that keeps no order.
    pub(crate) tickets: VecDeque<Option<u64>>,
    pub(crate) programs: VecDeque<Running>,
    /// The thread that runs.
    pub(crate) current: Option<ThreadId>,
    /// Accounts of the threads that ran here and do not now.
    pub(crate) accounts: Vec<ThreadTiming>,
    /// When the scheduler should let it run.
    pub(crate) key: Time,
    /// Of the event at the front of the queue, once it has begun: lines that are done, and whether the instruction for
    /// the next has entered the window.
    pub(crate) progress: Option<(usize, bool)>,
    /// Where it waits for another thread.
    pub(crate) blocked: Option<MeetingPoint>,
    /// A `clflush` is under way, which no store overtakes.
    pub(crate) ordered_flush: bool,
    pub(crate) full_fence: Time,
    /// No request is made before this: the time of the last one.
    floor: Time,
    pub(crate) fills: LineSlots,
    pub(crate) l2_misses: Slots,
    prefetcher: Prefetcher,
    /// When the last load miss has its data.
    last_load: Time,
    /// Share of the load misses that depend on the one before, and what is due of it.
    dependent: f64,
    dependence_due: f64,
    /// TLB and walker, if addresses are translated.
    pub(crate) mmu: Option<Box<Mmu>>,
    /// No access begins before this: the end of its translation.
    pub(crate) not_before: Time,
}

impl TimedCore {
    pub(crate) fn new(config: &Config, number: usize, write_slots: u32) -> Self {
        TimedCore {
            number,
            window: Window::new(config),
            stores: Stores::new(config),
            outgoing: Outgoing::new(config, number as u32, write_slots),
            queue: Queue::default(),
            tickets: VecDeque::new(),
            programs: VecDeque::new(),
            current: None,
            accounts: Vec::new(),
            key: Time::NEVER,
            progress: None,
            blocked: None,
            ordered_flush: false,
            full_fence: config.cores.pipeline.full_fence,
            floor: Time::ZERO,
            fills: LineSlots::new(config.l1.miss_registers.unwrap_or(12)),
            l2_misses: Slots::new(config.l2.miss_registers.unwrap_or(48)),
            prefetcher: Prefetcher::new(config),
            last_load: Time::ZERO,
            dependent: config.cores.pipeline.dependent_loads,
            dependence_due: 0.0,
            mmu: Mmu::new(config),
            not_before: Time::ZERO,
        }
    }

    /// The earliest time at which it has something to do.
    pub(crate) fn next_key(&self, shared: &Shared) -> Time {
        let outgoing = self.outgoing.next_at(&shared.persists).map_or(Time::NEVER, |at| at.max(self.floor));
        let program = self.programs.iter().map(|running| running.ready).min();
        let runs = match program {
            _ if self.blocked.is_some() => Time::NEVER,
            _ if self.queue.len() > 0 => self.request_time(),
            Some(ready) => self.request_time().max(ready),
            None => Time::NEVER,
        };
        outgoing.min(runs)
    }

    /// It has nothing to do up to the horizon but to send out what waits.
    pub(crate) fn rest(&mut self, shared: &mut Shared) {
        while self.outgoing.waiting_count() > 0 && self.send_next(shared).is_ok() {}
        self.key = self.next_key(shared);
    }

    /// The program whose turn it is, if one is ready before `horizon` has passed.
    pub(crate) fn take_program(&mut self, horizon: Time) -> Option<Running> {
        let now = self.window.dispatch;
        let ready = self.programs.iter().position(|running| running.ready <= now);
        let (at, ready) = match ready {
            Some(at) => (at, now),
            None => {
                self.programs.iter().map(|running| running.ready).enumerate().min_by_key(|next| next.1)?
            }
        };
        if ready.max(self.request_time()) > horizon {
            return None;
        }
        self.programs.remove(at)
    }

    /// When it can ask for something at the earliest.
    pub(crate) fn request_time(&self) -> Time {
        self.window.dispatch.max(self.floor)
    }

    /// Its turn to ask for something that all share, if the other cores have come as far.
    pub(crate) fn turn(&mut self, shared: &mut Shared) -> Result<Time, Later> {
        let start = self.request_time();
        self.turn_at(start, shared)?;
        Ok(start)
    }

    fn turn_at(&mut self, start: Time, shared: &mut Shared) -> Result<(), Later> {
        while self.outgoing.next_at(&shared.persists).is_some_and(|at| at <= start) {
            self.send_next(shared)?;
        }
        if start > shared.horizon {
            return Err(Later(start));
        }
        self.floor = start;
        Ok(())
    }

    /// Sends the next line out. Returns when it left.
    pub(crate) fn send_next(&mut self, shared: &mut Shared) -> Result<Time, Later> {
        if self.outgoing.waiting_count() == 0 {
            return Ok(self.floor);
        }
        // Behind another core's line that has not left, nobody knows for how long.
        let at = self.outgoing.next_at(&shared.persists).ok_or(Later(Time::NEVER))?;
        let Some((leaving, lane)) = self.outgoing.next(&shared.persists) else { return Ok(self.floor) };
        let at = at.max(self.floor);
        if at > shared.horizon {
            return Err(Later(at));
        }
        self.floor = at;
        let latencies = shared.latencies;
        // A non-temporal line first makes sure that no cache has a copy, which is a way of its own to the directory of the
        // memory's socket.
        let mut out = at + latencies.way();
        if leaving.non_temporal() {
            out = shared.hierarchy.below.memory.ask(out + latencies.llc, self.number as u32);
        }
        let accepted = shared.write_from_core(out, leaving.write);
        if shared.chronicle.is_on() {
            let (why, until) = self.outgoing.reason(lane, &shared.persists);
            let (core, line) = (self.number as u32, shared.places.of(leaving.write.line));
            let ready = leaving.at;
            let persist = Persist { core, line, ready, left: at, durable: accepted, why, behind: None };
            shared.chronicle.sent(persist, until);
        }
        // Its buffer is free when it was handed over; on the rest of the way it is the uncore's.
        let free = if leaving.non_temporal() { out } else { accepted };
        self.outgoing.sent(lane, free, accepted, &mut shared.persists);
        shared.persists.sent(self.number, lane, at, accepted);
        shared.release_withheld();
        Ok(at)
    }

    /// Sends out all that waits.
    pub(crate) fn send_all(&mut self, shared: &mut Shared) -> Result<(), Later> {
        while self.outgoing.waiting_count() > 0 {
            self.send_next(shared)?;
        }
        Ok(())
    }

    /// Sends out all that waits in a lane, and what leaves before it.
    pub(crate) fn send_lane(&mut self, lane: usize, shared: &mut Shared) -> Result<(), Later> {
        while self.outgoing.waits_in(lane) {
            self.send_next(shared)?;
        }
        Ok(())
    }

    /// Makes sure that one more line can wait to be sent out. What is sent for that holds up the store queue.
    pub(crate) fn room_to_wait(&mut self, shared: &mut Shared) -> Result<(), Later> {
        while self.outgoing.is_full() {
            let left = self.send_next(shared)?;
            self.stores.committed = self.stores.committed.max(left);
        }
        Ok(())
    }

    /// When `line` is no longer on its way to memory from this core.
    pub(crate) fn gone(&mut self, line: u64, shared: &mut Shared) -> Result<Time, Later> {
        if !self.outgoing.is_busy(self.window.dispatch) {
            return Ok(Time::ZERO);
        }
        while self.outgoing.waits(line) {
            self.send_next(shared)?;
        }
        Ok(self.outgoing.until(line))
    }

    /// An ordinary access to `line`: finds it or brings it here.
    pub(crate) fn access(
        &mut self,
        line: u64,
        access: Access,
        site: u32,
        shared: &mut Shared,
    ) -> Result<Arrival, Later> {
        let (store, waits) = (access != Access::Load, matches!(access, Access::Store | Access::Buffered));
        let gone = if waits { self.gone(line, shared)? } else { Time::ZERO };
        let arrival = match shared.hierarchy.cores[self.number].hit(line, store, site) {
            Lookup::Hit if !self.is_filling() => Arrival::HERE,
            Lookup::Hit => Arrival { done: self.fills.until(line), ..Arrival::HERE },
            found => self.fetch(line, access, site, found, shared)?,
        };
        shared.accesses += 1;
        Ok(Arrival { done: arrival.done.max(gone).max(self.not_before), ..arrival })
    }

    fn fetch(
        &mut self,
        line: u64,
        access: Access,
        site: u32,
        found: Lookup,
        shared: &mut Shared,
    ) -> Result<Arrival, Later> {
        let store = access != Access::Load;
        let gone = self.gone(line, shared)?;
        let depends = !store && self.dependence_due + self.dependent >= 1.0;
        let earliest = gone.max(self.not_before).max(if depends { self.last_load } else { Time::ZERO });
        let wanted = self.window.dispatch;
        let buffered = access == Access::Buffered;
        let fill = if buffered { Time::ZERO } else { self.fills.free_at() };
        let (granted, before) = if self.has_privately(line, store, found, shared) {
            let mut start = self.window.dispatch.max(earliest).max(fill);
            if self.prefetcher.hears_hits() {
                // What it asks for then is seen by others.
                start = start.max(self.request_time());
                self.turn_at(start, shared)?;
            }
            (start, Cause::FillBuffers)
        } else {
            let (ready, cause) = shared.ready_at();
            let own = fill.max(self.l2_misses.free_at());
            let start = self.request_time().max(earliest).max(own).max(ready);
            self.turn_at(start, shared)?;
            (start, if ready > own { cause } else { Cause::FillBuffers })
        };
        shared.evicts_at(granted);
        let answer = shared.hierarchy.miss(self.number, line, store, site, found);
        let thread = self.window.account.thread;
        let request = Request { line, thread, core: self.number as u32 };
        let done = shared.fetched(granted, answer, store, request);
        if !buffered {
            self.fills.take(line, done);
        }
        let missed = answer != Answer::L2;
        if missed {
            shared.snooped(line, self.number, store);
            self.l2_misses.take(done);
        }
        if missed || self.prefetcher.hears_hits() {
            self.prefetch(granted, request, site, shared);
        }
        if !store {
            self.dependence_due += self.dependent - f64::from(u8::from(depends));
            self.last_load = done;
        }
        Ok(Arrival { done, wanted, granted, before })
    }

    /// Whether the core's own L2 is all that an access needs that missed in the L1.
    fn has_privately(&self, line: u64, store: bool, found: Lookup, shared: &Shared) -> bool {
        let core = &shared.hierarchy.cores[self.number];
        found == Lookup::Absent
            && core.combining.is_empty()
            && core.l2.find(line).is_some_and(|slot| !store || core.l2.slots[slot].item.exclusive())
    }

    /// Fetches into the L2 what the prefetcher expects to be needed after `asked`, as far as there are miss registers.
    fn prefetch(&mut self, start: Time, asked: Request, site: u32, shared: &mut Shared) {
        let mut lines = self.prefetcher.after(asked.line);
        while let Some(line) = lines.next() {
            if self.l2_misses.free_at() > start || shared.ready_at().0 > start {
                self.prefetcher.put_off(lines.left + 1);
                return;
            }
            shared.evicts_at(start);
            let Some(answer) = shared.hierarchy.prefetch(self.number, line, site) else { continue };
            shared.snooped(line, self.number, false);
            shared.prefetches += 1;
            let done = shared.fetched(start, answer, false, Request { line, ..asked });
            shared.arrives(line, done);
            self.l2_misses.take(done);
        }
    }

    /// Whether a fill is under way.
    #[inline(always)]
    pub(crate) fn is_filling(&self) -> bool {
        self.fills.last() > self.window.dispatch
    }

    /// `thread` runs from now on.
    pub(crate) fn switch_to(&mut self, thread: ThreadId) {
        let found = self.accounts.iter().position(|account| account.thread == thread.0);
        let next = match found {
            Some(at) => self.accounts.swap_remove(at),
            None => ThreadTiming { thread: thread.0, core: self.number as u32, ..ThreadTiming::default() },
        };
        let before = std::mem::replace(&mut self.window.account, next);
        if self.current.replace(thread).is_some() {
            self.accounts.push(ThreadTiming { finished: self.window.retired, ..before });
        }
    }

    /// When everything that it has begun is over.
    pub(crate) fn last_of_all(&self) -> Time {
        let Outgoing { flush_done, nt_done, .. } = self.outgoing;
        self.window.retired.max(self.stores.committed).max(flush_done).max(nt_done)
    }
}
