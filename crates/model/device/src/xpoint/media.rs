//! The media: partitions, the way between them and the controller, and the power that they may take.

use std::collections::VecDeque;

use super::super::timetable::{Direction, Timetable, Turnaround};
use super::config::{Media as MediaConfig, Power as PowerConfig};
use crate::Time;

#[derive(Clone, Debug)]
pub(super) struct Media {
    config: MediaConfig,
    partitions: Vec<Timetable>,
    way: Timetable,
    power: Option<Power>,
    /// Ends of the last writes, as many as may be under way at once.
    writes: VecDeque<Time>,
    /// The end of all reads and writes so far.
    pub(super) quiet: Time,
}

/// The power budget. An access may begin when what was spent is earned, or will be within the window.
#[derive(Clone, Debug)]
struct Power {
    read: Time,
    write: Time,
    window: Time,
    /// When all that was spent is earned.
    earned: Time,
}

/// When the data of a read have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// The line that was asked for.
    pub(super) first: Time,
    /// The whole unit.
    pub(super) all: Time,
}

impl Power {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn new(config: &PowerConfig) -> Self {
        // Nanojoules by watts are nanoseconds.
        let cost = |energy: f64| Time((energy / (config.average - config.idle) * 1e3).round() as u64);
        Power {
            read: cost(config.read),
            write: cost(config.write),
            window: config.window,
            earned: Time::ZERO,
        }
    }

    fn ready(&self) -> Time {
        Time(self.earned.0.saturating_sub(self.window.0))
    }

    fn spend(&mut self, at: Time, cost: Time) {
        self.earned = self.earned.max(at) + cost;
    }
}

impl Media {
    pub(super) fn new(config: &MediaConfig, power: Option<&PowerConfig>) -> Self {
        let idle = Timetable::new(Turnaround::default());
        Media {
            partitions: vec![idle.clone(); config.partitions as usize],
            way: idle,
            power: power.map(Power::new),
            writes: VecDeque::from(vec![Time::ZERO; config.write_queue as usize]),
            quiet: Time::ZERO,
            config: config.clone(),
        }
    }

    /// Streams of equal alignment do not meet in one partition all the time: the unit's high bits are folded
    /// in.
    fn partition(&self, unit: u64) -> usize {
        let mixed = unit ^ (unit >> 8) ^ (unit >> 16) ^ (unit >> 24);
        (mixed % self.partitions.len() as u64) as usize
    }

    /// Reads a unit of `lines` lines, to be sent on or, `to_write`, to complete what is written to it. A
    /// write's energy has a read of the old contents in it anyway: phase-change memory writes the cells alone
    /// that change (data comparison write; Yang et al., ISCAS '07; Flip-N-Write, MICRO '09). So the latter
    /// takes the time of a read and no energy of its own.
    pub(super) fn read(&mut self, at: Time, unit: u64, lines: u64, to_write: bool) -> Arrival {
        let mut start = at;
        if let Some(power) = self.power.as_mut().filter(|_| !to_write) {
            start = start.max(power.ready());
            power.spend(start, power.read);
        }
        let partition = self.partition(unit);
        let config = &self.config;
        let cells = self.partitions[partition].reserve(at, start, config.read, Direction::Read) + config.read;
        let way = self.way.reserve(at, cells, config.transfer, Direction::Read);
        let arrival = Arrival { first: way + Time(config.transfer.0 / lines), all: way + config.transfer };
        self.quiet = self.quiet.max(arrival.all);
        arrival
    }

    /// When, from `at` on, a write may begin.
    pub(super) fn writable(&self, at: Time) -> Time {
        let power = self.power.as_ref().map_or(Time::ZERO, Power::ready);
        at.max(power).max(self.writes.front().copied().unwrap_or(Time::ZERO))
    }

    /// Writes a unit. Returns when that is done.
    pub(super) fn write(&mut self, at: Time, unit: u64) -> Time {
        let start = self.writable(at);
        if let Some(power) = &mut self.power {
            power.spend(start, power.write);
        }
        let partition = self.partition(unit);
        let config = &self.config;
        let way = self.way.reserve(at, start, config.transfer, Direction::Write) + config.transfer;
        let done = self.partitions[partition].reserve(at, way, config.write, Direction::Write) + config.write;
        self.writes.pop_front();
        // Kept in order: the one that ends first makes room first.
        let place = self.writes.partition_point(|end| *end <= done);
        self.writes.insert(place, done);
        self.quiet = self.quiet.max(done);
        done
    }

    /// Takes the power for moving a unit; the move itself goes where nobody is waiting.
    pub(super) fn moved(&mut self, at: Time) {
        if let Some(power) = &mut self.power {
            power.spend(at, power.read + power.write);
        }
    }

    /// How long so many writes, and reads before some of them, take when nothing else is to be done.
    pub(super) fn time_for(&self, writes: u64, reads: u64) -> Time {
        let config = &self.config;
        let partitions = u64::from(config.partitions);
        let writing = partitions.min(u64::from(config.write_queue));
        let cells = config.write * writes.div_ceil(writing) + config.read * reads.div_ceil(partitions);
        let power = self.power.as_ref().map_or(Time::ZERO, |power| power.write * writes);
        cells.max(power).max(config.transfer * (writes + reads))
    }
}
