//! The designs as state machines. A machine executes an instruction or moves by itself; a crash may fall in any state, and recovery
//! makes of it what `Machine::recovered` says.

mod caches;
mod epochs;
mod regions;
mod remote;
mod strands;

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;

use super::{Control, Design, Instruction, Litmus, Values};

use caches::{Caches, Durable};
use epochs::Epochs;
use regions::{Redo, Ssp, Undo};
use remote::Remote;
use strands::Strands;

/// A mistake that a machine makes: the twins that tests must catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Flaw {
    /// None.
    #[default]
    None,
    /// A flush in a strand buffer takes what the cache has when it leaves, not when it entered.
    LateData,
    /// A flush does not wait for an earlier flush of its line in another strand buffer.
    NoSameLine,
    /// A store is done before its undo entry is in the log.
    LateLog,
    /// A redo log commits before its entries are there.
    EarlyCommit,
    /// Recovery takes a journal's records without looking whether the transaction is whole.
    NoEndMark,
    /// An early persist is overwritten by one of an earlier epoch, instead of its undo record.
    OverwrittenEarly,
}

/// The parts of one design.
trait Machine: Clone + Eq + Hash {
    /// Executes an instruction; `None` if it has to wait until the machine has moved.
    fn execute(&self, thread: usize, instruction: Instruction) -> Option<Self>;

    /// Everything that the machine can do next by itself.
    fn moves(&self) -> Vec<Self>;

    /// What recovery finds after a crash now.
    fn recovered(&self) -> Values;
}

/// All outcomes of a test, by the design's machine.
#[must_use]
pub fn outcomes(litmus: &Litmus) -> BTreeSet<Values> {
    outcomes_with(litmus, Flaw::None)
}

/// All outcomes of a machine that makes a mistake.
#[must_use]
pub fn outcomes_with(litmus: &Litmus, flaw: Flaw) -> BTreeSet<Values> {
    let (locations, threads) = (litmus.locations.len(), litmus.threads.len());
    match litmus.design {
        Design::X86 => explore(litmus, Caches::new(locations, threads, true, false)),
        Design::NonAtomic => explore(litmus, Caches::new(locations, threads, false, false)),
        Design::Switch => explore(litmus, Caches::new(locations, threads, true, true)),
        Design::Eadr => explore(litmus, Durable::new(locations, threads, false)),
        Design::Battery => explore(litmus, Durable::new(locations, threads, true)),
        Design::Epoch => explore(litmus, Epochs::new(locations, threads, false, flaw)),
        Design::Speculative => explore(litmus, Epochs::new(locations, threads, true, flaw)),
        Design::Strands { buffers, entries } => {
            explore(litmus, Strands::new(locations, threads, buffers, entries, flaw))
        }
        Design::Undo => explore(litmus, Undo::new(locations, threads, flaw)),
        Design::Redo => explore(litmus, Redo::new(locations, threads, flaw)),
        Design::Ssp => explore(litmus, Ssp::new(locations, threads, flaw)),
        Design::Remote { ddio } => explore(litmus, Remote::new(locations, threads, ddio)),
    }
}

fn explore<M: Machine>(litmus: &Litmus, machine: M) -> BTreeSet<Values> {
    let mut outcomes = BTreeSet::new();
    let first = (Control::new(litmus), machine);
    let mut seen = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some((control, machine)) = open.pop() {
        outcomes.insert(machine.recovered());
        let mut reach = |state: (Control, M)| {
            if seen.insert(state.clone()) {
                open.push(state);
            }
        };
        for moved in machine.moves() {
            reach((control.clone(), moved));
        }
        for thread in 0..litmus.threads.len() {
            let Some(instruction) = control.ready(litmus, thread) else { continue };
            if let Some(executed) = machine.execute(thread, instruction) {
                let mut after = control.clone();
                after.executed(thread, instruction);
                reach((after, executed));
            }
        }
    }
    outcomes
}

/// A value with the number of the store that made it: of two on their way, memory keeps the later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Version {
    number: u32,
    value: u64,
}

/// Values of all locations as the caches have them, and as memory has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lines {
    visible: Vec<Version>,
    memory: Vec<Version>,
}

impl Lines {
    fn new(locations: usize) -> Self {
        Lines { visible: vec![Version::default(); locations], memory: vec![Version::default(); locations] }
    }

    fn store(&mut self, at: usize, value: u64) -> Version {
        self.visible[at] = Version { number: self.visible[at].number + 1, value };
        self.visible[at]
    }

    /// Memory gets a version of a location.
    fn persist(&mut self, at: usize, version: Version) {
        if version.number > self.memory[at].number {
            self.memory[at] = version;
        }
    }

    fn is_dirty(&self, at: usize) -> bool {
        self.visible[at].number > self.memory[at].number
    }

    fn dirty(&self) -> Vec<usize> {
        (0..self.visible.len()).filter(|&at| self.is_dirty(at)).collect()
    }

    fn values(&self) -> Values {
        self.memory.iter().map(|version| version.value).collect()
    }
}
