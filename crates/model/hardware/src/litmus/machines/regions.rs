//! Regions by hardware: an undo log, a redo log, shadow sub-pages. Outside of regions stores behave as on x86. A flush within a region of a
//! line that the region has stored to does nothing: with a redo log and with shadow sub-pages the line is not to reach memory before the
//! region's end, for which a fence behind the flush would wait for ever.

use super::caches::Caches;
use super::{Flaw, Instruction, Machine, Values, Version};

/// The stores of the regions under way: per thread, if it is in one, the locations in the order of their first stores.
type Open = Vec<Option<Vec<usize>>>;

fn is_written(open: &Open, at: usize) -> bool {
    open.iter().flatten().any(|written| written.contains(&at))
}

/// Whether an instruction flushes a line of the region in which its thread is.
fn flushes_own(open: &Open, thread: usize, instruction: Instruction) -> bool {
    let Instruction::Clwb(at) = instruction else { return false };
    open[thread].as_ref().is_some_and(|written| written.contains(&at))
}

/// Undo: the old value is durable before the store is done; the end waits for the lines and drops the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Undo {
    caches: Caches,
    open: Open,
    /// Old values, as memory has them, oldest first.
    log: Vec<(usize, Version)>,
    flaw: Flaw,
}

impl Undo {
    pub(super) fn new(locations: usize, threads: usize, flaw: Flaw) -> Self {
        Undo {
            caches: Caches::new(locations, threads, true, false),
            open: vec![None; threads],
            log: Vec::new(),
            flaw,
        }
    }
}

impl Machine for Undo {
    fn execute(&self, thread: usize, instruction: Instruction) -> Option<Self> {
        let mut after = self.clone();
        match instruction {
            Instruction::Begin => after.open[thread] = Some(Vec::new()),
            Instruction::End => {
                let written = after.open[thread].take().unwrap_or_default();
                if written.iter().any(|&at| self.caches.lines.is_dirty(at)) {
                    return None;
                }
                after.log.retain(|(at, _)| !written.contains(at));
            }
            Instruction::Store(at, _) if self.open[thread].is_some() => {
                if let Some(written) = after.open[thread].as_mut().filter(|written| !written.contains(&at)) {
                    let old = self.caches.lines.visible[at];
                    // What was stored before the region is durable before its line is logged.
                    if self.caches.lines.is_dirty(at) {
                        return None;
                    }
                    written.push(at);
                    if self.flaw != Flaw::LateLog {
                        after.log.push((at, old));
                    }
                }
                after.caches = after.caches.execute(thread, instruction)?;
            }
            _ if flushes_own(&self.open, thread, instruction) => {}
            _ => after.caches = after.caches.execute(thread, instruction)?,
        }
        Some(after)
    }

    fn moves(&self) -> Vec<Self> {
        self.caches.moves().into_iter().map(|caches| Undo { caches, ..self.clone() }).collect()
    }

    fn recovered(&self) -> Values {
        let mut values = self.caches.recovered();
        self.log.iter().rev().for_each(|&(at, old)| values[at] = old.value);
        values
    }
}

/// Redo: lines stay in the caches until the log has them and is committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Redo {
    caches: Caches,
    open: Open,
    /// Entries of the regions under way that the log has.
    logged: Vec<(usize, Version)>,
    /// Committed, and perhaps not home.
    committed: Vec<(usize, Version)>,
    flaw: Flaw,
}

impl Redo {
    pub(super) fn new(locations: usize, threads: usize, flaw: Flaw) -> Self {
        Redo {
            caches: Caches::new(locations, threads, true, false),
            open: vec![None; threads],
            logged: Vec::new(),
            committed: Vec::new(),
            flaw,
        }
    }

    fn is_logged(&self, at: usize) -> bool {
        self.logged.contains(&(at, self.caches.lines.visible[at]))
    }
}

impl Machine for Redo {
    fn execute(&self, thread: usize, instruction: Instruction) -> Option<Self> {
        let mut after = self.clone();
        match instruction {
            Instruction::Begin => after.open[thread] = Some(Vec::new()),
            Instruction::End => {
                let written = after.open[thread].take().unwrap_or_default();
                if self.flaw != Flaw::EarlyCommit && !written.iter().all(|&at| self.is_logged(at)) {
                    return None;
                }
                after.committed.extend(self.logged.iter().filter(|(at, _)| written.contains(at)));
                after.logged.retain(|(at, _)| !written.contains(at));
            }
            Instruction::Store(at, _) => {
                if let Some(written) = after.open[thread].as_mut() {
                    // As with undo: an ordinary store's line is durable before a region takes it.
                    if !written.contains(&at) && self.caches.lines.is_dirty(at) && !self.is_committed(at) {
                        return None;
                    }
                    if !written.contains(&at) {
                        written.push(at);
                    }
                }
                after.caches = after.caches.execute(thread, instruction)?;
            }
            _ if flushes_own(&self.open, thread, instruction) => {}
            _ => after.caches = after.caches.execute(thread, instruction)?,
        }
        Some(after)
    }

