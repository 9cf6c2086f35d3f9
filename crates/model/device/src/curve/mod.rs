//! A device that is nothing but measured curves: the latency of reads by bandwidth, one curve for each share
//! of reads.
//!
//! The device counts what passes in a window of time and looks up what latency goes with that share of reads
//! and that bandwidth; it holds in the next window. Nobody gets more than the largest bandwidth of the
//! curves: requests take turns, and whoever has to wait longer than the curve says, waits longer. Writes are
//! accepted when their turn has come.
//!
//! This is the cheapest model of memory that has a bandwidth, and the only one for memory whose inside is not
//! known. It knows nothing of addresses. [`derive()`] measures such curves on a detailed device.

mod curves;
mod derive;

pub use curves::{Curves, CurvesError, Point};
pub use derive::{Derive, derive};

use serde::{Deserialize, Serialize};

use crate::timetable::{Direction, Timetable, Turnaround};
use crate::{Device, Fault, LINE_BYTES, Time, Traffic};

/// How much a window's latency counts against what was believed before, as a shift: a quarter. Less would
/// swing near saturation, where a little more bandwidth is a lot more latency.
const LEARNING_SHIFT: u32 = 2;

/// The numbers of a curve device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// The curves: lines of `read_share,bandwidth_gbps,latency_ns`. A relative path starts at the machine's
    /// file.
    pub file: String,
    /// The window, 100ns to 1ms.
    pub window: Time,
    /// What the file says.
    #[serde(skip)]
    pub curves: Curves,
}

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct CurveDevice {
    curves: Curves,
    window: Time,
    /// When the window began, and what passed in it.
    begun: Time,
    reads: u64,
    writes: u64,
    /// Of the windows before.
    latency: Time,
    idle: Time,
    line: Time,
    turns: Timetable,
    traffic: Traffic,
}

impl Curve {
    pub(super) fn check(&self) -> Result<(), Fault> {
        if !(Time::from_ns(100)..=Time::from_ns(1_000_000)).contains(&self.window) {
            return Err(Fault::new("window", self.window, "use 100ns to 1ms"));
        }
        if self.curves.is_empty() {
            return Err(Fault::new("file", &self.file, "a curve device needs a file with curves"));
        }
        Ok(())
    }
}

impl CurveDevice {
    pub(crate) fn new(config: &Curve) -> Self {
        let mut device = CurveDevice {
            curves: config.curves.clone(),
            window: config.window,
            begun: Time::ZERO,
            reads: 0,
            writes: 0,
            latency: Time::ZERO,
            idle: Time::ZERO,
            line: Time::ZERO,
            turns: Timetable::new(Turnaround::default()),
            traffic: Traffic::default(),
        };
        device.look_up(1.0, 0.0);
        device.latency = device.idle;
        device
    }

    /// Closes windows that are over.
    #[allow(clippy::cast_precision_loss)]
    fn advance(&mut self, at: Time) {
        let past = at.since(self.begun);
        let lines = self.reads + self.writes;
        if past < self.window {
            return;
        }
        if past >= self.window * 8 {
            // Nobody was there: nothing is left of what was believed.
            self.look_up(1.0, 0.0);
            self.latency = self.idle;
        } else if lines > 0 {
            let bandwidth = (lines * LINE_BYTES) as f64 / past.ns();
            let looked_up = self.look_up(self.reads as f64 / lines as f64, bandwidth);
            let believed = self.latency.0 - (self.latency.0 >> LEARNING_SHIFT);
            self.latency = Time(believed + (looked_up.0 >> LEARNING_SHIFT));
        }
        (self.begun, self.reads, self.writes) = (at, 0, 0);
    }

    /// Takes over what the curves say of a share of reads. Returns the latency at a bandwidth (bytes per
    /// nanosecond).
    fn look_up(&mut self, read_share: f64, bandwidth: f64) -> Time {
        let found = self.curves.at(read_share, bandwidth);
        self.idle = found.idle;
        self.line = found.line;
        found.latency
    }

    /// When the request's turn begins.
    fn turn(&mut self, at: Time) -> Time {
        self.turns.reserve(at, at, self.line, Direction::Read)
    }
}

impl Device for CurveDevice {
    fn read(&mut self, at: Time, _line: u64) -> Time {
        self.advance(at);
        self.reads += 1;
        self.traffic.controller_read_bytes += LINE_BYTES;
        self.traffic.media_read_bytes += LINE_BYTES;
        let turn = self.turn(at);
        (at + self.latency).max(turn + self.line.max(self.idle))
    }

    fn write(&mut self, at: Time, _line: u64, _whole: bool) -> Time {
        self.advance(at);
        self.writes += 1;
        self.traffic.controller_write_bytes += LINE_BYTES;
        self.traffic.media_write_bytes += LINE_BYTES;
        self.turn(at) + self.line
    }

    fn advance_to(&mut self, _at: Time) {}

    fn drain(&mut self, at: Time) -> Time {
        at.max(self.turns.last())
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn held_bytes(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: fn(u64) -> Time = Time::from_ns;

    fn device() -> CurveDevice {
        let text =
            "read_share,bandwidth_gbps,latency_ns\n1,0,100\n1,8,110\n1,16,300\n0.5,0,100\n0.5,32,200\n";
        let curves = Curves::parse(text).unwrap();
        CurveDevice::new(&Curve { file: "test.csv".to_owned(), window: NS(1000), curves })
    }

    /// The answer to the last of `lines` requests, one every `gap`.
    fn latency(device: &mut CurveDevice, gap: Time, lines: u64, writes: bool) -> Time {
        let mut last = Time::ZERO;
        for n in 0..lines {
            let at = NS(1000) + gap * n;
            match n % 2 == 1 && writes {
                true => _ = device.write(at, n, true),
                false => last = device.read(at, n).since(at),
            }
        }
        last
    }

    #[test]
    fn a_lonely_read_takes_the_idle_latency() {
        assert_eq!(device().read(NS(5000), 9), NS(5100));
    }

    #[test]
    fn a_load_takes_the_latency_of_its_bandwidth_and_share() {
        // 64 B every 8 ns are 8 GB/s; every 5.333 ns are 12 GB/s.
        assert!((latency(&mut device(), NS(8), 10_000, false).ns() - 110.0).abs() < 1.0);
        assert!((latency(&mut device(), Time(5333), 10_000, false).ns() - 205.0).abs() < 3.0);
        assert!(
            (latency(&mut device(), NS(4), 10_000, true).ns() - 150.0).abs() < 3.0,
            "16 GB/s, half reads"
        );
    }

    #[test]
    fn nobody_gets_more_than_the_curve_has() {
        let mut device = device();
        let last = (0..1000).map(|line| device.read(NS(0), line)).max();
        assert_eq!(last, Some(NS(999 * 4 + 100)));
    }

    #[test]
    fn after_a_pause_the_device_is_idle_again() {
        let mut device = device();
        latency(&mut device, Time(4100), 10_000, false);
        assert_eq!(device.read(NS(100_000), 0), NS(100_100));
    }
}
