//! The recorded operations on the study's machine, as those of a tree with 160 million pairs.
//!
//! # A large tree from a small one
//! The recorded tree is taken as one of many that hang below further levels, each with the addresses of its
//! own: an operation chooses one of these *copies* at random and is carried out there. So the lines of
//! a leaf are met again as rarely as in the study's tree, while levels that fit into a cache stay there. What
//! is there once (root words, a thread's log, the logs of btree-LS where they are appended to) stays at
//! its address. The levels above the copies, and the upper levels and the mapping table that the library has
//! in ordinary memory, are no part of a recording; they are added as patterns of accesses.

use event::Event;
use space::LINE;

use super::record::{Kind, Setup, Taken, Work, record};
use crate::pattern::{self, Draw, Pattern, Run, after, load, store};
use crate::steps::{Step, What};
use crate::{Lab, StudyError};

/// One socket of the study's machine, with six DIMMs of each kind of memory: 28 cores with two hardware
/// threads each, of which 48 run; the model has a core for each, and as many on the far socket, which are
/// idle. Prefetchers are on, as the machine was sold.
const MACHINE: &str = "cascade-lake cores.count=96 llc.size=39424KiB l2.prefetch=stream";

/// Pairs of the study's tree.
pub(super) const PAIRS: u64 = 160_000_000;
/// How full nodes are after random inserts.
const FULL: f64 = 0.69;
/// Where copies begin, behind what is there once.
const COPIES: u64 = 1 << 30;
/// Bytes of all copies at most.
const COPIES_BYTES: u64 = 56 << 30;
/// Operations of all threads before time is taken: as many as fill the LLC once and a half where they write.
const WARM: u64 = 36_000;
/// Instructions to find the way in an upper node.
const PER_NODE: u32 = 60;
/// Instructions of a comparison where pairs are sorted: what is executed, and what a core could have done in
/// the 15 cycles that it takes to notice a wrong guess, four in a cycle; half of the guesses are wrong.
const PER_COMPARISON: f64 = 8.0 + 0.5 * 15.0 * 4.0;

/// What operations are without, for the shares of their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Part {
    #[default]
    All,
    /// Nothing is flushed and fenced.
    Unflushed,
    /// Nor are logs written.
    Unlogged,
}

/// How a setup is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub threads: u32,
    /// The tree is in DRAM, flushed and fenced as on persistent memory.
    pub dram: bool,
    /// Lookups at the same time.
    pub batch: usize,
    pub part: Part,
    /// Children are numbers in a table in ordinary memory that leads to nodes.
    pub indirect: bool,
}

impl Variant {
    /// So many threads on persistent memory.
    pub fn of(threads: u32) -> Variant {
        Variant { threads, dram: false, batch: 1, part: Part::All, indirect: false }
    }

    /// The same in DRAM.
    pub fn dram(threads: u32) -> Variant {
        Variant { dram: true, ..Variant::of(threads) }
    }
}

/// What operations came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub run: Run,
    pub threads: u32,
    /// Of a mean operation.
    pub flushes: f64,
    pub fences: f64,
}

impl Figures {
    /// Nanoseconds of an operation.
    pub fn latency(&self) -> f64 {
        self.run.ns_per_iteration
    }

    /// Million operations a second, of all threads.
    pub fn throughput(&self) -> f64 {
        f64::from(self.threads) * 1e3 / self.run.ns_per_iteration
    }
}

/// Runs a setup's operations, recorded once for all of its variants.
pub(super) fn measure(lab: &Lab, setup: &Setup, variant: Variant) -> Result<Figures, StudyError> {
    let taken = lab.tree(format!("{setup:?}"), || record(setup))?;
    let mean = |what| {
        let steps = taken.threads.iter().flatten().flatten().filter(|step| step.what == what).count();
        ratio(steps as u64, taken.threads.iter().map(|thread| thread.len() as u64).sum())
    };
    // Lookups at the same time ask for all lines of all of their nodes before they wait.
    let dependent = match variant.batch as u64 {
        1 => dependent(&taken, setup),
        batch => ratio(LINE, setup.node * batch),
    };
    let machine = format!("{MACHINE} cores.pipeline.dependent_loads={dependent:.3}");
    let run = lab
        .try_pattern(&format!("{setup:?} {variant:?}"), &machine, || Ok(patterns(setup, variant, &taken)))?;
    Ok(Figures { run, threads: variant.threads, flushes: mean(What::Flush), fences: mean(What::Fence) })
}

