//! A thread that times single accesses.

use event::{Event, FenceKind, FlushKind, Op as Operation, SiteId};
use machine::{Next, Program, Time};

use super::gauge::Gauge;
use super::stream::line;
use crate::offsets::Offsets;
use crate::task::{LINE, Op, Task};

/// What one sample is.
#[derive(Clone, Copy, Debug)]
pub enum Sample {
    /// An 8-byte load between full fences.
    Load,
    /// An 8-byte store, a flush and a full fence, once the line is in the cache.
    StoreFlush,
    /// A non-temporal store of a line and a full fence, once the line is in the cache.
    StoreNt,
    /// A whole access and its fence.
    Whole {
        /// What it does.
        op: Op,
        /// Bytes.
        bytes: u64,
        /// Bytes stored before their lines are flushed.
        flush_every: u64,
        /// Whether a fence is part of it.
        fenced: bool,
    },
}

impl Sample {
    /// The sample of an idle latency.
    pub fn idle(op: Op) -> Sample {
        match op {
            Op::Load => Sample::Load,
            Op::Ntstore => Sample::StoreNt,
            // Nobody copies a single word: `Task::fault`.
            Op::Store | Op::StoreClwb | Op::Copy => Sample::StoreFlush,
        }
    }

    /// The task's access.
    pub fn whole(task: &Task) -> Sample {
        Sample::Whole {
            op: task.op,
            bytes: task.access_size,
            flush_every: task.flush_every.min(task.access_size),
            fenced: task.fence_every > 0 || task.op == Op::Load,
        }
    }

    /// Events of one, roughly.
    pub fn events(self) -> u64 {
        match self {
            Sample::Load => 2,
            Sample::StoreFlush => 5,
            Sample::StoreNt => 4,
            Sample::Whole { op, bytes, .. } => {
                bytes / LINE * if op == Op::StoreClwb { 2 } else { 1 } + 1 + self.cached_bytes() / LINE
            }
        }
    }

    /// Bytes of one.
    pub fn bytes(self) -> u64 {
        match self {
            Sample::Load | Sample::StoreFlush => 8,
            Sample::StoreNt => LINE,
            Sample::Whole { bytes, .. } => bytes,
        }
    }

    /// Bytes that are read into the cache before.
    fn cached_bytes(self) -> u64 {
        match self {
            Sample::Load => 0,
            Sample::StoreFlush | Sample::StoreNt => LINE,
            Sample::Whole { op: Op::Store | Op::StoreClwb, bytes, fenced: true, .. } => bytes,
            Sample::Whole { .. } => 0,
        }
    }

    fn give(self, addr: u64, events: &mut Vec<Event>) {
        let mut put = |op| events.push(Event { op, site: SiteId::UNKNOWN, instructions: 1 });
        match self {
            Sample::Load => put(Operation::Load { addr, len: 8 }),
            Sample::StoreFlush => {
                put(Operation::Store { addr, len: 8 });
                put(Operation::Flush { addr, kind: FlushKind::Clwb });
            }
            Sample::StoreNt => put(line(Op::Ntstore, addr)),
            Sample::Whole { op, bytes, flush_every, fenced } => {
                for part in (0..bytes).step_by(flush_every as usize) {
                    let lines = (part..bytes.min(part + flush_every)).step_by(LINE as usize);
                    lines.clone().for_each(|at| put(line(op, addr + at)));
                    if op == Op::StoreClwb {
                        lines.for_each(|at| put(Operation::Flush { addr: addr + at, kind: FlushKind::Clwb }));
                    }
                }
                if fenced {
                    put(Operation::Fence(if op == Op::Load { FenceKind::Full } else { FenceKind::Store }));
                }
                return;
            }
        }
        put(Operation::Fence(FenceKind::Full));
    }
}

/// The program.
#[derive(Debug)]
pub struct Prober {
    sample: Sample,
    /// Where the next sample is.
    pub offsets: Offsets,
    base: u64,
    left: u64,
    /// With others under way: until they stop.
    gauge: Option<Gauge>,
    stage: Stage,
    /// Times of the samples, in nanoseconds.
    pub samples: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Nothing is under way.
    Between,
    /// The line is being read into the cache.
    Preparing { addr: u64 },
    /// The sample is under way.
    Timing { since: Time },
}

impl Prober {
    /// Takes `left` samples, or as many as there is time for while `gauge` runs.
    pub fn new(sample: Sample, offsets: Offsets, base: u64, left: u64, gauge: Option<Gauge>) -> Prober {
        Prober { sample, offsets, base, left, gauge, stage: Stage::Between, samples: Vec::new() }
    }

    /// Drops the samples so far.
    pub fn forget(&mut self) {
        self.samples.clear();
        self.stage = Stage::Between;
    }
}

impl Program for Prober {
    fn next(&mut self, now: Time, events: &mut Vec<Event>) -> Next {
        if let Some(start) = self.gauge.as_ref().map(Gauge::start).filter(|start| now < *start) {
            return Next::Idle(start);
        }
        if let Stage::Timing { since } = self.stage {
            self.samples.push(now.since(since).ns());
            self.left -= 1;
            self.stage = Stage::Between;
        }
        if let Stage::Between = self.stage {
            if self.left == 0 || self.gauge.as_ref().is_some_and(|gauge| gauge.is_over(now)) {
                return Next::Done;
            }
            let addr = self.base + self.offsets.advance();
            self.stage = Stage::Preparing { addr };
            let cached = self.sample.cached_bytes();
            if cached > 0 {
                let put = |op| Event { op, site: SiteId::UNKNOWN, instructions: 1 };
                let lines = (addr..addr + cached).step_by(LINE as usize);
                events.extend(lines.map(|addr| put(Operation::Load { addr, len: 8 })));
                events.push(put(Operation::Fence(FenceKind::Full)));
            }
        }
        if let Stage::Preparing { addr } = self.stage
            && events.is_empty()
        {
            self.sample.give(addr, events);
            self.stage = Stage::Timing { since: now };
        }
        if let Some(gauge) = &self.gauge {
            gauge.issued(events.len() as u64);
        }
        Next::Run
    }
}
