//! What one thread does, on its own core.

use std::time::Duration;

use pmem::Mapped;
use pmem::probe::{Access, Clock, Move, Sample, Wait};

use crate::offsets::{Interleave, Offsets};
use crate::task::{Kind, LINE, Mix, Op, Task};

/// Bytes that are accessed between two looks at the clock, roughly.
const BATCH_BYTES: u64 = 64 << 10;
/// Accesses between two looks at the clock, at most.
const BATCH_MAX: u64 = 512;
/// Time that accesses with delays take between two looks at the clock, roughly.
const BATCH_NS: f64 = 50_000.0;
/// Samples between two looks at the clock.
const SAMPLES: usize = 64;

/// What the threads of a task have in common.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    pub task: &'a Task,
    pub memory: &'a Mapped,
    pub clock: &'a Clock,
    pub interleave: Option<Interleave>,
    pub seed: u64,
}

/// What a thread measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub seconds: f64,
    /// Of the thread that measures them, in nanoseconds.
    pub latencies: Vec<f64>,
}

impl Plan<'_> {
    /// The task's access, reading or writing.
    pub fn access(&self, op: Op) -> Access {
        let task = self.task;
        let what = match op {
            Op::Load => Move::Load,
            Op::Ntstore => Move::StoreNt,
            Op::Store => Move::Store,
            Op::StoreClwb => Move::StoreFlush,
            Op::Copy => Move::Copy,
        };
        let fenced = op != Op::Load && task.fence_every > 0;
        Access {
            what,
            len: task.access_size,
            flush_every: task.flush_every.min(task.access_size),
            wait: if fenced { Wait::Stores } else { Wait::None },
            wait_every: task.fence_every.max(1),
            pause_spins: self.clock.to_spins(task.delay.ns()),
        }
    }

    /// Reads and writes in turn, as thread `thread` does them.
    fn turns(&self, thread: u32) -> (u32, u32) {
        match self.task.mix {
            Mix::Turns { reads, writes } => (reads, writes),
            Mix::Readers(readers) if thread < readers => (1, 0),
            Mix::Readers(_) => (0, 1),
            Mix::None => (u32::from(self.task.op == Op::Load), u32::from(self.task.op != Op::Load)),
        }
    }

    /// Accesses between two looks at the clock.
    fn batch(&self) -> usize {
        let by_bytes = (BATCH_BYTES / self.task.access_size).clamp(1, BATCH_MAX);
        let by_delay = (BATCH_NS / self.task.delay.ns().max(1.0)).max(1.0) as u64;
        by_bytes.min(by_delay) as usize
    }

    /// Accesses for `warm`, then for `runtime`, which counts.
    pub fn run(&self, thread: u32, prober: bool, warm: Duration, runtime: Duration) -> Measured {
        if prober {
            self.probe(thread, warm);
            return self.probe(thread, runtime);
        }
        let mut walk = Walk::new(self, thread);
        walk.until(self.end(warm));
        (walk.read_bytes, walk.write_bytes) = (0, 0);
        let start = self.clock.ticks();
        walk.until(self.end(runtime));
        let seconds = self.clock.ns(self.clock.ticks() - start) / 1e9;
        Measured {
            read_bytes: walk.read_bytes,
            write_bytes: walk.write_bytes,
            seconds,
            latencies: Vec::new(),
        }
    }

    fn end(&self, after: Duration) -> u64 {
        self.clock.ticks() + self.clock.to_ticks(after.as_secs_f64() * 1e9)
    }

    /// Idle latencies for `time`, while others work.
    fn probe(&self, thread: u32, time: Duration) -> Measured {
        let alone = Task { access_size: LINE, ..self.task.clone() };
        let mut offsets = Offsets::new(&alone, thread, self.seed, self.interleave);
        let (end, mut ticks) = (self.end(time), Vec::new());
        let mut batch = [0; SAMPLES];
        let sample = idle(self.task.op);
        while self.clock.ticks() < end {
            batch.fill_with(|| offsets.advance());
            self.memory.time(sample, &batch, &mut ticks);
        }
        Measured { latencies: self.to_ns(&ticks), ..Measured::default() }
    }

    /// Timed samples of the task's kind, in nanoseconds.
    pub fn samples(&self, count: u64) -> Vec<f64> {
        let mut offsets = Offsets::new(self.task, 0, self.seed, self.interleave);
        let mut ticks = Vec::with_capacity(count as usize);
        let mut batch = [0; SAMPLES];
        let mut left = count as usize;
        while left > 0 {
            let now = &mut batch[..left.min(SAMPLES)];
            now.fill_with(|| offsets.advance());
            self.memory.time(self.sample(), now, &mut ticks);
            left -= now.len();
        }
        self.to_ns(&ticks)
    }

    fn sample(&self) -> Sample {
        match self.task.kind {
            Kind::Timed => Sample::Whole(self.access(self.task.op)),
            _ => idle(self.task.op),
        }
    }

    /// Bytes of one sample.
    pub fn sample_bytes(&self) -> u64 {
        match self.sample() {
            Sample::LoadWord | Sample::StoreWordFlush => 8,
            Sample::StoreLineNt => LINE,
            Sample::Whole(access) => access.len,
        }
    }

    /// Without what measuring itself takes.
    fn to_ns(self, ticks: &[u64]) -> Vec<f64> {
        let overhead = self.clock.overhead_ticks();
        ticks.iter().map(|ticks| self.clock.ns(ticks.saturating_sub(overhead))).collect()
    }
}

