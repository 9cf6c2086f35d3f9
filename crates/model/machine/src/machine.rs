//! The machine as a consumer of events.

use event::{Batch, BlockBatch, Capabilities, Counts, Event, Op, RunSink, Sink, SinkError, Stop};

use crate::blocks::{Blocks, Hard};
use crate::cache::SITES_MAX;
use crate::core::{Core, Lookup, lines};
use crate::hierarchy::Hierarchy;
use crate::lookahead;
use crate::memory::{Memories, WriteLog};
use crate::ranges::Ranges;
use crate::timeline::Timeline;
use crate::{Config, ConfigError, Figures, LINE_BYTES, SiteFigures, SiteMemory};

/// Sites and threads are numbered densely by every source; a number beyond [`SITES_MAX`] and this is damage,
/// not data.
pub(crate) const THREADS_MAX: u32 = 1 << 20;

/// What a site executed.
#[derive(Clone, Copy, Debug, Default)]
struct SiteCounts {
    loads: u64,
    stores: u64,
    store_bytes: u64,
    nt_bytes: u64,
    flushes: u64,
    clean_flushes: u64,
}

/// An access that is more than a hit in the L1.
struct Miss {
    line: u64,
    store: bool,
    found: Lookup,
}

/// A modelled machine that runs a stream of events.
#[derive(Clone, Debug)]
pub struct Machine {
    config: Config,
    pub(crate) hierarchy: Hierarchy<Memories>,
    ranges: Ranges,
    mapped_persistent: bool,
    /// Without those in `blocks`.
    sites: Vec<SiteCounts>,
    blocks: Blocks,
    /// Accesses of blocks, behind the current window, for which nobody has to look ahead.
    covered: usize,
    pause: lookahead::Pause,
    timeline: Timeline,
    events: u64,
    time_ns: u64,
    /// Line accesses by ordinary loads and stores.
    accesses: u64,
    /// By number: whether the thread ran.
    threads: Vec<bool>,
}

impl Machine {
    /// A machine as `config` describes it, with empty caches and no persistent range.
    ///
    /// # Errors
    /// If the description has a value that no machine can have.
    pub fn new(config: &Config) -> Result<Machine, ConfigError> {
        config.validate()?;
        Ok(Machine {
            config: config.clone(),
            hierarchy: Hierarchy::new(config, Memories::new(config)),
            ranges: Ranges::default(),
            mapped_persistent: false,
            sites: Vec::new(),
            blocks: Blocks::default(),
            covered: 0,
            pause: lookahead::Pause::default(),
            timeline: Timeline::default(),
            events: 0,
            time_ns: 0,
            accesses: 0,
            threads: Vec::new(),
        })
    }

    /// Writes everything back that caches, combining buffers and devices still hold, as an orderly
    /// shutdown would. The figures then show every byte at the media. The end of a stream does not do this by itself:
    /// what a program left in the caches has cost nothing yet.
    pub fn drain(&mut self) {
        self.hierarchy.drain();
        self.hierarchy.below.drain();
    }

    /// Keeps a log of writes from now on, for somebody who takes it ([`Machine::writes`]) and clears it:
    /// it grows with every line written.
    pub fn watch_writes(&mut self) {
        self.hierarchy.below.log.get_or_insert_default();
    }

    /// The log of writes, if there is one.
    pub fn writes(&mut self) -> Option<&mut WriteLog> {
        self.hierarchy.below.log.as_mut()
    }

