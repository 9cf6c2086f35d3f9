//! Caches that evict when they like, flushes on their way, and what makes caches durable.

use super::{Instruction, Lines, Machine, Values, Version};

/// x86: volatile caches, flushes that complete before the fence behind them; perhaps a switch with a persistent buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caches {
    pub(super) lines: Lines,
    /// Flushes on their way, per thread.
    flushes: Vec<Vec<(usize, Version)>>,
    /// Whether a persist barrier is a fence.
    barriers: bool,
    /// What the switch holds, in the order of its arrival; it survives.
    switch: Option<Vec<(usize, Version)>>,
}

impl Caches {
    pub(super) fn new(locations: usize, threads: usize, barriers: bool, switch: bool) -> Self {
        Caches {
            lines: Lines::new(locations),
            flushes: vec![Vec::new(); threads],
            barriers,
            switch: switch.then(Vec::new),
        }
    }

    /// A line leaves the caches for good.
    fn leave(&mut self, at: usize, version: Version) {
        match &mut self.switch {
            Some(switch) => switch.push((at, version)),
            None => self.lines.persist(at, version),
        }
    }

    /// Whether memory or the switch has a version at least as late.
    fn has(&self, at: usize, version: Version) -> bool {
        let held =
            self.switch.iter().flatten().any(|&(held, other)| held == at && other.number >= version.number);
        held || self.lines.memory[at].number >= version.number
    }
}

impl Machine for Caches {
    fn execute(&self, thread: usize, instruction: Instruction) -> Option<Self> {
        let mut after = self.clone();
        match instruction {
            Instruction::Store(at, value) => {
                after.lines.store(at, value);
            }
            Instruction::Clwb(at) => {
                let version = after.lines.visible[at];
                if !after.has(at, version) {
                    after.flushes[thread].push((at, version));
                }
            }
            Instruction::Barrier if !self.barriers => {}
            Instruction::Sfence | Instruction::Mfence | Instruction::Join | Instruction::Barrier => {
                return self.flushes[thread].is_empty().then_some(after);
            }
            _ => {}
        }
        Some(after)
    }

    fn moves(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for at in 0..self.lines.visible.len() {
            let version = self.lines.visible[at];
            if !self.has(at, version) {
                let mut after = self.clone();
                after.leave(at, version);
                all.push(after);
            }
        }
        for thread in 0..self.flushes.len() {
            for number in 0..self.flushes[thread].len() {
                let mut after = self.clone();
                let (at, version) = after.flushes[thread].remove(number);
                if !after.has(at, version) {
                    after.leave(at, version);
                }
                all.push(after);
            }
        }
        if self.switch.as_ref().is_some_and(|switch| !switch.is_empty()) {
            let mut after = self.clone();
            if let Some((at, version)) = after.switch.as_mut().map(|switch| switch.remove(0)) {
                after.lines.persist(at, version);
            }
            all.push(after);
        }
        all
    }

    fn recovered(&self) -> Values {
        let mut lines = self.lines.clone();
        for &(at, version) in self.switch.iter().flatten() {
            lines.persist(at, version);
        }
        lines.values()
    }
}

/// Caches that survive, or buffers beside the caches that do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Durable {
    lines: Lines,
    /// Battery-backed buffers per thread.
    buffers: Option<Vec<Vec<(usize, Version)>>>,
}

impl Durable {
    pub(super) fn new(locations: usize, threads: usize, buffered: bool) -> Self {
        Durable { lines: Lines::new(locations), buffers: buffered.then(|| vec![Vec::new(); threads]) }
    }
}

impl Machine for Durable {
    fn execute(&self, thread: usize, instruction: Instruction) -> Option<Self> {
        let mut after = self.clone();
        if let Instruction::Store(at, value) = instruction {
            let version = after.lines.store(at, value);
            if let Some(buffers) = &mut after.buffers {
                // The line moves to the core that has it.
                buffers.iter_mut().for_each(|buffer| buffer.retain(|&(held, _)| held != at));
                buffers[thread].push((at, version));
            }
        }
        Some(after)
    }

    fn moves(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for (thread, buffer) in self.buffers.iter().flatten().enumerate() {
            if let Some(&(at, version)) = buffer.first() {
                let mut after = self.clone();
                after.lines.persist(at, version);
                if let Some(buffers) = &mut after.buffers {
                    buffers[thread].remove(0);
                }
                all.push(after);
            }
        }
        all
    }

    fn recovered(&self) -> Values {
        let mut lines = self.lines.clone();
        match &self.buffers {
            None => lines.memory.clone_from(&self.lines.visible),
            Some(buffers) => buffers.iter().flatten().for_each(|&(at, version)| lines.persist(at, version)),
        }
        lines.values()
    }
}
