//! Litmus tests of designs: programs of a few instructions, and the memories that a crash may leave of them on each hardware.
//!
//! The file is that of [`crash::litmus`] with `design:` in the place of `platform:`. All locations are zero at the start, a word on a
//! line (for regions: on a page) of its own.
//!
//! | instruction | |
//! |---|---|
//! | `A=1`, `r=A`, `await A=1` | a store, a load, a load that goes on once it reads the value |
//! | `clwb A`, `sfence`, `mfence` | a flush; fences, which are `ofence` and `dfence` with epochs |
//! | `PB`, `NS`, `JS` | persist barrier, new strand, join |
//! | `begin`, `end` | a failure-atomic region |
//! | `lock l`, `unlock l` | a lock |
//! | `write A=1`, `read`, `flush` | one-sided operations of a connection, posted |
//! | `wait` | until all that the thread posted has completed |
//! | `break` | the connection breaks: what the other side has not placed is lost |
//! | `ack A=1` | somebody else learns it, and remembers |
//!
//! With strands, each store is followed by its flush, as the language mappings have it.
//!
//! # Two definitions
//! [`axioms::outcomes`] goes through all interleavings and all sets of stores that the order of persists and what must be durable
//! allow. [`machines::outcomes`] is a state machine per design with its queues, buffers, logs and recovery, moved through all states.
//! [`hunt`] makes random programs and compares the two. They share [`Control`] alone: which thread may go on when.

pub mod axioms;
mod control;
pub mod hunt;
pub mod machines;
mod parse;

use std::collections::BTreeSet;
use std::fmt;

pub use control::Control;
pub use parse::{LitmusError, is_of_designs, parse};

/// What a crash left: a value per location.
pub type Values = Vec<u64>;

/// One instruction. Locations and locks are numbers into the test's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// A store.
    Store(usize, u64),
    /// A load.
    Load(usize),
    /// A load that goes on once it reads the value.
    Await(usize, u64),
    /// A write-back of the location's line.
    Clwb(usize),
    /// A store fence; with epochs the end of one.
    Sfence,
    /// A full fence; with epochs it waits until all is durable.
    Mfence,
    /// A persist barrier.
    Barrier,
    /// A new strand.
    New,
    /// A join of strands.
    Join,
    /// A region begins.
    Begin,
    /// It ends.
    End,
    /// Goes on once the lock is free.
    Lock(usize),
    /// Frees it.
    Unlock(usize),
    /// A one-sided write to the other side's memory, posted.
    Write(usize, u64),
    /// A one-sided read behind the writes before it, posted.
    Read,
    /// The verb that makes the writes before it durable, posted.
    Flush,
    /// Waits until all that the thread posted has completed.
    Wait,
    /// The connection breaks.
    Break,
    /// Somebody learns it and remembers.
    Ack(usize, u64),
}

/// A design as litmus tests know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Design {
    /// Flushes and fences; barriers and joins are fences.
    X86,
    /// The same without the fence of a barrier.
    NonAtomic,
    /// Caches are durable.
    Eadr,
    /// Epochs after HOPS.
    Epoch,
    /// Epochs after ASAP.
    Speculative,
    /// Battery-backed buffers.
    Battery,
    /// Strands, with so many strand buffers of so many entries.
    Strands {
        /// Strand buffers.
        buffers: usize,
        /// Entries of each.
        entries: usize,
    },
    /// Hardware undo logging.
    Undo,
    /// Hardware redo logging.
    Redo,
    /// Shadow sub-paging.
    Ssp,
    /// A switch with a persistent buffer.
    Switch,
    /// Remote memory; `ddio`: the other side's NIC writes into its cache.
    Remote {
        /// Data direct I/O.
        ddio: bool,
    },
}

impl Design {
    /// All of them, strands with the published sizes.
    pub const ALL: [Design; 13] = [
        Design::X86,
        Design::NonAtomic,
        Design::Eadr,
        Design::Epoch,
        Design::Speculative,
        Design::Battery,
        Design::Strands { buffers: 4, entries: 4 },
        Design::Undo,
        Design::Redo,
        Design::Ssp,
        Design::Switch,
        Design::Remote { ddio: true },
        Design::Remote { ddio: false },
    ];

    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Design::X86 => "x86",
            Design::NonAtomic => "non-atomic",
            Design::Eadr => "eadr",
            Design::Epoch => "epoch",
            Design::Speculative => "speculative",
            Design::Battery => "battery",
            Design::Strands { .. } => "strandweaver",
            Design::Undo => "undo",
            Design::Redo => "redo",
            Design::Ssp => "ssp",
            Design::Switch => "switch",
            Design::Remote { ddio: true } => "remote-ddio",
            Design::Remote { ddio: false } => "remote",
        }
    }

    /// Whether it makes regions atomic.
    #[must_use]
    pub fn has_regions(self) -> bool {
        matches!(self, Design::Undo | Design::Redo | Design::Ssp)
    }
}

