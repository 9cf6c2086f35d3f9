//! The machine with time.
//!
//! There is no global tick. A core runs along its events with a clock of its own; a request for a line walks through what
//! it needs (fill buffer, miss registers, write-back queue, memory side), reserves each for as long as it needs it, and
//! its time of completion is known at once. An event costs work once, however long it takes; waiting costs none.
//!
//! ```text
//!   events ─▶ window ─┬─ loads ──▶ L1 ─ fill buffers ─▶ L2 ─ miss registers ─▶ LLC ─ miss registers ──┐
//!                     │                                                         └ write-back queue ──┤
//!                     └─ store queue ─┬─ stores ─▶ L1 (as loads, but in order)                        ├─▶ memory side
//!                                     ├─ flushes ─▶ flush slots ─────────────────────────────────────┤
//!                                     └─ non-temporal stores ─▶ combining buffers ───────────────────┘
//! ```
//!
//! # What a line does and when
//!
//! The two are apart. What happens to a line (who has it, what is evicted for it, what a flush writes back) is
//! decided by the hierarchy that the traffic machine uses, at once and in program order. It writes the requests to memory
//! that follow from one access into a [`journal`], and these are then timed. A conservation law holds between
//! the two: each line in the journal reaches the memory side once ([`Simulation::audit`]). In one point time decides where lines
//! are: with `llc.replacement = "queue-aware"` the hierarchy asks, when it needs room in the LLC, which lines could leave now.
//! So there, and with `llc.slices`, the traffic machine has other lines in its LLC; else both agree.
//!
//! # The order of time
//!
//! A resource that is reserved for later can't be given to somebody who comes earlier, so requests have to be made in
//! the order of time. The core whose next request is earliest runs, and it runs as far as its next request
//! that would be later than another core's ([`shared::Shared::horizon`]); hits in its own caches may run ahead by the
//! latency of the LLC, within which no other core's doings can reach it. A request that has to wait (for a fill buffer, for
//! stores before a flush) is not made but put off, and the others go first. A line that is flushed leaves the
//! cache at once and its core when its time has come ([`outgoing`]).
//!
//! # What a core waits for
//!
//! - The window ([`window`]): instructions enter in order and leave in order; a load miss holds up those behind it until the
//!   window or the load queue is full.
//! - Stores ([`stores`]): retired at once, they wait in the store queue, in order with total store order; a full queue
//!   stalls. What a store, flush or fence does beyond that is the
//!   design's ([`crate::designs`]): with weak ordering stores stay private until pressure, a fence, a release or a demotion
//!   publishes them; with `hops` copies of persistent lines go to a persist buffer.
//! - Fences: a store fence retires when the thread's own stores are in the cache and its flushes and non-temporal lines
//!   are accepted by the write queue; loads after it may run ahead within the window, and stores after it ask
//!   for their lines ([`ahead`]). A full fence also waits for loads, and
//!   nothing after it begins.
//! - Pressure ([`shared`]): a miss may evict a dirty line, so none begins while the LLC's write-back queue is full.
//! - Other threads ([`order`]).
//!
//! Each moment that a core's clock stands still is charged to one cause, one thread and one code site.
//!
//! # Memory
//!
//! A stream may be ahead of the machine by 65,536 events (2 MiB), all threads together: half of them come in, then half are
//! carried out, earliest first. A thread that is silent for longer is taken to be waiting for something that is not
//! recorded. Whatever else is kept has a size that the description sets (caches, queues), or one entry per thread, code
//! site, name, at most 512 slices of time and 65,536 phases, and one per synchronisation variable that somebody waits
//! for, plus 65,536.

mod ahead;
mod audit;
mod chronicle;
mod core;
mod execute;
mod figures;
mod instructions;
mod journal;
mod mmu;
mod order;
mod outgoing;
mod pages;
mod persists;
mod places;
mod prefetch;
mod progress;
mod queue;
mod refill;
mod shared;
mod slots;
mod stores;
mod tlb;
mod walk;
mod window;
mod withheld;

