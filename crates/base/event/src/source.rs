//! What a producer of events could see of its program.

use serde::{Deserialize, Serialize};

bitflags::bitflags! {
    /// What a source of events sees. A consumer names what it can't do without
    /// ([`crate::Sink::needs`]) and refuses a source that lacks it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Capabilities: u32 {
        /// Every load of the code that was observed.
        const LOADS = 1;
        /// Every store of the code that was observed.
        const STORES = 1 << 1;
        /// Non-temporal stores are distinguished from ordinary ones.
        const NON_TEMPORAL = 1 << 2;
        /// Flushes and demotions, with addresses.
        const FLUSHES = 1 << 3;
        /// Fences.
        const FENCES = 1 << 4;
        /// Acquires, releases, locks, thread lives, in a global order.
        const SYNC = 1 << 5;
        /// Allocations and frees.
        const ALLOCATIONS = 1 << 6;
        /// Which ranges are persistent.
        const MAPPINGS = 1 << 7;
        /// The bytes of each store, and of each write to a file.
        const VALUES = 1 << 8;
        /// Code sites.
        const SITES = 1 << 9;
        /// Failure-atomic regions and strands, where the program marks them.
        const REGIONS = 1 << 10;
        /// What is done to the files that the user named.
        const FILES = 1 << 11;
        /// Who called the functions that events are of.
        const CALLS = 1 << 12;
    }
}

impl Capabilities {
    /// The flags as words, for messages: `FLUSHES, FENCES`.
    #[must_use]
    pub fn words(self) -> String {
        self.iter_names().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
    }
}

/// What [`crate::Event::instructions`] means in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstructionCounts {
    /// Not known; always 0.
    Unknown,
    /// Derived from the code between two events, not counted as it ran.
    Estimated,
    /// Counted.
    Exact,
}

/// Events come in bursts: of every `period` events of a thread, `recorded` are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// Events kept per period.
    pub recorded: u64,
    /// Events per period.
    pub period: u64,
}

/// The header of a stream: where it comes from and what it could see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What made the events, with its version: `strandline cc 0.1.0`.
    pub producer: String,
    /// The observed program with its arguments; empty for a synthetic one.
    pub command: Vec<String>,
    /// What could be seen.
    pub capabilities: Capabilities,
    /// Meaning of the instruction counts.
    pub instructions: InstructionCounts,
    /// Whether only bursts were recorded.
    pub sampling: Option<Sampling>,
}

impl Source {
    /// A source that sees everything but stored values, as our own structures and workloads do.
    #[must_use]
    pub fn synthetic(producer: impl Into<String>) -> Self {
        Source {
            producer: producer.into(),
            command: Vec::new(),
            capabilities: Capabilities::all() - Capabilities::VALUES - Capabilities::CALLS,
            instructions: InstructionCounts::Unknown,
            sampling: None,
        }
    }
}
