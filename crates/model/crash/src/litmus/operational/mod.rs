//! The outcomes as the hardware makes them: machines of a few parts, moved through all of their states.
//!
//! A machine executes an instruction of a thread, or moves by itself (evicts a line, drains a buffer, persists a queued store).
//! A crash may fall in any state and leaves what is in persistent memory then.

mod queues;
mod x86;

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;

use persistency::Model;

use super::control::Control;
use super::parse::INSTRUCTIONS;
use super::{Instruction, Litmus, Values};

use queues::{Epochs, Queues, Strands};
use x86::Caches;

/// Memory, caches and buffers of one platform.
trait Machine: Clone + Eq + Hash {
    /// Executes an instruction; `None` if it has to wait until the machine has moved. `number` is the thread's.
    fn execute(&self, thread: usize, number: usize, instruction: Instruction) -> Option<Self>;

    /// Everything that the machine can do next by itself.
    fn moves(&self) -> Vec<Self>;

    /// What is in persistent memory.
    fn memory(&self) -> Values;
}

/// All outcomes of a test, by the platform's machine. The platforms of files have none, so tests of these are not read.
///
/// # Panics
/// When the test has more than 64 instructions, which the parser does not let through.
#[must_use]
pub fn outcomes(litmus: &Litmus) -> BTreeSet<Values> {
    let instructions: usize = litmus.threads.iter().map(Vec::len).sum();
    assert!(instructions <= INSTRUCTIONS, "{instructions} instructions are too many for a litmus test");
    match litmus.platform.model() {
        Model::X86 | Model::Arm => explore(litmus, Caches::new(litmus, litmus.platform.caches_persist())),
        Model::Epoch => explore(litmus, Queues::<Epochs>::new(litmus)),
        Model::Strand => explore(litmus, Queues::<Strands>::new(litmus)),
        Model::File(_) => BTreeSet::new(),
    }
}

fn explore<M: Machine>(litmus: &Litmus, machine: M) -> BTreeSet<Values> {
    let mut outcomes = BTreeSet::new();
    let first = (Control::new(litmus), machine);
    let mut seen = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some((control, machine)) = open.pop() {
        outcomes.insert(machine.memory());
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
            let mut after = control.clone();
            let number = after.executed(thread, instruction);
            if let Some(executed) = machine.execute(thread, number, instruction) {
                reach((after, executed));
            }
        }
    }
    outcomes
}
