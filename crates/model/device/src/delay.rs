//! A latency and a bandwidth: the delay model of fabric-attached memory emulators.
//!
//! Each access takes the latency of its direction, plus its bytes at the bandwidth; transfers follow each
//! other, latencies overlap.

use serde::{Deserialize, Serialize};

use crate::{Device, Fault, LINE_BYTES, Time, Traffic, check_times};

/// The numbers of a delay device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// From request to data, without the transfer.
    pub read_latency: Time,
    /// From offer to acceptance, without the transfer.
    pub write_latency: Time,
    /// Transfer time of 64 B, reads and writes alike (64 B at 2 GB/s take 32ns).
    pub line_transfer: Time,
}

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct DelayDevice {
    config: Delay,
    link_free: Time,
    traffic: Traffic,
}

impl Delay {
    pub(super) fn check(&self) -> Result<(), Fault> {
        check_times(&[
            ("read_latency", self.read_latency),
            ("write_latency", self.write_latency),
            ("line_transfer", self.line_transfer),
        ])
    }
}

impl DelayDevice {
    pub(crate) fn new(config: &Delay) -> Self {
        DelayDevice { config: config.clone(), link_free: Time::ZERO, traffic: Traffic::default() }
    }

    fn transfer(&mut self, at: Time) -> Time {
        self.link_free = self.link_free.max(at) + self.config.line_transfer;
        self.link_free
    }
}

impl Device for DelayDevice {
    fn read(&mut self, at: Time, _line: u64) -> Time {
        self.traffic.controller_read_bytes += LINE_BYTES;
        self.traffic.media_read_bytes += LINE_BYTES;
        self.transfer(at) + self.config.read_latency
    }

    fn write(&mut self, at: Time, _line: u64, _whole: bool) -> Time {
        self.traffic.controller_write_bytes += LINE_BYTES;
        self.traffic.media_write_bytes += LINE_BYTES;
        self.transfer(at) + self.config.write_latency
    }

    fn advance_to(&mut self, _at: Time) {}

    fn drain(&mut self, at: Time) -> Time {
        at.max(self.link_free)
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

    #[test]
    fn latency_and_bandwidth_are_the_closed_formula() {
        let config = Delay {
            read_latency: Time::from_ns(1000),
            write_latency: Time::from_ns(500),
            line_transfer: Time::from_ns(32),
        };
        let mut device = DelayDevice::new(&config);
        assert_eq!(device.read(Time::ZERO, 0), Time::from_ns(1032));
        assert_eq!(device.write(Time::from_ns(5000), 7, true), Time::from_ns(5532));
        let last = (0..64).map(|line| device.read(Time::from_ns(10_000), line)).max();
        assert_eq!(last, Some(Time::from_ns(10_000 + 64 * 32 + 1000)));
        assert_eq!(device.traffic().controller_read_bytes, 65 * 64);
    }
}