use std::collections::HashSet;

use event::{Batch, Capabilities, Definition, Event, NameId, Op, Sink, SinkError, SiteId, ThreadId};

pub(crate) use self::core::{Access, Later, TimedCore};
pub(crate) use figures::Cause;
pub use figures::{
    Awaited, Persist, PersistencyFigures, Phase, Span, Stalls, ThreadTiming, TimedFigures, TimedSlice,
};
pub use pages::TranslationFigures;
pub(crate) use persists::Promise;
pub(crate) use shared::Shared;
pub(crate) use slots::LineSlots;
pub(crate) use stores::Arrival;
pub(crate) use window::Wait;

use self::core::Running;
use self::execute::Flow;
use self::progress::Progress;
use crate::cache::SITES_MAX;
use crate::designs::{self, Persistency};
use crate::machine::THREADS_MAX;
use crate::program::{Next, Program};
use crate::{Config, ConfigError, Time};

/// Events that a stream may be ahead of the machine, all threads together: 2 MiB.
const AHEAD: usize = 65_536;
/// Times in a row that a program may give no events and yet want to go on.
const EMPTY_ANSWERS: u32 = 1_000_000;

/// A modelled machine with time.
pub struct Simulation {
    config: Config,
    design: Box<dyn Persistency>,
    shared: Shared,
    /// Those that have run, and those before them.
    cores: Vec<TimedCore>,
    progress: Progress,
    names: Vec<String>,
    /// Events in the cores' queues.
    waiting: usize,
    /// Events that came in since the machine last ran, of a stream.
    fresh: usize,
    events: u64,
    /// The last program's answer, kept for its memory.
    asked_for: Vec<Event>,
    /// Sites whose loads are prefetched, and so many events ahead.
    prefetched: Option<(HashSet<u32>, usize)>,
}

impl Simulation {
    /// A machine as `config` describes it, at time zero, with empty caches and no persistent range.
    ///
    /// # Errors
    /// If the description has a value that no machine can have, or no timing of its memory.
    pub fn new(config: &Config) -> Result<Simulation, ConfigError> {
        config.validate()?;
        Simulation::with_design(config, designs::build(config))
    }

    /// As [`Simulation::new`], of a valid description, with this design.
    pub(crate) fn with_design(
        config: &Config,
        design: Box<dyn Persistency>,
    ) -> Result<Simulation, ConfigError> {
        Ok(Simulation {
            shared: Shared::new(config, design.wants_notices())?,
            design,
            cores: Vec::new(),
            progress: Progress::default(),
            names: Vec::new(),
            waiting: 0,
            fresh: 0,
            events: 0,
            asked_for: Vec::new(),
            prefetched: None,
            config: config.clone(),
        })
    }

    /// Runs programs, each a thread of that number, from the present time on until all are done.
    ///
    /// # Errors
    /// If they wait for each other for ever, do not go on, or name a code site that no run has.
    pub fn run(&mut self, programs: Vec<(ThreadId, Box<dyn Program>)>) -> Result<(), SinkError> {
        for (thread, program) in programs {
            let core = self.core_of(thread);
            let ready = self.cores[core].window.dispatch;
            self.cores[core].programs.push_back(Running { thread, program, ready, empty_answers: 0 });
            self.refresh_key(core);
        }
        self.run_out()
    }

    /// From now on each thread prefetches, by an instruction of its own, what a load of these sites will need `events` events later.
    pub fn prefetch(&mut self, sites: Vec<SiteId>, events: usize) {
        self.prefetched = Some((sites.into_iter().map(|site| site.0).collect(), events.max(1)));
    }

    /// When the last of the cores' events so far has retired.
    #[must_use]
    pub fn now(&self) -> Time {
        self.cores.iter().map(|core| core.window.retired).max().unwrap_or(Time::ZERO)
    }

