//! The recorded operations on the source's machine: the engine's accesses, with an index and an allocator
//! beside them as the source has them.

use std::collections::VecDeque;

use event::{Event, Op};
use kv::Engine;

use super::choose::Chooser;
use super::engine::{Setup, Step, Thread, WARM, record, warm};
use super::index::Index;
use crate::pattern::{self, Pattern, after, load, store};
use crate::{Lab, StudyError};

/// The source's machine has 28 cores to a socket, so that much LLC, four DIMMs on one socket, and a
/// prefetcher as that of the pre-stores, which has the same source. One of two lines of an index node is
/// known only when the line before has come.
pub(super) const MACHINE: &str = "cascade-lake cores.count=56 llc.size=39424KiB memory.dimms=4 \
                                  l2.prefetch=stream cores.pipeline.dependent_loads=0.5";

/// Instructions: of an access and a line of it, of a call of the allocator, to count in a log, and for 8
/// bytes of a record's checksum.
const PER_ACCESS: u32 = 4;
const PER_LINE: u32 = 8;
const PER_CALL: u32 = 100;
const PER_COUNT: u32 = 20;
const PER_WORD_CHECKED: u32 = 1;

/// Ordinary memory: the allocator's lists, and the counters of logs.
const LISTS: u64 = pattern::VOLATILE + (5 << 30);
const COUNTERS: u64 = pattern::VOLATILE + (6 << 30);

/// What operations are without, for the shares of their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Part {
    #[default]
    All,
    /// Nobody searches or changes the index.
    WithoutIndex,
    /// Only the index is searched and changed.
    IndexOnly,
    /// Records are not stored, flushed and waited for.
    WithoutRecords,
}

/// How recorded operations are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Variant {
    /// The index is in persistent memory.
    pub indexed: bool,
    /// Nothing is flushed: dirty lines stay until a cache evicts them.
    pub keep: bool,
    /// First the caches are filled with records that other updates wrote.
    pub filled: bool,
    pub part: Part,
}

/// Runs a setup's operations, recorded once for all of its variants.
pub(super) fn measure(lab: &Lab, setup: &Setup, variant: Variant) -> Result<pattern::Run, StudyError> {
    let name = format!("{setup:?} {variant:?}");
    lab.try_pattern(&name, MACHINE, || {
        let threads = lab.store(format!("{:?}", setup.recorded()), || record(&setup.recorded()))?;
        Ok(patterns(setup, variant, &threads))
    })
}

fn patterns(setup: &Setup, variant: Variant, threads: &[Thread]) -> Vec<Pattern> {
    let (setup, index) = (*setup, Index { keys: setup.index, persistent: variant.indexed });
    let one = |(number, operations): (u64, &Thread)| {
        let mut left: VecDeque<Vec<Step>> = operations.iter().cloned().collect();
        let mut fill = Fill::of(&setup, variant, number);
        let step = move |events: &mut Vec<Event>| {
            fill.next(events);
            for step in left.pop_front().unwrap_or_default() {
                add(&setup, variant, index, step, events);
            }
        };
        Pattern::new(setup.operations(), step).warm(warm(number))
    };
    (0..).zip(threads).map(one).collect()
}

/// Adds the events of a step.
pub(super) fn add(setup: &Setup, variant: Variant, index: Index, step: Step, events: &mut Vec<Event>) {
    let indexed = variant.part != Part::WithoutIndex;
    if variant.part == Part::IndexOnly && !matches!(step, Step::Find(_) | Step::Point(_)) {
        return;
    }
    match step {
        Step::Find(key) if indexed => _ = index.find(events, key),
        Step::Point(key) if indexed => index.point(events, key),
        Step::Shift(key) if indexed => index.shift(events, key),
        Step::Next(key, keys) if indexed => index.next(events, key, keys),
        Step::Find(_) | Step::Point(_) | Step::Shift(_) | Step::Next(..) => {}
        Step::Take(offset) => {
            let at = allocator(setup, offset);
            if setup.engine == Engine::Slab {
                events.extend([after(PER_CALL, load(at, 8)), store(at, 8)]);
            } else {
                events.push(after(PER_COUNT, load(pattern::VOLATILE, 8)));
            }
        }
        Step::Give(offset) => {
            let at = allocator(setup, offset);
            let instructions = if setup.engine == Engine::Slab { PER_CALL } else { PER_COUNT };
            events.extend([after(instructions, load(at, 8)), store(at, 8)]);
        }
        Step::Access(op) => access(variant, op, events),
    }
}

/// Where the allocator has what it knows of a slot, or of a record's log. There are as many superblocks and
/// logs as all keys need: those of the few records that there are are spread over them.
fn allocator(setup: &Setup, offset: u64) -> u64 {
    let chunks = setup.index * (setup.value + 32) / (4 << 20) + 1;
    let spread = (offset / (setup.value + 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    match setup.engine {
        // A list of free slots, 8 B each.
        Engine::Slab => LISTS + spread % chunks * (1 << 16) + (spread >> 24) % 16 * 8,
        Engine::Log => COUNTERS + spread % chunks * 64,
    }
}

fn access(variant: Variant, op: Op, events: &mut Vec<Event>) {
    let lines = |len: u32| PER_LINE * len.div_ceil(64) + PER_ACCESS;
    let records = variant.part != Part::WithoutRecords;
    let at = |offset| pattern::PERSISTENT + offset;
    match op {
        Op::Load { addr, len } => events.push(pattern::event(Op::Load { addr: at(addr), len }, lines(len))),
        Op::Store { addr, len } if records => {
            let checked = PER_WORD_CHECKED * len / 8;
            events.push(pattern::event(Op::Store { addr: at(addr), len }, lines(len) + checked));
        }
        Op::StoreNt { addr, len } if records => {
            events.push(pattern::event(Op::StoreNt { addr: at(addr), len }, lines(len)));
        }
        Op::Flush { addr, kind } if records && !variant.keep => {
            events.push(pattern::event(Op::Flush { addr: at(addr), kind }, 1));
        }
        Op::Fence(kind) if records => events.push(pattern::event(Op::Fence(kind), 1)),
        Op::Lock { .. } | Op::Unlock { .. } => events.push(pattern::event(op, PER_ACCESS)),
        _ => {}
    }
}

/// Records that other updates wrote, as many as a thread's part of the caches holds, in the operations before
/// time is taken.
struct Fill {
    left: u64,
    bytes: u64,
    keep: bool,
    chooser: Chooser,
}

/// A thread's caches, its own and its share of the common one.
const CACHES: u64 = (1 << 20) + (39_424 << 10) / 28;
/// Where these records are.
const OTHERS: u64 = pattern::PERSISTENT + (32 << 30);

impl Fill {
    fn of(setup: &Setup, variant: Variant, thread: u64) -> Fill {
        let left = if variant.filled { WARM } else { 0 };
        let chooser = Chooser::new(setup.keys, setup.index, 1000 + thread);
        Fill { left, bytes: (setup.value + 32).next_multiple_of(64), keep: variant.keep, chooser }
    }

    fn next(&mut self, events: &mut Vec<Event>) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        for _ in 0..CACHES / WARM / self.bytes {
            let record = OTHERS + self.chooser.key() * self.bytes % (16 << 30);
            let lines = (record..record + self.bytes).step_by(64);
            events.extend(lines.clone().map(|line| store(line, 64)));
            if !self.keep {
                events.extend(lines.map(|line| pattern::flush(line, event::FlushKind::Clwb)));
                events.push(pattern::fence(event::FenceKind::Store));
            }
        }
    }
}
