//! The XPBuffer: units that were read or written last. Reads and writes compete for it.

use super::choice::Choice;
use crate::{Replacement, Rng, Time};

/// A unit in the buffer, one bit per line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) unit: u64,
    /// Lines that were written and the media does not have.
    pub(super) new: u64,
    /// Of these, lines of which some bytes are still the media's.
    pub(super) partial: u64,
    /// Whether the rest of the unit is here (or will be at `here`), so that nothing need be fetched to write
    /// it.
    pub(super) present: bool,
    /// When all that is here or being fetched is here.
    pub(super) here: Time,
    /// The line that was asked for comes first: which, and when it is here.
    pub(super) first: (u64, Time),
    /// Until then the unit is being fetched or written and can't leave.
    pub(super) busy: Time,
    stamp: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Buffer {
    slots: Vec<Slot>,
    capacity: usize,
    choice: Choice,
}

/// What [`Buffer::room`] found.
pub(super) enum Room {
    /// A slot that was never used.
    Unused,
    /// What is in this slot may leave.
    Of(usize),
    /// Nothing may leave before this.
    Later(Time),
}

impl Buffer {
    pub(super) fn new(capacity: usize, policy: Replacement, rng: Rng) -> Self {
        Buffer { slots: Vec::with_capacity(capacity), capacity, choice: Choice::new(policy, rng) }
    }

    pub(super) fn find(&self, unit: u64) -> Option<usize> {
        self.slots.iter().position(|slot| slot.unit == unit)
    }

    pub(super) fn slot(&mut self, slot: usize) -> &mut Slot {
        &mut self.slots[slot]
    }

    /// The slot was used.
    pub(super) fn touch(&mut self, slot: usize) {
        self.slots[slot].stamp = self.choice.stamp();
    }

    /// Where at `at` another unit can go.
    pub(super) fn room(&mut self, at: Time) -> Room {
        if self.slots.len() < self.capacity {
            return Room::Unused;
        }
        let idle = self.slots.iter().enumerate().filter(|(_, slot)| slot.busy <= at);
        match self.choice.choose(idle.map(|(number, slot)| (slot.stamp, number))) {
            Some(slot) => Room::Of(slot),
            None => Room::Later(self.slots.iter().map(|slot| slot.busy).min().unwrap_or(at)),
        }
    }

    /// Puts a unit into a slot, or (`None`) into one that was never used.
    pub(super) fn put(&mut self, slot: Option<usize>, unit: u64) -> usize {
        let fresh = Slot { unit, stamp: self.choice.stamp(), ..Slot::default() };
        if let Some(slot) = slot {
            self.slots[slot] = fresh;
            return slot;
        }
        self.slots.push(fresh);
        self.slots.len() - 1
    }

    /// All units that are here.
    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }
}
