//! The sink.

use std::collections::HashMap;

use advise::Finding;
use event::{
    AccessKind, Batch, BlockBatch, BlockItem, Capabilities, Event, FenceKind, Layout, Op, RunSink, Sink,
    SinkError, SiteId, SiteTable, Source, ThreadId, Variable,
};

use crate::asked::Asked;
use crate::cache::Cache;
use crate::calls::{Calls, Recent, Table};
use crate::contest::{Contests, Visit};
use crate::fields::Uses;
use crate::heap::{Heap, Structure};
use crate::lines::{Lines, NOBODY};
use crate::nodes::Pages;
use crate::options::Options;
use crate::outside::Outside;
use crate::pairs::{Pairs, Straddled};
use crate::rules;
use crate::sites::Sites;
use crate::streams::Streams;
use crate::tape::{Kept, NO_BLOCK, Tape};
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
    /// The same with hashed sets, to tell conflicts from capacity.
    hashed: Cache,
    tlb: Tlb,
    /// The line that was touched last.
    line: u64,
    /// Its clock: accesses, from its creator's on.
    now: u64,
    /// The last moment before which all other threads' accesses are known to have been earlier.
    since: u64,
    /// Locks held, and the number of the critical section.
    held: u32,
    sections: u64,
    chain: Chain,
    pairs: Pairs,
    streams: Streams,
    asked: Asked,
    recent: Recent,
}

/// Blocks that a thread goes through.
#[derive(Clone, Copy, Debug, Default)]
struct Chain {
    /// The block of the last miss, and its allocation site.
    start: u64,
    len: u64,
    site: u32,
    /// Whether something as long as a pointer was read from it, and from elsewhere.
    pointer: bool,
    roots: u32,
}

/// What data and threads are called, as debug information has it.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Variables with an address.
    pub variables: Vec<Variable>,
    /// Stacks: their threads, the addresses above them, and bytes below, at most.
    pub stacks: Vec<(u32, u64, u64)>,
    /// Of which type allocation sites' blocks are.
    pub types: HashMap<u32, Layout>,
    /// The functions that threads run.
    pub threads: HashMap<u32, String>,
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
    pub(crate) calls: Table,
    shadows: HashMap<u64, ([u8; 64], u64)>,
    /// Clocks of threads at their start and at their end.
    starts: HashMap<u32, u64>,
    ends: HashMap<u32, u64>,
    pub(crate) misses: u64,
    pub(crate) tape: Tape,
    pub(crate) straddled: Straddled,
    pub(crate) pages: Pages,
    pub(crate) outside: Outside,
    pub(crate) types: HashMap<u32, Layout>,
    /// Functions of threads.
    pub(crate) names: HashMap<u32, String>,
    pub(crate) accesses: u64,
    pub(crate) fetches: u64,
    /// Lines that came to a first-level cache again.
    pub(crate) again: u64,
    pub(crate) stored: u64,
    /// The last access, and a variable that the next one to it publishes.
    last: (u64, u32),
    publishes: u64,
}