    fn moves(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for caches in self.caches.moves() {
            // Nothing of a region under way goes home.
            let pinned = |at: usize| is_written(&self.open, at);
            let homes = (0..caches.lines.memory.len())
                .filter(|&at| caches.lines.memory[at] != self.caches.lines.memory[at]);
            if homes.into_iter().any(pinned) {
                continue;
            }
            all.push(Redo { caches, ..self.clone() });
        }
        for at in self.open.iter().flatten().flatten().copied().filter(|&at| !self.is_logged(at)) {
            let mut after = self.clone();
            after.logged.retain(|(other, _)| *other != at);
            after.logged.push((at, self.caches.lines.visible[at]));
            all.push(after);
        }
        // An entry whose line is home is not needed any longer.
        for (number, &(at, version)) in self.committed.iter().enumerate() {
            if self.caches.lines.memory[at].number >= version.number {
                let mut after = self.clone();
                after.committed.remove(number);
                all.push(after);
            }
        }
        all
    }

    fn recovered(&self) -> Values {
        let mut lines = self.caches.lines.clone();
        self.committed.iter().for_each(|&(at, version)| lines.persist(at, version));
        lines.values()
    }
}

impl Redo {
    fn is_committed(&self, at: usize) -> bool {
        self.committed.contains(&(at, self.caches.lines.visible[at]))
    }
}

/// Shadow sub-paging: two copies of each location, and a bit that says which of them counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ssp {
    /// What stores outside of regions do; its memory is the copy that counts.
    caches: Caches,
    open: Open,
    /// The other copies, as far as memory has them.
    shadows: Vec<Version>,
    /// Of regions at their end, per thread: their locations, and those of which the journal has the record.
    ending: Vec<Option<Vec<usize>>>,
    records: Vec<Vec<usize>>,
    flaw: Flaw,
}

impl Ssp {
    pub(super) fn new(locations: usize, threads: usize, flaw: Flaw) -> Self {
        Ssp {
            caches: Caches::new(locations, threads, true, false),
            open: vec![None; threads],
            shadows: vec![Version::default(); locations],
            ending: vec![None; threads],
            records: vec![Vec::new(); threads],
            flaw,
        }
    }

    fn is_flushed(&self, at: usize) -> bool {
        self.shadows[at] == self.caches.lines.visible[at]
    }
}

impl Machine for Ssp {
    fn execute(&self, thread: usize, instruction: Instruction) -> Option<Self> {
        let mut after = self.clone();
        // The end of a region is a barrier: nothing follows before the journal has it.
        if self.ending[thread].is_some() {
            return None;
        }
        match instruction {
            Instruction::Begin => after.open[thread] = Some(Vec::new()),
            Instruction::End => {
                let written = self.open[thread].clone().unwrap_or_default();
                if !written.iter().all(|&at| self.is_flushed(at)) {
                    return None;
                }
                if written.is_empty() {
                    after.open[thread] = None;
                } else {
                    after.ending[thread] = Some(written);
                }
            }
            Instruction::Store(at, _) => {
                if let Some(written) = after.open[thread].as_mut() {
                    if !written.contains(&at) && self.caches.lines.is_dirty(at) {
                        return None;
                    }
                    if !written.contains(&at) {
                        written.push(at);
                    }
                }
                after.caches = after.caches.execute(thread, instruction)?;
            }
            _ if flushes_own(&self.open, thread, instruction) => {}
            _ => after.caches = after.caches.execute(thread, instruction)?,
        }
        Some(after)
    }

    fn moves(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for caches in self.caches.moves() {
            let moved = (0..caches.lines.memory.len())
                .find(|&at| caches.lines.memory[at] != self.caches.lines.memory[at]);
            match moved {
                // What a region has stored goes to the other copy, whenever it goes.
                Some(at) if is_written(&self.open, at) => {
                    let mut after = self.clone();
                    after.shadows[at] = self.caches.lines.visible[at];
                    all.push(after);
                }
                _ => all.push(Ssp { caches, ..self.clone() }),
            }
        }
        for (thread, ending) in self.ending.iter().enumerate() {
            let Some(written) = ending else { continue };
            for &at in written.iter().filter(|at| !self.records[thread].contains(at)) {
                let mut after = self.clone();
                after.records[thread].push(at);
                all.push(after);
            }
            if written.len() == self.records[thread].len() {
                // Bits in the SSP cache follow the journal.
                let mut after = self.clone();
                for &at in written {
                    after.caches.lines.persist(at, self.shadows[at]);
                }
                after.records[thread].clear();
                (after.ending[thread], after.open[thread]) = (None, None);
                all.push(after);
            }
        }
        all
    }

    fn recovered(&self) -> Values {
        let mut values = self.caches.recovered();
        for (thread, records) in self.records.iter().enumerate() {
            let whole = self.ending[thread].as_ref().is_some_and(|written| written.len() == records.len());
            if whole || self.flaw == Flaw::NoEndMark {
                records.iter().for_each(|&at| values[at] = self.shadows[at].value);
            }
        }
        values
    }
}