/// A litmus test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Litmus {
    /// What it is called.
    pub name: String,
    /// On what.
    pub design: Design,
    /// Names of locations.
    pub locations: Vec<String>,
    /// Names of locks.
    pub locks: Vec<String>,
    /// What each thread does.
    pub threads: Vec<Vec<Instruction>>,
    /// The outcomes, exactly, if they were stated.
    pub exactly: Option<BTreeSet<Values>>,
    /// What must be among the outcomes: locations and values.
    pub allowed: Vec<Vec<(usize, u64)>>,
    /// What must not.
    pub forbidden: Vec<Vec<(usize, u64)>>,
}

/// What came of a test.
#[derive(Clone, Debug)]
pub struct Report {
    /// The test.
    pub litmus: Litmus,
    /// Outcomes by the axioms,
    pub axioms: BTreeSet<Values>,
    /// and by the machine.
    pub machine: BTreeSet<Values>,
}

/// Both outcome sets of a test.
#[must_use]
pub fn check(litmus: &Litmus) -> Report {
    Report { litmus: litmus.clone(), axioms: axioms::outcomes(litmus), machine: machines::outcomes(litmus) }
}

impl Report {
    /// Whether both agree, and with what the test expects.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.faults().is_empty()
    }

    /// What does not hold, a line each.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.axioms != self.machine {
            faults.push("axioms and machine disagree".to_owned());
        }
        if let Some(exactly) = &self.litmus.exactly {
            let more = self.axioms.difference(exactly).map(|one| (one, "is an outcome, and not in"));
            let less = exactly.difference(&self.axioms).map(|one| (one, "is no outcome, and in"));
            faults
                .extend(more.chain(less).map(|(one, how)| format!("{} {how} `outcome:`", self.outcome(one))));
        }
        let found = |values: &[(usize, u64)]| {
            self.axioms.iter().any(|outcome| values.iter().all(|&(at, value)| outcome[at] == value))
        };
        let words = |values: &[(usize, u64)]| {
            let pairs = values.iter().map(|&(at, value)| format!("{}={value}", self.litmus.locations[at]));
            pairs.collect::<Vec<_>>().join(" ")
        };
        let absent = self.litmus.allowed.iter().filter(|values| !found(values));
        faults.extend(absent.map(|values| format!("{} is `allowed:`, and no outcome", words(values))));
        let there = self.litmus.forbidden.iter().filter(|values| found(values));
        faults.extend(there.map(|values| format!("{} is `forbidden:`, and an outcome", words(values))));
        faults
    }

    /// An outcome in words.
    #[must_use]
    pub fn outcome(&self, values: &Values) -> String {
        let pairs = self.litmus.locations.iter().zip(values).map(|(name, value)| format!("{name}={value}"));
        pairs.collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, self.litmus.design.name())
    }
}

impl Report {
    /// Writes it as a test of `hardware`, a design or a platform.
    ///
    /// # Errors
    /// If `f` takes nothing.
    pub fn write(&self, f: &mut impl fmt::Write, hardware: &str) -> fmt::Result {
        let verdict = if self.holds() { "holds" } else { "FAILS" };
        let all: BTreeSet<&Values> = self.axioms.union(&self.machine).collect();
        writeln!(f, "{} ({hardware}): {verdict}, {} outcomes", self.litmus.name, all.len())?;
        writeln!(f, "  axiomatic  operational")?;
        for values in all {
            let mark = |set: &BTreeSet<Values>| if set.contains(values) { "yes" } else { "-" };
            let (axioms, machine) = (mark(&self.axioms), mark(&self.machine));
            writeln!(f, "  {axioms:9}  {machine:11}  {}", self.outcome(values))?;
        }
        self.faults().iter().try_for_each(|fault| writeln!(f, "  {fault}"))
    }
}

#[cfg(test)]
mod tests;