    /// What was measured so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let [volatile, persistent] = self.hierarchy.below.figures();
        Figures {
            machine: self.config.name.clone(),
            unit_bytes: self.config.device.unit.0 as u32,
            dimms: self.config.memory.dimms,
            threads: self.threads.iter().filter(|&&ran| ran).count() as u32,
            caches: self.hierarchy.figures(self.accesses),
            persistent,
            volatile,
            mapped_persistent: self.mapped_persistent,
            sites: self.site_counts().iter().zip(&self.hierarchy.below.sites).map(site_figures).collect(),
            timeline: self.timeline.slices(self.events, self.time_ns, self.hierarchy.below.totals()),
            held_nt_bytes: self.hierarchy.cores.iter().map(|core| core.combining.held_bytes()).sum(),
        }
    }

    /// What was measured, at the end.
    #[must_use]
    pub fn into_figures(self) -> Figures {
        self.figures()
    }

    /// All events so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.blocks
            .tallies()
            .counts(self.blocks.executions().map(|(accesses, _, executions)| (accesses.len(), executions)))
    }

    /// What the sites executed, in blocks or not.
    fn site_counts(&self) -> Vec<SiteCounts> {
        let mut sites = self.sites.clone();
        for (number, (accesses, first, executions)) in self.blocks.executions().enumerate() {
            for (place, access) in (first..).zip(accesses) {
                let times = executions - self.blocks.tallies().skipped(place);
                let site = &mut sites[access.site() as usize];
                if access.store() {
                    site.stores += times;
                    site.store_bytes += self.blocks.tallies().bytes(number, place, times);
                } else {
                    site.loads += times;
                }
            }
        }
        sites
    }

    /// Carries out a batch of blocks, of known shapes, on a thread's core.
    fn run_words(&mut self, core: usize, batch: &BlockBatch<'_>) -> Result<(), SinkError> {
        let mut events = batch.events;
        let (mut at, mut part) = (0, BlockBatch { events: &[], ..*batch });
        loop {
            let stop = self.blocks.unfold(batch.words, &mut at);
            self.run_window(core);
            match stop {
                Stop::Full => {}
                Stop::End => break,
                Stop::Event => {
                    let (event, rest) = events.split_at(1);
                    events = rest;
                    let before = part.words.len() - (batch.words.len() - at);
                    self.blocks.tallies_mut().carry(&BlockBatch { words: &part.words[..before], ..part });
                    at += 1;
                    part = BlockBatch { words: &batch.words[at..], carry: 0, ..part };
                    self.blocks.tallies_mut().events.add(&event[0]);
                    self.run_slices(core, event)?;
                }
                Stop::Other(number) => {
                    let shape = &batch.shapes[number];
                    let block = &batch.words[at + 1..at + shape.words()];
                    at += shape.words();
                    let expanded = self.blocks.tallies_mut().expand(shape, block);
                    self.run_slices(core, &expanded)?;
                }
            }
        }
        self.blocks.tallies_mut().carry(&part);
        Ok(())
    }

    /// Carries out the window of accesses in `blocks`.
    fn run_window(&mut self, core: usize) {
        loop {
            let left = usize::try_from(self.timeline.next_boundary() - self.events).unwrap_or(usize::MAX);
            if self.blocks.ahead().len() < left {
                return self.run_accesses(core);
            }
            // A slice of the timeline may end within the window.
            let mut executed = self.blocks.ahead().iter().enumerate().filter(|(_, addr)| **addr != 0);
            let Some((last, _)) = executed.nth(left - 1) else { return self.run_accesses(core) };
            let end = self.blocks.cut(last + 1);
            self.run_accesses(core);
            self.blocks.go_on(end);
            self.timeline.close(self.events, self.time_ns, self.hierarchy.below.totals());
        }
    }

    fn run_accesses(&mut self, core: usize) {
        let accesses = self.blocks.ahead().len() as u64;
        let (mut skipped, mut splits) = (0, 0);
        // Accesses left from which on somebody has to look ahead.
        let mut unread = self.blocks.ahead().len().saturating_sub(self.covered);
        self.covered = self.covered.saturating_sub(self.blocks.ahead().len());
        loop {
            let Machine { blocks, hierarchy, ranges, .. } = self;
            let Some(hard) = blocks.hit_all(&mut hierarchy.cores[core], ranges, &mut skipped) else { break };
            let (access, line, found) = match hard {
                Hard::Split(access, addr) => {
                    splits += 1;
                    self.access(core, addr, access.bytes(), access.store(), access.site());
                    continue;
                }
                Hard::Missed(access, line, found) => (access, line, found),
            };
            let ahead = self.blocks.ahead();
            if ahead.len() <= unread {
                let Machine { blocks, hierarchy, ranges, pause, .. } = self;
                let ahead = blocks.ahead();
                let covered = lookahead::read_addresses(
                    &hierarchy.cores[core],
                    &hierarchy.llc,
                    ranges,
                    line,
                    ahead,
                    pause,
                );
                unread = ahead.len().saturating_sub(covered);
                self.covered = covered.saturating_sub(ahead.len());
            }
            self.hierarchy.miss(core, line, access.store(), access.site(), found);
        }
        self.events += accesses - skipped;
        self.accesses += accesses - skipped - splits;
    }

    /// Runs events of one thread on its core, and closes slices of the timeline that end with them.
    fn run_slices(&mut self, core: usize, mut events: &[Event]) -> Result<(), SinkError> {
        while !events.is_empty() {
            let left = usize::try_from(self.timeline.next_boundary() - self.events).unwrap_or(usize::MAX);
            let (now, later) = events.split_at(left.min(events.len()));
            self.run(core, now)?;
            self.events += now.len() as u64;
            if now.len() == left {
                self.timeline.close(self.events, self.time_ns, self.hierarchy.below.totals());
            }
            events = later;
        }
        Ok(())
    }

    /// Runs events of one thread on its core.
    fn run(&mut self, core: usize, mut events: &[Event]) -> Result<(), SinkError> {
        let mut unread = events.len();
        loop {
            let missed;
            (events, missed) = self.run_hits(core, events);
            let Some((event, rest)) = events.split_first() else { return Ok(()) };
            if events.len() <= unread {
                let covered = lookahead::read(
                    &self.hierarchy.cores[core],
                    &self.hierarchy.llc,
                    &mut self.ranges,
                    events,
                );
                unread = events.len().saturating_sub(covered);
            }
            if let Some(Miss { line, store, found }) = missed {
                self.hierarchy.miss(core, line, store, event.site.0, found);
                events = rest;
            } else if event.site.0 as usize >= self.sites.len() {
                self.admit_site(event.site.0)?;
            } else {
                self.run_one(core, event);
                events = rest;
            }
        }
    }

    /// Runs the leading events that are loads and stores within one line of the core's L1, which nearly
    /// all events are, and returns the others. If the first of these is such an access, too, but no hit, it is
    /// counted and left to [`Hierarchy::miss`].
    #[inline]
    fn run_hits<'a>(&mut self, core: usize, events: &'a [Event]) -> (&'a [Event], Option<Miss>) {
        let core = &mut self.hierarchy.cores[core];
        let sites = &mut self.sites[..];
        let (mut done, mut missed) = (0, None);
        for event in events {
            let (addr, len, store) = match event.op {
                Op::Load { addr, len } => (addr, len, false),
                Op::Store { addr, len } => (addr, len, true),
                _ => break,
            };
            // An empty access wraps around and is left to the general case, too.
            if addr % LINE_BYTES + u64::from(len.wrapping_sub(1)) >= LINE_BYTES {
                break;
            }
            let Some(site) = sites.get_mut(event.site.0 as usize) else { break };
            let line = self.ranges.place(addr / LINE_BYTES);
            site.loads += u64::from(!store);
            site.stores += u64::from(store);
            site.store_bytes += if store { u64::from(len) } else { 0 };
            let found = core.hit(line, store, event.site.0);
            if found != Lookup::Hit {
                missed = Some(Miss { line, store, found });
                break;
            }
            done += 1;
        }
        self.accesses += done as u64 + u64::from(missed.is_some());
        (&events[done..], missed)
    }

    /// Runs any event, of a site that is known.
    fn run_one(&mut self, core: usize, event: &Event) {
        let site = event.site.0;
        let counts = &mut self.sites[site as usize];
        match event.op {
            Op::Load { addr, len } => {
                counts.loads += 1;
                self.access(core, addr, len, false, site);
            }
            Op::Store { addr, len } => {
                counts.stores += 1;
                counts.store_bytes += u64::from(len);
                self.access(core, addr, len, true, site);
            }
            Op::StoreNt { addr, len } => {
                counts.stores += 1;
                counts.store_bytes += u64::from(len);
                counts.nt_bytes += u64::from(len);
                for (line, bytes) in lines(addr, len) {
                    let line = self.ranges.place(line);
                    self.hierarchy.store_nt(core, line, bytes, site);
                }
            }
            Op::Flush { addr, kind } => {
                let line = self.ranges.place(addr / LINE_BYTES);
                let dirty = self.hierarchy.flush(core, line, kind == event::FlushKind::Clwb);
                counts.flushes += 1;
                counts.clean_flushes += u64::from(!dirty);
            }
            Op::Demote { addr } => {
                let line = self.ranges.place(addr / LINE_BYTES);
                self.hierarchy.demote(core, line);
            }
            Op::Fence(_) => self.hierarchy.drain_combining(core),
            Op::Map { addr, len, .. } => {
                self.ranges.map(addr, len);
                self.hierarchy.cores.iter_mut().for_each(Core::forget_all_recent);
                self.mapped_persistent |= len > 0;
            }
            Op::Unmap { addr, len } => {
                self.ranges.unmap(addr, len);
                self.hierarchy.cores.iter_mut().for_each(Core::forget_all_recent);
            }
            // Order between threads is already in the order of the stream; marks order, and move nothing by themselves.
            event::synchronizations!() | Op::RegionBegin { .. } | Op::RegionEnd { .. } | Op::Strand(_) => {}
            // What a prefetch brings is counted at the load that it is for.
            Op::Prefetch { .. }
            | Op::Context
            // No access to memory.
            | Op::Alloc { .. }
            | Op::Free { .. }
            | Op::MapOffset { .. }
            | Op::MapSync { .. }
            | Op::Phase { .. }
            | Op::Process { .. }
            | event::file_operations!() => {}
        }
    }

    fn access(&mut self, core: usize, addr: u64, len: u32, store: bool, site: u32) {
        let long = u64::from(len) >= lookahead::SPAN * LINE_BYTES;
        for (at, (line, _)) in (0..).zip(lines(addr, len)) {
            if long && at % lookahead::SPAN == 0 {
                lookahead::read_span(
                    &self.hierarchy.cores[core],
                    &self.hierarchy.llc,
                    &mut self.ranges,
                    line,
                );
            }
            let line = self.ranges.place(line);
            self.accesses += 1;
            self.hierarchy.access(core, line, store, site);
        }
    }

    /// Makes room for the accounts of a site that is seen for the first time.
    #[cold]
    fn admit_site(&mut self, site: u32) -> Result<(), SinkError> {
        if site >= SITES_MAX {
            return Err(SinkError::Other(format!(
                "an event names code site {site}, and a run has at most {SITES_MAX}: the stream is damaged"
            )));
        }
        let count = site as usize + 1;
        self.sites.resize(count, SiteCounts::default());
        self.hierarchy.below.sites.resize(count, [SiteMemory::default(); 2]);
        Ok(())
    }

    fn admit_thread(&mut self, thread: u32) -> Result<(), SinkError> {
        if thread >= THREADS_MAX {
            return Err(SinkError::Other(format!(
                "a batch names thread {thread}, and a run has at most {THREADS_MAX}: the stream is damaged"
            )));
        }
        if self.threads.len() <= thread as usize {
            self.threads.resize(thread as usize + 1, false);
        }
        self.threads[thread as usize] = true;
        Ok(())
    }
}