    /// Writes everything back that combining buffers, caches, queues and devices still hold, as an orderly shutdown would.
    /// Returns when that is done.
    pub fn drain(&mut self) -> Time {
        let start = self.last_of_all();
        self.shared.hierarchy.drain();
        self.shared.write_back(start);
        self.shared.hierarchy.below.memory.drain(start)
    }

    /// What was measured so far.
    #[must_use]
    pub fn figures(&self) -> TimedFigures {
        let elapsed = self.last_of_all();
        let totals = self.totals();
        let mut threads: Vec<ThreadTiming> = self.accounts().filter(|account| account.events > 0).collect();
        threads.sort_unstable_by_key(|account| account.thread);
        TimedFigures {
            machine: self.config.name.clone(),
            elapsed,
            threads,
            caches: self.shared.hierarchy.figures(self.shared.accesses),
            memories: self.shared.hierarchy.below.memory.figures(),
            phases: self.progress.phases(elapsed, totals),
            timeline: self.progress.slices(elapsed, totals),
            site_stalls: self.shared.sites.clone(),
            prefetches: self.shared.prefetches,
            persistency: self.shared.extra,
            persists: self.shared.chronicle.kept().to_vec(),
            translation: self
                .shared
                .pages
                .as_ref()
                .map(|pages| TranslationFigures { reserved: pages.reserved(), ..pages.figures.clone() }),
        }
    }

    /// Keeps in [`TimedFigures::persists`] what becomes of `count` lines that cores send to persistent memory, behind the first
    /// `skip`.
    pub fn keep_persists(&mut self, skip: u64, count: usize) {
        self.shared.chronicle.keep(skip, count);
    }

    fn last_of_all(&self) -> Time {
        self.cores.iter().map(TimedCore::last_of_all).max().unwrap_or(Time::ZERO)
    }

    /// The accounts of all threads.
    fn accounts(&self) -> impl Iterator<Item = ThreadTiming> {
        self.cores.iter().flat_map(|core| {
            let running = ThreadTiming { finished: core.window.retired, ..core.window.account };
            core.accounts.iter().copied().chain([running])
        })
    }

    /// State of all counters.
    fn totals(&self) -> Span {
        let mut totals = Span { events: self.events, ..Span::default() };
        for account in self.accounts() {
            totals.instructions += account.instructions;
            totals.stalls.add(&account.stalls);
        }
        totals.traffic = self.shared.hierarchy.below.memory.traffic();
        totals
    }

    /// The core on which `thread` runs.
    fn core_of(&mut self, thread: ThreadId) -> usize {
        let core = (thread.0 % self.config.cores.count) as usize;
        while self.cores.len() <= core {
            let mut core = TimedCore::new(&self.config, self.cores.len(), self.design.write_slots());
            if let Some((lanes, entries)) = self.design.lanes() {
                core.outgoing.split(lanes, entries);
            }
            self.cores.push(core);
        }
        core
    }

    fn refresh_key(&mut self, core: usize) {
        self.cores[core].key = self.cores[core].next_key(&self.shared);
    }

    /// Events come in for a core. Those of a stream have an order of synchronisation to be kept.
    fn admit(&mut self, thread: ThreadId, events: &[Event], recorded: bool) -> Result<usize, SinkError> {
        let core = self.core_of(thread);
        let mut last_site = 0;
        for event in events {
            last_site = last_site.max(event.site.0);
            if recorded && let Some((place, _)) = order::step(&event.op, thread) {
                let lock = matches!(place, order::MeetingPoint::Lock(_));
                let in_order = !lock || self.config.cores.pipeline.locks_in_order;
                let ticket = in_order.then(|| self.shared.order.arrive(place));
                self.cores[core].tickets.push_back(ticket);
            }
        }
        if last_site >= SITES_MAX {
            return Err(SinkError::Other(format!(
                "an event names code site {last_site}, and a run has at most {SITES_MAX}: the stream is damaged"
            )));
        }
        if self.shared.sites.len() <= last_site as usize {
            self.shared.sites.resize(last_site as usize + 1, Time::ZERO);
        }
        self.cores[core].queue.push(thread, events);
        self.waiting += events.len();
        Ok(core)
    }

