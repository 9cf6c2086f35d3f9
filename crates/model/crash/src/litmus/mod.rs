//! Litmus tests: programs of a few instructions, and the set of memories that a crash may leave of them.
//!
//! # The file
//! One test per file, `NAME.litmus`; `#` begins a comment.
//! ```text
//! name: a flush without a fence
//! platform: adr
//! from: Intel SDM, CLWB
//! thread
//!   A=1
//!   clwb A
//!   B=1
//! outcome: A=0,1 B=0,1
//! ```
//! All locations are zero at the start, one word each, and on lines of their own unless `same line: A B` says otherwise.
//!
//! | instruction | |
//! |---|---|
//! | `A=1` | a store |
//! | `ntstore A=1` | a non-temporal store |
//! | `xchg A=1` | a locked exchange |
//! | `r=A` | a load; what it reads is not looked at |
//! | `await A=1` | a load that goes on once it reads this value |
//! | `clwb A`, `clflushopt A`, `clflush A` | flushes of the line |
//! | `sfence`, `mfence` | fences; under `platform: epoch` they separate epochs |
//! | `PB`, `NS`, `JS` | persist barrier, new strand, join of strands |
//! | `release x`, `acquire x` | synchronisation; an acquire goes on once there was a release |
//! | `lock l`, `unlock l` | a lock |
//!
//! What must come out: `outcome:` lines state the set, exactly, each with a value or several (`A=0,1`) for every location.
//! `allowed:` must be found among the outcomes, `forbidden:` must not; these two name only the locations that they are about.
//!
//! # Two definitions
//! [`outcomes`] is the checker's own way: every interleaving of the threads is a run, each run a history, and the outcomes are all
//! images of all histories. [`operational::outcomes`] is a small machine with caches, buffers and queues, moved step by step
//! through all of its states. They share nothing but the meaning of control (who may go on when), so where they agree, two
//! independent readings of a platform agree. [`check`] demands that of each test; `tests/agreement.rs` demands it of random programs.
//!
//! What they do not decide: words that are stored to both through the cache and past it, under ADR. The SDM (volume 1, 10.4.6.2) says that a
//! line in the cache is evicted before a non-temporal store to it goes its way. The checker keeps such a store in its place among the
//! line's stores; the machine leaves it in the write-combining buffer, and so has more outcomes. And in both definitions a word's stores have the order in which
//! they were issued, although real buffers may turn it round if no fence stands between.

mod axiomatic;
mod control;
pub mod operational;
mod parse;
mod report;

use std::collections::BTreeSet;
use std::fmt;

use event::{FenceKind, FlushKind, StrandMark};

use crate::Platform;

pub use axiomatic::outcomes;
pub use parse::LitmusError;
pub use report::{Report, check};

/// What a crash left: the value of each location, in the order of [`Litmus::locations`].
pub type Values = Vec<u64>;

/// One instruction of a litmus test. Locations, variables and locks are numbers into the test's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// A store through the cache.
    Store(usize, u64),
    /// A non-temporal store.
    StoreNt(usize, u64),
    /// A locked exchange.
    Exchange(usize, u64),
    /// A load.
    Load(usize),
    /// A load that goes on once it reads the value.
    Await(usize, u64),
    /// A flush of the location's line.
    Flush(usize, FlushKind),
    /// A fence.
    Fence(FenceKind),
    /// A mark of strand persistency.
    Strand(StrandMark),
    /// Publishes.
    Release(usize),
    /// Goes on once somebody released the variable.
    Acquire(usize),
    /// Goes on once the lock is free.
    Lock(usize),
    /// Frees it.
    Unlock(usize),
}

impl Instruction {
    /// The location that it stores to, and what.
    #[must_use]
    pub fn stores(self) -> Option<(usize, u64)> {
        match self {
            Instruction::Store(at, value)
            | Instruction::StoreNt(at, value)
            | Instruction::Exchange(at, value) => Some((at, value)),
            _ => None,
        }
    }
}

/// Values of some locations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition(
    /// Location and value.
    pub Vec<(usize, u64)>,
);

