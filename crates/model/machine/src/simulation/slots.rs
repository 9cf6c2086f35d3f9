//! Things of which there are so many, each taken until a time: queue entries and miss registers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Time;

/// Entries that are all alike, given to whoever comes as soon as one is free.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    until: BinaryHeap<Reverse<Time>>,
}

impl Slots {
    pub(crate) fn new(count: u32) -> Self {
        Slots { until: (0..count).map(|_| Reverse(Time::ZERO)).collect() }
    }

    /// When there is one.
    pub(crate) fn free_at(&self) -> Time {
        self.until.peek().map_or(Time::ZERO, |first| first.0)
    }

    /// Takes the one that is free first until `until`.
    pub(crate) fn take(&mut self, until: Time) {
        if let Some(mut first) = self.until.peek_mut() {
            *first = Reverse(until);
        }
    }
}

/// Entries that each belong to a line while they are taken: line-fill buffers, lines on their way to memory.
#[derive(Clone, Debug)]
pub(crate) struct LineSlots {
    entries: Box<[(u64, Time)]>,
    /// The one that is free first.
    first: usize,
    /// When all are free.
    last: Time,
}

impl LineSlots {
    pub(crate) fn new(count: u32) -> Self {
        LineSlots { entries: vec![(0, Time::ZERO); count as usize].into(), first: 0, last: Time::ZERO }
    }

    /// When there is one.
    pub(crate) fn free_at(&self) -> Time {
        self.entries[self.first].1
    }

    /// When all are free.
    #[inline(always)]
    pub(crate) fn last(&self) -> Time {
        self.last
    }

    /// Takes the one that is free first for `line` until `until`.
    pub(crate) fn take(&mut self, line: u64, until: Time) {
        self.entries[self.first] = (line, until);
        self.last = self.last.max(until);
        let earliest = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.1);
        self.first = earliest.map_or(0, |(at, _)| at);
    }

    /// How many there are.
    pub(crate) fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// How many are taken at `now`.
    pub(crate) fn taken(&self, now: Time) -> usize {
        self.entries.iter().filter(|entry| entry.1 > now).count()
    }

    /// When no more than `count` are taken, not before `now`.
    pub(crate) fn when_at_most(&self, count: usize, now: Time) -> Time {
        let mut taken: Vec<Time> =
            self.entries.iter().map(|entry| entry.1).filter(|&until| until > now).collect();
        taken.sort_unstable();
        let leave = taken.len().saturating_sub(count);
        if leave == 0 { now } else { taken[leave - 1] }
    }

    /// Until when `line` has one; zero if it never had.
    pub(crate) fn until(&self, line: u64) -> Time {
        self.entries.iter().filter(|entry| entry.0 == line).map(|entry| entry.1).max().unwrap_or(Time::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_of_two_waits_for_the_first_that_is_free() {
        let mut slots = Slots::new(2);
        assert_eq!(slots.free_at(), Time::ZERO);
        slots.take(Time(30));
        slots.take(Time(10));
        assert_eq!(slots.free_at(), Time(10));
        slots.take(Time(50));
        assert_eq!(slots.free_at(), Time(30));
    }

    #[test]
    fn a_line_is_known_while_it_has_an_entry() {
        let mut slots = LineSlots::new(2);
        slots.take(7, Time(30));
        slots.take(8, Time(10));
        assert_eq!((slots.free_at(), slots.last()), (Time(10), Time(30)));
        assert_eq!((slots.until(7), slots.until(8), slots.until(9)), (Time(30), Time(10), Time::ZERO));
        slots.take(9, Time(20));
        assert_eq!((slots.until(8), slots.free_at()), (Time::ZERO, Time(20)));
    }
}