/// Counts far below 2^52.
#[allow(clippy::cast_precision_loss)]
pub(super) fn ratio(above: u64, below: u64) -> f64 {
    above as f64 / below as f64
}

/// Share of the lines whose address is known only when the line before has come: the first one of a node.
/// Those behind it are asked for while that one is under way, because a processor expects a search to
/// go on. A line that is met again in the same operation is in the L1, and counts once.
fn dependent(taken: &Taken, setup: &Setup) -> f64 {
    let (mut nodes, mut lines) = (0, 0);
    for steps in taken.threads.iter().flatten() {
        let loads = steps.iter().filter(|step| step.what == What::Load).map(|step| step.offset());
        let mut seen: Vec<u64> = loads.map(|offset| offset / LINE).collect();
        seen.sort_unstable();
        seen.dedup();
        lines += seen.len() as u64;
        // Records of btree-LS that are not next to each other are as nodes are.
        let mut of: Vec<u64> =
            seen.iter().map(|line| (line * LINE).saturating_sub(taken.nodes) / setup.node).collect();
        of.dedup();
        // Those that btree-LS asks for at the same time come together.
        let cached = if setup.kind == Kind::Logs { setup.cached } else { 1 };
        nodes += of.len().saturating_sub(cached - 1).max(1) as u64;
        // Upper levels in ordinary memory: three of them with some ten lines each are not in the L1, and the
        // second step in a node waits for the first.
        if setup.selective() {
            (nodes, lines) = (nodes + 6, lines + 30);
        }
    }
    ratio(nodes, lines.max(1)).clamp(0.01, 1.0)
}

/// Where things are.
#[derive(Clone, Copy)]
struct Places {
    setup: Setup,
    variant: Variant,
    base: u64,
    /// Where nodes begin.
    nodes: u64,
    /// Bytes from a copy to the next, and how many there are.
    stride: u64,
    copies: u64,
}

impl Places {
    fn of(setup: &Setup, variant: Variant, taken: &Taken) -> Places {
        // Pages of all copies that are equally far lie on all DIMMs in turn.
        let pages = (taken.bytes.div_ceil(4096) / 6 * 6) + 7;
        let stride = pages * 4096;
        let copies = (PAIRS / setup.records).min(COPIES_BYTES / stride).max(1);
        let base = if variant.dram { pattern::VOLATILE + (64 << 30) } else { pattern::PERSISTENT };
        Places { setup: *setup, variant, base, nodes: taken.nodes, stride, copies }
    }

    /// Where a word of the recording is. What btree-LS writes goes to the ends of its logs, whichever leaf it
    /// is of.
    fn at(&self, step: Step, copy: u64) -> u64 {
        let offset = step.offset();
        let once = match self.setup.kind {
            Kind::Logs => step.what != What::Load,
            _ => offset < self.nodes,
        };
        if once { self.base + offset } else { self.base + COPIES + copy * self.stride + offset }
    }

    /// The number of the node that a step is in.
    fn node(&self, step: Step) -> u64 {
        (step.offset()).saturating_sub(self.nodes) / self.setup.node
    }

    /// Leaves of the large tree.
    fn leaves(&self) -> u64 {
        let slots = (self.setup.node - LINE) / 32;
        #[allow(clippy::cast_precision_loss)]
        let full = slots as f64 * FULL;
        (ratio(self.setup.records * self.copies, 1) / full) as u64
    }