fn idle(op: Op) -> Sample {
    match op {
        Op::Load => Sample::LoadWord,
        Op::Ntstore => Sample::StoreLineNt,
        // Nobody copies a single word: `Task::fault`.
        Op::Store | Op::StoreClwb | Op::Copy => Sample::StoreWordFlush,
    }
}

/// A thread on its way through its region.
struct Walk<'a> {
    plan: &'a Plan<'a>,
    offsets: Offsets,
    read: Access,
    write: Access,
    turns: (usize, usize),
    batch: Vec<u64>,
    done: u64,
    read_bytes: u64,
    write_bytes: u64,
}

impl<'a> Walk<'a> {
    fn new(plan: &'a Plan<'a>, thread: u32) -> Walk<'a> {
        let (reads, writes) = plan.turns(thread);
        let op = if plan.task.op == Op::Load { Op::Store } else { plan.task.op };
        Walk {
            plan,
            offsets: Offsets::new(plan.task, thread, plan.seed, plan.interleave),
            read: plan.access(Op::Load),
            write: plan.access(op),
            turns: (reads as usize, writes as usize),
            batch: vec![0; plan.batch()],
            done: 0,
            read_bytes: 0,
            write_bytes: 0,
        }
    }

    /// Batch after batch until the counter says `end`.
    fn until(&mut self, end: u64) {
        while self.plan.clock.ticks() < end {
            self.batch.fill_with(|| self.offsets.advance());
            let (reads, writes) = self.turns;
            let mut rest = self.batch.as_slice();
            while !rest.is_empty() {
                // One kind alone is one call: nothing comes between its accesses.
                let whole = rest.len();
                let (reads, writes) = match (reads, writes) {
                    (_, 0) => (whole, 0),
                    (0, _) => (0, whole),
                    both => both,
                };
                let (now, later) = rest.split_at(reads.min(rest.len()));
                self.plan.memory.access(&self.read, now, &mut 0);
                self.read_bytes += now.len() as u64 * self.read.len;
                let (now, later) = later.split_at(writes.min(later.len()));
                self.plan.memory.access(&self.write, now, &mut self.done);
                let bytes = now.len() as u64 * self.write.len;
                let read = if self.write.what == Move::Copy { bytes / 2 } else { 0 };
                self.read_bytes += read;
                self.write_bytes += bytes - read;
                rest = later;
            }
        }
    }
}