    /// Runs until no core has anything left to do.
    fn run_out(&mut self) -> Result<(), SinkError> {
        while self.turn()? {}
        if self.cores.iter().any(|core| core.blocked.is_some()) {
            return Err(SinkError::Other("the threads wait for each other's locks for ever".to_owned()));
        }
        for core in &mut self.cores {
            core.window.empty(&mut self.shared.sites);
        }
        Ok(())
    }

    /// Lets the core run that is furthest behind, as far as the next. False if none has anything to do.
    fn turn(&mut self) -> Result<bool, SinkError> {
        let (mut first, mut key, mut horizon) = (0, Time::NEVER, Time::NEVER);
        for (number, core) in self.cores.iter().enumerate() {
            if core.key < key {
                (first, horizon, key) = (number, key, core.key);
            } else {
                horizon = horizon.min(core.key);
            }
        }
        if key == Time::NEVER {
            return Ok(false);
        }
        if key >= self.progress.slice_end {
            let totals = self.totals();
            self.progress.pass(key, totals);
        }
        self.shared.horizon = horizon.min(self.progress.slice_end);
        self.advance(first)?;
        if std::mem::take(&mut self.shared.published) {
            self.wake();
        }
        if std::mem::take(&mut self.shared.persists.news) {
            for core in &mut self.cores {
                core.key = core.key.min(core.next_key(&self.shared));
            }
        }
        Ok(true)
    }

    /// Something was published: those who waited try again.
    fn wake(&mut self) {
        for core in &mut self.cores {
            if core.blocked.take().is_some() {
                core.key = core.next_key(&self.shared);
            }
        }
    }

    /// Runs a core until it has to let others go first.
    fn advance(&mut self, number: usize) -> Result<(), SinkError> {
        let limit = self.shared.hits_until();
        let leaves_hits_alone = self.design.leaves_hits_alone() && self.shared.pages.is_none();
        loop {
            let core = &mut self.cores[number];
            let Some(thread) = core.queue.thread().filter(|_| core.blocked.is_none()) else {
                if core.blocked.is_none() && self.ask_program(number)? {
                    continue;
                }
                break;
            };
            if core.window.dispatch > limit {
                break;
            }
            if core.current != Some(thread) {
                core.switch_to(thread);
                self.shared.hierarchy.schedule(thread.0);
            }
            let queue = std::mem::take(&mut core.queue);
            let events = queue.front();
            let alone = leaves_hits_alone && self.prefetched.is_none();
            let hits = if alone { core.run_hits(events, &mut self.shared) } else { 0 };
            let next = events.get(hits).copied();
            let later = self.prefetched.as_ref().and_then(|(sites, far)| {
                events.get(*far).filter(|later| core.progress.is_none() && sites.contains(&later.site.0))
            });
            let asked = later.map_or(Ok(()), |later| core.prefetch_for(later, &mut self.shared));
            core.queue = queue;
            if let Err(Later(time)) = asked {
                core.key = time;
                return Ok(());
            }
            self.carried_out(number, hits);
            let Some(event) = next else { continue };
            match self.cores[number].execute(thread, &event, &mut *self.design, &mut self.shared) {
                Flow::Done => {
                    if let Op::Phase { name } = event.op {
                        self.mark_phase(number, name);
                    }
                    self.cores[number].progress = None;
                    self.carried_out(number, 1);
                    // Who has waited for a lock is before who gives it up and wants it again.
                    if std::mem::take(&mut self.shared.published)
                        && self.cores.iter().any(|core| core.blocked.is_some())
                    {
                        self.shared.published = true;
                        break;
                    }
                }
                Flow::Later(time) => {
                    self.cores[number].key = time;
                    return Ok(());
                }
                Flow::Blocked => {}
            }
        }
        self.cores[number].rest(&mut self.shared);
        Ok(())
    }

