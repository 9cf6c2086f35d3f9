//! The pass over the events.

use event::{
    Batch, BlockBatch, BlockItem, Event, FenceKind, Op, RunSink, Sink, SinkError, SiteId, SiteTable, Source,
    Stop, ThreadId,
};
use machine::Figures;

use super::case::Case;
use super::evidence::Evidence;
use super::lines::{Found, Lines};
use super::options::Options;
use super::ranges::Ranges;
use super::sizes::WriteSizes;
use super::stores::StoreUnfolder;
use super::streams::Streams;
use super::watch::Watch;
use super::{crowding, fences, late_flush, small_stores, transfers, wasted_flush, withheld};
use crate::{Finding, Rule};

/// Threads followed at a time; those whose numbers are equal modulo this share their state.
const THREADS_MAX: usize = 4096;

/// Collects evidence as events go by, and judges it when the machine's figures are there.
///
/// Push all events, call [`Sink::finish`], then ask.
#[derive(Debug, Default)]
pub struct Linter {
    options: Options,
    source: Option<Source>,
    ranges: Ranges,
    threads: Vec<Option<Box<Thread>>>,
    lines: Lines,
    evidence: Evidence,
    blocks: StoreUnfolder,
    watch: Watch,
}

#[derive(Debug)]
struct Thread {
    volatile: Streams,
    persistent: Streams,
    /// Whether something happened since the last fence that a fence may be needed for.
    unfenced: bool,
    /// Whether the last event was a full fence.
    just_fenced: bool,
}

impl Thread {
    fn new() -> Box<Self> {
        // A thread's first fence may order what was before the first event.
        Box::new(Thread {
            volatile: Streams::new(),
            persistent: Streams::new(),
            unfenced: true,
            just_fenced: false,
        })
    }

    /// Ends all runs; each counts as so many.
    fn drain_into(&mut self, evidence: &mut Evidence, options: &Options, weight: u64) {
        self.volatile.drain().for_each(|run| evidence.run(run, weight, false, options.transfer_bytes));
        self.persistent.drain().for_each(|run| evidence.run(run, weight, true, options.transfer_bytes));
    }
}

impl Linter {
    /// A linter with thresholds of one's own.
    #[must_use]
    pub fn with_options(options: Options) -> Self {
        Linter { options, ..Linter::default() }
    }

