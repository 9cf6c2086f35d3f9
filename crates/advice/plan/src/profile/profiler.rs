//! The profile of a stream of events.

use std::collections::{HashMap, HashSet};

use event::{Batch, Capabilities, Definition, Event, FenceKind, FlushKind, Op, Sink, SinkError, Source};
use machine::{Config, ConfigError};

use super::bank::{Bank, Held, Private, Private2};
use super::data::{Profile, StructureProfile};
use super::locate::{Locator, Namer, Owner, PAGE, Structure};
use super::overlap::{Clusters, Open};
use crate::curve::{Shards, Umon};

const LINE: u64 = device::LINE_BYTES;
/// Lines of the sampled stack-distance structure: one in so many.
const SHARDS_RATE: f64 = 1.0 / 64.0;
/// Sets of the monitor: one in so many, as its authors' 32 sets of a large cache.
const UMON_EVERY: u64 = 16;
/// A thread's number beyond this is damage, not data.
const THREADS_MAX: u32 = 1 << 20;
/// Slices of the run are counted by so many misses beyond the second level, then joined.
const SLICE_MIN: u64 = 1024;

/// Per structure, as it is counted.
#[derive(Clone, Debug, Default)]
struct Tally {
    beyond_l2: u64,
    misses: Vec<u64>,
    store_misses: Vec<u64>,
    writes: Vec<u64>,
    slices: Vec<u64>,
}

/// One thread's place in its program.
#[derive(Clone, Debug, Default)]
struct Thread {
    instructions: u64,
    stores: u64,
    loads: Vec<Open>,
    /// Per candidate: the cluster of stores, and the store with which it began.
    stored: Vec<(Open, u64)>,
}

/// A thread's number in its list, and its core's.
#[derive(Clone, Copy)]
struct Place {
    number: usize,
    core: usize,
}

/// One core's own caches, and the line that it used last: it is in them, and using it again changes nothing in them, unless it is
/// stored to for the first time.
#[derive(Default)]
struct Core {
    private: Option<Private>,
    line: Option<(u64, bool)>,
}

/// A consumer of events that makes a [`Profile`].
pub struct Profiler {
    config: Config,
    ways: Vec<u32>,
    locator: Locator,
    cores: Vec<Core>,
    /// Places of threads in `threads`.
    numbers: HashMap<u32, usize>,
    threads: Vec<Thread>,
    bank: Bank,
    clusters: Vec<Clusters>,
    tallies: Vec<Tally>,
    /// Pages that were touched, and the last one.
    pages: HashSet<u64>,
    page: u64,
    touched: HashMap<Structure, u64>,
    monitor: Umon,
    shards: Shards,
    events: u64,
    accesses: u64,
    misses: u64,
    slice: u64,
    sampled: bool,
    saw_allocations: bool,
}

impl Profiler {
    /// For a machine, whose last level is looked at with each of so many ways.
    ///
    /// # Errors
    /// If the description has a value that no machine can have.
    pub fn new(config: &Config, ways: &[u32]) -> Result<Profiler, ConfigError> {
        config.validate()?;
        let most = ways.iter().copied().max().unwrap_or(1).max(1);
        let sets = config.llc.size.0 / LINE / u64::from(config.llc.ways);
        Ok(Profiler {
            bank: Bank::new(config, ways),
            clusters: vec![Clusters::default(); ways.len()],
            monitor: Umon::new(sets, most as usize, UMON_EVERY.min(sets.div_ceil(32)).max(1)),
            shards: Shards::new(SHARDS_RATE),
            locator: Locator::new(),
            cores: Vec::new(),
            numbers: HashMap::new(),
            threads: Vec::new(),
            tallies: Vec::new(),
            pages: HashSet::new(),
            page: u64::MAX,
            touched: HashMap::new(),
            events: 0,
            accesses: 0,
            misses: 0,
            slice: SLICE_MIN,
            sampled: false,
            saw_allocations: false,
            ways: ways.to_vec(),
            config: config.clone(),
        })
    }

    /// Structures are sites of one name.
    #[must_use]
    pub fn joined_by(mut self, namer: Option<Namer>) -> Profiler {
        namer.into_iter().for_each(|namer| self.locator.join_by(namer));
        self
    }

