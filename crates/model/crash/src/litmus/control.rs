//! Which thread may go on: all that the two definitions share.

use super::{Instruction, Litmus, Values};

/// How far the threads are, what loads would read, and who holds what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Control {
    /// The next instruction of each thread.
    next: Vec<usize>,
    /// The value that was stored to each location last.
    visible: Values,
    released: Vec<bool>,
    holders: Vec<Option<usize>>,
}

impl Control {
    pub fn new(litmus: &Litmus) -> Self {
        Control {
            next: vec![0; litmus.threads.len()],
            visible: vec![0; litmus.locations.len()],
            released: vec![false; litmus.variables.len()],
            holders: vec![None; litmus.variables.len()],
        }
    }

    /// The thread's next instruction, unless there is none or it has to wait for another thread.
    pub fn ready(&self, litmus: &Litmus, thread: usize) -> Option<Instruction> {
        let instruction = *litmus.threads[thread].get(self.next[thread])?;
        let goes = match instruction {
            Instruction::Await(at, value) => self.visible[at] == value,
            Instruction::Acquire(variable) => self.released[variable],
            Instruction::Lock(lock) => self.holders[lock].is_none(),
            // Giving up another's lock is a program without meaning: it stops.
            Instruction::Unlock(lock) => self.holders[lock] == Some(thread),
            _ => true,
        };
        goes.then_some(instruction)
    }

    /// The thread executed `instruction`, its next one. Returns the number that it had in the thread.
    pub fn executed(&mut self, thread: usize, instruction: Instruction) -> usize {
        if let Some((at, value)) = instruction.stores() {
            self.visible[at] = value;
        }
        match instruction {
            Instruction::Release(variable) => self.released[variable] = true,
            Instruction::Lock(lock) => self.holders[lock] = Some(thread),
            Instruction::Unlock(lock) => self.holders[lock] = None,
            _ => {}
        }
        self.next[thread] += 1;
        self.next[thread] - 1
    }
}
