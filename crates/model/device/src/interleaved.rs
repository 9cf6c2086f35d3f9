//! Several equal devices that share the addresses by turns: the channels behind an expander's controller.

use serde::{Deserialize, Serialize};

use crate::{
    Device, DeviceConfig, DeviceCounters, DeviceTiming, Fault, LINE_BYTES, Rng, Size, Time, Traffic, build,
};

/// The numbers of an interleaved set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interleaved {
    /// How many, 1 to 64.
    pub channels: u32,
    /// Consecutive bytes on one before the next one's turn; a multiple of 64 B.
    pub chunk: Size,
    /// Each of them.
    pub each: Box<DeviceTiming>,
}

/// The device.
#[derive(Debug)]
pub(crate) struct InterleavedDevice {
    chunk_lines: u64,
    channels: Vec<Box<dyn Device>>,
}

impl Interleaved {
    pub(super) fn check(&self) -> Result<(), Fault> {
        if !(1..=64).contains(&self.channels) {
            return Err(Fault::new("channels", self.channels, "use 1 to 64"));
        }
        if self.chunk.0 == 0 || !self.chunk.0.is_multiple_of(LINE_BYTES) {
            return Err(Fault::new("chunk", self.chunk, "use a multiple of 64B"));
        }
        self.each.check_within("each")
    }
}

impl InterleavedDevice {
    pub(crate) fn new(device: &DeviceConfig, config: &Interleaved, seed: u64) -> Self {
        let channel = |number| build(device, &config.each, Rng::part(seed, u64::from(number)));
        InterleavedDevice {
            chunk_lines: config.chunk.0 / LINE_BYTES,
            channels: (0..config.channels).map(channel).collect(),
        }
    }

    /// The channel of a line, and the line's number there.
    fn place(&mut self, line: u64) -> (&mut Box<dyn Device>, u64) {
        let (chunk, within) = (line / self.chunk_lines, line % self.chunk_lines);
        let count = self.channels.len() as u64;
        (&mut self.channels[(chunk % count) as usize], chunk / count * self.chunk_lines + within)
    }
}

impl Device for InterleavedDevice {
    fn read(&mut self, at: Time, line: u64) -> Time {
        let (channel, line) = self.place(line);
        channel.read(at, line)
    }

    fn write(&mut self, at: Time, line: u64, whole: bool) -> Time {
        let (channel, line) = self.place(line);
        channel.write(at, line, whole)
    }

    fn own(&mut self, at: Time, line: u64) -> Option<Time> {
        let (channel, line) = self.place(line);
        channel.own(at, line)
    }

    fn advance_to(&mut self, at: Time) {
        self.channels.iter_mut().for_each(|channel| channel.advance_to(at));
    }

    fn drain(&mut self, at: Time) -> Time {
        self.channels.iter_mut().map(|channel| channel.drain(at)).max().unwrap_or(at)
    }

    fn traffic(&self) -> Traffic {
        let mut total = Traffic::default();
        self.channels.iter().for_each(|channel| total.add(&channel.traffic()));
        total
    }

    fn held_bytes(&self) -> u64 {
        self.channels.iter().map(|channel| channel.held_bytes()).sum()
    }

    fn durable_bytes(&self) -> u64 {
        self.channels.iter().map(|channel| channel.durable_bytes()).sum()
    }

    fn drain_time(&self) -> Time {
        self.channels.iter().map(|channel| channel.drain_time()).max().unwrap_or(Time::ZERO)
    }

    fn counters(&self) -> DeviceCounters {
        let mut all = DeviceCounters::default();
        self.channels.iter().for_each(|channel| all.add(&channel.counters()));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Delay;

    #[test]
    fn lines_take_turns_and_none_is_shared() {
        let each = Delay {
            read_latency: Time::from_ns(100),
            write_latency: Time::ZERO,
            line_transfer: Time::from_ns(8),
        };
        let config = Interleaved { channels: 3, chunk: Size(256), each: Box::new(DeviceTiming::Delay(each)) };
        let mut device = InterleavedDevice::new(&crate::DeviceConfig::plain(), &config, 1);
        // 24 lines are two chunks on each of three channels.
        let last = (0..24).map(|line| device.read(Time::ZERO, line)).max();
        assert_eq!(last, Some(Time::from_ns(100 + 8 * 8)));
        let mut places: Vec<_> = (0..24u64)
            .map(|line| {
                let channel = line / 4 % 3;
                (channel, device.place(line).1)
            })
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 24);
        assert_eq!(device.traffic().controller_read_bytes, 24 * 64);
    }
}