    /// What was found.
    #[must_use]
    pub fn profile(mut self) -> Profile {
        for thread in &mut self.threads {
            for (at, open) in thread.loads.iter_mut().enumerate() {
                open.close(&mut self.clusters[at]);
            }
            for (at, (open, _)) in thread.stored.iter_mut().enumerate() {
                open.close(&mut self.clusters[at]);
            }
        }
        let owners = self.locator.owners().to_vec();
        let empty = Tally::default();
        let candidates = self.ways.len();
        let structures = owners.iter().enumerate().map(|(number, &owner)| {
            let tally = self.tallies.get(number).unwrap_or(&empty);
            let touched = self.touched.get(&(number as Structure)).copied().unwrap_or(0) * PAGE;
            let peak = self.locator.peak(number as Structure);
            let bytes = if matches!(owner, Owner::Site(_)) { peak.min(touched) } else { touched };
            let padded = |counts: &Vec<u64>| {
                let mut counts = counts.clone();
                counts.resize(candidates, 0);
                counts
            };
            StructureProfile {
                owner,
                bytes,
                beyond_l2: tally.beyond_l2,
                misses: padded(&tally.misses),
                store_misses: padded(&tally.store_misses),
                writes: padded(&tally.writes),
                over_time: self.joined(&tally.slices),
            }
        });
        let structures: Vec<_> = structures.collect();
        let curve = self.shards.curve();
        let sizes = (14..31).map(|power| 1u64 << power);
        Profile {
            registers: self.registers(),
            structures,
            monitor: self.ways.iter().map(|&ways| self.monitor.miss_ratio(ways as usize)).collect(),
            events: self.events,
            accesses: self.accesses,
            instructions: self.threads.iter().map(|thread| thread.instructions).sum(),
            threads: self.threads.len() as u32,
            curve: sizes.map(|bytes| (bytes, curve.misses((bytes / LINE) as f64))).collect(),
            sampled: self.sampled,
            saw_allocations: self.saw_allocations,
            ways: self.ways,
            clusters: self.clusters,
        }
    }

    /// Slices of equal numbers of misses, joined to as many as a profile has.
    fn joined(&self, slices: &[u64]) -> Vec<u64> {
        let used = self.misses.div_ceil(self.slice).max(1) as usize;
        let mut joined = vec![0; Profile::SLICES];
        for (at, &count) in slices.iter().enumerate() {
            joined[(at * Profile::SLICES / used).min(Profile::SLICES - 1)] += count;
        }
        joined
    }

    #[inline]
    fn access(&mut self, thread: Place, addr: u64, len: u32, store: bool) {
        let last = addr.saturating_add(u64::from(len.max(1)) - 1) / LINE;
        for line in addr / LINE..=last.min(addr / LINE + (1 << 20)) {
            self.accesses += 1;
            let Profiler { cores, locator, config, .. } = self;
            let core = &mut cores[thread.core];
            if core.line.is_some_and(|(last, stored)| last == line && (stored || !store)) {
                continue;
            }
            core.line = Some((line, store));
            let private = core.private.get_or_insert_with(|| Private::new(config, thread.core as u64));
            let mut structure = 0;
            let answer = private.access(line, store, || {
                structure = locator.find((line * LINE).max(addr));
                structure
            });
            if let Private2::Missed(evicted) = answer {
                self.beyond(thread, line, structure, store, evicted);
            }
        }
    }

    /// A line that the core's own caches do not have.
    fn beyond(
        &mut self,
        thread: Place,
        line: u64,
        structure: Structure,
        store: bool,
        evicted: Option<(u64, Held)>,
    ) {
        self.monitor.access(line);
        self.shards.access(line);
        let page = line * LINE / PAGE;
        if self.page != page && self.pages.insert(page) {
            *self.touched.entry(structure).or_default() += 1;
        }
        self.page = page;
        let candidates = self.ways.len();
        let (missed, _) = self.bank.take(line);
        let (slice, last) = (self.misses / self.slice, 1 << (candidates - 1));
        let tally = tally(&mut self.tallies, structure, candidates);
        tally.beyond_l2 += 1;
        for candidate in 0..candidates {
            let bit = u64::from(missed >> candidate & 1);
            tally.misses[candidate] += bit;
            tally.store_misses[candidate] += if store { bit } else { 0 };
        }
        if missed & last != 0 {
            let at = slice as usize;
            if tally.slices.len() <= at {
                tally.slices.resize(at + 1, 0);
            }
            tally.slices[at] += 1;
        }
        self.misses += 1;
        if self.misses / self.slice >= 4 * Profile::SLICES as u64 {
            self.widen();
        }
        self.overlap(thread, (structure, line * LINE / PAGE), store, missed);
        if let Some((tag, held)) = evicted {
            let Profiler { bank, tallies, .. } = self;
            bank.put(tag, held, |candidate, structure| {
                self::tally(tallies, structure, candidates).writes[candidate] += 1;
            });
        }
    }

