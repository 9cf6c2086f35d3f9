//! Memory of an accelerator that the cores cache, with the directory of their lines on the accelerator's
//! side.
//!
//! Each controller serves one line after another; neighbouring chunks lie on different ones. Because the
//! directory is there, a core that wants to write to a line has to ask there first ([`Device::own`]), even if
//! it has a copy, and that takes as long as a read.

use serde::{Deserialize, Serialize};

use crate::credits::Credits;
use crate::timetable::{Direction, Timetable, Turnaround};
use crate::{Device, Fault, LINE_BYTES, Size, Time, Traffic, check_times};

/// The numbers of an accelerator's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fpga {
    /// From request to answer, whatever is asked: data, a write, a change of a line's state.
    pub latency: Time,
    /// Memory controllers, 1 to 64.
    pub controllers: u32,
    /// Consecutive bytes on one controller before the next one's turn; a multiple of 64 B.
    pub chunk: Size,
    /// How long a controller is busy with 64 B.
    pub line: Time,
    /// How long the directory is busy with one request.
    pub directory: Time,
    /// Writes under way at once, 1 to 1024; the controller hands over the next when there is room.
    pub writes: u32,
}

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct FpgaDevice {
    config: Fpga,
    controllers: Vec<Timetable>,
    directory: Timetable,
    writes: Credits,
    traffic: Traffic,
}

impl Fpga {
    pub(super) fn check(&self) -> Result<(), Fault> {
        if !(1..=64).contains(&self.controllers) {
            return Err(Fault::new("controllers", self.controllers, "use 1 to 64"));
        }
        if self.chunk.0 == 0 || !self.chunk.0.is_multiple_of(LINE_BYTES) {
            return Err(Fault::new("chunk", self.chunk, "use a multiple of 64B"));
        }
        if !(1..=1024).contains(&self.writes) {
            return Err(Fault::new("writes", self.writes, "use 1 to 1024"));
        }
        check_times(&[("latency", self.latency), ("line", self.line), ("directory", self.directory)])
    }
}

impl FpgaDevice {
    pub(crate) fn new(config: &Fpga) -> Self {
        let table = Timetable::new(Turnaround::default());
        FpgaDevice {
            controllers: vec![table.clone(); config.controllers as usize],
            directory: table,
            writes: Credits::new(config.writes),
            traffic: Traffic::default(),
            config: config.clone(),
        }
    }

    /// Through the directory, then through the line's controller; the latency is that of the whole way.
    fn transfer(&mut self, at: Time, line: u64, direction: Direction) -> Time {
        let asked = self.ask(at);
        let chunk = line * LINE_BYTES / self.config.chunk.0;
        let count = self.controllers.len() as u64;
        let controller = &mut self.controllers[(chunk % count) as usize];
        let begun = controller.reserve(at, asked, self.config.line, direction);
        begun + self.config.line + self.config.latency
    }

    /// Returns when the directory has heard.
    fn ask(&mut self, at: Time) -> Time {
        let length = self.config.directory;
        self.directory.reserve(at, at, length, Direction::Read) + length
    }
}

impl Device for FpgaDevice {
    fn read(&mut self, at: Time, line: u64) -> Time {
        self.traffic.controller_read_bytes += LINE_BYTES;
        self.traffic.media_read_bytes += LINE_BYTES;
        self.transfer(at, line, Direction::Read)
    }

    fn write(&mut self, at: Time, line: u64, _whole: bool) -> Time {
        self.traffic.controller_write_bytes += LINE_BYTES;
        self.traffic.media_write_bytes += LINE_BYTES;
        let taken = self.writes.granted(at);
        let answered = self.transfer(taken, line, Direction::Write);
        self.writes.returns(answered);
        taken
    }

    fn own(&mut self, at: Time, _line: u64) -> Option<Time> {
        Some(self.ask(at) + self.config.latency)
    }

    fn advance_to(&mut self, _at: Time) {}

    fn drain(&mut self, at: Time) -> Time {
        self.controllers.iter().map(Timetable::last).max().unwrap_or(at).max(at)
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

    fn device(controllers: u32) -> FpgaDevice {
        FpgaDevice::new(&Fpga {
            latency: NS(30),
            controllers,
            chunk: Size(128),
            line: NS(25),
            directory: NS(1),
            writes: 1,
        })
    }

    #[test]
    fn a_change_of_state_takes_the_latency_and_data_their_transfer_as_well() {
        assert_eq!(device(4).own(NS(100), 0), Some(NS(100 + 1 + 30)));
        assert_eq!(device(4).read(NS(100), 0), NS(100 + 1 + 25 + 30));
        let mut device = device(4);
        assert_eq!(device.write(NS(100), 0, true), NS(100), "on its way");
        assert_eq!(device.write(NS(100), 0, true), NS(100 + 1 + 25 + 30), "the one credit is back");
    }

    #[test]
    fn controllers_share_the_load() {
        let took = |controllers| {
            let mut device = device(controllers);
            (0..80).map(|line| device.read(NS(0), line)).max().unwrap()
        };
        assert_eq!(took(1), NS(1 + 80 * 25 + 30));
        // The last pair of lines of each controller's twenty.
        assert!((20 * 25 + 30..=20 * 25 + 30 + 80).contains(&(took(4).0 / 1000)), "{}", took(4));
    }
}