impl Sink for Machine {
    fn name(&self) -> &'static str {
        "machine"
    }

    fn needs(&self) -> Capabilities {
        Capabilities::LOADS | Capabilities::STORES
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.admit_thread(batch.thread.0)?;
        self.time_ns = self.time_ns.max(batch.time_ns);
        let core = self.hierarchy.schedule(batch.thread.0);
        self.blocks.tallies_mut().events.push(batch)?;
        self.run_slices(core, batch.events)
    }

    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        Some(self)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        if cfg!(debug_assertions) {
            self.audit().map_err(|error| SinkError::Other(error.to_string()))?;
        }
        Ok(())
    }
}

impl RunSink for Machine {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        self.admit_thread(batch.thread.0)?;
        self.time_ns = self.time_ns.max(batch.time_ns);
        for shape in batch.shapes.get(self.blocks.known()..).unwrap_or_default() {
            let last = shape.accesses.iter().map(|access| access.site.0).max().unwrap_or(0);
            if last as usize >= self.sites.len() {
                self.admit_site(last)?;
            }
            self.blocks.learn(shape);
        }
        let core = self.hierarchy.schedule(batch.thread.0);
        self.run_words(core, &batch)
    }
}

fn site_figures((counts, memory): (&SiteCounts, &[SiteMemory; 2])) -> SiteFigures {
    let [volatile, persistent] = *memory;
    SiteFigures {
        loads: counts.loads,
        stores: counts.stores,
        store_bytes: counts.store_bytes,
        nt_bytes: counts.nt_bytes,
        flushes: counts.flushes,
        clean_flushes: counts.clean_flushes,
        persistent,
        volatile,
    }
}