    fn overlap(&mut self, thread: Place, missing: (Structure, u64), store: bool, missed: u32) {
        let (window, queue) =
            (u64::from(self.config.cores.pipeline.rob), self.config.cores.pipeline.store_queue);
        let most = self.registers();
        let thread = &mut self.threads[thread.number];
        thread.loads.resize_with(self.ways.len(), Open::default);
        thread.stored.resize_with(self.ways.len(), Default::default);
        for candidate in (0..self.ways.len()).filter(|candidate| missed >> candidate & 1 != 0) {
            let clusters = &mut self.clusters[candidate];
            if !store {
                thread.loads[candidate].miss(missing, thread.instructions, window, most, clusters);
                continue;
            }
            // Stores wait in a queue and hold up nobody until it is full: their window is the queue's.
            let (open, first) = &mut thread.stored[candidate];
            if thread.stores >= *first + u64::from(queue) {
                open.close(clusters);
                *first = thread.stores;
            }
            open.miss(missing, thread.stores, queue.into(), most, clusters);
        }
    }

    /// Where a thread's state and its core's are; found once for a batch of events.
    fn place(&mut self, thread: u32) -> Place {
        let next = self.threads.len();
        let number = *self.numbers.entry(thread).or_insert(next);
        if number == next {
            self.threads.push(Thread::default());
        }
        let core = (thread % self.config.cores.count) as usize;
        if self.cores.len() <= core {
            self.cores.resize_with(core + 1, Core::default);
        }
        Place { number, core }
    }

    /// Misses that a core keeps under way, at most.
    fn registers(&self) -> u32 {
        self.config.l1.miss_registers.unwrap_or(12)
    }

    /// Slices become twice as long.
    fn widen(&mut self) {
        self.slice *= 2;
        for tally in &mut self.tallies {
            tally.slices = tally.slices.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
    }

    fn flush(&mut self, thread: Place, addr: u64, keep: bool) {
        let line = addr / LINE;
        let core = &mut self.cores[thread.core];
        core.line = None;
        let held = core.private.as_mut().and_then(|private| private.flush(line, keep));
        let candidates = self.ways.len();
        for (number, candidate) in self.bank.candidates.iter_mut().enumerate() {
            let slot = candidate.cache.find(line);
            let mut dirty = held.filter(|held| held.dirty);
            if let Some(slot) = slot {
                let item = &mut candidate.cache.slots[slot].item;
                dirty = dirty.or(Some(*item).filter(|item| item.dirty));
                item.dirty = false;
                if !keep {
                    candidate.cache.remove(slot);
                }
            }
            if let Some(held) = dirty {
                tally(&mut self.tallies, held.structure, candidates).writes[number] += 1;
            }
        }
    }

    fn store_past(&mut self, thread: Place, addr: u64, len: u32) {
        self.flush(thread, addr, false);
        let structure = self.locator.find(addr);
        if self.pages.insert(addr / PAGE) {
            *self.touched.entry(structure).or_default() += 1;
        }
        let candidates = self.ways.len();
        let tally = tally(&mut self.tallies, structure, candidates);
        // Small ones are combined into lines; whole lines is what reaches memory.
        let lines =
            u64::from(addr.is_multiple_of(LINE) || u64::from(len) >= LINE) * u64::from(len).div_ceil(LINE);
        tally.writes.iter_mut().for_each(|writes| *writes += lines);
    }

    #[inline]
    fn one(&mut self, thread: Place, event: &Event) {
        let state = &mut self.threads[thread.number];
        state.instructions += u64::from(event.instructions.max(1));
        match event.op {
            Op::Load { addr, len } => self.access(thread, addr, len, false),
            Op::Store { addr, len } => {
                state.stores += 1;
                self.access(thread, addr, len, true);
            }
            Op::StoreNt { addr, len } => self.store_past(thread, addr, len),
            Op::Flush { addr, kind } => self.flush(thread, addr, kind == FlushKind::Clwb),
            Op::Fence(FenceKind::Full) => {
                for (at, open) in state.loads.iter_mut().enumerate() {
                    open.close(&mut self.clusters[at]);
                }
            }
            Op::Alloc { .. } | Op::Free { .. } | Op::Map { .. } | Op::Unmap { .. } => {
                self.saw_allocations |= matches!(event.op, Op::Alloc { .. });
                self.locator.note(event);
            }
            _ => {}
        }
    }
}

fn tally(tallies: &mut Vec<Tally>, structure: Structure, candidates: usize) -> &mut Tally {
    let at = structure as usize;
    if tallies.len() <= at {
        tallies.resize(at + 1, Tally::default());
    }
    let tally = &mut tallies[at];
    if tally.misses.is_empty() {
        tally.misses = vec![0; candidates];
        tally.store_misses = vec![0; candidates];
        tally.writes = vec![0; candidates];
    }
    tally
}

impl Sink for Profiler {
    fn name(&self) -> &'static str {
        "plan"
    }