    /// The levels above the copies, from the root on: nodes of the tree's own size.
    fn above(&self, copy: u64, events: &mut Vec<Event>) {
        let children = (ratio((self.setup.node - LINE) / 24, 1) * FULL) as u64;
        let (mut number, mut count) = (copy, self.copies);
        let mut nodes = Vec::new();
        let mut offset = COPIES / 2;
        while count > 1 {
            (number, count) = (number / children, count.div_ceil(children));
            nodes.push(self.base + offset + number * self.setup.node);
            offset += count * self.setup.node;
        }
        for node in nodes.into_iter().rev() {
            let lines = (self.setup.node / LINE).div_ceil(2);
            events.push(after(PER_NODE, load(node, 8)));
            events.extend((1..=lines).map(|line| after(PER_NODE / 4, load(node + line * LINE, 8))));
        }
    }
}

/// What the library has in ordinary memory: upper levels of 768 B nodes, and btree-LS's mapping table.
const INNER: u64 = pattern::VOLATILE + (1 << 30);
const INNER_BYTES: u64 = 768;
const INNER_CHILDREN: u64 = 44;
const MAPPING: u64 = pattern::VOLATILE + (8 << 30);
const MAPPING_BYTES: u64 = 192;

/// Finds a leaf by upper levels in ordinary memory: the first separator of each line of a node, then one line
/// and that of the child.
fn inner(leaf: u64, leaves: u64, events: &mut Vec<Event>) {
    let (mut number, mut count) = (leaf, leaves);
    let (mut offset, mut nodes) = (INNER, Vec::new());
    while count > 1 {
        (number, count) = (number / INNER_CHILDREN, count.div_ceil(INNER_CHILDREN));
        nodes.push(offset + number * INNER_BYTES);
        offset += count * INNER_BYTES;
    }
    for node in nodes.into_iter().rev() {
        events.extend((0..8).map(|line| after(6, load(node + line * LINE, 8))));
        events.push(after(PER_NODE / 2, load(node + leaf % 8 * LINE, 8)));
        events.push(after(4, load(node + 512 + leaf % 4 * LINE, 4)));
    }
}

impl Setup {
    /// Whether upper levels are in ordinary memory.
    fn selective(&self) -> bool {
        matches!(self.kind, Kind::FastFairSp | Kind::Logs)
    }

    /// Instructions to sort what a range reads of a leaf.
    fn sorts(&self) -> u32 {
        let unsorted = matches!(self.kind, Kind::UnsortedLeaf | Kind::PersistentUnsorted);
        if !unsorted || !matches!(self.work, Work::Range(_)) {
            return 0;
        }
        let pairs = ratio((self.node - LINE) / 32, 1) * FULL;
        (pairs * pairs.log2() * PER_COMPARISON) as u32
    }
}

fn patterns(setup: &Setup, variant: Variant, taken: &Taken) -> Vec<Pattern> {
    let places = Places::of(setup, variant, taken);
    let threads = u64::from(variant.threads);
    let one = |thread: u64| {
        let operations = taken.threads[thread as usize % taken.threads.len()].clone();
        let mut draw = Draw::new(77 + thread);
        let mut next = 0;
        let step = move |events: &mut Vec<Event>| {
            let mut batch = Vec::with_capacity(variant.batch);
            for _ in 0..variant.batch {
                batch.push((operations[next % operations.len()].as_slice(), draw.below(places.copies)));
                next += 1;
            }
            match batch.as_slice() {
                [(steps, copy)] => alone(&places, steps, *copy, draw.below(places.leaves()), events),
                batch => together(&places, batch, events),
            }
        };
        let measured = taken.threads[0].len() as u64 / variant.batch as u64;
        // One thread does more, so that all of its operations are met.
        let measured =
            if threads < 4 && !matches!(setup.work, Work::Range(_)) { 4 * measured } else { measured };
        // Threads do not begin in step.
        let warm = match setup.work {
            Work::Open(_) => return Pattern::new(4, step).warm(1),
            Work::Range(_) => 12,
            Work::Read => WARM / 6 / threads,
            _ => WARM / threads,
        };
        Pattern::new(measured, step).warm(warm / variant.batch as u64 + thread * 2)
    };
    (0..threads).map(one).collect()
}