/// An access as it is looked at.
#[derive(Clone, Copy)]
struct Access {
    thread: u32,
    store: bool,
    addr: u64,
    len: u32,
    site: u32,
    instructions: u32,
    /// Of [`Table`].
    row: u32,
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
        let peaks = self.heap.at_peak(self.accesses);
        let with_peak = |(&site, of): (&u32, &Structure)| {
            let (at_peak, idle_at_peak) = peaks.get(&site).copied().unwrap_or_default();
            (SiteId(site), Structure { at_peak, idle_at_peak, ..of.clone() })
        };
        let mut all: Vec<_> = self.heap.sites.iter().map(with_peak).collect();
        all.sort_by(|a, b| b.1.fetches.cmp(&a.1.fetches).then(b.1.bytes.cmp(&a.1.bytes)).then(a.0.cmp(&b.0)));
        all
    }

    /// Says what data and threads are called.
    pub fn set_names(&mut self, names: Names) {
        self.outside.name(names.variables, names.stacks);
        (self.types, self.names) = (names.types, names.threads);
    }

    /// Sites that allocated, and the mean bytes of their blocks.
    pub fn allocation_sites(&self) -> impl Iterator<Item = (SiteId, u64)> {
        self.heap.sites.iter().map(|(&site, of)| (SiteId(site), of.bytes / of.blocks.max(1)))
    }

    /// How much of each field of an allocation site's blocks, or of a variable, was used, in the accesses
    /// that were kept.
    #[must_use]
    pub fn uses(&self) -> Uses {
        Uses::of(self)
    }

    /// Variables and stacks with their addresses (0 of a stack), the most fetched first.
    #[must_use]
    pub fn outside(&self) -> Vec<(String, u64, Structure)> {
        self.outside.structures()
    }

    /// Misses of the first-level caches by code, of the events that were looked at.
    pub fn misses(&self) -> impl Iterator<Item = (SiteId, u64)> {
        (0u32..)
            .zip(&self.sites.0)
            .filter(|of| of.1.misses_l1 > 0)
            .map(|(site, of)| (SiteId(site), of.misses_l1))
    }

    /// What code did, by who called it: nothing where the source does not say who did.
    #[must_use]
    pub fn calls(&self) -> &[Calls] {
        let sees =
            self.source.as_ref().is_some_and(|source| source.capabilities.contains(Capabilities::CALLS));
        if sees { &self.calls.rows } else { &[] }
    }

    pub(crate) fn large_tlb_misses(&self) -> u64 {
        self.threads.iter().flatten().map(|thread| thread.tlb.large_misses).sum()
    }

    /// A thread's own, taken out of its slot.
    fn take(&mut self, id: u32) -> Box<Thread> {
        let slot = id as usize % THREADS_MAX;
        if slot >= self.threads.len() {
            self.threads.resize(slot + 1, None);
        }
        let options = self.options;
        self.threads[slot].take().unwrap_or_else(|| {
            let start = self.starts.get(&id).copied().unwrap_or(0);
            Box::new(Thread {
                cache: Cache::new(options.l1_bytes, options.l1_ways),
                hashed: Cache::hashed(options.l1_bytes, options.l1_ways),
                tlb: Tlb::new(options.tlb_entries),
                line: u64::MAX,
                now: start,
                since: start,
                held: 0,
                sections: 0,
                chain: Chain::default(),
                pairs: Pairs::default(),
                streams: Streams::default(),
                asked: Asked::default(),
                recent: Recent::default(),
            })
        })
    }

    fn put(&mut self, id: u32, thread: Box<Thread>) {
        self.threads[id as usize % THREADS_MAX] = Some(thread);
    }

    fn access(&mut self, access: Access) {
        if access.len == 0 {
            return;
        }
        self.accesses += 1;
        self.last = (access.addr, access.len);
        let mut thread = self.take(access.thread);
        thread.now += 1;
        let row = self.calls.row(&mut thread.recent, access.site);
        let access = Access { row, ..access };
        let of = self.calls.at(row);
        *(if access.store { &mut of.stores } else { &mut of.loads }) += 1;
        // Looking for the block of each access would take long.
        let kept = self.tape.keeps(thread.now);
        let block = if kept { self.heap.find(access.addr) } else { None };
        self.tape.keep(Kept {
            now: thread.now,
            block: block.map_or(NO_BLOCK, |(_, block)| block.site),
            offset: block.map_or(0, |(start, _)| u32::try_from(access.addr - start).unwrap_or(u32::MAX)),
            hop: false,
            locked: false,
            silent: false,
            prefetch: false,
            addr: access.addr,
            len: access.len,
            site: access.site,
            row,
            thread: access.thread,
            instructions: access.instructions,
            store: access.store,
        });
        let site = self.sites.get(access.site);
        site.accesses += 1;
        if access.store {
            site.stored += u64::from(access.len);
            self.stored += u64::from(access.len);
        }
        site.tlb_misses += u64::from(thread.tlb.touch(access.addr));
        let array = !access.store && thread.streams.load(access.addr, access.len, thread.now);
        let repeated = site.before == access.addr && site.thread == access.thread;
        site.follow(access.thread, access.addr);
        let end = access.addr.saturating_add(u64::from(access.len));
        let first = access.addr >> 6;
        let last = ((end - 1) >> 6).min(first + LINES_PER_ACCESS);
        for line in first..=last {
            let from = access.addr.max(line << 6) - (line << 6);
            let bytes = end.min((line + 1) << 6) - (line << 6) - from;
            let mask = if bytes == 64 { u64::MAX } else { ((1 << bytes) - 1) << from };
            self.line(&mut thread, access, (line, mask), repeated, array);
        }
        if access.addr == self.publishes && access.store {
            self.publishes = 0;
            self.sync(access.addr, u64::from(access.len.min(16)));
        }
        if !access.store && access.len == 8 {
            let chain = &mut thread.chain;
            if access.addr.wrapping_sub(chain.start) < chain.len {
                chain.pointer = true;
            } else if !repeated {
                chain.roots += 1;
            }
        }
        self.put(access.thread, thread);
    }

    fn line(
        &mut self,
        thread: &mut Thread,
        access: Access,
        (line, mask): (u64, u64),
        repeated: bool,
        array: bool,
    ) {
        let missed = thread.line != line && self.looked_up(thread, access, line, array);
        if !access.store {
            self.lines.read(line);
        }
        let page_read = self.lines.is_read(line);
        let (entry, new, out) = self.lines.get(line, access.site);
        let own = access.thread as u16;
        if entry.owner != own {
            let meets = entry.owner != NOBODY && entry.last >= thread.since;
            if meets && (entry.written != 0 || access.store) {
                entry.contested = true;
                let before = (entry.owner, entry.read, entry.written, entry.count, entry.first, entry.last);
                let by = (entry.owner_site, entry.sync);
                Self::contest(&mut self.contests, &mut self.heap, line, before, by);
            }
            (entry.read, entry.written, entry.unread, entry.count) = (0, 0, 0, 0);
            (entry.owner, entry.owner_site) = (own, access.site);
            entry.first = thread.now;
        }
        entry.last = thread.now;
        entry.count = entry.count.saturating_add(1);
        if entry.contested
            && let Some(contest) = self.contests.0.get_mut(&line)
            && contest.wanted_since(access.thread, thread.since)
        {
            let (read, written) = if access.store { (0, mask) } else { (mask, 0) };
            let section = if thread.held > 0 { thread.sections } else { 0 };
            let span = (thread.now, thread.now);
            let (thread, site) = (access.thread, access.site);
            contest.sync |= entry.sync;
            contest.visit(Visit { thread, read, written, site, count: 1, span, section });
        }
        entry.touched |= mask;
        if missed && entry.visit != 0 {
            self.again += 1;
            self.sites.get(entry.visitor).came_again(entry.visit);
            entry.visit = 0;
        }
        if entry.visit == 0 {
            entry.visitor = access.site;
        }
        entry.visit |= mask;
        if access.store {
            entry.owner_site = access.site;
            let how = (access.len >= 32, repeated, page_read);
            entry.store(&mut self.sites, (access.site, mask), how);
        } else {
            entry.load(&mut self.sites, mask);
        }
        if new {
            self.fetches += 1;
            self.sites.get(access.site).fetches += 1;
            if let Some(out) = out {
                self.sites.get(out.fetch_site).left_with(out.touched);
            }
        }
        if missed {
            self.pair(thread, access, (line, mask));
            self.fetched(thread, access, line);
        }
    }

    /// Looks a line other than the last one up in the thread's first-level caches; whether it is missed.
    fn looked_up(&mut self, thread: &mut Thread, access: Access, line: u64, array: bool) -> bool {
        thread.line = line;
        let missed = thread.cache.misses(line);
        let hashed = thread.hashed.misses(line);
        if missed || hashed {
            let site = self.sites.get(access.site);
            site.misses_l1 += u64::from(missed);
            site.conflicts += u64::from(missed && !hashed);
            site.hash_misses += u64::from(hashed && !missed);
            self.misses += u64::from(missed);
            self.calls.at(access.row).misses += u64::from(missed);
            if missed
                && !access.store
                && let Some((ahead, by)) = thread.asked.before(line, thread.now)
            {
                site.prefetched += 1;
                site.ahead += ahead;
                site.prefetcher = by;
            } else if missed && !access.store && !array {
                let indexed = thread.streams.just_read(thread.now);
                *(if indexed { &mut site.indexed } else { &mut site.unindexed }) += 1;
            }
        }
        missed
    }

    /// A miss: whether it is of an element that another line holds, too, and of a page that is far away.
    fn pair(&mut self, thread: &mut Thread, access: Access, (line, mask): (u64, u64)) {
        let from = (line << 6) + u64::from(mask.trailing_zeros());
        let to = (line << 6) + 64 - u64::from(mask.leading_zeros());
        let visit = thread.pairs.missed(line, (from, to), thread.now, access.site);
        if visit.over {
            let site = self.sites.get(visit.site);
            site.visits += 1;
            site.pairs += u64::from(visit.pair.is_some());
        }
        if let Some(pair) = visit.pair {
            self.straddled.note(pair);
        }
        let Options { nodes, cores, .. } = self.options;
        if nodes > 1 && self.pages.missed(from, access.thread, cores, nodes) {
            self.sites.get(access.site).remote += 1;
        }
    }

    /// A line that two threads want at once.
    fn contest(
        contests: &mut Contests,
        heap: &mut Heap,
        line: u64,
        before: (u16, u64, u64, u32, u64, u64),
        (site, sync): (u32, u64),
    ) {
        let Some(contest) = contests.open(line) else { return };
        contest.sync |= sync;
        let (thread, read, written, count, first, last) = before;
        let thread = u32::from(thread);
        if !contest.parties.iter().any(|party| party.thread == thread) {
            contest.visit(Visit { thread, read, written, site, count, span: (first, last), section: 0 });
        }
        if contest.block.is_none() {
            contest.block = heap
                .find(line << 6)
                .or_else(|| heap.find((line << 6) + 63))
                .map(|(start, block)| (block.site, (line << 6).wrapping_sub(start) as i64, block.len));
        }
    }

    /// A line came into the thread's first-level cache.
    fn fetched(&mut self, thread: &mut Thread, access: Access, line: u64) {
        let addr = access.addr.max(line << 6);
        let Some((start, block)) = self.heap.find(addr) else {
            self.outside.fetched(line, access.thread, access.store);
            return;
        };
        let chain = &mut thread.chain;
        if !access.store && chain.start != start {
            let site = self.sites.get(access.site);
            // A table and its nodes may be allocated by one line of source; they differ in size.
            let alike = block.len / 2 <= chain.len && chain.len / 2 <= block.len;
            if block.site == chain.site && alike && chain.pointer && chain.roots == 0 {
                self.tape.hop(thread.now, access.thread);
                site.hops += 1;
                (site.offset, site.from) = (addr - start, block.site);
            } else {
                site.chains += 1;
            }
            *chain = Chain { start, len: block.len, site: block.site, pointer: false, roots: 0 };
        }
        self.calls.at(block.row).fetches += 1;
        self.heap.fetched(start, block, (access.thread, addr, access.store), self.accesses);
    }

    /// Whether a store changes the bytes that it stores to.
    fn value(&mut self, addr: u64, bytes: &[u8], (thread, site): (u32, u32)) {
        let (line, from) = (addr >> 6, (addr & 63) as usize);
        if from + bytes.len() > 64 || (self.shadows.len() >= SHADOWS_MAX && !self.shadows.contains_key(&line))
        {
            return;
        }
        let (held, known) = self.shadows.entry(line).or_insert(([0; 64], 0));
        let mask = if bytes.len() == 64 { u64::MAX } else { ((1 << bytes.len()) - 1) << from };
        let there = &mut held[from..from + bytes.len()];
        if *known & mask == mask && there == bytes {
            self.tape.silent(thread, addr);
            self.sites.get(site).silent += bytes.len() as u64;
        }
        there.copy_from_slice(bytes);
        *known |= mask;
    }

    fn event(&mut self, thread: ThreadId, event: &Event) {
        let (site, instructions) = (event.site.0, event.instructions);
        let mut touch = |store, addr, len| {
            if !self.watch.idle() {
                self.access(Access { thread: thread.0, store, addr, len, site, instructions, row: 0 });
            }
        };
        match event.op {
            Op::Load { addr, len } => touch(false, addr, len),
            Op::Prefetch { addr } => self.prefetch(thread.0, addr, site, instructions),
            Op::Store { addr, len } | Op::StoreNt { addr, len } => touch(true, addr, len),
            Op::Lock { lock, shared, .. } => {
                touch(true, lock, 4);
                // What lies behind its first word is the library's; whoever else uses it has data there.
                self.sync(lock, 4);
                self.section(thread.0, if shared { 0 } else { 1 });
            }
            Op::Unlock { lock, .. } => {
                self.section(thread.0, -1);
                if !self.watch.idle() {
                    self.access(Access {
                        thread: thread.0,
                        store: true,
                        addr: lock,
                        len: 4,
                        site,
                        instructions,
                        row: 0,
                    });
                }
            }
            // Before its store comes, or behind its load.
            Op::Release { var, .. } => self.publishes = var,
            Op::Acquire { var, .. } => {
                let len = if self.last.0 == var { self.last.1.min(16) } else { 4 };
                self.sync(var, u64::from(len));
            }
            Op::Fence(FenceKind::Locked) => self.tape.locked(thread.0),
            Op::Context => {
                let mut own = self.take(thread.0);
                own.recent.context = site;
                self.put(thread.0, own);
            }
            Op::Alloc { addr, len } => {
                let mut own = self.take(thread.0);
                let row = self.calls.row(&mut own.recent, site);
                self.put(thread.0, own);
                if self.heap.alloc((addr, len), (site, row), self.accesses) {
                    self.calls.at(row).allocated(len);
                }
            }
            Op::Free { addr } => {
                if let Some((len, row)) = self.heap.free(addr, self.accesses, self.options.short_life) {
                    self.calls.at(row).freed(len);
                    self.lines.freed(addr, len);
                }
            }
            _ => self.order(thread.0, event.op),
        }
    }

    /// A prefetch instruction: no access, but the line comes.
    fn prefetch(&mut self, number: u32, addr: u64, site: u32, instructions: u32) {
        if self.watch.idle() {
            return;
        }
        let mut thread = self.take(number);
        thread.asked.ask(addr >> 6, thread.now, site);
        let (now, len) = (thread.now, 1);
        self.put(number, thread);
        self.tape.keep(Kept {
            now,
            block: NO_BLOCK,
            offset: 0,
            hop: false,
            locked: false,
            silent: false,
            prefetch: true,
            addr,
            len,
            site,
            row: 0,
            thread: number,
            instructions,
            store: false,
        });
    }

    /// A thread's life.
    fn order(&mut self, thread: u32, op: Op) {
        match op {
            Op::Spawn { child, .. } => {
                let own = self.take(thread);
                self.starts.insert(child.0, own.now);
                self.put(thread, own);
            }
            Op::ThreadStart { .. } => {
                // A slot may have been another thread's.
                let mut own = self.take(thread);
                own.now = own.now.max(self.starts.remove(&thread).unwrap_or(0));
                (own.since, own.held, own.recent.context) = (own.now, 0, 0);
                self.put(thread, own);
            }
            Op::ThreadEnd { .. } => {
                let own = self.take(thread);
                self.ends.insert(thread, own.now);
                self.put(thread, own);
            }
            Op::Join { thread: other, .. } => {
                let end = self.ends.remove(&other.0).unwrap_or(0);
                let mut own = self.take(thread);
                own.now = own.now.max(end + 1);
                own.since = own.now;
                self.put(thread, own);
            }
            _ => {}
        }
    }

    /// A thread takes a lock, or gives it up.
    fn section(&mut self, thread: u32, by: i32) {
        let mut own = self.take(thread);
        if by > 0 && own.held == 0 {
            own.sections += 1;
        }
        own.held = own.held.saturating_add_signed(by);
        self.put(thread, own);
    }

    /// A variable of so many bytes synchronises.
    fn sync(&mut self, var: u64, len: u64) {
        if self.watch.idle() {
            return;
        }
        let from = var & 63;
        let mask = (u64::MAX >> (64 - len.min(64 - from))) << from;
        if let Some(entry) = self.lines.peek(var >> 6) {
            entry.sync |= mask;
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
                    self.value(addr, own, (batch.thread.0, event.site.0));
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
                        shape.accesses(words, &mut carry, |access, addr, len, instructions| {
                            let store = access.kind != AccessKind::Load;
                            self.access(Access {
                                thread: batch.thread.0,
                                store,
                                addr,
                                len,
                                site: access.site.0,
                                instructions,
                                row: 0,
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
