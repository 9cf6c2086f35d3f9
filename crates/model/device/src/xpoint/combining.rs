//! The combining queue: written lines wait here for the rest of their unit.
//!
//! It holds lines, not units, so that few long streams and many short ones fill it alike. What comes for a
//! line that waits here already takes no further room. A unit leaves when it is old enough or when others
//! need the room, with those of its lines that are there by then; a writer of more streams than the queue can
//! distinguish loses the rest of each unit.

use super::choice::Choice;
use super::config::Combining;
use crate::{Rng, Time};

/// The waiting lines of one unit, one bit per line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) unit: u64,
    pub(super) new: u64,
    /// Of these, lines of which some bytes are still the media's.
    pub(super) partial: u64,
    since: Time,
    stamp: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// In the order of their first lines.
    groups: Vec<Group>,
    lines: u32,
    capacity: u32,
    age: Time,
    choice: Choice,
}

impl Queue {
    pub(super) fn new(config: &Combining, rng: Rng) -> Self {
        Queue {
            groups: Vec::new(),
            lines: 0,
            capacity: config.lines,
            age: config.age,
            choice: Choice::new(config.replacement, rng),
        }
    }

    pub(super) fn find(&self, unit: u64) -> Option<&Group> {
        self.groups.iter().find(|group| group.unit == unit)
    }

    /// Whether line `bit` of `unit` needs room that is not there.
    pub(super) fn full(&self, unit: u64, bit: u64) -> bool {
        self.lines == self.capacity && self.find(unit).is_none_or(|group| group.new & bit == 0)
    }

    /// Takes a line, for which there is room. Whether it was here already.
    pub(super) fn put(&mut self, at: Time, unit: u64, bit: u64, whole: bool) -> bool {
        let stamp = self.choice.stamp();
        let found = self.groups.iter().position(|group| group.unit == unit);
        let place = found.unwrap_or_else(|| {
            self.groups.push(Group { unit, since: at, ..Group::default() });
            self.groups.len() - 1
        });
        let group = &mut self.groups[place];
        let absorbed = group.new & bit != 0;
        if whole {
            group.partial &= !bit;
        } else if !absorbed {
            group.partial |= bit;
        }
        group.new |= bit;
        group.stamp = stamp;
        self.lines += u32::from(!absorbed);
        absorbed
    }

    /// When the oldest unit has to leave.
    pub(super) fn due(&self) -> Option<Time> {
        self.groups.first().map(|oldest| oldest.since + self.age)
    }

    /// Takes the oldest unit out.
    pub(super) fn take_oldest(&mut self) -> Option<Group> {
        (!self.groups.is_empty()).then(|| self.take(0))
    }

    /// Takes the unit out that makes room for others.
    pub(super) fn take_chosen(&mut self) -> Option<Group> {
        let units = self.groups.iter().enumerate().map(|(place, group)| (group.stamp, place));
        self.choice.choose(units).map(|place| self.take(place))
    }

    fn take(&mut self, place: usize) -> Group {
        let group = self.groups.remove(place);
        self.lines -= group.new.count_ones();
        group
    }

    /// Lines that wait.
    pub(super) fn lines(&self) -> u32 {
        self.lines
    }

    /// Units of which lines wait.
    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }
}
