//! A simulation of a machine with two memories whose data lies as a placement says.
//!
//! The machine has one memory for the ranges that a program maps as persistent and one for the rest. An address that is
//! to be slow is moved to a range that is mapped so; mappings of the program itself are left out. That a bit of the address
//! changes is seen by the last level only as another set.

use event::{Batch, Capabilities, Definition, Event, NameId, Op, Sink, SinkError, SiteId, Source};
use machine::{Config, ConfigError, Simulation, TimedFigures};

use crate::placement::Placement;
use crate::profile::{Locator, Namer, PAGE};

/// Bit of the addresses that are slow; no program has it.
const SLOW: u64 = 1 << 62;

/// A simulated run.
pub struct Placed {
    simulation: Simulation,
    locator: Locator,
    placement: Where,
    events: Vec<Event>,
    mapped: bool,
}

/// Where addresses lie.
#[derive(Clone, Debug)]
pub enum Where {
    /// All on the fast memory.
    Fast,
    /// All on the slow one.
    Slow,
    /// As a placement says.
    By(Placement),
}

impl Placed {
    /// On a machine whose `other_memory` is the fast one and whose memory is the slow one.
    ///
    /// # Errors
    /// If the description is wrong or has no timing.
    pub fn new(config: &Config, placement: Where) -> Result<Placed, ConfigError> {
        let simulation = Simulation::new(config)?;
        Ok(Placed { simulation, locator: Locator::new(), placement, events: Vec::new(), mapped: false })
    }

    /// Structures are sites of one name, as in the profile.
    #[must_use]
    pub fn joined_by(mut self, namer: Option<Namer>) -> Placed {
        namer.into_iter().for_each(|namer| self.locator.join_by(namer));
        self
    }

    /// What was measured.
    #[must_use]
    pub fn figures(&self) -> TimedFigures {
        self.simulation.figures()
    }

    fn place(&mut self, address: u64) -> u64 {
        let slow = match &self.placement {
            Where::Fast => false,
            Where::Slow => true,
            Where::By(placement) => placement.page_is_slow(self.locator.find(address), address / PAGE),
        };
        if slow { address | SLOW } else { address & !SLOW }
    }
}

impl Sink for Placed {
    fn name(&self) -> &'static str {
        "simulation"
    }

    fn needs(&self) -> Capabilities {
        self.simulation.needs()
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.simulation.begin(source)
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        if let Definition::Site(id, site) = definition {
            self.locator.define(id, site);
        }
        self.simulation.define(definition)
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        if !std::mem::replace(&mut self.mapped, true) {
            let op = Op::Map { addr: SLOW, len: SLOW - 1, name: NameId(0) };
            events.push(Event { op, site: SiteId::UNKNOWN, instructions: 1 });
        }
        for event in batch.events {
            let op = match event.op {
                Op::Load { addr, len } => Op::Load { addr: self.place(addr), len },
                Op::Store { addr, len } => Op::Store { addr: self.place(addr), len },
                Op::StoreNt { addr, len } => Op::StoreNt { addr: self.place(addr), len },
                Op::Flush { addr, kind } => Op::Flush { addr: self.place(addr), kind },
                Op::Demote { addr } => Op::Demote { addr: self.place(addr) },
                Op::Alloc { .. } | Op::Free { .. } => {
                    self.locator.note(event);
                    event.op
                }
                // Their instructions still ran.
                Op::Map { .. } | Op::Unmap { .. } | Op::MapOffset { .. } | Op::MapSync { .. } => {
                    self.locator.note(event);
                    Op::Free { addr: 0 }
                }
                other => other,
            };
            events.push(Event { op, ..*event });
        }
        let placed = self.simulation.push(Batch { events: &events, values: &[], ..batch });
        self.events = events;
        placed
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.simulation.finish()
    }
}
