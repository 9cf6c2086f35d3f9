//! Persist buffers: copies of stores wait for earlier epochs (HOPS), or leave at once and are undone (ASAP).
//!
//! A thread that asks for a line which another's buffer holds comes behind that copy. (The timed design also closes both epochs and waits for all
//! that left before, which is stricter.)

use super::{Flaw, Instruction, Machine, Values};

/// Copies, a bit each.
type Set = u64;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Copy {
    id: Set,
    thread: usize,
    at: usize,
    value: u64,
    /// Copies that must be accepted before it.
    waits: Set,
    /// It is in memory before its turn, over this.
    over: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Thread {
    /// Copies before the epoch at hand, and of it.
    before: Set,
    open: Set,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Epochs {
    memory: Values,
    buffered: Vec<Copy>,
    threads: Vec<Thread>,
    next: u32,
    speculative: bool,
    flaw: Flaw,
}

impl Epochs {
    pub(super) fn new(locations: usize, threads: usize, speculative: bool, flaw: Flaw) -> Self {
        Epochs {
            memory: vec![0; locations],
            buffered: Vec::new(),
            threads: vec![Thread::default(); threads],
            next: 0,
            speculative,
            flaw,
        }
    }

    /// A thread asks for a line that another's buffer holds.
    fn sees(&mut self, thread: usize, at: usize) {
        let held = self.buffered.iter().rposition(|copy| copy.at == at && copy.thread != thread);
        let Some(held) = held.filter(|&held| self.buffered[held + 1..].iter().all(|copy| copy.at != at))
        else {
            return;
        };
        self.threads[thread].before |= self.buffered[held].id;
    }

    fn end_epoch(&mut self, thread: usize) {
        let state = &mut self.threads[thread];
        state.before |= std::mem::take(&mut state.open);
    }

    /// Copies that are in memory and wait for nothing are accepted.
    fn accept(&mut self) {
        while let Some(at) = self.buffered.iter().position(|copy| copy.over.is_some() && copy.waits == 0) {
            let Copy { id, .. } = self.buffered.remove(at);
            self.buffered.iter_mut().for_each(|copy| copy.waits &= !id);
            for thread in &mut self.threads {
                thread.before &= !id;
                thread.open &= !id;
            }
        }
    }
}

impl Machine for Epochs {
    fn execute(&self, thread: usize, instruction: Instruction) -> Option<Self> {
        let mut after = self.clone();
        match instruction {
            Instruction::Store(at, value) => {
                after.sees(thread, at);
                let id = 1 << after.next;
                after.next += 1;
                let same = after.buffered.iter().rfind(|copy| copy.at == at).map_or(0, |copy| copy.id);
                let waits = after.threads[thread].before | same;
                after.buffered.push(Copy { id, thread, at, value, waits, over: None });
                after.threads[thread].open |= id;
            }
            Instruction::Load(at) | Instruction::Await(at, _) => after.sees(thread, at),
            Instruction::Sfence | Instruction::Barrier | Instruction::Join => after.end_epoch(thread),
            Instruction::Mfence | Instruction::End => {
                after.end_epoch(thread);
                return self.buffered.iter().all(|copy| copy.thread != thread).then_some(after);
            }
            _ => {}
        }
        Some(after)
    }

    fn moves(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for number in 0..self.buffered.len() {
            let copy = &self.buffered[number];
            if copy.over.is_some() || (copy.waits != 0 && !self.speculative) {
                continue;
            }
            let mut after = self.clone();
            let (at, value) = (copy.at, copy.value);
            // A later copy of the line that is in memory early: what is under it changes, not memory.
            let early =
                after.buffered[number + 1..].iter_mut().find(|later| later.at == at && later.over.is_some());
            let over = match early {
                Some(early) if self.flaw != Flaw::OverwrittenEarly => early.over.replace(value).unwrap_or(0),
                _ => std::mem::replace(&mut after.memory[at], value),
            };
            after.buffered[number].over = Some(over);
            after.accept();
            all.push(after);
        }
        all
    }

    fn recovered(&self) -> Values {
        let mut memory = self.memory.clone();
        for copy in self.buffered.iter().rev() {
            if let Some(over) = copy.over {
                memory[copy.at] = over;
            }
        }
        memory
    }
}
