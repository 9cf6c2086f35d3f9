//! The sink.

use std::collections::HashMap;

use advise::Finding;
use event::{
    AccessKind, Batch, BlockBatch, BlockItem, Capabilities, Event, Op, RunSink, Sink, SinkError, SiteId,
    SiteTable, Source, ThreadId,
};

use crate::cache::Cache;
use crate::contest::Contests;
use crate::heap::{Heap, Structure};
use crate::lines::{Line, Lines, NOBODY};
use crate::options::Options;
use crate::rules;
use crate::sites::Sites;
use crate::tlb::Tlb;
use crate::watch::Watch;

const THREADS_MAX: usize = 256;
/// Lines of one access that are looked at.
const LINES_PER_ACCESS: u64 = 1024;
/// Lines whose bytes are remembered, for stores that change nothing.
const SHADOWS_MAX: usize = 1 << 16;

/// A thread's own.
#[derive(Clone, Debug)]
struct Thread {
    cache: Cache,
    tlb: Tlb,
    /// Loads of 8 bytes that walked an array.
    sequential: u64,
}

/// Watches events for the rules on caches, sharing and allocations.
#[derive(Clone, Debug, Default)]
pub struct Watcher {
    pub(crate) options: Options,
    pub(crate) source: Option<Source>,
    watch: Watch,
    threads: Vec<Option<Box<Thread>>>,
    lines: Lines,
    pub(crate) contests: Contests,
    pub(crate) sites: Sites,
    pub(crate) heap: Heap,
    shadows: HashMap<u64, ([u8; 64], u64)>,
    pub(crate) accesses: u64,
    pub(crate) fetches: u64,
    pub(crate) stored: u64,
}

/// An access as it is looked at.
#[derive(Clone, Copy)]
struct Access {
    thread: u32,
    store: bool,
    addr: u64,
    len: u32,
    site: u32,
}