    /// What is wrong, the finding that explains most first.
    #[must_use]
    pub fn findings(&self, figures: &Figures, sites: &SiteTable) -> Vec<Finding> {
        let totals = self.evidence.totals(figures.mapped_persistent);
        let watched = self.watched();
        let case = Case { evidence: &self.evidence, figures, sites, options: &self.options, totals, watched };
        let withheld: Vec<Rule> = self.withheld().into_iter().map(|(rule, _)| rule).collect();
        let mut findings: Vec<Finding> = [
            small_stores::check(&case),
            transfers::check(&case),
            late_flush::check(&case),
            crowding::check(&case),
            wasted_flush::redundant(&case),
            wasted_flush::clean(&case),
            fences::check(&case),
        ]
        .into_iter()
        .flatten()
        .filter(|finding| finding.share >= self.options.share_min && !withheld.contains(&finding.rule))
        .map(|finding| case.of_own_library(finding))
        .collect();
        findings.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.rule.cmp(&b.rule)));
        findings
    }

    /// The rules that were not applied, and why.
    #[must_use]
    pub fn withheld(&self) -> Vec<(Rule, String)> {
        withheld::withheld(self.source.as_ref(), &self.ranges)
    }

    /// Events whose stores were looked at, as a part of all. Below 1 numbers of writes are estimates.
    #[must_use]
    pub fn watched(&self) -> f64 {
        self.watch.watched()
    }

    /// Sizes of the program's writes.
    #[must_use]
    pub fn write_sizes(&self) -> WriteSizes {
        self.evidence.write_sizes()
    }

    fn take_thread(&mut self, id: ThreadId) -> Box<Thread> {
        let slot = id.0 as usize % THREADS_MAX;
        if slot >= self.threads.len() {
            self.threads.resize_with(slot + 1, || None);
        }
        self.threads[slot].take().unwrap_or_else(Thread::new)
    }

    /// Keeps the thread, unless `last`, the last event of its batch, is its end.
    fn put_thread(&mut self, id: ThreadId, thread: Box<Thread>, last: Option<&Event>) {
        if !last.is_some_and(|event| matches!(event.op, Op::ThreadEnd { .. })) {
            self.threads[id.0 as usize % THREADS_MAX] = Some(thread);
        }
    }

    fn events(&mut self, id: ThreadId, thread: &mut Thread, events: &[Event]) {
        let mut before = thread.just_fenced;
        for (i, event) in events.iter().enumerate() {
            match event.op {
                Op::Load { .. } | Op::Demote { .. } => {}
                Op::Store { addr, len } => self.store(thread, addr, len, event.site),
                Op::StoreNt { addr, len } => self.store_nt(id, thread, addr, len, event.site),
                Op::Flush { addr, .. } => self.flush(id, thread, addr, event.site),
                Op::Fence(kind) => {
                    if i > 0 {
                        before = events[i - 1].op == Op::Fence(FenceKind::Full);
                    }
                    self.fence(thread, kind, before, event.site);
                }
                op => self.rare(thread, op),
            }
        }
        thread.just_fenced = events.last().is_some_and(|event| event.op == Op::Fence(FenceKind::Full));
    }

    /// Blocks, and the events between them, of which no store is looked at.
    fn pass_over(&mut self, id: ThreadId, thread: &mut Thread, batch: &BlockBatch<'_>) {
        let matters = |event: &Event| {
            matches!(event.op, Op::Flush { .. } | Op::Map { .. })
                || matches!(event.op, Op::Fence(kind) if kind != FenceKind::Locked)
        };
        if thread.just_fenced || batch.events.iter().any(matters) {
            // What stands between them must be known, and from one of them on each store may matter.
            return self.blocks(id, thread, batch);
        }
        thread.unfenced |= batch.words.len() > batch.events.len();
        self.events(id, thread, batch.events);
    }

    /// The blocks of a batch and the events between them.
    fn blocks(&mut self, id: ThreadId, thread: &mut Thread, batch: &BlockBatch<'_>) {
        for shape in batch.shapes.get(self.blocks.known()..).unwrap_or_default() {
            self.blocks.learn(shape);
        }
        let mut events = batch.events;
        let mut at = 0;
        loop {
            let start = at;
            let stop = self.blocks.unfold(batch.words, &mut at);
            // Any access that was executed, a load too, stands between two fences.
            if thread.just_fenced {
                thread.just_fenced = !executed(batch, start, at);
            }
            for store in 0..self.blocks.unfolded() {
                let (addr, (len, site)) = self.blocks.access(store);
                if addr != 0 {
                    self.store(thread, addr, len, site);
                }
            }
            match stop {
                Stop::Full => {}
                Stop::End => return,
                Stop::Event => {
                    let (event, rest) = events.split_at(1);
                    events = rest;
                    at += 1;
                    self.events(id, thread, event);
                }
                Stop::Other(number) => {
                    let shape = &batch.shapes[number];
                    let block = &batch.words[at + 1..at + shape.words()];
                    at += shape.words();
                    shape.accesses(block, &mut 0, |access, addr, len, _| {
                        let op = access.op(addr, len);
                        self.events(id, thread, &[Event { op, site: access.site, instructions: 0 }]);
                    });
                }
            }
        }
    }

    /// A batch of so many events is done.
    fn count(&mut self, events: usize) {
        if self.watch.count(events) {
            let Linter { threads, evidence, options, watch, .. } = self;
            for thread in threads.iter_mut().flatten() {
                thread.drain_into(evidence, options, watch.weight());
            }
            watch.leave();
        }
    }

    #[inline]
    fn store(&mut self, thread: &mut Thread, addr: u64, len: u32, site: SiteId) {
        thread.unfenced = true;
        if len == 0 || self.watch.idle() {
            return;
        }
        let persistent = self.ranges.contains(addr);
        let streams = if persistent { &mut thread.persistent } else { &mut thread.volatile };
        if let Some(run) = streams.store(addr, len, false, site) {
            self.evidence.run(run, self.watch.weight(), persistent, self.options.transfer_bytes);
        }
        if self.lines.active() && persistent == self.ranges.seen() {
            self.lines.store(addr, len, site, |before, distance| {
                if distance <= self.options.late_flush_bytes {
                    self.evidence.ordering(before).changed += 1;
                }
            });
        }
    }

    fn store_nt(&mut self, id: ThreadId, thread: &mut Thread, addr: u64, len: u32, site: SiteId) {
        thread.unfenced = true;
        if len == 0 || self.watch.idle() {
            return;
        }
        let persistent = self.ranges.contains(addr);
        let streams = if persistent { &mut thread.persistent } else { &mut thread.volatile };
        if let Some(run) = streams.store(addr, len, true, site) {
            self.evidence.run(run, self.watch.weight(), persistent, self.options.transfer_bytes);
        }
        if self.lines.active() && persistent == self.ranges.seen() {
            self.lines.store_nt(addr, len, id.0);
        }
    }

    fn flush(&mut self, id: ThreadId, thread: &mut Thread, addr: u64, site: SiteId) {
        self.watch.look_at_all();
        thread.unfenced = true;
        let persistent = self.ranges.contains(addr);
        let streams = if persistent { &mut thread.persistent } else { &mut thread.volatile };
        streams.flush(addr);
        if persistent != self.ranges.seen() {
            return;
        }
        if !self.lines.active() {
            self.lines.start(false);
        }
        let found = self.lines.flush(addr, site, id.0);
        let counts = self.evidence.ordering(site);
        counts.flushes += 1;
        match found {
            Found::Change { stored_by, distance } if distance > self.options.late_flush_bytes => {
                self.evidence.ordering(stored_by).late += 1;
            }
            Found::Change { .. } | Found::Unclear => {}
            Found::FlushedBefore(first) => {
                counts.redundant += 1;
                counts.flushed_before = Some(first);
            }
            Found::Clean => counts.clean += 1,
        }
    }

    fn fence(&mut self, thread: &mut Thread, kind: FenceKind, after_full: bool, site: SiteId) {
        thread.volatile.fence();
        thread.persistent.fence();
        let useless = match kind {
            // Nobody wrote it as a fence. What it has ordered, a fence behind it need not, but code that
            // says so explicitly is not wrong.
            FenceKind::Locked => {
                thread.unfenced = true;
                return;
            }
            FenceKind::Store => {
                self.watch.look_at_all();
                !thread.unfenced
            }
            // It orders loads too, and not every load is seen: only what stands right behind another one is
            // idle.
            FenceKind::Full => after_full,
        };
        thread.unfenced = false;
        let counts = self.evidence.ordering(site);
        counts.fences += 1;
        counts.useless += u64::from(useless);
    }

    #[cold]
    fn rare(&mut self, thread: &mut Thread, op: Op) {
        match op {
            Op::RegionBegin { .. } | Op::RegionEnd { .. } | Op::Phase { .. } | Op::Strand(_) => return,
            Op::Map { addr, len, .. } => {
                self.watch.look_at_all();
                if !self.ranges.seen() {
                    self.evidence.forget_flushes();
                    self.lines.start(true);
                }
                self.ranges.add(addr, len);
            }
            Op::Unmap { addr, len } => self.ranges.remove(addr, len),
            Op::ThreadEnd { .. } => {
                thread.drain_into(&mut self.evidence, &self.options, self.watch.weight());
            }
            _ => {}
        }
        // Locks, allocators and the kernel store where no event tells: a fence may be for them.
        thread.unfenced = true;
    }
}

