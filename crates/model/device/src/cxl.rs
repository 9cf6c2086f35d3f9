//! A CXL memory expander: the host's port, a link, perhaps a switch, the expander's controller, and any
//! device behind it.
//!
//! The configuration speaks as CXL's own tables (CDAT) do: latency is that of port, link, switch and device
//! added up, bandwidth is the least along the way. The link carries both ways at the same time, so mixed
//! traffic gets more through than reads or writes alone.

use serde::{Deserialize, Serialize};

use crate::credits::Credits;
use crate::timetable::Direction;
use crate::{
    Device, DeviceConfig, DeviceCounters, DeviceTiming, Fault, Link, LinkTiming, Time, Traffic, build,
    check_times,
};

/// The numbers of an expander.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cxl {
    /// The host's root port, each way.
    pub port: Time,
    /// The link.
    pub link: LinkTiming,
    /// From a switch on to the expander; absent if the link ends there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<LinkTiming>,
    /// The expander's own controller, before it asks the device behind.
    pub controller: Time,
    /// Writes under way at once, 1 to 1024; the controller hands over the next when there is room.
    pub writes: u32,
    /// Reads under way at once, 1 to 2048; absent if the card has no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<u32>,
    /// What the memory is.
    pub behind: Box<DeviceTiming>,
}

/// The device.
#[derive(Debug)]
pub(crate) struct CxlDevice {
    port: Time,
    controller: Time,
    /// From the host outwards.
    hops: Vec<Link>,
    writes: Credits,
    reads: Option<Credits>,
    behind: Box<dyn Device>,
}

impl Cxl {
    pub(super) fn check(&self) -> Result<(), Fault> {
        if !(1..=1024).contains(&self.writes) {
            return Err(Fault::new("writes", self.writes, "use 1 to 1024"));
        }
        if let Some(reads) = self.reads.filter(|reads| !(1..=2048).contains(reads)) {
            return Err(Fault::new("reads", reads, "use 1 to 2048, or leave it out"));
        }
        check_times(&[("port", self.port), ("controller", self.controller)])?;
        for (table, link) in [("link", Some(&self.link)), ("switch", self.switch.as_ref())] {
            let Some(link) = link else { continue };
            check_times(&link.times())
                .map_err(|fault| Fault { key: format!("{table}.{}", fault.key), ..fault })?;
        }
        self.behind.check_within("behind")
    }
}

impl CxlDevice {
    pub(crate) fn new(device: &DeviceConfig, config: &Cxl, seed: u64) -> Self {
        let hops = [Some(&config.link), config.switch.as_ref()];
        CxlDevice {
            port: config.port,
            controller: config.controller,
            hops: hops.into_iter().flatten().map(Link::new).collect(),
            writes: Credits::new(config.writes),
            reads: config.reads.map(Credits::new),
            behind: build(device, &config.behind, seed),
        }
    }

    fn outwards(&mut self, at: Time, kind: Direction) -> Time {
        let arrived = self.hops.iter_mut().fold(at + self.port, |at, hop| hop.request(at, kind));
        arrived + self.controller
    }

    fn homewards(&mut self, at: Time, kind: Direction) -> Time {
        self.hops.iter_mut().rev().fold(at, |at, hop| hop.response(at, kind)) + self.port
    }
}

impl Device for CxlDevice {
    fn read(&mut self, at: Time, line: u64) -> Time {
        let sent = self.reads.as_mut().map_or(at, |reads| reads.granted(at));
        let arrived = self.outwards(sent, Direction::Read);
        let done = self.behind.read(arrived, line);
        let answered = self.homewards(done, Direction::Read);
        if let Some(reads) = &mut self.reads {
            reads.returns(answered);
        }
        answered
    }

    fn write(&mut self, at: Time, line: u64, whole: bool) -> Time {
        let taken = self.writes.granted(at);
        let arrived = self.outwards(taken, Direction::Write);
        let done = self.behind.write(arrived, line, whole);
        let answered = self.homewards(done, Direction::Write);
        self.writes.returns(answered);
        taken
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

    fn lanes(latency: u64) -> LinkTiming {
        LinkTiming { latency: NS(latency), message: NS(1), read_line: NS(4), write_line: NS(4), mix: NS(0) }
    }

    fn expander(switch: bool, line_transfer: u64, writes: u32) -> CxlDevice {
        let behind = Delay { read_latency: NS(50), write_latency: NS(10), line_transfer: NS(line_transfer) };
        CxlDevice::new(
            &crate::DeviceConfig::plain(),
            &Cxl {
                port: NS(12),
                link: lanes(10),
                switch: switch.then(|| lanes(35)),
                controller: NS(20),
                writes,
                reads: None,
                behind: Box::new(DeviceTiming::Delay(behind)),
            },
            1,
        )
    }

    #[test]
    fn latencies_add_up() {
        let direct = 12 + (1 + 10) + 20 + (2 + 50) + (4 + 10) + 12;
        assert_eq!(expander(false, 2, 64).read(NS(0), 0), NS(direct));
        assert_eq!(expander(true, 2, 64).read(NS(0), 0), NS(direct + (1 + 35) + (4 + 35)));
        let mut expander = expander(false, 2, 1);
        assert_eq!(expander.write(NS(0), 0, true), NS(0), "on its way");
        assert_eq!(expander.write(NS(0), 0, true), NS(12 + 14 + 20 + 12 + 11 + 12), "the one credit is back");
    }

    #[test]
    fn bandwidth_is_the_least_along_the_way() {
        let reads = |line_transfer| {
            let mut expander = expander(false, line_transfer, 64);
            (0..1000).map(|line| expander.read(NS(0), line)).max().unwrap().ns() / 1000.0
        };
        assert!((reads(2) - 4.0).abs() < 0.2, "the link: 4 ns a line");
        assert!((reads(9) - 9.0).abs() < 0.2, "the memory: 9 ns a line");
    }

    #[test]
    fn a_card_with_few_read_credits_takes_no_more_reads_at_once() {
        let last = |reads| {
            let mut expander = expander(false, 1, 64);
            expander.reads = reads;
            (0..100).map(|line| expander.read(NS(0), line)).max().unwrap().ns()
        };
        let round_trip = 12.0 + 11.0 + 20.0 + 51.0 + 14.0 + 12.0;
        let limited = last(Some(Credits::new(4)));
        assert!((limited / (25.0 * round_trip) - 1.0).abs() < 0.15, "{limited} ns");
        assert!(last(None) < limited / 4.0);
    }

    #[test]
    fn both_ways_at_once_carry_more() {
        let took = |reads: usize| {
            let mut expander = expander(false, 1, 64);
            let last = (0..1000).map(|n| {
                let line = n as u64;
                if n % 10 < reads { expander.read(NS(0), line) } else { expander.write(NS(0), line, true) }
            });
            last.max().unwrap()
        };
        assert!(took(5) < took(10) && took(5) < took(0));
    }
}