impl Watcher {
    /// With other thresholds.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Watcher { options, ..Watcher::default() }
    }

    /// What the rules say, the largest share first.
    #[must_use]
    pub fn findings(&self, sites: &SiteTable) -> Vec<Finding> {
        rules::all(self, sites)
    }

    /// Part of the events that were looked at.
    #[must_use]
    pub fn watched(&self) -> f64 {
        self.watch.watched()
    }

    /// The data structures by allocation site, the most fetched first.
    #[must_use]
    pub fn structures(&self) -> Vec<(SiteId, Structure)> {
        let mut all: Vec<_> = self.heap.sites.iter().map(|(&site, of)| (SiteId(site), of.clone())).collect();
        all.sort_by(|a, b| b.1.fetches.cmp(&a.1.fetches).then(b.1.bytes.cmp(&a.1.bytes)).then(a.0.cmp(&b.0)));
        all
    }

    pub(crate) fn large_tlb_misses(&self) -> u64 {
        self.threads.iter().flatten().map(|thread| thread.tlb.large_misses).sum()
    }

    fn access(&mut self, access: Access) {
        if access.len == 0 {
            return;
        }
        self.accesses += 1;
        let slot = access.thread as usize % THREADS_MAX;
        if slot >= self.threads.len() {
            self.threads.resize(slot + 1, None);
        }
        let options = self.options;
        let mut thread = self.threads[slot].take().unwrap_or_else(|| {
            let cache = Cache::new(options.l1_bytes, options.l1_ways);
            Box::new(Thread { cache, tlb: Tlb::new(options.tlb_entries), sequential: 0 })
        });
        let site = self.sites.get(access.site);
        site.accesses += 1;
        if access.store {
            site.stored += u64::from(access.len);
            self.stored += u64::from(access.len);
        }
        site.tlb_misses += u64::from(thread.tlb.touch(access.addr));
        if site.follow(access.thread, access.addr, access.len) && !access.store && access.len == 8 {
            thread.sequential += 1;
        }
        let end = access.addr.saturating_add(u64::from(access.len));
        let first = access.addr >> 6;
        let last = ((end - 1) >> 6).min(first + LINES_PER_ACCESS);
        for line in first..=last {
            let from = access.addr.max(line << 6) - (line << 6);
            let bytes = end.min((line + 1) << 6) - (line << 6) - from;
            let mask = if bytes == 64 { u64::MAX } else { ((1 << bytes) - 1) << from };
            self.line(&mut thread, access, line, mask);
        }
        self.threads[slot] = Some(thread);
    }

    fn line(&mut self, thread: &mut Thread, access: Access, line: u64, mask: u64) {
        let missed = thread.cache.touch(line);
        if let Some(Some(out)) = missed {
            self.lines.leaves(out, thread.cache.fetches);
        }
        let (entry, new, out) = self.lines.get(line, access.site);
        let own = access.thread as u16;
        if missed.is_some() {
            let back = entry.left
                && thread.cache.fetches.wrapping_sub(entry.left_at) < thread.cache.lines() as u32 / 2;
            let site = self.sites.get(access.site);
            site.misses_l1 += 1;
            site.conflicts += u64::from(back && entry.owner == own);
        }
        if entry.owner != own {
            let moved = entry.owner != NOBODY && (entry.written != 0 || access.store);
            (entry.before, entry.written, entry.unread) = (entry.written, 0, 0);
            entry.owner = own;
            entry.judged = false;
            if moved {
                entry.switches = entry.switches.saturating_add(1);
            }
            if moved
                && entry.switches >= 4
                && let Some(contest) = self.contests.get(line)
            {
                contest.moves += 1;
                if contest.block.is_none() {
                    contest.block = self
                        .heap
                        .find(line << 6)
                        .or_else(|| self.heap.find(access.addr))
                        .map(|(start, block)| (block.site, (line << 6).saturating_sub(start)));
                }
            }
        }
        if entry.switches >= 4
            && let Some(contest) = self.contests.get(line)
        {
            contest.access(access.thread, access.store, mask, access.site);
            if !entry.judged && entry.before & mask != 0 {
                entry.judged = true;
                contest.true_moves += 1;
            }
        }
        entry.touched |= mask;
        if access.store {
            let dead = u64::from((entry.unread & mask).count_ones());
            if dead > 0 {
                let large = entry.large;
                let site = self.sites.get(entry.store_site);
                *(if large { &mut site.dead_large } else { &mut site.dead }) += dead;
                site.over = access.site;
            }
            entry.unread |= mask;
            entry.written |= mask;
            entry.store_site = access.site;
            entry.large = access.len >= 32;
        } else {
            entry.unread &= !mask;
        }
        if new {
            self.fetches += 1;
            self.fetched(thread, access, line, out);
        }
    }

    /// A line came into the table.
    fn fetched(&mut self, thread: &Thread, access: Access, line: u64, out: Option<Line>) {
        if let Some(out) = out {
            let site = self.sites.get(out.fetch_site);
            site.left += 1;
            site.used += u64::from(out.touched.count_ones());
            site.bytes_or |= out.touched;
        }
        let addr = access.addr.max(line << 6);
        let found = self.heap.find(addr);
        let site = self.sites.get(access.site);
        site.fetches += 1;
        let Some((start, block)) = found else { return };
        if !access.store && access.len == 8 {
            let offset = addr - start;
            if site.from == block.site && site.offset == offset && site.block != start {
                *(if thread.sequential == site.sequential { &mut site.hops } else { &mut site.indexed }) += 1;
            }
            (site.block, site.offset, site.from, site.sequential) =
                (start, offset, block.site, thread.sequential);
        }
        self.heap.fetched(start, block, addr, access.store);
    }

    /// Whether a store changes the bytes that it stores to.
    fn value(&mut self, addr: u64, bytes: &[u8], site: u32) {
        let (line, from) = (addr >> 6, (addr & 63) as usize);
        if from + bytes.len() > 64 || (self.shadows.len() >= SHADOWS_MAX && !self.shadows.contains_key(&line))
        {
            return;
        }
        let (held, known) = self.shadows.entry(line).or_insert(([0; 64], 0));
        let mask = if bytes.len() == 64 { u64::MAX } else { ((1 << bytes.len()) - 1) << from };
        let there = &mut held[from..from + bytes.len()];
        if *known & mask == mask && there == bytes {
            self.sites.get(site).silent += bytes.len() as u64;
        }
        there.copy_from_slice(bytes);
        *known |= mask;
    }

    fn event(&mut self, thread: ThreadId, event: &Event) {
        let site = event.site.0;
        let mut touch = |store, addr, len| {
            if !self.watch.idle() {
                self.access(Access { thread: thread.0, store, addr, len, site });
            }
        };
        match event.op {
            Op::Load { addr, len } => touch(false, addr, len),
            Op::Store { addr, len } | Op::StoreNt { addr, len } => touch(true, addr, len),
            Op::Lock { lock, .. } => {
                touch(true, lock, 4);
                self.sync(lock);
            }
            Op::Unlock { lock, .. } => touch(true, lock, 4),
            Op::Acquire { var, .. } | Op::Release { var, .. } => self.sync(var),
            Op::Alloc { addr, len } => self.heap.alloc(addr, len, site, self.accesses),
            Op::Free { addr } => self.heap.free(addr, self.accesses, self.options.short_life),
            _ => {}
        }
    }

    fn sync(&mut self, var: u64) {
        if let Some(contest) = self.contests.0.get_mut(&(var >> 6)) {
            contest.sync = true;
        }
    }

    fn count(&mut self, events: usize) {
        if self.watch.count(events) {
            self.lines.forget();
        }
    }
}

impl Sink for Watcher {
    fn name(&self) -> &'static str {
        "locality"
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.source = Some(source.clone());
        Ok(())
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        let mut values = batch.values;
        for event in batch.events {
            self.event(batch.thread, event);
            if !values.is_empty()
                && let Some(len) = event.op.value_len()
            {
                let (own, rest) = values.split_at((len as usize).min(values.len()));
                values = rest;
                if let Some((addr, _)) = event.op.stored() {
                    self.value(addr, own, event.site.0);
                }
            }
        }
        self.count(batch.events.len());
        Ok(())
    }

    fn needs(&self) -> Capabilities {
        Capabilities::empty()
    }

    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        Some(self)
    }
}

impl RunSink for Watcher {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        if self.watch.idle() {
            batch.events.iter().for_each(|event| self.event(batch.thread, event));
        } else {
            let mut carry = 0;
            for item in batch.items() {
                match item {
                    BlockItem::Event(event) => self.event(batch.thread, event),
                    BlockItem::Block(_, shape, words) => {
                        shape.accesses(words, &mut carry, |access, addr, len, _| {
                            let store = access.kind != AccessKind::Load;
                            self.access(Access {
                                thread: batch.thread.0,
                                store,
                                addr,
                                len,
                                site: access.site.0,
                            });
                        })
                    }
                }
            }
        }
        self.count(batch.count);
        Ok(())
    }
}
