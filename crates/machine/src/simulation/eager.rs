//! Hardware pre-stores: a core that knows what kind of memory lies behind an address sends data on before it is forced to.
//!
//! *Clean* is for memory whose device works in units larger than a line. The core follows the few units that it filled last; when
//! one is whole and the stores have gone elsewhere, or when it must make room and is more than a line, its lines are written
//! back in order. Data that are written over and over would be written back each time, so a unit that was written back
//! not long ago is left alone: the mistake is made once. *Demote* is for a core that keeps its stores to itself: a line leaves
//! as soon as its last byte is stored, or a store goes to another one.

use crate::LINE_BYTES;
use crate::config::{Config, Eager};
use crate::memory::PERSISTENT;

/// Units that a core follows at a time.
const FOLLOWED: usize = 8;
/// Units that it remembers to have written back, by the lowest bits of their numbers.
const REMEMBERED: usize = 4096;

/// A unit that is being filled.
#[derive(Clone, Copy, Debug)]
struct Filled {
    /// Its first line.
    unit: u64,
    /// Its lines that were stored to, a bit each.
    lines: u64,
}

/// What one core does by itself.
#[derive(Clone, Debug)]
pub(crate) struct EagerStores {
    /// Of other memory, then of persistent memory.
    policies: [Eager; 2],
    /// Lines of a unit of the two, as a power of two.
    shifts: [u32; 2],
    /// Oldest first.
    filled: Vec<Filled>,
    written_back: Vec<u64>,
    /// Lines that are due, the next one last, and what to do with them.
    due: Vec<(u64, Eager)>,
    last: u64,
}

impl EagerStores {
    /// `None` if the machine has nothing of the kind.
    pub(crate) fn new(config: &Config) -> Option<EagerStores> {
        let prestores = config.prestores.as_ref()?;
        let policies = [prestores.other, prestores.persistent];
        if policies == [Eager::None; 2] {
            return None;
        }
        let other = config.other_memory.as_ref().map_or(&config.device, |other| &other.device);
        // More lines than a mask has are several units here.
        let shift = |unit: u64| (unit / LINE_BYTES).clamp(1, 64).ilog2();
        Some(EagerStores {
            policies,
            shifts: [shift(other.unit.0), shift(config.device.unit.0)],
            filled: Vec::new(),
            written_back: vec![u64::MAX; REMEMBERED],
            due: Vec::new(),
            last: u64::MAX,
        })
    }

    /// The line to send on next, and how.
    pub(crate) fn due(&self) -> Option<(u64, Eager)> {
        self.due.last().copied()
    }

    /// That was done.
    pub(crate) fn done(&mut self) {
        self.due.pop();
    }

    /// The core is about to store to `line`. What is due because of that is done before.
    pub(crate) fn storing(&mut self, line: u64) {
        if line == self.last {
            return;
        }
        let before = std::mem::replace(&mut self.last, line);
        if before != u64::MAX && self.policy(before) == Eager::Demote {
            self.due.push((before, Eager::Demote));
        }
        let unit = self.unit(line);
        if let Some(at) = self.filled.iter().position(|filled| self.is_whole(filled) && filled.unit != unit) {
            let whole = self.filled.remove(at);
            self.write_back(whole);
        }
        if self.policy(line) != Eager::Clean {
            return;
        }
        let bit = 1 << (line & ((1 << self.shift(line)) - 1));
        if let Some(filled) = self.filled.iter_mut().find(|filled| filled.unit == unit) {
            filled.lines |= bit;
            return;
        }
        if self.filled.len() == FOLLOWED {
            let oldest = self.filled.remove(0);
            self.write_back(oldest);
        }
        self.filled.push(Filled { unit, lines: bit });
    }

    /// The core has stored these of the bytes of `line`, a bit each.
    pub(crate) fn stored(&mut self, line: u64, bytes: u64) {
        if bytes >> (LINE_BYTES - 1) != 0 && self.policy(line) == Eager::Demote {
            self.due.push((line, Eager::Demote));
        }
    }

    /// A fence: what is whole need not wait for the next store.
    pub(crate) fn fence(&mut self) {
        while let Some(at) = self.filled.iter().position(|filled| self.is_whole(filled)) {
            let whole = self.filled.remove(at);
            self.write_back(whole);
        }
    }

    fn write_back(&mut self, filled: Filled) {
        let number = (filled.unit & !PERSISTENT) >> self.shift(filled.unit);
        let remembered = &mut self.written_back[number as usize % REMEMBERED];
        if filled.lines.count_ones() < 2 {
            return;
        }
        if std::mem::replace(remembered, filled.unit) == filled.unit {
            return;
        }
        let lines = (0..64).rev().filter(|line| filled.lines & 1 << line != 0);
        self.due.extend(lines.map(|line| (filled.unit | line, Eager::Clean)));
    }

    fn policy(&self, line: u64) -> Eager {
        self.policies[usize::from(line & PERSISTENT != 0)]
    }

    fn shift(&self, line: u64) -> u32 {
        self.shifts[usize::from(line & PERSISTENT != 0)]
    }

    /// The first line of the unit of `line`.
    fn unit(&self, line: u64) -> u64 {
        line >> self.shift(line) << self.shift(line)
    }

    fn is_whole(&self, filled: &Filled) -> bool {
        filled.lines.count_ones() == 1 << self.shift(filled.unit)
    }
}