/// Whether an access of the blocks from word `start` to word `end` of the batch was executed.
#[cold]
fn executed(batch: &BlockBatch<'_>, start: usize, end: usize) -> bool {
    let batch = BlockBatch { words: &batch.words[start..end], events: &[], ..*batch };
    batch
        .items()
        .any(|item| matches!(item, BlockItem::Block(_, _, words) if words.iter().any(|&word| word != 0)))
}

impl Sink for Linter {
    fn name(&self) -> &'static str {
        "guidelines"
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.source = Some(source.clone());
        Ok(())
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        let mut thread = self.take_thread(batch.thread);
        self.events(batch.thread, &mut thread, batch.events);
        self.put_thread(batch.thread, thread, batch.events.last());
        self.count(batch.events.len());
        Ok(())
    }

    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        Some(self)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        for mut thread in std::mem::take(&mut self.threads).into_iter().flatten() {
            thread.drain_into(&mut self.evidence, &self.options, self.watch.weight());
        }
        Ok(())
    }
}

impl RunSink for Linter {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        let mut thread = self.take_thread(batch.thread);
        if self.watch.idle() {
            self.pass_over(batch.thread, &mut thread, &batch);
        } else {
            self.blocks(batch.thread, &mut thread, &batch);
        }
        // A thread's end is an event, and nothing comes after it.
        self.put_thread(batch.thread, thread, batch.events.last());
        self.count(batch.count);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::{AccessKind, BlockAccess, BlockShape, EVENT, NameId};

