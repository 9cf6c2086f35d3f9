//! Who has a shared piece of hardware when: the data bus of a channel, one direction of a link.
//!
//! A request that comes later but is ready earlier goes into a gap that the others left, as a scheduler
//! that reorders would let it; nothing that was promised is ever moved.

use std::collections::VecDeque;

use crate::Time;

/// For so long a reservation that is over stays known, because calls come in the order of time only about.
const REMEMBERED: Time = Time::from_ns(500);

/// Which way data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To whoever asked.
    Read,
    /// To the device.
    Write,
}

/// What a change costs: the pause between the last transfer before and the first after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turnaround {
    /// From a read to a write.
    pub read_to_write: Time,
    /// From a write to a read.
    pub write_to_read: Time,
    /// To another source of data, in either direction.
    pub source: Time,
}

/// The reservations of one piece of hardware that serves one transfer at a time.
#[derive(Clone, Debug)]
pub struct Timetable {
    turnaround: Turnaround,
    /// Not long over when last asked; in the order of time, without overlap.
    busy: VecDeque<Busy>,
    /// The last of those that are over.
    past: Busy,
}

#[derive(Clone, Copy, Debug)]
struct Busy {
    from: Time,
    until: Time,
    direction: Direction,
    /// Who drives the wires, if there are several.
    source: usize,
}

impl Timetable {
    /// Free all the time.
    #[must_use]
    pub fn new(turnaround: Turnaround) -> Self {
        let past = Busy { from: Time::ZERO, until: Time::ZERO, direction: Direction::Read, source: 0 };
        Timetable { turnaround, busy: VecDeque::new(), past }
    }

    /// Reserves `length` from the earliest moment, not before `earliest`, at which it fits. Returns that
    /// moment. What is long over at `now` is forgotten: a later call for a much earlier time gets a place
    /// after it.
    pub fn reserve(&mut self, now: Time, earliest: Time, length: Time, direction: Direction) -> Time {
        self.reserve_from(0, now, earliest, length, direction)
    }

    /// As [`Timetable::reserve`], for one of several sources.
    pub fn reserve_from(
        &mut self,
        source: usize,
        now: Time,
        earliest: Time,
        length: Time,
        direction: Direction,
    ) -> Time {
        let mut new = Busy { from: earliest, until: earliest + length, direction, source };
        while self.busy.front().is_some_and(|busy| busy.until + REMEMBERED <= now) {
            self.past = self.busy.pop_front().unwrap_or(self.past);
        }
        // The pause before the first transfer ever costs nothing.
        let after_past = match self.past.until {
            Time::ZERO => Time::ZERO,
            until => until + self.pause(&self.past, &new),
        };
        let mut start = earliest.max(after_past);
        let Turnaround { read_to_write, write_to_read, source } = self.turnaround;
        // Whoever ends early enough, pause included, can't be in the way; the longest pause bounds it from
        // below.
        let longest = read_to_write.max(write_to_read).max(source);
        let mut at = self.busy.partition_point(|busy| busy.until + longest <= start);
        while let Some(&busy) = self.busy.get(at) {
            if start + length + self.pause(&new, &busy) <= busy.from {
                break;
            }
            start = start.max(busy.until + self.pause(&busy, &new));
            at += 1;
        }
        (new.from, new.until) = (start, start + length);
        self.insert(at, new);
        start
    }

    /// When the last reservation ends.
    #[must_use]
    pub fn last(&self) -> Time {
        self.busy.back().unwrap_or(&self.past).until
    }

    fn pause(&self, before: &Busy, after: &Busy) -> Time {
        let turn = match (before.direction, after.direction) {
            (Direction::Read, Direction::Write) => self.turnaround.read_to_write,
            (Direction::Write, Direction::Read) => self.turnaround.write_to_read,
            _ => Time::ZERO,
        };
        if before.source == after.source { turn } else { turn.max(self.turnaround.source) }
    }

