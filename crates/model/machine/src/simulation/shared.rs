//! What all cores share: caches with their contents, the LLC's queues, the memory side, the order between threads.

use std::collections::VecDeque;

use persistency::Domain;

use super::chronicle::Chronicle;
use super::figures::{Cause, Persist, PersistencyFigures};
use super::journal::Journal;
use super::order::Order;
use super::pages::Pages;
use super::persists::Persists;
use super::places::Places;
use super::slots::Slots;
use super::window::SiteStalls;
use super::withheld::Withheld;
use crate::below::{Backend, Cause as WriteCause, Write};
use crate::designs::Notice;
use crate::hierarchy::{Answer, Hierarchy};
use crate::memory_side::{MemorySide, NO_THREAD, Request};
use crate::ranges::Ranges;
use crate::{Config, ConfigError, Time};

/// What each level adds to the latency of an access that reaches it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    pub(crate) l1: Time,
    pub(crate) l2: Time,
    pub(crate) llc: Time,
    /// All of the way to a line that another core has.
    pub(crate) forward: Option<Time>,
}

impl Latencies {
    pub(crate) fn new(config: &Config) -> Self {
        Latencies {
            l1: config.l1.latency.unwrap_or(Time(2_275)),
            l2: config.l2.latency.unwrap_or(Time(4_095)),
            llc: config.llc.latency.unwrap_or(Time::from_ns(25)),
            forward: config.llc.forward,
        }
    }

    /// From a core to the memory side and back, without the time there.
    pub(crate) fn way(self) -> Time {
        self.l1 + self.l2 + self.llc
    }
}

/// Everything but the cores' own time.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) latencies: Latencies,
    pub(crate) hierarchy: Hierarchy<Journal>,
    pub(crate) ranges: Ranges,
    pub(crate) order: Order,
    pub(crate) sites: SiteStalls,
    /// Up to this time the running core may ask for what all share.
    pub(crate) horizon: Time,
    /// Line accesses by ordinary loads and stores.
    pub(crate) accesses: u64,
    pub(crate) prefetches: u64,
    /// Requests that the memory side has had: reads, writes.
    pub(crate) asked: [u64; 2],
    /// Flushes do nothing: what is in the caches survives a power failure.
    pub(crate) caches_persist: bool,
    /// What memory has accepted of each core's lines.
    pub(crate) persists: Persists,
    /// Lines in the cores' write-back buffers.
    pub(crate) withheld: Withheld,
    /// Where lines are below the caches.
    pub(crate) places: Places,
    /// Lines that left the caches and coalesced with copies that waited.
    pub(crate) coalesced: u64,
    /// Lines that the design itself read and wrote: logs, journals, copies.
    pub(crate) made: [u64; 2],
    /// What these were for.
    pub(crate) extra: PersistencyFigures,
    /// What became of the lines of a few regions, if somebody wants to see it.
    pub(crate) chronicle: Chronicle,
    /// The persistent buffer of a switch between the cores and persistent memory: its entries, and the way there and back.
    switch: Option<(Slots, Time)>,
    /// What the design is to hear, oldest first, if it wants to.
    notices: VecDeque<Notice>,
    wants_notices: bool,
    /// Something was published since the scheduler looked.
    pub(crate) published: bool,
    llc_misses: Slots,
    write_backs: Slots,
    arriving: Arriving,
    pub(super) core_count: u32,
    /// Pages and their faults, if addresses are translated.
    pub(crate) pages: Option<Box<Pages>>,
}

impl Shared {
    pub(crate) fn new(config: &Config, wants_notices: bool) -> Result<Self, ConfigError> {
        let misses = config.llc.miss_registers.unwrap_or_else(|| (32 * config.cores.count).min(65_536));
        Ok(Shared {
            latencies: Latencies::new(config),
            hierarchy: Hierarchy::new(config, Journal::new(MemorySide::new(config)?, wants_notices)),
            ranges: Ranges::default(),
            order: Order::default(),
            sites: SiteStalls::new(),
            horizon: Time::NEVER,
            accesses: 0,
            prefetches: 0,
            asked: [0; 2],
            caches_persist: config.memory.persistence == Domain::Eadr,
            persists: Persists::new(config.cores.count as usize),
            withheld: Withheld::default(),
            places: Places::default(),
            coalesced: 0,
            made: [0; 2],
            extra: PersistencyFigures::default(),
            chronicle: Chronicle::default(),
            switch: (config.cores.pipeline.ordering == crate::Design::Switch).then(|| {
                let pipeline = &config.cores.pipeline;
                (Slots::new(pipeline.switch_entries), pipeline.switch_way)
            }),
            notices: VecDeque::new(),
            wants_notices,
            published: false,
            llc_misses: Slots::new(misses),
            write_backs: Slots::new(config.llc.write_backs.unwrap_or(64)),
            arriving: Arriving::new(),
            core_count: config.cores.count,
            pages: Pages::new(config).map(Box::new),
        })
    }

