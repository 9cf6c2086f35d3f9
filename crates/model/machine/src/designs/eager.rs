//! Hardware pre-stores: a core that knows what kind of memory lies behind an address sends data on before it is forced to.
//!
//! *Clean* is for memory whose device works in units larger than a line. The core follows the few units that it filled last; when
//! one is whole and the stores have gone elsewhere, or when it must make room and is more than a line, its lines are written
//! back in order. Data that are written over and over would be written back each time, so a unit that was written back
//! not long ago is left alone: the mistake is made once. *Demote* is for a core that keeps its stores to itself: a line leaves
//! as soon as its last byte is stored, or a store goes to another one.

use event::{Capabilities, FenceKind, FlushKind, StrandMark};

use super::persistency::{Notice, Persistency, RegionMark};
use crate::config::Eager as Policy;
use crate::interleave::PERSISTENT;
use crate::simulation::{Later, Shared, TimedCore};
use crate::{Config, LINE_BYTES};

/// Units that a core follows at a time.
const FOLLOWED: usize = 8;
/// Units that it remembers to have written back, by the lowest bits of their numbers.
const REMEMBERED: usize = 4096;

/// A design behind cores that send on data by themselves.
pub(crate) struct Eager {
    design: Box<dyn Persistency>,
    cores: Vec<EagerStores>,
}

impl Eager {
    /// Puts the hardware pre-stores of `config` in front of `design`; gives that back if there are none.
    pub(crate) fn in_front_of(
        design: Box<dyn Persistency>,
        config: &Config,
    ) -> Result<Eager, Box<dyn Persistency>> {
        match EagerStores::new(config) {
            Some(stores) => Ok(Eager { design, cores: vec![stores; config.cores.count as usize] }),
            None => Err(design),
        }
    }

    /// Sends on what is due. It is no instruction, and nobody waits for it but a fence.
    fn send_due(&mut self, core: &mut TimedCore, shared: &mut Shared) -> Result<(), Later> {
        while let Some((line, what)) = self.cores[core.number].due() {
            self.design.publish(core, line, shared)?;
            if what == Policy::Clean {
                core.room_to_wait(shared)?;
                core.turn(shared)?;
                shared.hierarchy.flush(core.number, line, true);
                let left = core.stores.committed.max(core.window.retired);
                core.outgoing.push(left, shared.hierarchy.below.writes.drain(..));
            }
            self.cores[core.number].done();
        }
        Ok(())
    }
}

impl Persistency for Eager {
    fn needs(&self) -> Capabilities {
        self.design.needs()
    }

    fn write_slots(&self) -> u32 {
        self.design.write_slots()
    }

    fn lanes(&self) -> Option<(usize, usize)> {
        self.design.lanes()
    }

    fn leaves_hits_alone(&self) -> bool {
        false
    }

    fn wants_notices(&self) -> bool {
        self.design.wants_notices()
    }

    fn load(&mut self, core: &mut TimedCore, line: u64, site: u32, shared: &mut Shared) -> Result<(), Later> {
        self.send_due(core, shared)?;
        self.design.load(core, line, site, shared)
    }

    fn store(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        bytes: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        self.cores[core.number].storing(line);
        self.send_due(core, shared)?;
        self.design.store(core, line, bytes, site, shared)?;
        self.cores[core.number].stored(line, bytes);
        Ok(())
    }

    fn store_nt(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        bytes: u64,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        self.design.store_nt(core, line, bytes, site, shared)
    }

    fn flush(
        &mut self,
        core: &mut TimedCore,
        line: u64,
        kind: FlushKind,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        self.design.flush(core, line, kind, site, shared)
    }

    fn demote(&mut self, core: &mut TimedCore, line: u64, shared: &mut Shared) -> Result<(), Later> {
        self.design.demote(core, line, shared)
    }

    fn fence(
        &mut self,
        core: &mut TimedCore,
        kind: FenceKind,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        self.cores[core.number].fence();
        self.send_due(core, shared)?;
        self.design.fence(core, kind, site, shared)
    }

    fn publish(&mut self, core: &mut TimedCore, line: u64, shared: &mut Shared) -> Result<(), Later> {
        self.design.publish(core, line, shared)
    }

    fn publish_all(&mut self, core: &mut TimedCore, shared: &mut Shared) -> Result<(), Later> {
        self.design.publish_all(core, shared)
    }

    fn region(
        &mut self,
        core: &mut TimedCore,
        mark: RegionMark,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        self.design.region(core, mark, site, shared)
    }

    fn strand(
        &mut self,
        core: &mut TimedCore,
        mark: StrandMark,
        site: u32,
        shared: &mut Shared,
    ) -> Result<(), Later> {
        self.design.strand(core, mark, site, shared)
    }

    fn notice(&mut self, core: &mut TimedCore, notice: Notice, shared: &mut Shared) {
        self.design.notice(core, notice, shared);
    }
}

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
struct EagerStores {
    /// Of other memory, then of persistent memory.
    policies: [Policy; 2],
    /// Lines of a unit of the two, as a power of two.
    shifts: [u32; 2],
    /// Oldest first.
    filled: Vec<Filled>,
    written_back: Vec<u64>,
    /// Lines that are due, the next one last, and what to do with them.
    due: Vec<(u64, Policy)>,
    last: u64,
}

impl EagerStores {
    /// `None` if the machine has nothing of the kind.
    fn new(config: &Config) -> Option<EagerStores> {
        let prestores = config.prestores.as_ref()?;
        let policies = [prestores.other, prestores.persistent];
        if policies == [Policy::None; 2] {
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
    fn due(&self) -> Option<(u64, Policy)> {
        self.due.last().copied()
    }

    /// That was done.
    fn done(&mut self) {
        self.due.pop();
    }

    /// The core is about to store to `line`. What is due because of that is done before.
    fn storing(&mut self, line: u64) {
        if line == self.last {
            return;
        }
        let before = std::mem::replace(&mut self.last, line);
        if before != u64::MAX && self.policy(before) == Policy::Demote {
            self.due.push((before, Policy::Demote));
        }
        let unit = self.unit(line);
        if let Some(at) = self.filled.iter().position(|filled| self.is_whole(filled) && filled.unit != unit) {
            let whole = self.filled.remove(at);
            self.write_back(whole);
        }
        if self.policy(line) != Policy::Clean {
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
    fn stored(&mut self, line: u64, bytes: u64) {
        if bytes >> (LINE_BYTES - 1) != 0 && self.policy(line) == Policy::Demote {
            self.due.push((line, Policy::Demote));
        }
    }

    /// A fence: what is whole need not wait for the next store.
    fn fence(&mut self) {
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
        self.due.extend(lines.map(|line| (filled.unit | line, Policy::Clean)));
    }

    fn policy(&self, line: u64) -> Policy {
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