    /// Neighbours without a gap become one, so that a saturated bus is one entry.
    fn insert(&mut self, at: usize, new: Busy) {
        let joins =
            |a: Busy, b: Busy| a.until == b.from && a.direction == b.direction && a.source == b.source;
        let before = at.checked_sub(1).filter(|&before| joins(self.busy[before], new));
        let after = self.busy.get(at).copied().filter(|&after| joins(new, after));
        match (before, after) {
            (Some(before), Some(after)) => {
                self.busy[before].until = after.until;
                self.busy.remove(at);
            }
            (Some(before), None) => self.busy[before].until = new.until,
            (None, Some(_)) => self.busy[at].from = new.from,
            (None, None) => self.busy.insert(at, new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Read, Write};
    use proptest::prelude::*;

    const NS: fn(u64) -> Time = Time::from_ns;

    fn duplex() -> Timetable {
        Timetable::new(Turnaround { read_to_write: NS(2), write_to_read: NS(20), source: NS(1) })
    }

    #[test]
    fn a_gap_is_used_if_it_is_long_enough_and_not_if_it_is_a_picosecond_short() {
        let mut bus = duplex();
        assert_eq!(bus.reserve(NS(0), NS(10), NS(3), Read), NS(10));
        assert_eq!(bus.reserve(NS(0), NS(16), NS(3), Read), NS(16));
        assert_eq!(bus.reserve(NS(0), NS(13), Time(3_001), Read), NS(19), "13 to 16 is too short");
        assert_eq!(bus.reserve(NS(0), NS(12), NS(3), Read), NS(13));
    }

    #[test]
    fn a_change_of_direction_pauses() {
        let mut bus = duplex();
        assert_eq!(bus.reserve(NS(0), NS(10), NS(3), Read), NS(10));
        assert_eq!(bus.reserve(NS(0), NS(10), NS(3), Write), NS(15));
        assert_eq!(bus.reserve(NS(0), NS(10), NS(3), Read), NS(38));
        // A write between 18 and 38: it must end 20 before the read.
        assert_eq!(bus.reserve(NS(0), NS(10), NS(1), Write), NS(4).max(NS(43)));
        // The pause counts from what is over and forgotten, too.
        assert_eq!(bus.reserve(NS(600), NS(45), NS(3), Read), NS(64));
    }

    #[test]
    fn another_source_pauses_too() {
        let mut bus = duplex();
        assert_eq!(bus.reserve_from(0, NS(0), NS(10), NS(3), Read), NS(10));
        assert_eq!(bus.reserve_from(1, NS(0), NS(10), NS(3), Read), NS(14));
        assert_eq!(bus.reserve_from(1, NS(0), NS(10), NS(3), Read), NS(17));
        assert_eq!(bus.reserve_from(0, NS(0), NS(10), NS(3), Write), NS(22), "the longer of two pauses");
    }

    proptest! {
        #[test]
        fn nobody_overlaps_and_every_change_of_direction_has_its_pause(
            asks in prop::collection::vec((0u64..200, 0u64..30, 1u64..6, any::<bool>()), 1..80)
        ) {
            let mut bus = duplex();
            let mut now = 0;
            let mut given = Vec::new();
            for (ahead, step, length, write) in asks {
                now += step / 10;
                let direction = if write { Write } else { Read };
                let start = bus.reserve(NS(now), NS(now + ahead), NS(length), direction);
                prop_assert!(start >= NS(now + ahead));
                given.push((start, start + NS(length), write));
            }
            given.sort_unstable();
            for pair in given.windows(2) {
                let pause = match (pair[0].2, pair[1].2) {
                    (false, true) => NS(2),
                    (true, false) => NS(20),
                    _ => NS(0),
                };
                prop_assert!(pair[1].0 >= pair[0].1 + pause, "{:?}", pair);
            }
            prop_assert_eq!(bus.last(), given.iter().map(|g| g.1).max().unwrap());
        }
    }
}