    /// Up to when the running core may go on without asking for anything: what other cores do up to the horizon can't be
    /// seen in its caches sooner than the LLC answers.
    pub(crate) fn hits_until(&self) -> Time {
        Time(self.horizon.0.saturating_add(self.latencies.llc.0))
    }

    /// When a miss could begin as far as the LLC's queues go, and what it waits for until then.
    pub(crate) fn ready_at(&self) -> (Time, Cause) {
        let (registers, write_backs) = (self.llc_misses.free_at(), self.write_backs.free_at());
        if write_backs > registers {
            (write_backs, Cause::WriteBack)
        } else {
            (registers, Cause::FillBuffers)
        }
    }

    /// A miss of the L1 that began at `start` and was answered from `answer`. Returns when its line is there, and may be
    /// written to if `own`.
    pub(crate) fn fetched(&mut self, start: Time, answer: Answer, own: bool, request: Request) -> Time {
        let Latencies { l1, l2, llc, forward } = self.latencies;
        let (in_l2, in_llc) = (start + l1 + l2, start + l1 + l2 + llc);
        let arrival = |shared: &Self| shared.arriving.until(request.line);
        let done = match answer {
            Answer::L2 => in_l2.max(arrival(self)),
            Answer::Llc => in_llc.max(arrival(self)),
            Answer::Upgrade => {
                let others = forward.map_or(in_llc, |forward| start + forward);
                let leave = self.hierarchy.below.memory.own(in_llc, request).unwrap_or(others);
                leave.max(arrival(self))
            }
            // The LLC's directory knows the core; its L2 is looked up.
            Answer::Core(_) => forward.map_or(in_llc + l2, |forward| start + forward).max(arrival(self)),
            Answer::Memory => {
                self.hierarchy.below.reads = false;
                self.asked[0] += 1;
                // A directory on the device gives leave first, and then the device the data.
                let leave = if own { self.hierarchy.below.memory.own(in_llc, request) } else { None };
                let place = Request { line: self.places.of(request.line), ..request };
                let done = self.hierarchy.below.memory.read(leave.unwrap_or(in_llc), place);
                self.llc_misses.take(done);
                self.arriving.note(request.line, done);
                done
            }
        };
        self.write_back(in_llc);
        done
    }

    /// What an access that begins at `start` evicts leaves the LLC when the access has come there.
    pub(crate) fn evicts_at(&mut self, start: Time) {
        self.hierarchy.below.now = start + self.latencies.way();
    }

    /// `line` was fetched ahead and is there at `done`.
    pub(crate) fn arrives(&mut self, line: u64, done: Time) {
        self.arriving.note(line, done);
    }

    /// What the journal has to write back leaves the LLC at `at`, each as soon as there is room in its queue.
    pub(crate) fn write_back(&mut self, at: Time) {
        let mut writes = std::mem::take(&mut self.hierarchy.below.writes);
        for write in writes.drain(..) {
            if let Some(at) = self.withheld.leaves(at, write, &self.persists) {
                self.leave_caches(at, write);
            }
        }
        self.hierarchy.below.writes = writes;
    }

    /// A line leaves the LLC from `at` on, as soon as there is room in its queue. Returns when, and when it is accepted.
    fn leave_caches(&mut self, at: Time, write: Write) -> (Time, Time) {
        let start = at.max(self.write_backs.free_at());
        if self.wants_notices && write.cause == WriteCause::Eviction {
            let (line, thread) = (write.line, write.thread);
            self.notices.push_back(Notice::LeftCaches { line, thread, at: start });
        }
        let accepted = self.write(start, write);
        self.write_backs.take(accepted);
        (start, accepted)
    }