impl Condition {
    fn holds(&self, values: &Values) -> bool {
        self.0.iter().all(|&(at, value)| values[at] == value)
    }
}

/// A litmus test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Litmus {
    /// What it is called.
    pub name: String,
    /// Whose rules.
    pub platform: Platform,
    /// What it was taken from; may be empty.
    pub from: String,
    /// Names of the locations.
    pub locations: Vec<String>,
    /// Per location the number of its line.
    pub lines: Vec<usize>,
    /// Names of the variables of `release` and `acquire`, and of locks.
    pub variables: Vec<String>,
    /// What each thread does.
    pub threads: Vec<Vec<Instruction>>,
    /// The outcomes, exactly, if they were stated.
    pub exactly: Option<BTreeSet<Values>>,
    /// What must be among the outcomes.
    pub allowed: Vec<Condition>,
    /// What must not.
    pub forbidden: Vec<Condition>,
}

impl Litmus {
    /// Reads a test; `file` is for messages.
    ///
    /// # Errors
    /// What is wrong, with file and line.
    pub fn parse(file: &str, text: &str) -> Result<Litmus, LitmusError> {
        parse::parse(file, text)
    }

    fn condition(&self, condition: &Condition) -> String {
        let parts: Vec<String> =
            condition.0.iter().map(|&(at, value)| format!("{}={value}", self.locations[at])).collect();
        parts.join(" ")
    }

    fn instruction(&self, instruction: Instruction) -> String {
        let name = |at: usize| &self.locations[at];
        let variable = |at: usize| &self.variables[at];
        match instruction {
            Instruction::Store(at, value) => format!("{}={value}", name(at)),
            Instruction::StoreNt(at, value) => format!("ntstore {}={value}", name(at)),
            Instruction::Exchange(at, value) => format!("xchg {}={value}", name(at)),
            Instruction::Load(at) => format!("r={}", name(at)),
            Instruction::Await(at, value) => format!("await {}={value}", name(at)),
            Instruction::Flush(at, FlushKind::Clwb) => format!("clwb {}", name(at)),
            Instruction::Flush(at, FlushKind::Clflushopt) => format!("clflushopt {}", name(at)),
            Instruction::Flush(at, FlushKind::Clflush) => format!("clflush {}", name(at)),
            Instruction::Fence(FenceKind::Store) => "sfence".to_owned(),
            Instruction::Fence(_) => "mfence".to_owned(),
            Instruction::Strand(StrandMark::Barrier) => "PB".to_owned(),
            Instruction::Strand(StrandMark::New) => "NS".to_owned(),
            Instruction::Strand(StrandMark::Join) => "JS".to_owned(),
            Instruction::Release(at) => format!("release {}", variable(at)),
            Instruction::Acquire(at) => format!("acquire {}", variable(at)),
            Instruction::Lock(at) => format!("lock {}", variable(at)),
            Instruction::Unlock(at) => format!("unlock {}", variable(at)),
        }
    }
}

/// As a file has it.
impl fmt::Display for Litmus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "name: {}\nplatform: {}", self.name, self.platform)?;
        if !self.from.is_empty() {
            writeln!(f, "from: {}", self.from)?;
        }
        let lines: BTreeSet<usize> = self.lines.iter().copied().collect();
        for line in lines {
            let on_it: Vec<&str> = (0..self.locations.len())
                .filter(|&at| self.lines[at] == line)
                .map(|at| &*self.locations[at])
                .collect();
            if on_it.len() > 1 {
                writeln!(f, "same line: {}", on_it.join(" "))?;
            }
        }
        for thread in &self.threads {
            writeln!(f, "thread")?;
            for &instruction in thread {
                writeln!(f, "  {}", self.instruction(instruction))?;
            }
        }
        for (what, conditions) in [("allowed", &self.allowed), ("forbidden", &self.forbidden)] {
            for condition in conditions {
                writeln!(f, "{what}: {}", self.condition(condition))?;
            }
        }
        for values in self.exactly.iter().flatten() {
            let all = Condition(values.iter().copied().enumerate().collect());
            writeln!(f, "outcome: {}", self.condition(&all))?;
        }
        Ok(())
    }
}
