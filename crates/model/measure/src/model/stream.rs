//! A thread that accesses memory as fast as it can, or with delays.

use event::{Event, FenceKind, FlushKind, Op as Operation, SiteId};
use machine::{Next, Program, Time};

use super::gauge::Gauge;
use crate::offsets::Offsets;
use crate::task::{LINE, Mix, Op, Task};

/// Events given out at once: few, so that threads stop soon after the time is over, but more than a core's
/// window has room for between two fences.
const BATCH: usize = 128;
/// Instructions of a loop's step around one line: the access, an addition, a comparison, a jump.
const LOOP_INSTRUCTIONS: u32 = 4;

/// The program.
#[derive(Debug)]
pub struct Stream {
    op: Op,
    access_size: u64,
    flush_every: u64,
    fence_every: u64,
    /// Reads and writes in turn.
    reads: u32,
    writes: u32,
    /// Instructions to pass a delay with, and accesses between two delays.
    delay_instructions: u32,
    burst: u64,
    accesses: u64,
    /// Whether it may stop within an access.
    divisible: bool,
    offsets: Offsets,
    base: u64,
    gauge: Gauge,
    /// Position in the cycle of reads and writes.
    turn: u32,
    written: u64,
    current: Option<Current>,
    /// Instructions before the next event.
    pending: u32,
}

/// The access under way; addresses.
#[derive(Clone, Copy, Debug)]
struct Current {
    reading: bool,
    /// The next line, and the end.
    at: u64,
    end: u64,
    /// Lines from here to there are to be flushed.
    flush_at: u64,
    flush_end: u64,
}

impl Stream {
    /// Thread `thread` of `task`. `delay` is in instructions, `per_ns` of which the core does in a
    /// nanosecond.
    pub fn new(task: &Task, thread: u32, offsets: Offsets, base: u64, gauge: &Gauge, per_ns: f64) -> Stream {
        let (reads, writes) = match task.mix {
            Mix::Turns { reads, writes } => (reads, writes),
            Mix::Readers(readers) if thread < readers => (1, 0),
            Mix::Readers(_) => (0, 1),
            Mix::None => (u32::from(task.op == Op::Load), u32::from(task.op != Op::Load)),
        };
        Stream {
            op: task.op,
            access_size: task.access_size,
            flush_every: task.flush_every.min(task.access_size),
            fence_every: task.fence_every,
            reads,
            writes,
            delay_instructions: (task.delay.ns() * per_ns) as u32,
            burst: u64::from(task.burst.max(1)),
            accesses: 0,
            divisible: task.op != Op::StoreClwb || task.flush_every < task.access_size,
            offsets,
            base,
            gauge: gauge.clone(),
            turn: 0,
            written: 0,
            current: None,
            pending: 0,
        }
    }

    /// The next access begins.
    fn begin(&mut self) -> Current {
        let reading = self.turn < self.reads;
        self.turn = (self.turn + 1) % (self.reads + self.writes);
        let first = self.base + self.offsets.advance();
        let at = if self.op == Op::Copy { first + self.access_size / 2 } else { first };
        Current { reading, at, end: first + self.access_size, flush_at: at, flush_end: at }
    }

    /// One event more, or two at the end of an access.
    fn step(&mut self, events: &mut Vec<Event>) {
        let mut current = self.current.take().unwrap_or_else(|| self.begin());
        let mut put = |op, instructions| {
            events.push(Event { op, site: SiteId::UNKNOWN, instructions: instructions + self.pending });
            self.pending = 0;
        };
        if current.flush_at < current.flush_end {
            put(Operation::Flush { addr: current.flush_at, kind: FlushKind::Clwb }, 1);
            current.flush_at += LINE;
        } else {
            if self.op == Op::Copy {
                // A line of the second half, which takes that of the first.
                put(line(Op::Load, current.at - self.access_size / 2), LOOP_INSTRUCTIONS);
                self.gauge.moved(true, LINE);
                put(line(Op::Copy, current.at), 1);
            } else {
                put(line(if current.reading { Op::Load } else { self.op }, current.at), LOOP_INSTRUCTIONS);
            }
            self.gauge.moved(current.reading, LINE);
            current.at += LINE;
            let due = current.at == current.end || current.at - current.flush_at >= self.flush_every;
            if self.op == Op::StoreClwb && !current.reading && due {
                current.flush_end = current.at;
            }
        }
        if current.at < current.end || current.flush_at < current.flush_end {
            self.current = Some(current);
            return;
        }
        self.written += u64::from(!current.reading);
        if !current.reading && self.fence_every > 0 && self.written.is_multiple_of(self.fence_every) {
            put(Operation::Fence(FenceKind::Store), 1);
        }
        self.accesses += 1;
        if self.accesses.is_multiple_of(self.burst) {
            self.pending = self.delay_instructions;
        }
    }
}

/// The event of one whole line.
pub fn line(op: Op, addr: u64) -> Operation {
    let len = LINE as u32;
    match op {
        Op::Load => Operation::Load { addr, len },
        Op::Ntstore => Operation::StoreNt { addr, len },
        Op::Store | Op::StoreClwb | Op::Copy => Operation::Store { addr, len },
    }
}

impl Program for Stream {
    fn next(&mut self, now: Time, events: &mut Vec<Event>) -> Next {
        if now < self.gauge.start() {
            return Next::Idle(self.gauge.start());
        }
        let may_stop =
            |stream: &Stream| (stream.current.is_none() || stream.divisible) && stream.gauge.is_over(now);
        while events.len() < BATCH {
            if may_stop(self) {
                return Next::Done;
            }
            let before = events.len();
            self.step(events);
            self.gauge.issued((events.len() - before) as u64);
            // A delay passes before anything else may be decided.
            if self.pending > 0 {
                break;
            }
        }
        Next::Run
    }
}