    /// A line was sent: evicted lines that waited for it in a write-back buffer leave.
    pub(crate) fn release_withheld(&mut self) {
        while self.withheld.evicted_count() > 0
            && let Some((ready, write)) = self.withheld.next(&self.persists)
        {
            let (left, durable) = self.leave_caches(ready, write);
            let (core, line) = (write.thread % self.core_count, self.places.of(write.line));
            let why = super::Awaited::WriteBack;
            self.chronicle.sent(Persist { core, line, ready, left, durable, why, behind: None }, ready);
        }
    }

    /// The core of number `by` asked for `line` beyond its own caches, for itself alone if `own`.
    pub(crate) fn snooped(&mut self, line: u64, by: usize, own: bool) {
        if self.wants_notices {
            self.notices.push_back(Notice::Snooped { line, by, own });
        }
    }

    /// The next of the notices for the design.
    pub(crate) fn next_notice(&mut self) -> Option<Notice> {
        let left = self.hierarchy.below.left.drain(..);
        self.notices.extend(left.map(|(line, thread, dirty)| Notice::LeftCore { line, thread, dirty }));
        self.notices.pop_front()
    }

    /// What the journal has to write changes copies that wait already.
    pub(crate) fn coalesce(&mut self) {
        self.coalesced += self.hierarchy.below.writes.len() as u64;
        self.hierarchy.below.writes.clear();
    }

    /// The design reads a line of persistent memory itself, from `at` on. Returns when it has it.
    pub(crate) fn read_by_design(&mut self, at: Time, line: u64, core: usize, thread: u32) -> Time {
        self.made[0] += 1;
        self.asked[0] += 1;
        self.hierarchy.below.total_reads += 1;
        let line = self.places.of(line);
        self.hierarchy.below.memory.read(at, Request { line, thread, core: core as u32 })
    }

    /// The design has a line of persistent memory to write, beside those that caches give up: it is in the journal.
    pub(crate) fn write_by_design(&mut self, line: u64, site: u32, thread: u32) {
        self.made[1] += 1;
        self.hierarchy.below.write(Write { line, site, thread, cause: WriteCause::Request });
    }

    /// A core sends a line. Returns when it is durable: accepted by the memory side, or by a switch that is a domain of its own.
    pub(crate) fn write_from_core(&mut self, at: Time, write: Write) -> Time {
        let persistent = write.line & crate::interleave::PERSISTENT != 0;
        let Some((mut slots, way)) = self.switch.take().filter(|_| persistent) else {
            return self.write(at, write);
        };
        let entered = at.max(slots.free_at());
        let accepted = self.write(entered, write);
        slots.take(accepted);
        self.switch = Some((slots, way));
        accepted.min(entered + way)
    }

    /// The memory side is offered a line. Returns when it has accepted it.
    pub(crate) fn write(&mut self, at: Time, write: Write) -> Time {
        self.asked[1] += 1;
        // The slices of the LLC send what they evict, whoever stored it.
        let evicted = write.cause == WriteCause::Eviction;
        let thread = if evicted { NO_THREAD } else { write.thread };
        let line = self.places.of(write.line);
        let request = Request { line, thread, core: write.thread % self.core_count };
        self.hierarchy.below.memory.write(
            at,
            request,
            write.cause != WriteCause::NonTemporal { whole: false },
        )
    }
}

/// Lines read from memory not long ago, with the time of their arrival: whoever meets such a line in a cache before it
/// has arrived must wait for it. A table with a place per line's low bits, so that two lines can
/// collide; then the earlier is taken for arrived.
#[derive(Clone, Debug)]
struct Arriving(Box<[(u64, Time)]>);

impl Arriving {
    const PLACES: usize = 4096;

    fn new() -> Self {
        Arriving(vec![(u64::MAX, Time::ZERO); Self::PLACES].into())
    }

    fn note(&mut self, line: u64, done: Time) {
        self.0[line as usize % Self::PLACES] = (line, done);
    }

    fn until(&self, line: u64) -> Time {
        let (held, done) = self.0[line as usize % Self::PLACES];
        if held == line { done } else { Time::ZERO }
    }
}