    use super::*;

    /// The bound that the module's documentation states.
    const BYTES_MAX: usize = 135 << 20;

    /// A stream of blocks and events by a source of numbers.
    fn blocks_of(mut next: impl FnMut(u64) -> u64) -> (Vec<Arc<BlockShape>>, Vec<u64>, Vec<Event>, usize) {
        let kinds = [AccessKind::Load, AccessKind::Store, AccessKind::Store, AccessKind::StoreNt];
        let shapes: Vec<Arc<BlockShape>> = (0..20)
            .map(|shape| {
                let odd = shape % 5 == 0;
                let accesses = (0..1 + next(6)).map(|_| BlockAccess {
                    kind: kinds[next(if odd { 4 } else { 3 }) as usize],
                    len: if odd && next(3) == 0 { None } else { Some(1 << next(5)) },
                    site: SiteId(next(40) as u32),
                    instructions: 1,
                });
                Arc::new(BlockShape { accesses: accesses.collect(), after: 0 })
            })
            .collect();
        let (mut words, mut events, mut count) = (Vec::new(), Vec::new(), 0);
        for _ in 0..2000 {
            let near = |at: u64| (1 << 20) + at * 8;
            if next(8) == 0 {
                let op = match next(6) {
                    0 => Op::Map { addr: 1 << 20, len: 1 << 11, name: NameId(0) },
                    1 | 2 => Op::Fence(FenceKind::Full),
                    3 => Op::Fence(FenceKind::Store),
                    _ => Op::Flush { addr: near(next(512)), kind: event::FlushKind::Clwb },
                };
                words.push(EVENT);
                events.push(Event { op, site: SiteId(next(40) as u32), instructions: 1 });
                count += 1;
            }
            let number = next(20);
            words.push(BlockShape::head(number as u32));
            for access in &shapes[number as usize].accesses {
                let addr = if next(5) == 0 { 0 } else { near(next(512)) };
                count += usize::from(addr != 0);
                words.push(addr);
                if access.len.is_none() {
                    words.push(next(3000));
                }
            }
        }
        (shapes, words, events, count)
    }

