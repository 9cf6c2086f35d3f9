//! Iterations of programs of the NAS benchmarks as passes over matrices, as `examples/c` has them.
//!
//! What a pre-store gains in a program depends on how much of its writing it is about, and on what else the
//! program does. So all passes of an iteration are here, those that nobody would patch as well. Instructions
//! per line were counted in the programs of `examples/c` (gcc -O2, callgrind); those of `compute_rhs` as a
//! sum, whose parts without fluxes are estimated.

use event::Event;

use super::{After, afterwards};
use crate::pattern::{self, LINE, after, load, store};

/// Bytes of a row of a matrix of one field: 512 numbers.
pub(super) const ROW: u64 = 4096;
/// Lines of it.
const LINES: u64 = ROW / LINE;
/// Bytes of a thread's part of such a matrix, or of the tensors. An odd number of pages, so that threads
/// which go on side by side are not on one DIMM.
pub(super) const PART: u64 = (64 << 20) + 4096;
/// Where the matrices begin, one after the other: room for ten parts of five fields, and an odd number of
/// pages as well.
pub(super) const MATRIX: u64 = (4 << 30) + 3 * 4096;

/// A matrix that a pass goes over.
#[derive(Clone, Copy, Debug)]
struct Stream {
    matrix: u64,
    /// Lines for eight lines of a matrix of one field.
    eighths: u64,
}

/// Of one number per cell, of five side by side, of half as much, and of one for eight cells (the next
/// coarser grid).
const fn one(matrix: u64) -> Stream {
    Stream { matrix, eighths: 8 }
}
const fn five(matrix: u64) -> Stream {
    Stream { matrix, eighths: 40 }
}
const fn half(matrix: u64) -> Stream {
    Stream { matrix, eighths: 4 }
}
const fn coarse(matrix: u64) -> Stream {
    Stream { matrix, eighths: 1 }
}

/// A pass of an iteration.
#[derive(Clone, Copy, Debug)]
struct Pass {
    reads: &'static [Stream],
    writes: &'static [Stream],
    /// For eight cells: a line of each matrix of one field.
    instructions: u32,
    /// Whether the patch cleans what it writes.
    patched: bool,
    /// Whether what is read is transformed in stages between two buffers that stay cached before it is
    /// written.
    transforms: bool,
}

/// A pass that is neither patched nor a transform.
const fn pass(reads: &'static [Stream], writes: &'static [Stream], instructions: u32) -> Pass {
    Pass { reads, writes, instructions, patched: false, transforms: false }
}
const fn patched(reads: &'static [Stream], writes: &'static [Stream], instructions: u32) -> Pass {
    Pass { patched: true, ..pass(reads, writes, instructions) }
}
const fn transform(reads: &'static [Stream], writes: &'static [Stream], instructions: u32) -> Pass {
    Pass { transforms: true, ..pass(reads, writes, instructions) }
}

/// Stages of a transform of 512 numbers, instructions for a line in each, and how many rows are transformed
/// together: 16 transforms, so a buffer has 128 KiB.
const STAGES: u64 = 9;
const PER_STAGE: u32 = 40;
const BLOCK: u64 = 32;

/// Which program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// A V-cycle's finest level, and the residual after it. The levels below are a seventh of it and alike.
    Mg,
    /// A time step: evolve and the inverse transform.
    Ft,
    /// The same with pre-stores between the stages of the transforms, where they do harm.
    FtMisused,
    /// A time step: right sides, their solution along three directions, the new state.
    Sp,
}

// MG: u, v, r and the next coarser grid's.
const MG: &[Pass] = &[
    pass(&[one(2)], &[coarse(3)], 48),          // rprj3
    pass(&[coarse(3), one(0)], &[one(0)], 76),  // interp
    patched(&[one(0), one(1)], &[one(2)], 281), // resid
    patched(&[one(2), one(0)], &[one(0)], 265), // psinv
    patched(&[one(0), one(1)], &[one(2)], 281), // resid
];

// FT: u0, u1, u2 of numbers of 16 bytes, and twiddle of 8. Only the last of the transforms is patched.
const FT: &[Pass] = &[
    pass(&[one(0), half(3)], &[one(0), one(1)], 52), // evolve
    transform(&[one(1)], &[one(1)], 18),             // cffts3
    transform(&[one(1)], &[one(1)], 18),             // cffts2
    Pass { patched: true, ..transform(&[one(1)], &[one(2)], 49) }, // cffts1
];

// SP: u, rhs, forcing, and the auxiliary fields.
const U: Stream = five(0);
const RHS: Stream = five(1);
const FORCING: Stream = five(2);
const US: Stream = one(3);
const VS: Stream = one(4);
const WS: Stream = one(5);
const SQUARE: Stream = one(6);
const QS: Stream = one(7);
const RHO_I: Stream = one(8);
const SPEED: Stream = one(9);
const FLUX: Pass = pass(&[U, US, VS, WS, SQUARE, QS, RHO_I, RHS], &[RHS], 2724);
const SP: &[Pass] = &[
    pass(&[U], &[RHO_I, US, VS, WS, SQUARE, QS, SPEED], 200), // compute_rhs
    pass(&[FORCING], &[RHS], 80),
    FLUX,
    FLUX,
    FLUX,
    patched(&[RHS], &[RHS], 120),
    pass(&[RHO_I, US, VS, WS, QS, SPEED, RHS], &[RHS], 358), // txinvr
    pass(&[US, RHS], &[RHS], 1046),                          // x_solve
    pass(&[VS, RHS], &[RHS], 1046),                          // y_solve
    pass(&[WS, RHS], &[RHS], 1046),                          // z_solve
    pass(&[RHS, U], &[U], 248),                              // add
];

