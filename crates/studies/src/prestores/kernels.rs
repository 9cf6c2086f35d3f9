//! Kernels that write matrices and tensors, each as one step: about a row.
//!
//! Loads and stores are of 64 bytes and stand for the eight of 8 bytes that a loop executes, whose instructions they carry.

use event::Event;

use super::{After, afterwards, volume, write};
use crate::pattern::{self, Draw, LINE, Pattern, after, load, store, store_nt};
use crate::{Lab, StudyError};

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// Tensors, of which the patched function writes one half of all bytes (the training's small batches).
    TensorsSmall,
    /// The same with three tenths.
    TensorsLarge,
    /// Multigrid's residual: a matrix written from two others.
    MgResid,
    /// Multigrid's smoother: a matrix changed by another.
    MgPsinv,
    /// A Fourier transform that copies its lines out.
    FtCopy,
    /// The same with pre-stores between its passes.
    FtPasses,
    /// The last of a flow solver's passes over its right sides.
    SpRhs,
    /// Keys thrown into buckets.
    IsRank,
}

impl Kernel {
    /// Bytes of lines that a step dirties.
    fn dirtied(self) -> u64 {
        match self {
            Kernel::TensorsSmall => 2 * ROW,
            Kernel::TensorsLarge => 3 * ROW,
            // A line for each key.
            Kernel::IsRank => ROW / 4 * LINE,
            _ => ROW,
        }
    }
}

/// Threads of a run.
const THREADS: u32 = 10;
/// Bytes of a row of a matrix: 512 numbers.
const ROW: u64 = 4096;
/// Bytes of a thread's part of a matrix.
const PART: u64 = 64 << 20;
/// Where the matrices begin, one after the other.
const MATRIX: u64 = 4 << 30;
/// Instructions of a stencil for the eight numbers of a line, and of simple arithmetic.
const STENCIL: u32 = 120;
const SIMPLE: u32 = 24;
/// Bytes of a small tensor, in whole lines; many of them share a line in the original.
const SMALL: u64 = 256;

/// Runs a kernel on a machine.
pub(super) fn run(
    lab: &Lab,
    machine: &'static str,
    kernel: Kernel,
    done: After,
) -> Result<pattern::Run, StudyError> {
    lab.pattern("kernel", &[kernel as u64, done as u64], machine, || {
        let step = u64::from(THREADS) * kernel.dirtied();
        let (warm, written) = volume(machine);
        let thread = |thread: u32| {
            let mut worker =
                Worker { part: u64::from(thread) * PART, at: 0, draw: Draw::new(u64::from(thread)), done };
            Pattern::new(written / step, move |events| worker.step(kernel, events)).warm(warm / step)
        };
        (0..THREADS).map(thread).collect()
    })
}

/// One thread's sweep.
struct Worker {
    part: u64,
    /// Bytes into its part.
    at: u64,
    draw: Draw,
    done: After,
}

impl Worker {
    /// A line's address in matrix number `number`.
    fn line(&self, number: u64, offset: u64) -> u64 {
        pattern::PERSISTENT + number * MATRIX + self.part + self.at + offset
    }

    fn step(&mut self, kernel: Kernel, events: &mut Vec<Event>) {
        match kernel {
            Kernel::TensorsSmall => self.tensors(events, 1),
            Kernel::TensorsLarge => self.tensors(events, 2),
            Kernel::MgResid => self.sweep(events, &[1, 2], STENCIL),
            Kernel::MgPsinv => self.sweep(events, &[0, 1], STENCIL),
            Kernel::SpRhs => self.sweep(events, &[0], SIMPLE),
            Kernel::FtCopy => self.transform(events, After::Nothing, self.done),
            Kernel::FtPasses => self.transform(events, self.done, After::Nothing),
            Kernel::IsRank => self.scatter(events),
        }
        self.at = (self.at + ROW) % PART;
    }

    /// A row of matrix 0 from rows of `inputs`.
    fn sweep(&self, events: &mut Vec<Event>, inputs: &[u64], instructions: u32) {
        for offset in (0..ROW).step_by(LINE as usize) {
            events.extend(inputs.iter().map(|&input| load(self.line(input, offset), LINE)));
            let to = self.line(0, offset);
            let event = if self.done == After::Skip { store_nt(to, LINE) } else { store(to, LINE) };
            events.push(after(instructions, event));
        }
        afterwards(events, self.line(0, 0), ROW, self.done);
    }

    /// Four KiB of tensors, a tenth of it of a big one, the rest small ones in which each packet is computed from the one
    /// before; and `others` times as much that other functions write, a line here and there.
    fn tensors(&mut self, events: &mut Vec<Event>, others: u64) {
        let big = ROW / 8;
        for offset in (0..big).step_by(LINE as usize) {
            events.extend([load(self.line(1, offset), LINE), load(self.line(2, offset), LINE)]);
            write(events, self.line(0, offset), LINE, SIMPLE, self.done);
        }
        let small = pattern::PERSISTENT + 3 * MATRIX + self.part;
        for _ in 0..(ROW - big) / SMALL {
            let tensor = small + self.draw.below(PART / SMALL) * SMALL;
            for offset in (0..SMALL).step_by(LINE as usize) {
                if offset > 0 {
                    events.push(load(tensor + offset - LINE, LINE));
                }
                write(events, tensor + offset, LINE, SIMPLE, self.done);
            }
        }
        for _ in 0..others * ROW / LINE {
            let at = pattern::PERSISTENT + 4 * MATRIX + self.part + self.draw.below(PART / LINE) * LINE;
            events.push(after(SIMPLE, store(at, LINE)));
        }
    }

    /// Passes back and forth between two small buffers, then a row of the result.
    fn transform(&self, events: &mut Vec<Event>, passes: After, copy: After) {
        let buffers = pattern::PERSISTENT + 5 * MATRIX + self.part;
        // Numbers of 16 bytes in a row of 4 KiB: 256, so eight passes.
        for pass in 0..8 {
            let (from, to) = (buffers + pass % 2 * ROW, buffers + (1 - pass % 2) * ROW);
            for offset in (0..ROW).step_by(LINE as usize) {
                events.push(load(from + offset, LINE));
                write(events, to + offset, LINE, SIMPLE, passes);
            }
        }
        for offset in (0..ROW).step_by(LINE as usize) {
            events.push(load(buffers + offset, LINE));
            let to = self.line(0, offset);
            events.push(if copy == After::Skip { store_nt(to, LINE) } else { store(to, LINE) });
        }
        afterwards(events, self.line(0, 0), ROW, copy);
    }

    /// As many keys of 4 bytes as a row has, each to a place of its own.
    fn scatter(&mut self, events: &mut Vec<Event>) {
        for offset in (0..ROW).step_by(LINE as usize) {
            events.push(load(self.line(1, offset), LINE));
            for _ in 0..LINE / 4 {
                let at = pattern::PERSISTENT + self.part + self.draw.below(PART / 4) * 4;
                events.push(after(6, store(at, 4)));
                afterwards(events, at / LINE * LINE, LINE, self.done);
            }
        }
    }
}
