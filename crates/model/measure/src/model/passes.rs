//! Threads that go over a region in passes.

use std::collections::HashSet;

use event::{Event, FenceKind, FlushKind, Op as Operation, SiteId};
use machine::{Next, Program, Time};

use super::stream::line;
use crate::figures::Figures;
use crate::offsets::Random;
use crate::task::{LINE, Op, Pattern, Raw, Task};

/// Events given out at once.
const BATCH: usize = 256;

fn put(events: &mut Vec<Event>, op: Operation) {
    events.push(Event { op, site: SiteId::UNKNOWN, instructions: 1 });
}

/// The first half of every unit, then the second half of every unit, again and again.
#[derive(Debug)]
pub struct BufferProbe {
    base: u64,
    unit: u64,
    units: u64,
    /// Rounds still to be done.
    pub rounds: u64,
    /// Half and unit that come next.
    half: u64,
    next: u64,
}

impl BufferProbe {
    /// Over the task's region, in units of its access size.
    pub fn new(task: &Task, base: u64) -> BufferProbe {
        BufferProbe {
            base,
            unit: task.access_size,
            units: task.region / task.access_size,
            rounds: 0,
            half: 0,
            next: 0,
        }
    }

    /// Events of one round.
    pub fn events_per_round(&self) -> u64 {
        2 * self.units * self.unit / LINE + 2
    }
}

impl Program for BufferProbe {
    fn next(&mut self, _: Time, events: &mut Vec<Event>) -> Next {
        while events.len() < BATCH {
            if self.rounds == 0 {
                return Next::Done;
            }
            let half = self.unit / 2;
            let from = self.base + self.next * self.unit + self.half * half;
            for addr in (from..from + half).step_by(LINE as usize) {
                put(events, line(Op::Store, addr));
                // Not clwb: a line that stayed in the cache would not be read again.
                put(events, Operation::Flush { addr, kind: FlushKind::Clflush });
            }
            self.next += 1;
            if self.next == self.units {
                put(events, Operation::Fence(FenceKind::Full));
                self.next = 0;
                self.half = 1 - self.half;
                self.rounds -= u64::from(self.half == 0);
            }
        }
        Next::Run
    }
}

/// At most `room` of the region's lines, by number, in the order in which a pass takes them.
fn order(task: &Task, seed: u64, room: u64) -> Vec<u64> {
    let (all, mut random) = (task.region / LINE, Random(seed));
    match (task.pattern, u32::try_from(all)) {
        (Pattern::Sequential, _) => (0..all.min(room)).collect(),
        (Pattern::Random, Ok(few)) if all / 2 <= room => {
            let mut order: Vec<u64> = random.permutation(few).into_iter().map(u64::from).collect();
            order.truncate(usize::try_from(room).unwrap_or(usize::MAX));
            order
        }
        // A few of many: new ones are quickly found, and the others need no memory.
        (Pattern::Random, _) => {
            let (mut drawn, mut seen) = (Vec::new(), HashSet::new());
            while (drawn.len() as u64) < room.min(all) {
                let line = random.below(all);
                if seen.insert(line) {
                    drawn.push(line);
                }
            }
            drawn
        }
    }
}

/// Lines written, then read.
#[derive(Debug)]
pub struct ReadAfterWrite {
    way: Raw,
    op: Op,
    /// Addresses of the lines, in the order of the passes.
    lines: Vec<u64>,
    /// Double passes still to be done, of which the first warms up.
    passes: u64,
    warm: bool,
    stage: Stage,
    since: Time,
    next: usize,
    write_time: Time,
    read_time: Time,
    timed_lines: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Write,
    Read,
}

impl ReadAfterWrite {
    /// Over the task's region, or as many of its lines, evenly drawn, as `events` are enough for.
    pub fn new(task: &Task, seed: u64, events: u64, base: u64) -> ReadAfterWrite {
        let order = order(task, seed, (events / 12).max(64));
        let per_pass = 4 * order.len() as u64;
        ReadAfterWrite {
            way: task.raw,
            op: task.op,
            lines: order.into_iter().map(|line| base + line * LINE).collect(),
            passes: (events / per_pass.max(1)).clamp(2, 1 << 16),
            warm: true,
            // The passes of the combined way count as reads.
            stage: if task.raw == Raw::Combined { Stage::Read } else { Stage::Write },
            since: Time::ZERO,
            next: 0,
            write_time: Time::ZERO,
            read_time: Time::ZERO,
            timed_lines: 0,
        }
    }

    /// What was measured.
    pub fn figures(&self, task: &Task) -> Figures {
        let per_line = |time: Time| time.ns() / self.timed_lines.max(1) as f64;
        let bytes = self.timed_lines * LINE;
        let apart = task.raw != Raw::Combined;
        let used = self.lines.len() as u64;
        let cut = used < task.region / LINE;
        let random = task.pattern == Pattern::Random;
        Figures {
            region: (cut && !random).then_some(used * LINE),
            sampled_lines: (cut && random).then_some(used),
            seconds: (self.write_time + self.read_time).seconds(),
            read_bytes: bytes,
            write_bytes: bytes,
            line_ns: Some(per_line(self.read_time)),
            write_ns: apart.then(|| per_line(self.write_time)),
            ..Figures::default()
        }
    }

    fn write(&self, addr: u64, events: &mut Vec<Event>) {
        put(events, line(self.op, addr));
        if self.op == Op::StoreClwb {
            put(events, Operation::Flush { addr, kind: FlushKind::Clwb });
        }
    }

    /// A pass ended at `now`; the next one begins.
    fn turn(&mut self, now: Time) {
        let took = now.since(self.since);
        if !self.warm {
            *(if self.stage == Stage::Write { &mut self.write_time } else { &mut self.read_time }) += took;
        }
        self.since = now;
        self.next = 0;
        if self.stage == Stage::Write {
            self.stage = Stage::Read;
            return;
        }
        if !self.warm {
            self.timed_lines += self.lines.len() as u64;
        }
        self.passes -= 1;
        self.warm = false;
        self.stage = if self.way == Raw::Combined { Stage::Read } else { Stage::Write };
    }
}

impl Program for ReadAfterWrite {
    fn next(&mut self, now: Time, events: &mut Vec<Event>) -> Next {
        if self.next == self.lines.len() {
            self.turn(now);
        }
        if self.passes == 0 {
            return Next::Done;
        }
        let end = (self.next + BATCH).min(self.lines.len());
        for at in self.next..end {
            let addr = self.lines[at];
            match (self.way, self.stage) {
                (Raw::Combined, _) => {
                    self.write(addr, events);
                    put(events, Operation::Fence(FenceKind::Full));
                    put(events, line(Op::Load, addr));
                    put(events, Operation::Fence(FenceKind::Full));
                }
                (_, Stage::Write) => self.write(addr, events),
                (_, Stage::Read) => put(events, line(Op::Load, addr)),
            }
        }
        self.next = end;
        if end == self.lines.len() {
            put(events, Operation::Fence(FenceKind::Full));
        }
        Next::Run
    }
}