/// One operation after the other.
fn alone(places: &Places, steps: &[Step], copy: u64, leaf: u64, events: &mut Vec<Event>) {
    let leaf = if places.setup.selective() { leaf } else { 0 };
    if places.setup.selective() {
        inner(leaf, places.leaves(), events);
    } else {
        places.above(copy, events);
    }
    let table = (places.setup.kind == Kind::Logs).then_some(MAPPING + leaf * MAPPING_BYTES);
    if let Some(entry) = table {
        events.extend((0..3).map(|line| after(10, load(entry + line * LINE, 8))));
    }
    let mut fenced = false;
    let mut before = u64::MAX;
    let sorts = places.setup.sorts();
    let mut sorted = u64::MAX;
    let opens = table.is_some() && matches!(places.setup.work, Work::Open(_));
    for step in steps {
        fenced |= step.what == What::Fence;
        let offset = step.offset();
        let persists = matches!(step.what, What::Flush | What::Fence);
        let is_log = offset < places.nodes && matches!(step.what, What::Load | What::Store | What::StoreNt);
        let skipped = match places.variant.part {
            Part::All => false,
            Part::Unflushed => persists,
            Part::Unlogged => persists || is_log,
        };
        if skipped {
            continue;
        }
        if places.variant.indirect && step.what == What::Load && places.node(*step) != before {
            before = places.node(*step);
            let entry = (copy * (places.stride / places.setup.node) + before) * 8;
            events.push(after(6, load(MAPPING + entry, 8)));
        }
        push(places, *step, copy, events);
        if opens && step.what == What::Load {
            // A record is a line; it goes into the mapping table.
            let leaf = (offset / LINE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let entry = MAPPING + leaf.wrapping_add(copy * 7919) % places.leaves() * MAPPING_BYTES;
            events.push(after(40, load(entry, 8)));
            events.extend((0..3).map(|line| after(8, store(entry + line * LINE, 8))));
        }
        if sorts > 0
            && std::mem::replace(&mut sorted, places.node(*step)) != places.node(*step)
            && let Some(last) = events.last_mut()
        {
            last.instructions += sorts;
        }
    }
    // A record that was appended is entered: bounds and filter stay in their lines.
    if let Some(entry) = table.filter(|_| fenced) {
        events.extend((0..3).map(|line| after(12, store(entry + line * LINE, 8))));
    }
}

fn push(places: &Places, step: Step, copy: u64, events: &mut Vec<Event>) {
    events.push(step.event(places.at(step, copy)));
}

/// Lookups in turns: all search their node, then the lines of all of the next nodes are asked for.
fn together(places: &Places, batch: &[(&[Step], u64)], events: &mut Vec<Event>) {
    let node = |step: &Step| places.node(*step);
    for (_, copy) in batch {
        places.above(*copy, events);
    }
    let mut left: Vec<(&[Step], u64)> = batch.to_vec();
    while left.iter().any(|(steps, _)| !steps.is_empty()) {
        for (steps, copy) in &left {
            let Some(first) = steps.first() else { continue };
            let begin = places.nodes + node(first) * places.setup.node;
            let lines = (begin..begin + places.setup.node).step_by(LINE as usize);
            events.extend(lines.map(|line| {
                let step = Step { at: (line / 8) as u32, instructions: 2, bytes: 8, what: What::Load };
                load(places.at(step, *copy), 8)
            }));
        }
        for (steps, copy) in &mut left {
            let here = steps.first().map(node);
            let count = steps.iter().take_while(|step| Some(node(step)) == here).count();
            let (now, later) = steps.split_at(count);
            now.iter().for_each(|step| push(places, *step, *copy, events));
            *steps = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::THREADS;
    use super::*;

    const SMALL: Setup = Setup {
        kind: Kind::Plain,
        work: Work::Insert,
        node: 512,
        records: 400,
        operations: 4,
        group_flush: false,
        logs: 8,
        garbage: 0,
        aged: 0,
        cached: 4,
    };
    const ALL: [Kind; 7] = [
        Kind::Plain,
        Kind::UnsortedLeaf,
        Kind::Wal,
        Kind::FastFair,
        Kind::PersistentUnsorted,
        Kind::FastFairSp,
        Kind::Logs,
    ];

    #[test]
    fn operations_are_recorded_as_the_trees_do_them() {
        for kind in ALL {
            let setup = Setup { kind, ..SMALL };
            let (taken, again) = (record(&setup).unwrap(), record(&setup).unwrap());
            let steps = |taken: &Taken| -> Vec<(u32, What)> {
                let all = taken.threads.iter().flatten().flatten();
                all.map(|step| (step.at, step.what)).collect()
            };
            assert_eq!(steps(&taken), steps(&again), "{kind:?}: the same each time");
            assert_eq!(taken.threads.len(), THREADS as usize);
            assert!(taken.threads.iter().all(|thread| thread.len() == 4 && !thread[0].is_empty()));
            let count =
                |what| taken.threads.iter().flatten().flatten().filter(|step| step.what == what).count();
            let durable = !matches!(kind, Kind::Plain | Kind::UnsortedLeaf);
            assert_eq!(count(What::Fence) >= 4 * THREADS as usize, durable, "{kind:?}");
            assert_eq!(count(What::Lock), count(What::Unlock), "{kind:?}");
            let inside = |step: &Step| step.offset() < taken.bytes;
            assert!(taken.threads.iter().flatten().flatten().filter(|step| step.bytes > 0).all(inside));
            // A thread's log is the only thing that it writes before the nodes.
            let logged = taken.threads.iter().flatten().flatten().any(|step| {
                let at = step.offset();
                step.what == What::Store && (768..taken.nodes).contains(&at)
            });
            assert_eq!(logged, matches!(kind, Kind::Wal | Kind::PersistentUnsorted), "{kind:?}");
        }
    }

    #[test]
    fn opening_is_recorded_by_thread() {
        for (kind, threads) in [(Kind::FastFairSp, 1), (Kind::Logs, 8)] {
            let taken = record(&Setup { kind, work: Work::Open(8), ..SMALL }).unwrap();
            assert_eq!(taken.threads.len(), threads, "{kind:?}");
            let loads =
                |thread: &Vec<Vec<Step>>| thread[0].iter().filter(|step| step.what == What::Load).count();
            assert!(taken.threads.iter().all(|thread| thread.len() == 1 && loads(thread) > 10), "{kind:?}");
        }
    }

    #[test]
    fn copies_do_not_overlap_and_share_what_is_there_once() {
        let taken = record(&Setup { kind: Kind::Wal, ..SMALL }).unwrap();
        let places = Places::of(&Setup { kind: Kind::Wal, ..SMALL }, Variant::of(2), &taken);
        let step = |at: u64| Step { at: (at / 8) as u32, instructions: 1, bytes: 8, what: What::Load };
        assert!(places.stride > taken.bytes && places.copies > 1000);
        assert_eq!(places.at(step(512), 3), places.at(step(512), 9));
        let (low, high) = (step(taken.nodes), step(taken.bytes - 8));
        assert!(places.at(high, 3) < places.at(low, 4));
        assert!(places.at(high, places.copies - 1) < pattern::PERSISTENT + (64 << 30));
    }

    #[test]
    fn a_flushed_line_is_written_and_one_in_a_cache_is_not() {
        let lab = Lab::new(None);
        let of = |kind, part| {
            let variant = Variant { part, ..Variant::of(2) };
            let taken = record(&Setup { kind, ..SMALL }).unwrap();
            let setup = Setup { kind, ..SMALL };
            let threads =
                patterns(&setup, variant, &taken).into_iter().map(|thread| thread.warm(2)).collect();
            pattern::run(&lab.config(MACHINE, None).unwrap(), threads).unwrap()
        };
        let (flushed, kept) = (of(Kind::FastFair, Part::All), of(Kind::FastFair, Part::Unflushed));
        assert!(flushed.traffic.controller_write_bytes > 8 * 64, "{flushed:?}");
        assert_eq!(kept.traffic.controller_write_bytes, 0, "{kept:?}");
        assert!(flushed.fence_ns > 0.0 && kept.fence_ns == 0.0);
        assert!(flushed.instructions > 200.0 && flushed.stall_ns > 0.0 && flushed.iterations == 2 * 4 * 4);
    }
}