    fn carried_out(&mut self, number: usize, count: usize) {
        let core = &mut self.cores[number];
        core.queue.pop(count);
        core.window.account.events += count as u64;
        self.waiting -= count;
        self.events += count as u64;
    }

    fn mark_phase(&mut self, number: usize, name: NameId) {
        let name = self.names.get(name.0 as usize).cloned().unwrap_or_default();
        let now = self.cores[number].window.dispatch;
        let totals = self.totals();
        self.progress.mark(name, now, totals);
    }

    /// The next program of a core that is ready gives its events. False if the core has none, or none that is ready before
    /// other cores' turn.
    fn ask_program(&mut self, number: usize) -> Result<bool, SinkError> {
        let core = &mut self.cores[number];
        let Some(mut running) = core.take_program(self.shared.horizon) else { return Ok(false) };
        if core.current != Some(running.thread) {
            core.switch_to(running.thread);
            self.shared.hierarchy.schedule(running.thread.0);
        }
        core.window.idle(running.ready);
        let mut events = std::mem::take(&mut self.asked_for);
        events.clear();
        let next = running.program.next(core.window.retired, &mut events);
        let cycle = self.config.cores.pipeline.cycle;
        running.empty_answers =
            if events.is_empty() && next == Next::Run { running.empty_answers + 1 } else { 0 };
        let (thread, stuck) = (running.thread, running.empty_answers > EMPTY_ANSWERS);
        running.ready = match next {
            Next::Idle(until) => until,
            // Time goes on, or a program that waits for another would keep it from running.
            Next::Run if events.is_empty() => core.window.dispatch + cycle,
            _ => Time::ZERO,
        };
        if next != Next::Done {
            core.programs.push_back(running);
        }
        self.admit(thread, &events, false)?;
        self.asked_for = events;
        if stuck {
            return Err(SinkError::Other(format!("the program of thread {} gives no events", thread.0)));
        }
        Ok(true)
    }
}

impl Sink for Simulation {
    fn name(&self) -> &'static str {
        "simulation"
    }

    fn needs(&self) -> Capabilities {
        Capabilities::LOADS | Capabilities::STORES | self.design.needs()
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        if let Definition::Name(id, name) = definition {
            let at = id.0 as usize;
            if self.names.len() <= at {
                self.names.resize(at + 1, String::new());
            }
            name.clone_into(&mut self.names[at]);
        }
        Ok(())
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        if batch.thread.0 >= THREADS_MAX {
            return Err(SinkError::Other(format!(
                "a batch names thread {}, and a run has at most {THREADS_MAX}: the stream is damaged",
                batch.thread.0
            )));
        }
        let mut events = batch.events;
        while !events.is_empty() {
            // The machine runs after so many events, wherever the batches end, so that their ends change nothing.
            let (now, later) = events.split_at(events.len().min(AHEAD / 2 - self.fresh));
            let core = self.admit(batch.thread, now, true)?;
            self.cores[core].key = self.cores[core].key.min(self.cores[core].next_key(&self.shared));
            self.fresh += now.len();
            if self.fresh == AHEAD / 2 {
                self.fresh = 0;
                while self.waiting > AHEAD / 2 && self.turn()? {}
                let slowest = self.cores.iter().filter(|core| core.queue.len() > 0);
                let passed = slowest.map(|core| core.window.dispatch).min().unwrap_or(Time::NEVER);
                self.shared.order.forget_before(passed);
            }
            events = later;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.run_out()?;
        let end = self.last_of_all();
        self.shared.hierarchy.below.memory.advance_to(end);
        if cfg!(debug_assertions) {
            self.audit().map_err(|error| SinkError::Other(error.to_string()))?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulation")
            .field("machine", &self.config.name)
            .field("now", &self.now())
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}
