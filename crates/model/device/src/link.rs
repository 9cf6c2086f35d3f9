//! A link between sockets, or between a socket and a device: two lanes, one for each way.
//!
//! A read sends a small message there and brings a line back; a write takes a line there and brings a
//! small message back. The lanes work side by side, so a mix of both uses them best, unless whoever is at the
//! far end needs time to turn from one kind to the other ([`LinkTiming::mix`]).

use serde::{Deserialize, Serialize};

use crate::{Direction, Time, Timetable, Turnaround};

/// The numbers of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkTiming {
    /// One way, without the transfer.
    pub latency: Time,
    /// How long a lane is busy with a message without data: the request of a read, the answer to a write.
    pub message: Time,
    /// How long the lane back is busy with a line that was read.
    pub read_line: Time,
    /// How long the lane there is busy with a line to be written.
    pub write_line: Time,
    /// Between requests of different kinds the lane there pauses for so long.
    #[serde(default)]
    pub mix: Time,
}

/// A link.
#[derive(Clone, Debug)]
pub struct Link {
    timing: LinkTiming,
    there: Timetable,
    back: Timetable,
    /// When the last request set out. Answers come in any order, but not before this.
    now: Time,
}

impl LinkTiming {
    /// Every time with its key.
    #[must_use]
    pub fn times(&self) -> [(&'static str, Time); 5] {
        [
            ("latency", self.latency),
            ("message", self.message),
            ("read_line", self.read_line),
            ("write_line", self.write_line),
            ("mix", self.mix),
        ]
    }
}

impl Link {
    /// An idle link.
    #[must_use]
    pub fn new(timing: &LinkTiming) -> Self {
        let mix =
            Turnaround { read_to_write: timing.mix, write_to_read: timing.mix, ..Turnaround::default() };
        Link {
            timing: timing.clone(),
            there: Timetable::new(mix),
            back: Timetable::new(Turnaround::default()),
            now: Time::ZERO,
        }
    }

    /// Its numbers.
    #[must_use]
    pub fn timing(&self) -> &LinkTiming {
        &self.timing
    }

    /// A request, with its line if it is a write, sets out. Returns when all of it has arrived.
    pub fn request(&mut self, at: Time, kind: Direction) -> Time {
        let length = match kind {
            Direction::Read => self.timing.message,
            Direction::Write => self.timing.write_line,
        };
        self.now = at;
        self.there.reserve(at, at, length, kind) + length + self.timing.latency
    }

    /// A question without data sets out. Returns when the answer, without data either, is back.
    pub fn ask(&mut self, at: Time) -> Time {
        let there = self.request(at, Direction::Read);
        self.response(there, Direction::Write)
    }

    /// Its answer, with a line if it was a read, sets out. Returns when all of it has arrived.
    pub fn response(&mut self, at: Time, kind: Direction) -> Time {
        let length = match kind {
            Direction::Read => self.timing.read_line,
            Direction::Write => self.timing.message,
        };
        self.back.reserve(self.now, at, length, Direction::Read) + length + self.timing.latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Read, Write};

    const NS: fn(u64) -> Time = Time::from_ns;

    fn timing(mix: u64) -> LinkTiming {
        LinkTiming { latency: NS(30), message: NS(1), read_line: NS(4), write_line: NS(5), mix: NS(mix) }
    }

    #[test]
    fn an_idle_link_takes_its_latency_and_the_transfer() {
        let mut link = Link::new(&timing(0));
        assert_eq!(link.request(NS(100), Read), NS(131));
        assert_eq!(link.response(NS(200), Read), NS(234));
        assert_eq!(link.request(NS(300), Write), NS(335));
        assert_eq!(link.response(NS(400), Write), NS(431));
        assert_eq!(link.ask(NS(500)), NS(562));
    }

    #[test]
    fn the_lanes_work_side_by_side_and_each_is_a_bandwidth() {
        let mut link = Link::new(&timing(0));
        let last_line = (0..10).map(|_| link.response(NS(100), Read)).max();
        assert_eq!(last_line, Some(NS(100 + 10 * 4 + 30)));
        let last_write = (0..10).map(|_| link.request(NS(100), Write)).max();
        assert_eq!(last_write, Some(NS(100 + 10 * 5 + 30)));
    }

    #[test]
    fn an_early_answer_overtakes_a_late_one_that_was_asked_for_before() {
        let mut link = Link::new(&timing(0));
        link.request(NS(0), Read);
        assert_eq!(link.response(NS(900), Read), NS(934));
        link.request(NS(10), Read);
        assert_eq!(link.response(NS(200), Read), NS(234));
        assert_eq!(link.response(NS(899), Read), NS(938), "no room for 4 before 900");
    }

    #[test]
    fn a_mix_pauses_at_each_change_of_kind() {
        let last = |mix, kinds: &[Direction]| {
            let mut link = Link::new(&timing(mix));
            // One after the other, so that no gap can be used.
            kinds.iter().fold(NS(100), |at, &kind| link.request(at, kind) - NS(30))
        };
        assert_eq!(last(20, &[Read, Read, Write, Write]), NS(100 + 1 + 1 + 20 + 5 + 5));
        assert_eq!(last(20, &[Read, Write, Read, Write]), NS(100 + 1 + 20 + 5 + 20 + 1 + 20 + 5));
        assert_eq!(last(0, &[Read, Write, Read, Write]), NS(100 + 12));
    }
}
