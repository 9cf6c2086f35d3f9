//! Which thread may go on: all that the two definitions share.

use super::{Instruction, Litmus};

/// How far the threads are, what loads would read, who holds which lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Control {
    next: Vec<usize>,
    visible: Vec<u64>,
    holders: Vec<Option<usize>>,
}

impl Control {
    /// Before the first instruction.
    #[must_use]
    pub fn new(litmus: &Litmus) -> Self {
        Control {
            next: vec![0; litmus.threads.len()],
            visible: vec![0; litmus.locations.len()],
            holders: vec![None; litmus.locks.len()],
        }
    }

    /// The thread's next instruction, unless there is none or it waits for another thread.
    #[must_use]
    pub fn ready(&self, litmus: &Litmus, thread: usize) -> Option<Instruction> {
        let instruction = *litmus.threads[thread].get(self.next[thread])?;
        let goes = match instruction {
            Instruction::Await(at, value) => self.visible[at] == value,
            Instruction::Lock(lock) => self.holders[lock].is_none(),
            Instruction::Unlock(lock) => self.holders[lock] == Some(thread),
            _ => true,
        };
        goes.then_some(instruction)
    }

    /// The thread executed its next instruction.
    pub fn executed(&mut self, thread: usize, instruction: Instruction) {
        match instruction {
            Instruction::Store(at, value) | Instruction::Ack(at, value) => self.visible[at] = value,
            Instruction::Lock(lock) => self.holders[lock] = Some(thread),
            Instruction::Unlock(lock) => self.holders[lock] = None,
            _ => {}
        }
        self.next[thread] += 1;
    }
}