impl Program {
    fn passes(self) -> &'static [Pass] {
        match self {
            Program::Mg => MG,
            Program::Ft | Program::FtMisused => FT,
            Program::Sp => SP,
        }
    }

    /// Rows of each pass in a step.
    fn rows(self) -> u64 {
        if self.passes().iter().any(|pass| pass.transforms) { BLOCK } else { 1 }
    }

    /// Steps that a thread has to do at least for a figure that says something.
    pub(super) fn least(self) -> u64 {
        if self.rows() == 1 { 1 } else { 8 }
    }

    /// Bytes of lines that a step dirties, besides the transforms' buffers.
    pub(super) fn dirtied(self) -> u64 {
        let eighths = |pass: &Pass| pass.writes.iter().map(|stream| stream.eighths).sum::<u64>();
        self.passes().iter().map(eighths).sum::<u64>() * self.rows() * ROW / 8
    }
}

/// One thread's part of a program.
pub(super) struct Sweep {
    program: Program,
    part: u64,
    row: u64,
    done: After,
    /// Instructions before the first step: threads don't transform all at once and then write all at once.
    late: u32,
}

impl Sweep {
    /// Of thread number `thread` of so many.
    pub(super) fn new(program: Program, thread: u32, threads: u32, done: After) -> Sweep {
        let block = u32::try_from(BLOCK * LINES * STAGES).unwrap_or(u32::MAX) * PER_STAGE;
        let late = if program.rows() == 1 { 0 } else { block / threads * thread };
        Sweep { program, part: u64::from(thread) * PART, row: 0, done, late }
    }

    /// A row of each pass, or a block of them. Every pass is at another place of its matrices, so far from
    /// the next one's that no cache holds what lies between, as if it had gone over all of them before the
    /// next began.
    pub(super) fn step(&mut self, events: &mut Vec<Event>) {
        let passes = self.program.passes();
        let all = PART / ROW;
        let rows = self.program.rows();
        let first = events.len();
        for (number, pass) in (0u64..).zip(passes) {
            let ahead = number * (all / passes.len() as u64);
            if pass.transforms {
                self.transform(events);
            }
            for row in self.row..self.row + rows {
                self.pass(pass, (row + ahead) % all, events);
            }
        }
        if let Some(event) = events.get_mut(first) {
            *event = after(std::mem::take(&mut self.late), *event);
        }
        self.row = (self.row + rows) % all;
    }

    fn pass(&self, pass: &Pass, row: u64, events: &mut Vec<Event>) {
        for position in row * LINES..(row + 1) * LINES {
            let first = events.len();
            for stream in pass.reads {
                events.extend(self.lines(*stream, position).map(|line| load(line, LINE)));
            }
            for stream in pass.writes {
                events.extend(self.lines(*stream, position).map(|line| store(line, LINE)));
            }
            if let Some(event) = events.get_mut(first) {
                *event = after(pass.instructions, *event);
            }
        }
        if pass.patched && self.program != Program::FtMisused {
            for stream in pass.writes {
                let begin = self.at(*stream, row * LINES * stream.eighths / 8);
                afterwards(events, begin, ROW * stream.eighths / 8, self.done);
            }
        }
    }

    /// From one buffer into the other and back.
    fn transform(&self, events: &mut Vec<Event>) {
        let bytes = BLOCK * ROW;
        let buffers = pattern::PERSISTENT + 12 * MATRIX + self.part;
        let done = if self.program == Program::FtMisused { self.done } else { After::Nothing };
        for stage in 0..STAGES {
            let (from, to) = (buffers + stage % 2 * bytes, buffers + (1 - stage % 2) * bytes);
            for offset in (0..bytes).step_by(LINE as usize) {
                events.push(load(from + offset, LINE));
                events.push(after(PER_STAGE, store(to + offset, LINE)));
                afterwards(events, to + offset, LINE, done);
            }
        }
    }

    /// Address of a line of the thread's part.
    fn at(&self, stream: Stream, line: u64) -> u64 {
        let part = self.part * stream.eighths.div_ceil(8);
        pattern::PERSISTENT + stream.matrix * MATRIX + part + line * LINE
    }

    /// What of a matrix belongs to a position.
    fn lines(&self, stream: Stream, position: u64) -> impl Iterator<Item = u64> {
        let (from, to) = (position * stream.eighths / 8, (position + 1) * stream.eighths / 8);
        let first = self.at(stream, from);
        (0..to - from).map(move |line| first + line * LINE)
    }
}