    #[test]
    fn blocks_and_their_events_are_the_same() {
        let (mut useless, mut streamed) = (0, 0);
        for seed in 1..20u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let (shapes, words, events, count) = blocks_of(|limit| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 20) % limit
            });
            let (thread, time_ns) = (ThreadId(3), 0);
            let (shapes, words, events) = (&shapes[..], &words[..], &events[..]);
            let batch = BlockBatch { thread, time_ns, shapes, words, events, count, carry: 0 };
            let linter = || if seed % 2 == 0 { in_a_gap() } else { Linter::default() };
            let (mut by_blocks, mut by_events) = (linter(), linter());
            for _ in 0..2 {
                by_blocks.push_blocks(batch).expect("every batch is accepted");
                batch.expanded(|batch| by_events.push(batch)).expect("every batch is accepted");
            }
            by_blocks.finish().expect("it ends");
            by_events.finish().expect("it ends");
            assert_eq!(
                format!("{:?}", by_blocks.evidence),
                format!("{:?}", by_events.evidence),
                "seed {seed}"
            );
            useless += by_blocks.evidence.orderings().map(|(_, counts)| counts.useless).sum::<u64>();
            streamed += by_blocks.write_sizes().persistent.non_temporal.total_writes();
        }
        assert!(useless > 0 && streamed > 0, "{useless} fences, {streamed} writes around the cache");
    }

    /// A linter that passes over stores.
    fn in_a_gap() -> Linter {
        let mut linter = Linter::default();
        while !linter.watch.idle() {
            linter.count(1 << 20);
        }
        linter
    }

    #[test]
    fn what_is_passed_over_is_not_counted_but_may_be_ordered() {
        let access = BlockAccess { kind: AccessKind::Store, len: Some(8), site: SiteId(1), instructions: 1 };
        let shapes = [Arc::new(BlockShape { accesses: vec![access], after: 0 })];
        let fence = |kind| Event { op: Op::Fence(kind), site: SiteId(2), instructions: 1 };
        let (run, thread) = ([BlockShape::head(0), 640], ThreadId(0));
        let push = |linter: &mut Linter, words: &[u64], events: &[Event]| {
            let count = events.len() + words.len() / 2;
            let batch = BlockBatch { thread, time_ns: 0, shapes: &shapes, words, events, count, carry: 0 };
            linter.push_blocks(batch).expect("every batch is accepted");
        };
        let mut linter = in_a_gap();
        // Twice a fence with a store before it, then one with none.
        push(&mut linter, &[EVENT], &[fence(FenceKind::Full)]);
        push(&mut linter, &run, &[]);
        push(&mut linter, &[EVENT], &[fence(FenceKind::Full)]);
        push(&mut linter, &run, &[]);
        assert!(linter.watch.idle());
        push(&mut linter, &[EVENT, EVENT], &[fence(FenceKind::Store); 2]);
        assert!(!linter.watch.idle(), "who orders stores is looked at");
        push(&mut linter, &run, &[]);
        linter.finish().expect("it ends");
        let counts: Vec<_> =
            linter.evidence.orderings().map(|(_, site)| (site.fences, site.useless)).collect();
        assert_eq!(counts[2], (4, 1));
        assert_eq!(linter.write_sizes().all.temporal.total_writes(), 1);
    }

    #[test]
    fn a_map_ends_a_gap_at_once() {
        let map = Op::Map { addr: 1 << 20, len: 1 << 20, name: NameId(0) };
        let ops = [Op::Store { addr: 1 << 20, len: 8 }, map, Op::Store { addr: 1 << 20, len: 8 }];
        let events = ops.map(|op| Event { op, site: SiteId(1), instructions: 1 });
        let mut linter = in_a_gap();
        let batch = Batch { thread: ThreadId(0), time_ns: 0, events: &events, values: &[] };
        linter.push(batch).expect("every batch is accepted");
        linter.finish().expect("it ends");
        let sizes = linter.write_sizes();
        assert_eq!((sizes.all.temporal.total_writes(), sizes.persistent.temporal.total_writes()), (1, 1));
    }

    #[test]
    fn memory_stays_bounded_whatever_the_stream_says() {
        let mut linter = Linter::default();
        linter.begin(&Source::synthetic("test")).expect("every source is accepted");
        for n in 0..1_500_000u32 {
            let addr = u64::from(n) << 12;
            // Up to number 200,000, and some far away: more sites than the bound, of every class.
            let site = SiteId(if n % 7 == 0 { u32::MAX - n } else { n % 200_000 });
            let op = match n % 5 {
                0 | 1 => Op::Store { addr, len: 8 },
                2 => Op::StoreNt { addr, len: 8 },
                3 => Op::Flush { addr, kind: event::FlushKind::Clwb },
                _ => Op::Map { addr: addr + 4096, len: 4096 * 2, name: NameId(0) },
            };
            let events = [Event { op, site, instructions: 0 }];
            let batch =
                Batch { thread: ThreadId(n.wrapping_mul(7919)), time_ns: 0, events: &events, values: &[] };
            linter.push(batch).expect("every batch is accepted");
        }
        let threads = linter.threads.len() * (size_of::<Thread>() + size_of::<usize>());
        let tables = linter.ranges.bytes() + linter.lines.bytes() + linter.evidence.bytes();
        let held = threads + tables + linter.blocks.bytes();
        assert!(held <= BYTES_MAX, "{held}");
        assert_eq!(linter.threads.len(), THREADS_MAX);
        linter.finish().expect("it ends");
        // Bounds cost detail, not counts: every store is still in exactly one run.
        let writes = linter.write_sizes().all;
        assert_eq!(writes.temporal.total_writes() + writes.non_temporal.total_writes(), 900_000);
    }
}