    fn needs(&self) -> Capabilities {
        Capabilities::LOADS | Capabilities::STORES
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        let missing = self.needs() - source.capabilities;
        if !missing.is_empty() {
            return Err(SinkError::Lacks { consumer: "plan", producer: source.producer.clone(), missing });
        }
        self.sampled = source.sampling.is_some();
        Ok(())
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        if let Definition::Site(id, site) = definition {
            self.locator.define(id, site);
        }
        Ok(())
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        if batch.thread.0 >= THREADS_MAX {
            let thread = batch.thread.0;
            return Err(SinkError::Other(format!("a batch names thread {thread}: the stream is damaged")));
        }
        self.events += batch.events.len() as u64;
        let place = self.place(batch.thread.0);
        for event in batch.events {
            self.one(place, event);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use event::{SiteId, ThreadId};

    use super::*;

    fn profile(ways: &[u32], events: &[Event]) -> Profile {
        let config = Config::preset("dram").unwrap();
        let mut profiler = Profiler::new(&config, ways).unwrap();
        profiler.push(Batch { thread: ThreadId(0), time_ns: 0, events, values: &[] }).unwrap();
        profiler.profile()
    }

    fn event(op: Op, site: u32) -> Event {
        Event { op, site: SiteId(site), instructions: 4 }
    }

    /// A small table is read all the time, a large one once per round.
    #[test]
    fn misses_are_those_of_the_structure_that_has_the_line() {
        let (small, large) = (1u64 << 30, 1u64 << 32);
        let mut events = vec![
            event(Op::Alloc { addr: small, len: 8 << 20 }, 1),
            event(Op::Alloc { addr: large, len: 48 << 20 }, 2),
        ];
        for _ in 0..3 {
            let lines = |base: u64, bytes: u64| (0..bytes / LINE).map(move |line| base + line * LINE);
            events.extend(lines(small, 8 << 20).map(|addr| event(Op::Load { addr, len: 8 }, 3)));
            events.extend(lines(small, 8 << 20).map(|addr| event(Op::Load { addr, len: 8 }, 3)));
            events.extend(lines(large, 48 << 20).map(|addr| event(Op::Store { addr, len: 8 }, 4)));
        }
        let profile = profile(&[1, 11], &events);
        let (small, large) = (&profile.structures[1], &profile.structures[2]);
        assert_eq!((small.bytes, large.bytes), (8 << 20, 48 << 20));
        let lines = (48 << 20) / LINE;
        assert!(large.misses[0] > lines * 29 / 10, "3 MiB do not keep 48: {:?}", large.misses);
        assert!(small.misses[1] < small.misses[0], "33 MiB keep more of 8 than 3 do: {:?}", small.misses);
        assert!(large.writes[0] > lines * 2, "what is stored is written back: {:?}", large.writes);
        assert_eq!(profile.coldest_first().len(), 2);
        assert!(profile.clusters[0].count() < profile.misses(0) / 4, "lines that follow each other overlap");
    }
}
