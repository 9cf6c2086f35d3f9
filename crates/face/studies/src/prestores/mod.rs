//! Pre-stores (Wu 2026, chapter 3): the listings, and the applications as the patterns of events that
//! `examples/c` shows as programs.

pub mod applications;
mod kernels;
pub mod listings;
pub mod ordering;
mod programs;
mod stores;

use event::{Event, FlushKind};

use crate::pattern::{LINE, after, demote, flush, store, store_nt};

/// Strongly ordered, 3D XPoint: two Xeon Gold 6230 of 20 cores and 27.5 MiB of LLC, eight DIMMs on two
/// sockets (spec, B.2), so four on the one that the threads run on. The guide turned prefetchers off; nobody
/// says so of this one, and such processors come with them on. All else is as in the guide's platform, a
/// processor of the same generation.
const MACHINE_A: &str = "cascade-lake cores.count=40 llc.size=28160KiB memory.dimms=4 l2.prefetch=stream";
/// Weakly ordered, memory on an FPGA.
const MACHINES_B: [&str; 2] = ["enzian-fast", "enzian-slow"];

/// Bytes that all threads write before time is taken, which is more than a machine's caches hold, and while
/// it is.
fn volume(machine: &str) -> (u64, u64) {
    if machine == MACHINE_A { (44 << 20, 8 << 20) } else { (36 << 20, 6 << 20) }
}

/// What is done to data once they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Nothing,
    Clean,
    Skip,
    Demote,
}

/// Writes `bytes` (whole lines) at `at`, in stores of a line with so many instructions before each, and does
/// what is done after them.
fn write(events: &mut Vec<Event>, at: u64, bytes: u64, instructions: u32, done: After) {
    for line in (at..at + bytes).step_by(LINE as usize) {
        let event = if done == After::Skip { store_nt(line, LINE) } else { store(line, LINE) };
        events.push(after(instructions, event));
    }
    afterwards(events, at, bytes, done);
}

/// What is done after the lines from `at` on were written.
fn afterwards(events: &mut Vec<Event>, at: u64, bytes: u64, after: After) {
    let lines = (at..at + bytes).step_by(LINE as usize);
    match after {
        After::Clean => events.extend(lines.map(|line| flush(line, FlushKind::Clwb))),
        After::Demote => events.extend(lines.map(demote)),
        After::Nothing | After::Skip => {}
    }
}
