//! x86-64: a coherent cache before memory, and write-combining buffers beside it.
//!
//! The cache holds lines and writes one back whenever it likes, as it then is. A flush sets the write-back in motion; a fence waits for the
//! thread's own write-backs and for its write-combining buffer. A non-temporal store lies in that buffer, from which words reach memory one by one. With
//! eADR the cache belongs to what survives.
//!
//! Store buffers are left out: a store that waits in one is a store not yet executed, and no other thread's fence waits for it.

use event::FlushKind;

use super::Machine;
use crate::litmus::{Instruction, Litmus, Values};

/// A word's content, and how many stores to the word had been issued with the one that made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Word {
    value: u64,
    issue: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Core {
    /// Lines that it flushed and that were not written back since.
    flushing: Vec<usize>,
    /// Words of its write-combining buffer.
    combining: Vec<(usize, Word)>,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caches {
    /// The cache survives.
    durable: bool,
    /// Line of each location.
    lines: Vec<usize>,
    /// Stores issued to each location.
    issued: Vec<u32>,
    cache: Vec<Word>,
    memory: Vec<Word>,
    cores: Vec<Core>,
}

impl Caches {
    pub fn new(litmus: &Litmus, durable: bool) -> Self {
        let words = vec![Word::default(); litmus.locations.len()];
        Caches {
            durable,
            lines: litmus.lines.clone(),
            issued: vec![0; words.len()],
            cache: words.clone(),
            memory: words,
            cores: vec![Core::default(); litmus.threads.len()],
        }
    }

    fn issue(&mut self, at: usize, value: u64) -> Word {
        self.issued[at] += 1;
        Word { value, issue: self.issued[at] }
    }

    fn store(&mut self, at: usize, value: u64) {
        self.cache[at] = self.issue(at, value);
        if self.durable {
            self.write(at, self.cache[at]);
        }
    }

    /// A word reaches memory, unless a later one of the same place did.
    fn write(&mut self, at: usize, word: Word) {
        if word.issue > self.memory[at].issue {
            self.memory[at] = word;
        }
    }

    fn is_dirty(&self, line: usize) -> bool {
        (0..self.lines.len()).any(|at| self.lines[at] == line && self.cache[at].issue > self.memory[at].issue)
    }

    fn write_back(&mut self, line: usize) {
        for at in 0..self.lines.len() {
            if self.lines[at] == line {
                self.write(at, self.cache[at]);
            }
        }
        for core in &mut self.cores {
            core.flushing.retain(|&flushed| flushed != line);
        }
    }

    /// Whether nothing of the thread is under way.
    fn is_drained(&self, thread: usize) -> bool {
        self.cores[thread] == Core::default()
    }
}

impl Machine for Caches {
    fn execute(&self, thread: usize, _: usize, instruction: Instruction) -> Option<Self> {
        let mut after = self.clone();
        match instruction {
            Instruction::Store(at, value) => after.store(at, value),
            Instruction::StoreNt(at, value) => {
                let word = after.issue(at, value);
                let buffer = &mut after.cores[thread].combining;
                // A second store to the word takes the place of the first.
                buffer.retain(|&(other, _)| other != at);
                buffer.push((at, word));
                buffer.sort_unstable_by_key(|&(at, _)| at);
            }
            Instruction::Exchange(at, value) => {
                // A locked instruction begins when everything before it is through.
                if !self.is_drained(thread) {
                    return None;
                }
                after.store(at, value);
            }
            Instruction::Flush(at, kind) => {
                let line = self.lines[at];
                if self.is_dirty(line) {
                    if kind == FlushKind::Clflush {
                        return None;
                    }
                    let flushing = &mut after.cores[thread].flushing;
                    if !flushing.contains(&line) {
                        flushing.push(line);
                        flushing.sort_unstable();
                    }
                }
            }
            Instruction::Fence(_) => {
                if !self.is_drained(thread) {
                    return None;
                }
            }
            Instruction::Load(_)
            | Instruction::Await(..)
            | Instruction::Strand(_)
            | Instruction::Release(_)
            | Instruction::Acquire(_)
            | Instruction::Lock(_)
            | Instruction::Unlock(_) => {}
        }
        Some(after)
    }

    fn moves(&self) -> Vec<Self> {
        let mut moves = Vec::new();
        for line in 0..self.lines.len() {
            if self.is_dirty(line) {
                let mut after = self.clone();
                after.write_back(line);
                moves.push(after);
            }
        }
        for (thread, core) in self.cores.iter().enumerate() {
            for (number, &(at, word)) in core.combining.iter().enumerate() {
                let mut after = self.clone();
                after.cores[thread].combining.remove(number);
                after.write(at, word);
                moves.push(after);
            }
        }
        moves
    }

    fn memory(&self) -> Values {
        self.memory.iter().map(|word| word.value).collect()
    }
}
