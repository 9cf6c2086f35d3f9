//! Which tool wrote a trace.

use event::{Capabilities, InstructionCounts};

use crate::formats;
use crate::line::Line;

/// Lines that say what a file is.
const LINES: usize = 16;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `valgrind --tool=lackey --trace-mem=yes`.
    Lackey,
    /// `perf script` of `perf mem record` or another event with data addresses.
    PerfScript,
    /// `perf mem -D report`.
    PerfMem,
    /// DynamoRIO: the view tool of drmemtrace, or the client memtrace_simple.
    Drmemtrace,
    /// PIN's pinatrace.
    Pinatrace,
    /// ChampSim's binary traces, unpacked.
    ChampSim,
    /// Ramulator 1 memory traces (`0x12345680 R`), and its and version 2's traces of a core (`3 20734016`).
    Ramulator,
    /// Ramulator 2 load and store traces (`LD 0x229f6f80`).
    Ramulator2,
    /// Dinero IV's `din` (`0 10019d94`).
    Dinero,
    /// SST Prospero's text traces (`1 W 140734192927288 8`).
    Prospero,
    /// DRAMSim2's `k6` and `mase` traces (`0x51a83ec0 P_MEM_WR 10`).
    DramSim,
}

impl Format {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Format; 11] = [
        Format::Lackey,
        Format::Pinatrace,
        Format::PerfMem,
        Format::PerfScript,
        Format::Drmemtrace,
        Format::DramSim,
        Format::Prospero,
        Format::Ramulator2,
        Format::Dinero,
        Format::Ramulator,
        Format::ChampSim,
    ];

    /// The name by which command lines call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Lackey => "lackey",
            Format::PerfScript => "perf-script",
            Format::PerfMem => "perf-mem",
            Format::Drmemtrace => "drmemtrace",
            Format::Pinatrace => "pinatrace",
            Format::ChampSim => "champsim",
            Format::Ramulator => "ramulator",
            Format::Ramulator2 => "ramulator2",
            Format::Dinero => "dinero",
            Format::Prospero => "prospero",
            Format::DramSim => "dramsim",
        }
    }

    /// What writes it.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Format::Lackey => "`valgrind --tool=lackey --trace-mem=yes`",
            Format::PerfScript => "`perf script` with data addresses (perf mem record, or perf record -d)",
            Format::PerfMem => "`perf mem -D report`",
            Format::Drmemtrace => {
                "DynamoRIO's memtrace as text (drrun -t drmemtrace -tool view, or memtrace_simple)"
            }
            Format::Pinatrace => "PIN's pinatrace",
            Format::ChampSim => "a ChampSim trace of 64 B records",
            Format::Ramulator => "a Ramulator trace",
            Format::Ramulator2 => "a Ramulator 2 load and store trace",
            Format::Dinero => "a Dinero trace",
            Format::Prospero => "a Prospero trace",
            Format::DramSim => "a DRAMSim2 trace",
        }
    }

    /// What it can't see, in a sentence.
    #[must_use]
    pub fn blind(self) -> &'static str {
        match self {
            Format::Lackey => {
                "no threads, synchronisation, allocations, flushes, fences nor code; all is one thread's"
            }
            Format::PerfScript | Format::PerfMem => {
                "a sample of the accesses and none between them, so no cache can be modelled from it; no sizes (8 B are taken), \
                 allocations, flushes, fences nor synchronisation"
            }
            Format::Drmemtrace => {
                "no synchronisation, allocations, flushes nor fences; the order between threads is the file's"
            }
            Format::Pinatrace => {
                "no threads, sizes (8 B are taken unless stated), allocations, flushes, fences nor synchronisation"
            }
            Format::ChampSim => {
                "no sizes (8 B are taken), threads, allocations, flushes, fences nor synchronisation"
            }
            Format::Ramulator | Format::Ramulator2 => {
                "whole lines behind a cache, at physical addresses as a rule: no hits, threads, code, allocations nor synchronisation"
            }
            Format::Dinero => "no sizes (4 B are taken), threads, code, allocations nor synchronisation",
            Format::Prospero => "no threads, code, allocations nor synchronisation",
            Format::DramSim => {
                "whole lines behind a cache, at physical addresses: no hits, threads, code, allocations nor synchronisation"
            }
        }
    }

    pub(crate) fn capabilities(self) -> Capabilities {
        let accesses = Capabilities::LOADS | Capabilities::STORES;
        match self {
            Format::PerfScript
            | Format::PerfMem
            | Format::Drmemtrace
            | Format::Pinatrace
            | Format::ChampSim => accesses | Capabilities::SITES,
            _ => accesses,
        }
    }

    pub(crate) fn instructions(self) -> InstructionCounts {
        match self {
            Format::Lackey | Format::ChampSim => InstructionCounts::Exact,
            Format::Drmemtrace | Format::Dinero | Format::Ramulator => InstructionCounts::Estimated,
            _ => InstructionCounts::Unknown,
        }
    }

    /// What a line says, without its end; `None` if it is none of the format's.
    pub(crate) fn parse(self, line: &str) -> Option<Line> {
        match self {
            Format::PerfScript => formats::perf::script(line),
            Format::PerfMem => formats::perf::mem(line),
            Format::Drmemtrace => formats::dynamorio::line(line),
            Format::Pinatrace => formats::pin::line(line),
            Format::Ramulator => formats::memory::ramulator(line),
            Format::Ramulator2 => formats::memory::ramulator2(line),
            Format::Dinero => formats::memory::dinero(line),
            Format::Prospero => formats::memory::prospero(line),
            Format::DramSim => formats::memory::dramsim(line),
            Format::Lackey | Format::ChampSim => None,
        }
    }

    /// The format whose lines these first bytes of a file are.
    pub(crate) fn of(head: &[u8]) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.fits(head))
    }

    fn fits(self, head: &[u8]) -> bool {
        match self {
            Format::ChampSim => formats::champsim::fits(head),
            Format::Lackey => {
                let starts = [&b"I  "[..], b" L ", b" S ", b" M ", b"=="];
                // Valgrind's banner is every tool's; what follows says which.
                let lines = head.split(|byte| *byte == b'\n').take(64);
                let mut own = lines.filter(|line| !line.starts_with(b"==") && !line.starts_with(b"--"));
                starts.iter().any(|start| head.starts_with(start))
                    && own.next().is_none_or(|line| {
                        line.len() < 3 || starts.iter().any(|start| line.starts_with(start))
                    })
            }
            _ => {
                let whole = head.iter().rposition(|byte| *byte == b'\n').map_or(head.len(), |at| at);
                let Ok(text) = std::str::from_utf8(&head[..whole]) else { return false };
                let mut accesses = 0;
                for line in text.lines().take(LINES) {
                    match self.parse(line) {
                        Some(line) => accesses += u32::from(line.access.is_some()),
                        None => return false,
                    }
                }
                accesses > 0
            }
        }
    }
}
