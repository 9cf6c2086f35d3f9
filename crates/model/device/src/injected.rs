//! An emulator of slow memory: another device, with delays and a limited bandwidth injected before it.
//!
//! Two kinds of emulator are this device with different numbers. Hardware such as PMEP lengthens every load
//! by a constant and throttles the writes of the DRAM beside; its delays overlap as far as the loads do. A
//! program that spins after each access lets nobody overlap (`overlap = false`).

use serde::{Deserialize, Serialize};

use crate::timetable::{Direction, Timetable, Turnaround};
use crate::{Device, DeviceConfig, DeviceCounters, DeviceTiming, Fault, Time, Traffic, build, check_times};

/// The numbers of an emulator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Injected {
    /// Added to each read.
    pub read_delay: Time,
    /// Added to each write.
    pub write_delay: Time,
    /// Reads of 64 B begin at least so far apart.
    pub read_line: Time,
    /// Writes of 64 B begin at least so far apart.
    pub write_line: Time,
    /// Whether the delays of several accesses run side by side.
    pub overlap: bool,
    /// The real memory.
    pub behind: Box<DeviceTiming>,
}

/// The device.
#[derive(Debug)]
pub(crate) struct InjectedDevice {
    config: Injected,
    behind: Box<dyn Device>,
    reads: Timetable,
    writes: Timetable,
    /// Delays, if they don't overlap.
    delays: Timetable,
}

impl Injected {
    pub(super) fn check(&self) -> Result<(), Fault> {
        check_times(&[
            ("read_delay", self.read_delay),
            ("write_delay", self.write_delay),
            ("read_line", self.read_line),
            ("write_line", self.write_line),
        ])?;
        self.behind.check_within("behind")
    }
}

impl InjectedDevice {
    pub(crate) fn new(device: &DeviceConfig, config: &Injected, seed: u64) -> Self {
        let table = || Timetable::new(Turnaround::default());
        InjectedDevice {
            behind: build(device, &config.behind, seed),
            reads: table(),
            writes: table(),
            delays: table(),
            config: config.clone(),
        }
    }

    /// `done` and then `delay`.
    fn delay(&mut self, now: Time, done: Time, delay: Time) -> Time {
        if self.config.overlap {
            return done + delay;
        }
        self.delays.reserve(now, done, delay, Direction::Read) + delay
    }
}

impl Device for InjectedDevice {
    fn read(&mut self, at: Time, line: u64) -> Time {
        let begin = self.reads.reserve(at, at, self.config.read_line, Direction::Read);
        let done = self.behind.read(begin, line);
        self.delay(at, done, self.config.read_delay)
    }

    fn write(&mut self, at: Time, line: u64, whole: bool) -> Time {
        let begin = self.writes.reserve(at, at, self.config.write_line, Direction::Write);
        let done = self.behind.write(begin, line, whole);
        self.delay(at, done, self.config.write_delay)
    }

    fn own(&mut self, at: Time, line: u64) -> Option<Time> {
        self.behind.own(at, line)
    }

    fn advance_to(&mut self, at: Time) {
        self.behind.advance_to(at);
    }

    fn drain(&mut self, at: Time) -> Time {
        self.behind.drain(at)
    }

    fn traffic(&self) -> Traffic {
        self.behind.traffic()
    }

    fn held_bytes(&self) -> u64 {
        self.behind.held_bytes()
    }

    fn durable_bytes(&self) -> u64 {
        self.behind.durable_bytes()
    }

    fn drain_time(&self) -> Time {
        self.behind.drain_time()
    }

    fn counters(&self) -> DeviceCounters {
        self.behind.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Delay;

    const NS: fn(u64) -> Time = Time::from_ns;

    fn device(overlap: bool) -> InjectedDevice {
        let behind = Delay { read_latency: NS(60), write_latency: NS(20), line_transfer: NS(3) };
        InjectedDevice::new(
            &crate::DeviceConfig::plain(),
            &Injected {
                read_delay: NS(300),
                write_delay: NS(0),
                read_line: NS(0),
                write_line: NS(24),
                overlap,
                behind: Box::new(DeviceTiming::Delay(behind)),
            },
            1,
        )
    }

    #[test]
    fn each_load_is_longer_by_the_delay() {
        assert_eq!(device(true).read(NS(100), 0), NS(100 + 63 + 300));
        assert_eq!(device(true).write(NS(100), 0, true), NS(123));
    }

    #[test]
    fn writes_begin_apart_and_loads_do_not() {
        let mut emulator = device(true);
        let writes = (0..10).map(|line| emulator.write(NS(100), line, true)).max();
        assert_eq!(writes, Some(NS(100 + 9 * 24 + 23)));
        let reads = (0..10).map(|line| emulator.read(NS(1000), line)).max();
        assert_eq!(reads, Some(NS(1000 + 10 * 3 + 60 + 300)));
    }

    #[test]
    fn delays_that_do_not_overlap_follow_each_other() {
        let mut spinning = device(false);
        let reads = (0..10).map(|line| spinning.read(NS(1000), line)).max();
        assert_eq!(reads, Some(NS(1000 + 63 + 10 * 300)));
    }
}
