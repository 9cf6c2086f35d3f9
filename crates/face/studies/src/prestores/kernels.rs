//! Kernels that write tensors and matrices, each as one step.

use event::{Event, FlushKind};

use super::programs::{self, MATRIX, PART, ROW, Sweep};
use super::{After, MACHINE_A, afterwards, volume, write};
use crate::pattern::{self, Draw, LINE, Pattern, after, flush, load, store, store_nt};
use crate::{Lab, StudyError};

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// Tensors, of which the patched function writes one half of all bytes (the training's small batches).
    TensorsSmall,
    /// The same with a third.
    TensorsLarge,
    /// A program of NAS.
    Program(programs::Program),
    /// Keys thrown into buckets.
    IsRank,
}

impl Kernel {
    /// Bytes of lines that a step dirties.
    fn dirtied(self) -> u64 {
        match self {
            Kernel::TensorsSmall => 2 * ROW,
            Kernel::TensorsLarge => 3 * ROW,
            Kernel::Program(program) => program.dirtied(),
            // A line for each key.
            Kernel::IsRank => ROW / 4 * LINE,
        }
    }
}

/// Threads of a run. On machine B the programs use only a part of the bandwidth, the source says. One thread
/// uses at most half of the slow FPGA's; ten are held up by it.
fn threads(machine: &str) -> u32 {
    if machine == MACHINE_A { 10 } else { 1 }
}

/// Instructions of simple arithmetic on a line.
const SIMPLE: u32 = 24;
/// Bytes of a packet, and of a small tensor with what the allocator (glibc, aligned to 64 bytes) needs to the
/// next one.
const PACKET: u64 = 16;
const SMALL: u64 = 240;
const APART: u64 = 256;

/// Runs a kernel on a machine.
pub(super) fn run(
    lab: &Lab,
    machine: &'static str,
    kernel: Kernel,
    done: After,
) -> Result<pattern::Run, StudyError> {
    lab.pattern(&format!("{kernel:?}"), &[done as u64], machine, || {
        let threads = threads(machine);
        let step = u64::from(threads) * kernel.dirtied();
        let (warm, written) = volume(machine);
        let thread = |thread: u32| {
            let steps = |bytes: u64| bytes.div_ceil(step);
            if let Kernel::Program(program) = kernel {
                let mut sweep = Sweep::new(program, thread, threads, done);
                let written = steps(written).max(program.least());
                return Pattern::new(written, move |events| sweep.step(events)).warm(steps(warm));
            }
            let mut worker = Worker { thread, at: 0, draw: Draw::new(u64::from(thread)), done };
            Pattern::new(steps(written), move |events| worker.step(kernel, events)).warm(steps(warm))
        };
        (0..threads).map(thread).collect()
    })
}

/// One thread.
struct Worker {
    thread: u32,
    /// Bytes into its part.
    at: u64,
    draw: Draw,
    done: After,
}

impl Worker {
    /// First byte of the thread's part of matrix number `number`.
    fn part(&self, number: u64) -> u64 {
        pattern::PERSISTENT + number * MATRIX + u64::from(self.thread) * PART
    }

    fn step(&mut self, kernel: Kernel, events: &mut Vec<Event>) {
        match kernel {
            Kernel::TensorsLarge => self.tensors(events, 2),
            Kernel::IsRank => self.scatter(events),
            _ => self.tensors(events, 1),
        }
        self.at = (self.at + ROW) % (PART - ROW);
    }

    /// Four KiB of tensors, a tenth of it of a big one, the rest small ones; and `others` times as much that
    /// other functions write, a line here and there.
    fn tensors(&mut self, events: &mut Vec<Event>, others: u64) {
        let big = ROW / 8;
        for offset in (self.at..self.at + big).step_by(LINE as usize) {
            events.extend([load(self.part(1) + offset, LINE), load(self.part(2) + offset, LINE)]);
            write(events, self.part(0) + offset, LINE, SIMPLE, self.done);
        }
        // Small tensors are allocated one after the other, and begin at any line of a unit: the allocator
        // knows nothing of units.
        let small = self.part(3) + u64::from(self.thread) % 4 * LINE + self.at;
        for tensor in 0..(ROW - big) / APART {
            self.small_tensor(events, small + tensor * APART);
        }
        for _ in 0..others * ROW / LINE {
            let at = self.part(4) + self.draw.below(PART / LINE) * LINE;
            events.push(after(SIMPLE, store(at, LINE)));
        }
    }

    /// A tensor in which each packet is computed from one that was just written, four packets before (listing
    /// 5). Lines are cleaned in the unrolled loop, whose turn is a line; what is left of the last line is no
    /// turn.
    fn small_tensor(&self, events: &mut Vec<Event>, tensor: u64) {
        for at in (tensor..tensor + SMALL).step_by(PACKET as usize) {
            if at >= tensor + LINE {
                events.push(load(at - LINE, PACKET));
            }
            let event = if self.done == After::Skip { store_nt(at, PACKET) } else { store(at, PACKET) };
            events.push(after(SIMPLE / 4, event));
            let end = at + PACKET - tensor;
            if self.done == After::Clean && end.is_multiple_of(LINE) {
                events.push(flush(at / LINE * LINE, FlushKind::Clwb));
            }
        }
    }

    /// As many keys of 4 bytes as a row has, each to a place of its own.
    fn scatter(&mut self, events: &mut Vec<Event>) {
        for offset in (0..ROW).step_by(LINE as usize) {
            events.push(load(self.part(1) + self.at + offset, LINE));
            for _ in 0..LINE / 4 {
                let at = self.part(0) + self.draw.below(PART / 4) * 4;
                events.push(after(6, store(at, 4)));
                afterwards(events, at / LINE * LINE, LINE, self.done);
            }
        }
    }
}
